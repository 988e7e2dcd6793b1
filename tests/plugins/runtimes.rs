//! The search for a program that runs plugins, and programs that cannot.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::json;

use super::in_each_runtime;
use crate::{
    cli::Machine,
    support::{agent::Agent, llm::Reply},
};

const PLUGIN: (&str, &str) =
    (".opencode/plugin/p.js", "export const P = async () => ({ event: async () => {} })");

fn program(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a directory with a program that says its name and that it was to be a Bun, and ends.
fn says(machine: &Machine, file: &str) {
    program(
        &machine.scratch.root().join(file),
        "#!/bin/sh\necho \"this is $0, a Bun by $BUN_BE_BUN\" >&2\nexit 78\n",
    );
}

#[tokio::test]
async fn bun_is_found_on_the_path_before_node_and_not_in_node_modules() {
    let node = "#!/bin/sh\necho this is node >&2\nexit 78\n";
    for (place, is_found) in [
        ("programs/bun", true),
        ("work/node_modules/@oven/bun-linux-x64/bin/bun", false),
        ("node_modules/bun/bin/bun.exe", false),
        ("work/elsewhere/bun", false),
    ] {
        let machine = Machine::new().await;
        machine.scratch.write(PLUGIN.0, PLUGIN.1);
        says(&machine, place);
        let programs = machine.scratch.root().join("programs");
        program(&programs.join("node"), node);
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let listed = machine.command(&["plugin", "list"]).env("PATH", path).output().await.unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let said = if is_found { format!("{place}, a Bun by 1") } else { "this is node".to_owned() };
        assert!(listed.contains(&said), "{place}: {listed}");
    }
}

#[tokio::test]
async fn a_node_that_is_too_old_is_refused_in_a_sentence() {
    let mut machine = Machine::new().await;
    machine.scratch.write(PLUGIN.0, PLUGIN.1);
    let root = machine.scratch.root();
    let old = root.join("old.cjs");
    fs::write(
        &old,
        "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.4' } })",
    )
    .unwrap();
    let node = root.join("programs/node");
    program(&node, &format!("#!/bin/sh\nexec /usr/bin/env node --require {} \"$@\"\n", old.display()));
    machine.config["windlass"] = json!({"plugin": {"runtime": node}});
    for arguments in [&["plugin", "list"][..], &["doctor"]] {
        let ended = machine.run(arguments).await;
        let said = ended.stdout;
        assert!(
            said.contains("plugins need Bun or Node 20, and ") && said.contains(" is Node 18.20.4"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn without_any_runtime_a_sentence_says_so_and_turns_go_on() {
    const REASON: &str = "there is no Bun and no Node to run them; install one of them";
    let machine = Machine::new().await;
    machine.scratch.write(PLUGIN.0, PLUGIN.1);
    for arguments in [&["plugin", "list"][..], &["doctor"]] {
        let ended = machine.command(arguments).env("PATH", "").output().await.unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(said.contains(REASON), "{arguments:?}: {said}");
    }
    let agent = Agent::builder().scratch(&machine.scratch).env("PATH", "").start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "done");
    let notice = format!("Plugins and custom tools are off: {REASON}.");
    assert!(format!("{turn:?}").contains(&notice), "{turn:?}");
    agent.finish().await;
}

#[tokio::test]
async fn programs_that_plugins_start_do_not_become_a_bun() {
    in_each_runtime(async |runtime| {
        let plugin = r#"
            import { execFileSync } from "node:child_process"
            export const P = async ({ $ }) => ({
                "chat.headers": async (_, output) => {
                    const line = "echo [$BUN_BE_BUN]"
                    const started = [execFileSync("sh", ["-c", line], { encoding: "utf8" }), await $`sh -c ${line}`.text()]
                    if (globalThis.Bun) started.push(await new Response(Bun.spawn(["sh", "-c", line]).stdout).text())
                    output.headers["x-started"] = [...new Set(started)].join("").replaceAll("\n", "")
                },
            })"#;
        let agent = super::start(&[(".opencode/plugin/p.js", plugin)], runtime).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().header("x-started"), Some("[]"));
        agent.finish().await;
    })
    .await;
}

#[tokio::test]
async fn a_runtime_reads_nothing_of_a_project_before_the_host_enters_it() {
    in_each_runtime(async |runtime| {
        let mut machine = Machine::new().await;
        let root = machine.scratch.root().to_owned();
        let report = root.join("report");
        let plugin = format!(
            "import {{ writeFileSync }} from 'fs'; export const P = async () => {{
                writeFileSync({report:?}, `${{process.cwd()}} ${{process.env.FROM_PROJECT}}`); return {{}} }}"
        );
        fs::write(root.join("own.js"), plugin).unwrap();
        let acted = root.join("acted");
        machine.scratch.write("evil.js", format!("require('fs').writeFileSync({acted:?}, '')"));
        machine.scratch.write("bunfig.toml", "preload = [\"./evil.js\"]\n");
        machine.scratch.write(".env", "FROM_PROJECT=1\n");
        machine.config["plugin"] = json!([root.join("own.js")]);
        machine.config["windlass"] = runtime["windlass"].clone();
        let listed = machine.command(&["plugin", "list"]).env("WINDLASS_TRUST", "").output().await.unwrap();
        assert!(listed.status.success(), "{listed:?}");
        let said = fs::read_to_string(&report).unwrap();
        assert_eq!(said, format!("{} undefined", machine.scratch.cwd()), "{runtime}");
        assert!(!acted.exists(), "{runtime}");
    })
    .await;
}
