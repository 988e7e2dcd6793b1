//! Plugins with files or packages that change, and a plugin that calls the server that it runs in.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use super::in_each_runtime;
use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Answer, DEADLINE},
        llm::Reply,
        scratch::Scratch,
        server::Server,
    },
};

fn plugin(mark: &str) -> String {
    format!(
        r#"export const P = async () => ({{ "chat.headers": async (_, output) => {{ output.headers["x-mark"] = "{mark}" }} }})"#
    )
}

fn tool(said: &str) -> String {
    format!("export default {{ description: 'd', args: {{}}, execute: async () => '{said}' }}")
}

#[tokio::test]
async fn plugins_and_tools_that_change_on_disk_are_loaded_again() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/p.js", plugin("one"));
        scratch.write(".opencode/tool/own.js", tool("first"));
        let agent =
            Agent::builder().scratch(&scratch).config(runtime).answering(Answer::AllowOnce).start().await;
        let session = agent.new_session().await;
        assert_eq!(agent.told(&session, "own", json!({})).await, "first");
        assert_eq!(agent.llm.last_request().header("x-mark"), Some("one"));
        scratch.write(".opencode/plugin/p.js", plugin("two"));
        scratch.write(".opencode/tool/own.js", tool("second"));
        scratch.write(".opencode/tool/more.js", tool("new"));
        // The user is asked about changed programs, and turns go on as before meanwhile.
        let is_new = async || {
            let own = agent.told(&session, "own", json!({})).await;
            assert!(own == "first" || own == "second", "{own}");
            let more = agent.told(&session, "more", json!({})).await;
            (own == "second" && more == "new").then(|| agent.llm.last_request())
        };
        let request = async {
            loop {
                if let Some(request) = is_new().await {
                    return request;
                }
            }
        };
        let request = tokio::time::timeout(DEADLINE, request).await.expect("the files are loaded again");
        assert_eq!(request.header("x-mark"), Some("two"));
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn plugins_serve_until_those_in_their_place_are_ready_even_if_these_end_the_process() {
    in_each_runtime(async |runtime| {
        let scratch = Scratch::new();
        scratch.write(".opencode/plugin/p.js", plugin("one"));
        let agent =
            Agent::builder().scratch(&scratch).config(runtime).answering(Answer::AllowOnce).start().await;
        let session = agent.new_session().await;
        let mark = async || {
            agent.llm.reply(Reply::text("done"));
            agent.prompt(&session, "go").await;
            agent.llm.last_request().header("x-mark").map(str::to_owned)
        };
        assert_eq!(mark().await.as_deref(), Some("one"));
        scratch.write(".opencode/plugin/p.js", "process.exit(7)");
        // It is started again and again, and left out in the end; until then no turn is without plugins.
        let serving = async {
            while let Some(mark) = mark().await {
                assert_eq!(mark, "one");
            }
        };
        tokio::time::timeout(DEADLINE, serving).await.expect("the rest of the plugins takes over");
        assert!(agent.stderr().contains("is left out"), "{}", agent.stderr());
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_package_is_updated_to_the_version_that_there_is() {
    let mut machine = Machine::new().await;
    machine.config["plugin"] = json!(["of-test"]);
    machine.config["windlass"] = json!({"plugin": {"runtime": "node"}});
    // Stands for the registry: it installs the version that the home directory names.
    let npm = "#!/bin/sh\n\
        mkdir -p node_modules/of-test && cd node_modules/of-test || exit 1\n\
        echo \"{\\\"name\\\":\\\"of-test\\\",\\\"version\\\":\\\"$(cat \"$HOME/version\")\\\",\\\"main\\\":\\\"index.js\\\",\\\"type\\\":\\\"module\\\"}\" > package.json\n\
        echo 'export const P = async () => ({ event: async () => {} })' > index.js\n";
    let programs = machine.scratch.home.join("programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("npm"), npm).unwrap();
    fs::set_permissions(programs.join("npm"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let run = async |arguments: &[&str]| {
        let output = machine.command(arguments).env("PATH", &path).output().await.unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    for version in ["1.0.0", "1.1.0"] {
        fs::write(machine.scratch.home.join("version"), version).unwrap();
        let updated = run(&["plugin", "update"]).await;
        assert_eq!(updated, (true, "Installed anew: of-test.\n".to_owned()));
        let (_, listed) = run(&["plugin", "list", "--format", "json"]).await;
        let rows: Vec<Value> = serde_json::from_str(&listed).unwrap();
        assert_eq!(
            (&rows[0]["version"], &rows[0]["hooks"]),
            (&json!(version), &json!(["event"])),
            "{listed}"
        );
    }
    assert_eq!(run(&["plugin", "update", "of-others"]).await, (false, String::new()));
}

#[tokio::test]
async fn what_a_directorys_own_package_file_names_is_installed_and_its_files_are_loaded_again() {
    let scratch = Scratch::new();
    // Stands for the registry, with the packages that `package.json` names on lines of their own.
    let npm = "#!/bin/sh\n\
        echo \"$*\" >> \"$HOME/ran\"\n\
        [ -e \"$HOME/offline\" ] && { echo 'npm error network is unreachable' >&2; exit 1; }\n\
        for name in shout whisper; do\n\
            grep -q \"\\\"$name\\\"\" package.json || continue\n\
            mkdir -p node_modules/$name\n\
            echo '{\"version\":\"1.0.0\",\"main\":\"index.js\",\"type\":\"module\"}' > node_modules/$name/package.json\n\
            echo \"export default (text) => '$name ' + text\" > node_modules/$name/index.js\n\
        done\n";
    let programs = scratch.home.join("programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("npm"), npm).unwrap();
    fs::set_permissions(programs.join("npm"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let wants = |dependencies: Value| {
        scratch.write(".opencode/package.json", json!({ "dependencies": dependencies }).to_string());
    };
    wants(json!({"shout": "^1.0.0", "@opencode-ai/plugin": "1.2.3"}));
    let greets = |by: &str| {
        format!(
            "import by from '{by}'\n\
            export default {{ description: 'd', args: {{}}, execute: async () => by('hello') }}"
        )
    };
    scratch.write(".opencode/tool/greet.js", greets("shout"));
    scratch.write(".opencode/tool/own.js", self::tool("beside it"));
    let config = json!({"windlass": {"plugin": {"runtime": "node"}}});
    let builder = || {
        let builder = Agent::builder().scratch(&scratch).config(config.clone());
        builder.env("PATH", &path).answering(Answer::AllowOnce)
    };
    let until_told = async |agent: &Agent, session: &str, expected: &str| {
        let told = async { while agent.told(session, "greet", json!({})).await != expected {} };
        tokio::time::timeout(DEADLINE, told).await.expect("the tool is loaded again");
    };

    let offline = scratch.home.join("offline");
    fs::write(&offline, "").unwrap();
    let agent = builder().start().await;
    let session = agent.new_session().await;
    assert_eq!(agent.told(&session, "own", json!({})).await, "beside it");
    agent.wait_stderr("Failed to install the dependencies of").await;
    assert!(agent.stderr().contains("network is unreachable"), "{}", agent.stderr());
    agent.finish().await;

    fs::remove_file(&offline).unwrap();
    let agent = builder().start().await;
    let session = agent.new_session().await;
    until_told(&agent, &session, "shout hello").await;
    assert!(scratch.read(".opencode/.gitignore").contains("node_modules"));
    // Another one is wanted while the process runs; the user is asked about the change of programs.
    wants(json!({"shout": "^1.0.0", "whisper": "^1.0.0"}));
    scratch.write(".opencode/tool/greet.js", greets("whisper"));
    until_told(&agent, &session, "whisper hello").await;
    agent.finish().await;
    let ran = fs::read_to_string(scratch.home.join("ran")).unwrap();
    assert!(ran.starts_with("install --ignore-scripts") && ran.lines().count() == 3, "{ran}");
    let agent = builder().start().await;
    let session = agent.new_session().await;
    assert_eq!(agent.told(&session, "greet", json!({})).await, "whisper hello");
    agent.finish().await;
    let again = fs::read_to_string(scratch.home.join("ran")).unwrap();
    assert_eq!(again, ran, "what is there is not installed again");
    let mut left: Vec<_> =
        fs::read_dir(scratch.work.join(".opencode")).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".gitignore", "node_modules", "package.json", "tool"], "nothing unfinished is left");
}

#[tokio::test]
async fn a_plugin_calls_the_server_that_it_runs_in_by_its_address() {
    in_each_runtime(async |runtime| {
        let builder = Server::builder().config("windlass", runtime["windlass"].clone());
        let asks = r#"export const P = async ({ serverUrl }) => ({
            "chat.headers": async (_, output) => {
                output.headers["x-url"] = String(serverUrl)
                output.headers["x-health"] = await (await fetch(new URL("/global/health", serverUrl))).text()
            },
        })"#;
        builder.scratch.write(".opencode/plugin/p.js", asks);
        let server = builder.start().await;
        let session = server.session().await;
        server.llm.reply(Reply::text("done"));
        server.prompt(&session, "go").await;
        let request = server.llm.last_request();
        assert_eq!(request.header("x-url"), Some(&*format!("{}/", server.url)));
        assert!(request.header("x-health").unwrap().contains("\"healthy\":true"), "{request:?}");
        server.finish().await;
    })
    .await;
}
