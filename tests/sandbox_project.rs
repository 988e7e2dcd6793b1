//! Servers and formatters that a project brings: held by default, also when their user trusts the project, while the
//! user's own are not.

use std::{os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use serde_json::{Value, json};

use crate::{
    mcp::until_offered,
    sandbox::lacks,
    support::{agent::Agent, outside::outside, scratch::Scratch},
};

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name).to_str().unwrap().to_owned()
}

/// Starts an agent in a project with this configuration, of a user with that one.
async fn open(scratch: &Arc<Scratch>, project: &Value, user: Value) -> (Agent, String) {
    scratch.write("opencode.json", project.to_string());
    let builder = Agent::builder().scratch(scratch).config(user);
    let agent = builder.env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1").start().await;
    let session = agent.new_session().await;
    (agent, session)
}

#[tokio::test]
async fn an_mcp_server_of_the_project_is_held_and_the_users_own_is_not() {
    if lacks("full") {
        return;
    }
    let shop = json!({"type": "local", "command": ["python3", script("mcp/server.py"), "shell"]});
    let (shop, none) = (json!({"mcp": {"shop": shop}}), json!({}));
    let off = json!({"windlass": {"sandbox": {"mcp": {"mode": "off"}}}});
    for (project, user, is_held) in
        [(&shop, none.clone(), true), (&none, shop.clone(), false), (&shop, off.clone(), false)]
    {
        let (scratch, outside) = (Scratch::new(), outside());
        let (agent, session) = open(&scratch, project, user).await;
        until_offered(&agent, &session, "shop_run").await;
        let made = outside.path().join("made");
        let command = format!("touch inside; touch '{}'", made.display());
        agent.told(&session, "shop_run", json!({ "command": command })).await;
        assert_eq!((scratch.exists("inside"), made.exists()), (true, !is_held), "{project}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn an_mcp_server_that_fails_in_it_is_told_with_the_way_out() {
    if lacks("full") {
        return;
    }
    let broken = json!({"type": "local", "command": ["sh", "-c", "echo no docker >&2; exit 1"]});
    let (agent, _session) = open(&Scratch::new(), &json!({"mcp": {"broken": broken}}), json!({})).await;
    agent.wait_stderr("`windlass.sandbox.mcp.mode` \"off\" in your own configuration").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_language_server_of_the_project_is_held_and_the_users_own_is_not() {
    if lacks("full") {
        return;
    }
    let server = json!({"command": ["python3", script("lsp/server.py"), "shell"], "extensions": [".toy"]});
    let (toy, none) = (json!({"lsp": {"toy": server}}), json!({}));
    for (project, user, is_held) in [(&toy, &none, true), (&none, &toy, false)] {
        let (scratch, outside) = (Scratch::new(), outside());
        let (agent, session) = open(&scratch, project, user.clone()).await;
        let made = outside.path().join("made");
        scratch.write("a.toy", format!("touch inside; touch '{}'; echo end", made.display()));
        let ask = json!({"operation": "hover", "filePath": "a.toy", "line": 1, "character": 1});
        let told = agent.told(&session, "lsp", ask).await;
        assert!(told.contains("end"), "{told}");
        assert_eq!((scratch.exists("inside"), made.exists()), (true, !is_held), "{project}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_formatter_of_the_project_is_held_also_one_that_the_user_only_switched_on() {
    if lacks("full") {
        return;
    }
    for is_own in [false, true] {
        let (scratch, outside) = (Scratch::new(), outside());
        let made = outside.path().join("made");
        let line = format!("touch inside '{}'", made.display());
        let formatter = if is_own {
            json!({"own": {"command": ["sh", "-c", line, "$FILE"], "extensions": [".md"]}})
        } else {
            let program = "node_modules/.bin/prettier";
            scratch.write(program, format!("#!/bin/sh\n{line}\n"));
            std::fs::set_permissions(scratch.work.join(program), std::fs::Permissions::from_mode(0o755))
                .unwrap();
            scratch.write("package.json", r#"{"devDependencies": {"prettier": "3"}}"#);
            json!(true)
        };
        let (agent, session) = open(&scratch, &json!({}), json!({ "formatter": formatter })).await;
        agent.told(&session, "write", json!({"filePath": "a.md", "content": "x"})).await;
        assert_eq!((scratch.exists("inside"), made.exists()), (true, is_own));
        agent.finish().await;
    }
}
