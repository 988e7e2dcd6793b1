//! The catalog of models as it is fetched, and the models that servers list themselves.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use tokio::{process::Command, sync::Semaphore};

use crate::{
    cli::{Ended, Machine, ended},
    support::{
        agent::Agent,
        llm::Reply,
        web::{Page, Web},
    },
};

/// Returns a catalog with one provider, which has this model.
fn catalog(model: &str) -> String {
    let model = json!({model: {"id": model, "name": "New", "tool_call": true, "release_date": "2099-01-01",
        "limit": {"context": 1000, "output": 100}, "cost": {"input": 1, "output": 2,
        "context_over_200k": {"input": 3, "output": 4}}}});
    let acme = json!({"id": "acme", "name": "Acme", "env": ["ACME_KEY"], "npm": "@ai-sdk/openai-compatible",
        "api": "http://127.0.0.1:1/v1", "models": model});
    json!({"acme": acme}).to_string()
}

fn page(model: &str, tag: &str) -> Page {
    Page::new("application/json", catalog(model)).header("etag", tag)
}

/// Returns a command that may fetch the catalog from here.
fn command(machine: &Machine, web: &Web, arguments: &[&str]) -> Command {
    let mut command = machine.command(arguments);
    command.env_remove("OPENCODE_DISABLE_MODELS_FETCH");
    command.env("OPENCODE_MODELS_URL", web.url("")).env("ACME_KEY", "k");
    command
}

async fn run(machine: &Machine, web: &Web, arguments: &[&str]) -> Ended {
    ended(command(machine, web, arguments).spawn().unwrap()).await
}

fn cached(machine: &Machine) -> Vec<PathBuf> {
    let cache = machine.scratch.home.join(".local/share/windlass/cache");
    let files = std::fs::read_dir(cache).into_iter().flatten();
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "bin"))
        .collect()
}

#[tokio::test]
async fn a_refresh_asks_only_for_what_changed() {
    let (machine, web) = (Machine::new().await, Web::start().await);
    web.page("/api.json", page("one", "\"a\""));
    web.page("/api.json", Page::status(304));
    web.page("/api.json", page("two", "\"b\""));
    web.page("/api.json", Page::status(500));
    let models = async || run(&machine, &web, &["models", "acme", "--refresh"]).await;
    assert_eq!(models().await.stdout, "acme/one\n");
    assert_eq!(cached(&machine).len(), 1);
    assert_eq!(models().await.stdout, "acme/one\n");
    assert_eq!(models().await.stdout, "acme/two\n");
    let tags: Vec<Option<String>> =
        web.asked().iter().map(|asked| asked.headers.get("if-none-match").cloned()).collect();
    assert_eq!(tags, [None, Some("\"a\"".to_owned()), Some("\"a\"".to_owned())]);
    let failed = models().await;
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
    assert!(failed.stderr.contains("the catalog was not fetched from"), "{failed:?}");
    // The catalog that was fetched before still serves, also where nothing may be fetched.
    let mut offline = command(&machine, &web, &["models", "acme"]);
    let offline = ended(offline.env("OPENCODE_DISABLE_MODELS_FETCH", "1").spawn().unwrap()).await;
    assert_eq!(offline.stdout, "acme/two\n");
    assert_eq!(web.asked().len(), 4);
    machine.finish().await;
}

