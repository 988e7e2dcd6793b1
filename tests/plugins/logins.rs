//! Logins that plugins bring: asked for, stored, used for requests that the plugin sends itself.

use serde_json::{Value, json};

use super::{outside, runtimes, with};
use crate::{
    cli::Machine,
    support::{
        agent::Agent,
        llm::{Gate, Llm, Reply},
        scratch::Scratch,
        server::Server,
        terminal::Terminal,
    },
};

const PLUGIN: &str = include_str!("../../fixtures/plugins/acme-login/plugin.ts");

/// Returns a configuration with a provider that is reached by the plugin only.
fn config(llm: &Llm) -> Value {
    json!({
        "model": "acme/small",
        "plugin": [["./acme.ts", {"target": llm.url()}]],
        "provider": {"acme": {
            "name": "Acme",
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "https://api.acme.invalid/v1"},
            "models": {"small": {"name": "Small", "cost": {"input": 3, "output": 15}, "limit": {"context": 200_000, "output": 8192}}},
        }},
    })
}

async fn machine() -> Machine {
    let mut machine = Machine::new().await;
    machine.config = config(&machine.llm);
    machine.scratch.write("acme.ts", PLUGIN);
    machine
}

fn stored(machine: &Machine) -> Value {
    let file = machine.scratch.home.join(".local/share/windlass/auth.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[tokio::test]
async fn a_login_asks_its_questions_and_its_requests_are_the_plugins() {
    for runtime in runtimes() {
        let mut machine = machine().await;
        machine.config["windlass"] = with(&json!({ "windlass": outside() }), runtime)["windlass"].clone();
        let login = ["auth", "login", "--provider", "acme", "--method", "plugin"];
        let done = machine.pipe(&login, "1\nblue\n2\n1234\n").await;
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stderr.contains("Open https://acme.invalid/login?team=blue&region=us in a browser."));
        assert!(done.stdout.starts_with("You are logged in at acme; the login is stored in "), "{done:?}");
        assert_eq!(stored(&machine)["acme"]["access"], "access-of-blue");
        // Of the plugin's own, for its loader.
        assert_eq!(stored(&machine)["acme"]["team"], "blue");
        machine.llm.reply(Reply::text("done"));
        let run = machine.run(&["run", "your answer"]).await;
        assert_eq!((run.code, run.stdout.trim()), (Some(0), "done"), "{run:?}");
        let request = machine.llm.last_request();
        assert_eq!(request.header("authorization"), Some("Bearer access-of-blue-renewed"));
        assert!(request.header("x-models").unwrap().contains("small"), "{request:?}");
        assert_eq!(request.last_user(), "your answer in one word");
        assert_eq!(stored(&machine)["acme"]["access"], "access-of-blue-renewed");
        assert_eq!(stored(&machine)["acme"]["team"], "blue");
        // The plugin's loader changed the price in place.
        machine.llm.reply(Reply::text("done"));
        let run = machine.run(&["run", "--format", "json", "your answer"]).await;
        assert_eq!(run.of_type("step_finish")[0]["part"]["cost"], 0.0, "{run:?}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_and_a_wrong_code_store_nothing() {
    let machine = machine().await;
    let login = ["auth", "login", "--provider", "acme", "--method", "plugin"];
    for (typed, reason) in [
        ("1\nhome!\n1\n", "team: a team has letters only"),
        ("1\nhome\n9999\n", "the plugin says that it failed"),
        ("3\n", "`3` is none of these numbers"),
    ] {
        let done = machine.pipe(&login, typed).await;
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains(&format!("The login at acme failed: {reason}.")), "{done:?}");
    }
    let done = machine.pipe(&login, "2\n").await;
    assert_eq!((done.code, &stored(&machine)["acme"]), (Some(0), &json!({"type": "api", "key": "made-key"})));
    let models = machine.run(&["models", "acme"]).await;
    assert!(models.stdout.contains("acme/small"), "{models:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_loader_that_throws_is_told_and_the_stored_login_is_used() {
    for runtime in runtimes() {
        let mut machine = Machine::new().await;
        machine.config["windlass"] = runtime["windlass"].clone();
        let throws = r#"export const P = async () => ({ auth: {
            provider: "mock",
            methods: [{ type: "api", label: "key" }],
            loader: async () => { throw new Error("no key today") },
        } })"#;
        machine.scratch.write(".opencode/plugin/throws.js", throws);
        machine.config["provider"]["mock"]["options"]["apiKey"] = Value::Null;
        let stored = json!({"mock": {"type": "api", "key": "stored-key"}}).to_string();
        let directory = machine.scratch.home.join(".local/share/windlass");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("auth.json"), stored).unwrap();
        machine.llm.reply(Reply::text("done"));
        let run = machine.run(&["run", "go"]).await;
        assert_eq!((run.code, run.stdout.trim()), (Some(0), "done"), "{run:?}");
        assert!(run.stderr.contains("/throws.js cannot use the login at mock: no key today"), "{run:?}");
        assert_eq!(machine.llm.last_request().header("authorization"), Some("Bearer stored-key"));
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_provider_that_only_a_plugin_brings_is_offered_on_a_terminal() {
    let scratch = Scratch::new();
    scratch.write("acme.ts", PLUGIN);
    let config = json!({"plugin": [["./acme.ts", {"target": "https://acme.invalid"}]]});
    let login = ["auth", "login"];
    let mut terminal = Terminal::builder(&scratch, &config).size(120, 24).arguments(&login).start();
    let screen = terminal.shows_text("acme (login by a plugin)").await;
    let row = screen.all_lines().into_iter().find(|row| row.contains("acme (login by a plugin)")).unwrap();
    let number = row.trim_start().split_once('.').unwrap().0.to_owned();
    terminal.shows_text("Provider (number or id):").await;
    terminal.types(&format!("{number}\r"));
    terminal.shows_text("  2. A new key").await;
    terminal.types("2\r");
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("You are logged in at acme"), "{screen}");
    let file = scratch.home.join(".local/share/windlass/auth.json");
    let stored: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(stored["acme"], json!({"type": "api", "key": "made-key"}));
}

