//! Packages of plugins: added, taken out, installed in the background, and used where there is no network.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use super::{outside, with};
use crate::{
    cli::{Ended, Machine},
    support::{
        agent::{Agent, Builder, DEADLINE},
        llm::Reply,
        scratch::Scratch,
    },
};

/// A program in the place of npm, which installs a plugin that marks requests with the last word of its package's name.
/// It fails while there is a file `offline` in the home directory, waits while there is a file `slow`, and takes two
/// seconds with a file `lazy`.
const NPM: &str = r#"#!/bin/sh
    while [ -e "$HOME/slow" ]; do sleep 0.05; done
    [ -e "$HOME/lazy" ] && sleep 2
    [ -e "$HOME/offline" ] && { echo "npm error network is unreachable" >&2; exit 1; }
    for word in "$@"; do wanted=$word; done
    name=${wanted%@*}
    mkdir -p "node_modules/$name" && cd "node_modules/$name" || exit 1
    echo "{\"name\":\"$name\",\"version\":\"1.0.0\",\"type\":\"module\",\"exports\":{\".\":\"./no.js\",\"./server\":\"./server.js\"}}" > package.json
    hook='"chat.headers": async (_, output) => { output.headers["x-plugins"] = `${output.headers["x-plugins"] ?? ""} '$name'` }'
    [ "$name" = at-leisure ] && wait='await new Promise((done) => setTimeout(done, 400));'
    case $name in
        *function) echo "export const Named = async () => ({ $hook })" ;;
        *) echo "$wait export default { id: '$name', server: async () => ({ $hook }) }" ;;
    esac > server.js
"#;