#[tokio::test]
async fn broken_catalogs_do_no_harm() {
    let (machine, web) = (Machine::new().await, Web::start().await);
    for page in [Page::new("text/html", "<html>"), Page::new("application/json", "{}")] {
        web.page("/api.json", page);
    }
    for _ in 0..2 {
        let failed = run(&machine, &web, &["models", "--refresh"]).await;
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert_eq!(cached(&machine), Vec::<PathBuf>::new());
    }
    let file = machine.scratch.home.join("models.json");
    std::fs::write(&file, catalog("of-the-file")).unwrap();
    let mut own = command(&machine, &web, &["models", "acme", "--verbose"]);
    let own = ended(own.env("OPENCODE_MODELS_PATH", &file).spawn().unwrap()).await;
    assert!(own.stdout.starts_with("acme/of-the-file\n"), "{own:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_turn_does_not_wait_for_the_catalog_that_is_fetched_behind_it() {
    let web = Web::start().await;
    let gate = Arc::new(Semaphore::new(0));
    web.page("/api.json", page("one", "\"a\"").behind(&gate));
    let agent = Agent::builder()
        .env("OPENCODE_DISABLE_MODELS_FETCH", "0")
        .env("OPENCODE_MODELS_URL", &web.url(""))
        .env("ACME_KEY", "k")
        .start()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("hello"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "hello");
    web.reached().await;
    agent.llm.reply(Reply::text("again"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "again");
    assert_eq!(web.asked().len(), 1, "one request at a time, and none soon after it");
    gate.add_permits(1);
    agent.finish().await;
}

#[tokio::test]
async fn a_local_server_lists_its_own_models() {
    let web = Web::start().await;
    let listed = json!({"object": "list", "data": [
        {"id": "qwen3:8b", "object": "model"}, {"id": "llama", "max_model_len": 32768},
    ]});
    web.page("/v1/models", Page::new("application/json", listed.to_string()));
    let local = json!({"local": {"options": {"baseURL": web.url("/v1")}}});
    let machine = Machine { config: json!({"provider": local}), ..Machine::new().await };
    let models = run(&machine, &web, &["models", "local"]).await;
    assert_eq!(
        (models.code, models.stdout.as_str()),
        (Some(0), "local/qwen3:8b\nlocal/llama\n"),
        "{models:?}"
    );
    assert!(!web.asked()[0].headers.contains_key("authorization"));
    // The list is kept: the server may be off.
    let mut offline = command(&machine, &web, &["models", "local", "--verbose"]);
    let offline = ended(offline.env("OPENCODE_DISABLE_MODELS_FETCH", "1").spawn().unwrap()).await;
    assert!(offline.stdout.contains("\"context\": 32768"), "{offline:?}");
    machine.finish().await;

    // A server that hangs or fails holds up nobody, and the sentence names the way out.
    let machine = Machine {
        config: json!({"provider": {"local": {"options": {"baseURL": "http://127.0.0.1:1"}}}}),
        ..Machine::new().await
    };
    let run = run(&machine, &web, &["run", "go"]).await;
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("`provider.local` has no models"), "{run:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_session_learns_of_a_local_servers_models_behind_its_back() {
    let web = Web::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let listed = Page::new("application/json", json!({"data": [{"id": "llama"}]}).to_string());
    web.page("/v1/models", listed.behind(&gate));
    let local = json!({"provider": {"local": {"options": {"baseURL": web.url("/v1")}}}});
    let agent = Agent::builder().env("OPENCODE_DISABLE_MODELS_FETCH", "0").config(local).start().await;
    let session = agent.new_session().await;
    web.reached().await;
    agent.llm.reply(Reply::text("hello"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "hello");
    gate.add_permits(1);
    let update = agent.wait_update("config_option_update").await;
    let models = update["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "model").unwrap();
    let values: Vec<&Value> = models["options"].as_array().unwrap().iter().map(|it| &it["value"]).collect();
    assert!(values.contains(&&json!("local/llama")), "{values:?}");
    agent.finish().await;
}

#[tokio::test]
async fn verbose_lists_name_limits_prices_and_the_default() {
    let (machine, web) = (Machine::new().await, Web::start().await);
    let machine = Machine { config: json!({}), ..machine };
    web.page("/api.json", page("one", "\"a\""));
    let listed = run(&machine, &web, &["models", "acme", "--verbose", "--refresh"]).await;
    let (name, details) = listed.stdout.split_once('\n').unwrap();
    let details: Value = serde_json::from_str(details).unwrap();
    assert_eq!((name, &details["default"]), ("acme/one", &json!(true)));
    assert_eq!(details["limit"], json!({"context": 1000, "output": 100}));
    let cost = &details["cost"];
    assert_eq!((&cost["input"], &cost["output"]), (&json!(1.0), &json!(2.0)), "{cost}");
    assert_eq!(cost["tiers"][0]["input"], json!(3.0), "{cost}");
    machine.finish().await;
}