/// Starts an agent with a stored login.
async fn logged_in() -> (Agent, Llm, String) {
    let llm = Llm::start().await;
    let scratch = Scratch::new();
    scratch.write("acme.ts", PLUGIN);
    let login = json!({"acme": {"type": "api", "key": "own-key"}}).to_string();
    let builder = Agent::builder().scratch(&scratch).config(config(&llm)).llm(&llm);
    let agent = builder.env("OPENCODE_AUTH_CONTENT", &login).start().await;
    let session = agent.new_session().await;
    (agent, llm, session)
}

#[tokio::test]
async fn an_answer_streams_through_the_plugin_and_a_cancel_closes_it() {
    let (agent, llm, session) = logged_in().await;
    let gate = Gate::new();
    llm.reply(Reply::text("first ").and_gate(&gate).and_text("second"));
    let pending = agent.send_prompt(&session, "go");
    agent.wait_text(&session, "first ").await;
    gate.open();
    assert_eq!(pending.turn().await.text(), "first second");
    assert_eq!(llm.last_request().header("authorization"), Some("Bearer own-key"));
    let gate = Gate::new();
    llm.reply(Reply::text("once ").and_gate(&gate));
    let pending = agent.send_prompt(&session, "again");
    agent.wait_text(&session, "once ").await;
    agent.cancel(&session);
    assert_eq!(pending.answer().await.unwrap()["stopReason"], "cancelled");
    gate.abandoned().await;
    agent.finish().await;
}

