//! Plugins that a project brings: held by default, also when their user trusts the project, while the user's own are
//! not and run beside them.

use std::sync::Arc;

use serde_json::json;

use crate::{
    plugins::runtimes,
    sandbox::lacks,
    support::{
        agent::{Agent, merge},
        outside::outside,
        scratch::Scratch,
    },
};

/// A plugin with a tool that runs the given command; it adds its name to requests and to the variables of commands.
const PLUGIN: &str = r#"
    import { execSync } from "node:child_process"
    export const P = async () => ({
        tool: { NAME_run: {
            description: "d", args: { type: "object", properties: { command: { type: "string" } } },
            execute: async (args) => execSync(`(${args.command}) 2>&1; true`).toString(),
        } },
        "shell.env": async (_, output) => { output.env.NAME = "set"; output.env.ALL = (output.env.ALL ?? "") + "NAME " },
        "chat.headers": async (_, output) => { output.headers["x-NAME"] = "there" },
        "experimental.chat.system.transform": async (_, output) => { output.system[0] += " seen by NAME" },
        "tool.definition": async (_, output) => { output.description += ", as NAME says" },
        "tool.execute.after": async (_, output) => { output.output += " after NAME" },
    })"#;

fn plugin(name: &str) -> String {
    PLUGIN.replace("NAME", name)
}

fn with_both() -> Arc<Scratch> {
    let scratch = Scratch::new();
    scratch.write(".opencode/plugin/theirs.ts", plugin("theirs"));
    let own = scratch.home.join(".config/opencode/plugin");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("own.ts"), plugin("own")).unwrap();
    scratch
}

#[tokio::test]
async fn plugins_of_the_project_are_held_and_the_users_own_beside_them_are_not() {
    if lacks("full") {
        return;
    }
    for config in runtimes() {
        let (scratch, outside) = (with_both(), outside());
        let agent = Agent::builder().scratch(&scratch).config(config).start().await;
        let session = agent.new_session().await;
        for (name, is_held) in [("theirs", true), ("own", false)] {
            let made = outside.path().join(name);
            let command = format!("touch {name}; touch '{}'", made.display());
            let told = agent.told(&session, &format!("{name}_run"), json!({ "command": command })).await;
            assert_eq!((scratch.exists(name), made.exists()), (true, !is_held), "{told}");
            assert!(told.contains("after own after theirs"), "{told}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn both_change_a_request_one_after_the_other() {
    if lacks("full") {
        return;
    }
    let scratch = with_both();
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    agent.told(&session, "list", json!({})).await;
    let request = agent.llm.last_request();
    assert!(request.system().contains("seen by own seen by theirs"), "{}", request.system());
    let tools = request.body["tools"].to_string();
    assert!(tools.contains(", as own says, as theirs says"), "{tools}");
    for name in ["x-own", "x-theirs"] {
        assert_eq!(request.header(name), Some("there"), "{name}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn variables_of_a_held_plugin_are_for_commands_in_a_sandbox_and_the_user_is_told() {
    if lacks("full") {
        return;
    }
    let command = json!({"command": "echo \"[$own][$theirs][$ALL]\"", "description": "d"});
    for (mode, expected) in [("off", "[set][][own ]"), ("workspace-write", "[set][set][own theirs ]")] {
        let config = json!({"windlass": {"sandbox": {"agents": {"build": {"mode": mode}}}}});
        let agent = Agent::builder().scratch(&with_both()).config(config).start().await;
        let session = agent.new_session().await;
        let told = agent.told(&session, "bash", command.clone()).await;
        assert!(told.contains(expected), "{told}");
        if mode == "off" {
            agent.wait_stderr("`windlass.sandbox.plugins.mode` \"off\" in your own configuration").await;
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn only_the_users_own_configuration_lets_them_out() {
    if lacks("full") {
        return;
    }
    let off = json!({"windlass": {"sandbox": {"plugins": {"mode": "off"}}}});
    for is_users in [true, false] {
        let (scratch, outside) = (with_both(), outside());
        let mut user = json!({});
        if is_users {
            merge(&mut user, off.clone());
        } else {
            scratch.write("opencode.json", off.to_string());
        }
        let agent = Agent::builder().scratch(&scratch).config(user).start().await;
        let session = agent.new_session().await;
        let made = outside.path().join("made");
        let command = format!("touch inside; touch '{}'", made.display());
        agent.told(&session, "theirs_run", json!({ "command": command })).await;
        assert_eq!((scratch.exists("inside"), made.exists()), (true, is_users));
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_project_without_plugins_of_the_users_own_has_one_process() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    for name in ["one", "two"] {
        scratch.write(&format!(".opencode/plugin/{name}.ts"), plugin(name));
    }
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    let mut pids = Vec::new();
    for name in ["one", "two"] {
        let told = agent.told(&session, &format!("{name}_run"), json!({"command": "echo =$PPID="})).await;
        pids.push(told.split('=').nth(1).unwrap().to_owned());
    }
    assert_eq!(pids[0], pids[1]);
    agent.finish().await;
}