fn put_npm(scratch: &Scratch) -> String {
    let programs = scratch.home.join("programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("npm"), NPM).unwrap();
    fs::set_permissions(programs.join("npm"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

fn config(plugins: Value) -> Value {
    json!({"plugin": plugins, "windlass": {"plugin": {"runtime": "node"}}})
}

fn builder(scratch: &std::sync::Arc<Scratch>, plugins: Value) -> Builder {
    Agent::builder().scratch(scratch).config(config(plugins)).env("PATH", &put_npm(scratch))
}

/// Prompts once; returns the names of the packages with hooks that the request passed.
async fn passed(agent: &Agent, session: &str) -> Vec<String> {
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, "go").await;
    let header = agent.llm.last_request().header("x-plugins").unwrap_or_default().to_owned();
    header.split_whitespace().map(str::to_owned).collect()
}

async fn run(machine: &Machine, arguments: &[&str]) -> Ended {
    let path = put_npm(&machine.scratch);
    let output = machine.command(arguments).env("PATH", path).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn written(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn a_package_is_added_listed_and_taken_out_again() {
    let mut machine = Machine::new().await;
    machine.config["windlass"] = json!({"plugin": {"runtime": "node"}});
    let added = run(&machine, &["plugin", "add", "one@1.0.0"]).await;
    assert_eq!((added.code, added.stdout.as_str()), (Some(0), "one@1.0.0 is installed.\n"), "{added:?}");
    let file = machine.scratch.work.join("opencode.json");
    assert_eq!(written(&file)["plugin"], json!(["one@1.0.0"]));
    let listed = run(&machine, &["plugin", "list", "--format", "json"]).await;
    let rows: Value = serde_json::from_str(&listed.stdout).unwrap();
    let row = (&rows[0]["name"], &rows[0]["version"], &rows[0]["hooks"]);
    assert_eq!(row, (&json!("one"), &json!("1.0.0"), &json!(["chat.headers"])));

    // Another version takes its place, and one that cannot be had changes nothing.
    run(&machine, &["plugin", "add", "one@1.1.0"]).await;
    fs::write(machine.scratch.home.join("offline"), "").unwrap();
    let failed = run(&machine, &["plugin", "add", "other"]).await;
    assert_eq!(failed.code, Some(1));
    let reason = "Failed to install plugin other@latest: npm error network is unreachable.";
    assert!(failed.stderr.contains(reason), "{failed:?}");
    assert_eq!(written(&file)["plugin"], json!(["one@1.1.0"]));

    let removed = run(&machine, &["plugin", "remove", "one"]).await;
    assert_eq!((removed.code, removed.stdout.as_str()), (Some(0), "one is taken out.\n"), "{removed:?}");
    assert_eq!(written(&file)["plugin"], json!([]));
    let again = run(&machine, &["plugin", "remove", "one"]).await;
    assert_eq!(again.stdout, "one is not named there.\n");
}

#[tokio::test]
async fn packages_are_installed_in_the_background_and_used_without_a_network() {
    let scratch = std::sync::Arc::new(Scratch::new());
    fs::write(scratch.home.join("slow"), "").unwrap();
    let plugins = json!(["of-object", "@scope/of-function@2"]);
    let agent = builder(&scratch, plugins.clone()).spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    assert!(passed(&agent, &session).await.is_empty(), "nothing waits for the installation");
    let said = "The plugin of-object is being installed; it is loaded once it is there.";
    let notices = agent.updates(&session);
    assert!(notices.iter().any(|it| it["sessionUpdate"] == "notice" && it["title"] == said), "{notices:?}");
    fs::remove_file(scratch.home.join("slow")).unwrap();
    let both = ["of-object", "@scope/of-function"];
    let loaded = async { while passed(&agent, &session).await != both {} };
    tokio::time::timeout(DEADLINE, loaded).await.expect("both forms of modules are loaded");
    agent.finish().await;

    fs::write(scratch.home.join("offline"), "").unwrap();
    let agent = builder(&scratch, json!(["of-object", "not-there", "@scope/of-function@2"])).start().await;
    let session = agent.new_session().await;
    assert_eq!(passed(&agent, &session).await, both);
    agent.wait_stderr("Failed to install plugin not-there@latest: npm error network is unreachable").await;
    agent.finish().await;
}

#[tokio::test]
async fn turns_keep_their_plugins_while_packages_come() {
    let scratch = std::sync::Arc::new(Scratch::new());
    fs::write(scratch.home.join("slow"), "").unwrap();
    let local = r#"export const P = async () => ({
        "chat.headers": async (_, output) => { output.headers["x-plugins"] = "local" },
        "permission.ask": async (input, output) => {
            if (JSON.stringify(input).includes("hidden")) output.status = "deny"
        },
        tool: { own: { description: "d", args: {}, execute: async () => "from the plugin" } },
    })"#;
    scratch.write("local.js", local);
    let mut config = config(json!(["./local.js", "at-leisure"]));
    config["windlass"] = with(&config, json!({ "windlass": outside() }))["windlass"].clone();
    config["permission"] = json!({"bash": "ask"});
    let agent =
        Agent::builder().scratch(&scratch).config(config).env("PATH", &put_npm(&scratch)).start().await;
    let session = agent.new_session().await;
    let mut steps = vec![passed(&agent, &session).await];
    fs::remove_file(scratch.home.join("slow")).unwrap();
    let both = ["local", "at-leisure"];
    let coming = async {
        while steps.last().is_some_and(|step| *step != both) {
            assert_eq!(agent.told(&session, "own", json!({})).await, "from the plugin");
            let told = agent.told(&session, "bash", json!({"command": "echo hidden"})).await;
            assert!(told.contains("A plugin denied permission to use this specific tool call"), "{told}");
            steps.push(passed(&agent, &session).await);
        }
    };
    tokio::time::timeout(DEADLINE, coming).await.expect("the package is loaded");
    let without = steps.iter().filter(|step| step.first().is_none_or(|first| first != "local")).count();
    assert_eq!(without, 0, "of {} steps: {steps:?}", steps.len());
    agent.finish().await;
}

#[tokio::test]
async fn a_single_run_waits_for_what_is_being_installed() {
    let mut machine = Machine::new().await;
    machine.config = {
        let mut config = machine.config.take();
        config["plugin"] = json!(["of-object"]);
        config["windlass"] = json!({"plugin": {"runtime": "node"}});
        config
    };
    fs::write(machine.scratch.home.join("lazy"), "").unwrap();
    machine.llm.reply(Reply::text("done"));
    let ran = run(&machine, &["run", "go"]).await;
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "done"), "{ran:?}");
    assert!(ran.stderr.contains("Plugins are being installed; they are waited for."), "{ran:?}");
    assert_eq!(machine.llm.last_request().header("x-plugins").map(str::trim), Some("of-object"));
    let listed = run(&machine, &["plugin", "add", "./file.ts"]).await;
    assert!(
        listed.stderr.contains("`./file.ts` is no package: a file or directory is named in `plugin`"),
        "{listed:?}"
    );
    machine.finish().await;
}

#[tokio::test]
async fn a_pure_process_has_no_plugins_and_keeps_tool_files() {
    let scratch = std::sync::Arc::new(Scratch::new());
    scratch.write(".opencode/plugin/p.js", "export const P = async () => { throw new Error('loaded') }");
    scratch.write(
        ".opencode/tool/own.js",
        "export default { description: 'd', args: {}, execute: async () => 'from the file' }",
    );
    let agent = builder(&scratch, json!(["of-object"])).env("OPENCODE_PURE", "1").start().await;
    let session = agent.new_session().await;
    assert_eq!(agent.told(&session, "own", json!({})).await, "from the file");
    assert!(!agent.stderr().contains("loaded") && !scratch.home.join(".cache/windlass/packages").exists());
    agent.finish().await;
}
