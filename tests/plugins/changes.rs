//! Plugins whose files or packages change, and a plugin that calls the server that it runs in.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

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
    let scratch = Scratch::new();
    scratch.write(".opencode/plugin/p.js", plugin("one"));
    scratch.write(".opencode/tool/own.js", tool("first"));
    let agent = Agent::builder().scratch(&scratch).answering(Answer::AllowOnce).start().await;
    let session = agent.new_session().await;
    assert_eq!(agent.told(&session, "own", json!({})).await, "first");
    assert_eq!(agent.llm.last_request().header("x-mark"), Some("one"));
    scratch.write(".opencode/plugin/p.js", plugin("two"));
    scratch.write(".opencode/tool/own.js", tool("second"));
    scratch.write(".opencode/tool/more.js", tool("new"));
    // The user is asked about changed programs, and turns go on as before meanwhile.
    let is_new = async || {
        let own = agent.told(&session, "own", json!({})).await;
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
    let (_, of_other) = run(&["plugin", "update", "of-others"]).await;
    assert_eq!(of_other, "There is no package to update.\n");
}

#[tokio::test]
async fn a_plugin_calls_the_server_that_it_runs_in_by_its_address() {
    let builder = Server::builder();
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
}