#[tokio::test]
async fn a_broken_connection_is_tried_again_through_the_plugin() {
    let (agent, llm, session) = logged_in().await;
    llm.reply(Reply::cut());
    llm.reply(Reply::text("at last"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "at last");
    agent.finish().await;
}

#[tokio::test]
async fn a_large_prompt_and_a_refusal_pass_through_the_plugin() {
    let (agent, llm, session) = logged_in().await;
    let text = "long ".repeat(800_000);
    llm.reply(Reply::text("read"));
    assert_eq!(agent.prompt(&session, &text).await.text(), "read");
    assert_eq!(llm.last_request().last_user(), text);
    llm.reply(Reply::status(401).body(json!({"error": {"message": "bad key own"}})));
    let refused = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert!(refused.message.contains("bad key own"), "{refused:?}");
    agent.finish().await;
}

#[tokio::test]
async fn the_models_that_a_plugin_lists_can_be_chosen() {
    let (agent, llm, session) = logged_in().await;
    let params = json!({"sessionId": session, "configId": "model", "value": "acme/paid"});
    agent.request("session/set_config_option", params).await.unwrap();
    llm.reply(Reply::text("done"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "done");
    assert_eq!(llm.last_request().body["model"], "small");
    agent.finish().await;
}

#[tokio::test]
async fn the_routes_of_logins_offer_a_plugins_methods() {
    let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/plugins/acme-login/plugin.ts");
    let server = Server::builder().config("plugin", json!([plugin])).start().await;
    let methods = server.get("/provider/auth").await.ok();
    assert_eq!(
        (&methods["acme"][0]["label"], &methods["acme"][0]["prompts"][1]["options"][1]["value"]),
        (&json!("Acme account"), &json!("us")),
        "{methods}"
    );
    assert_eq!(methods["acme"][1], json!({"type": "api", "label": "A new key"}));
    let path = "/provider/acme/oauth";
    let authorize = format!("{path}/authorize");
    let begin = |inputs: Value| server.post(&authorize, inputs);
    let refused = begin(json!({"method": 0, "inputs": {"team": "no!"}})).await.refused(400);
    assert_eq!(
        (&refused["name"], &refused["data"]["field"]),
        (&json!("ProviderAuthValidationFailed"), &json!("team"))
    );
    let page = begin(json!({"method": 0, "inputs": {"team": "blue", "region": "eu"}})).await.ok();
    assert_eq!(page["method"], "code");
    let wrong =
        server.post(&format!("{path}/callback"), json!({"method": 0, "code": "0"})).await.refused(400);
    assert_eq!(wrong["name"], "ProviderAuthOauthCallbackFailed");
    begin(json!({"method": 0, "inputs": {"team": "blue"}})).await.ok();
    let done = server.post(&format!("{path}/callback"), json!({"method": 0, "code": "1234"})).await.ok();
    assert_eq!(done, json!(true));
    let missing = server.post(&format!("{path}/callback"), json!({"method": 0})).await.refused(400);
    assert_eq!(missing["name"], "ProviderAuthOauthMissing");
    server.finish().await;
}

#[tokio::test]
async fn the_newer_routes_of_logins_offer_a_plugins_methods() {
    let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/plugins/acme-login/plugin.ts");
    let server = Server::builder().config("plugin", json!([plugin])).start().await;
    let shown = server.get("/api/integration/acme").await.ok()["data"].clone();
    assert_eq!((&shown["methods"][0]["id"], &shown["methods"][0]["type"]), (&json!("0"), &json!("oauth")));
    assert_eq!(shown["methods"][1], json!({"type": "key", "label": "A new key"}));
    let begin = |inputs: Value| {
        server.post("/api/integration/acme/connect/oauth", json!({"methodID": "0", "inputs": inputs}))
    };
    assert_eq!(begin(json!({"team": "no!"})).await.refused(400)["field"], "team");
    for (code, status) in [("0", "failed"), ("1234", "complete")] {
        let attempt = begin(json!({"team": "blue", "region": "eu"})).await.ok()["data"].clone();
        assert_eq!(attempt["mode"], "code", "{attempt}");
        let path = format!("/api/integration/attempt/{}", attempt["attemptID"].as_str().unwrap());
        assert_eq!(server.get(&path).await.ok()["data"]["status"], "pending");
        let complete = format!("{path}/complete");
        assert_eq!(server.post(&complete, json!({})).await.refused(400)["field"], "code");
        let done = server.post(&complete, json!({"code": code})).await;
        assert_eq!(done.status, if status == "complete" { 204 } else { 400 });
        assert_eq!(server.get(&path).await.ok()["data"]["status"], status);
    }
    server.finish().await;
}
