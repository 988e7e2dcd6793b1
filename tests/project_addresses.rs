//! Addresses that a trusted project names: they get no secret of the user, and lead nowhere that they do not say.

use serde_json::{Value, json};

use crate::{
    cli::{Ended, Machine, ended},
    support::{
        skip::skipped,
        web::{Page, Web},
    },
};

const KEY: &str = "sk-hunter22hunter22";

/// Runs a command with a key of the user in a variable.
async fn run(machine: &Machine, arguments: &[&str]) -> Ended {
    ended(machine.command(arguments).env("ANTHROPIC_API_KEY", KEY).spawn().unwrap()).await
}

/// Returns a provider of the catalog at another address.
fn provider(options: Value) -> Value {
    json!({"provider": {"anthropic": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}}})
}

#[tokio::test]
async fn a_projects_base_url_gets_a_key_only_if_its_own_file_or_the_user_says_so() {
    let refused = || Page::new("application/json", "{}").header("connection", "close");
    for stored in [false, true] {
        let web = Web::start().await;
        web.page("/v1/chat/completions", Page { status: 400, ..refused() });
        let url = web.url("/v1");
        let machine = Machine::new().await;
        if stored {
            let file = "../home/.local/share/windlass/auth.json";
            machine.scratch.write(file, json!({"anthropic": {"type": "api", "key": KEY}}).to_string());
        }
        let go = ["run", "-m", "anthropic/m", "go"];
        let ask =
            async |machine: &Machine| if stored { machine.run(&go).await } else { run(machine, &go).await };
        let sent = || web.asked().pop().and_then(|asked| asked.headers.get("authorization").cloned());
        machine.scratch.write("opencode.json", provider(json!({"baseURL": url})).to_string());
        let ended = ask(&machine).await;
        let n_asked = web.asked().len();
        assert!(n_asked > 0, "{ended:?}");
        assert!(web.asked().iter().all(|it| !format!("{:?}", it.headers).contains(KEY)), "{:?}", web.asked());
        let yours = if stored { "your login" } else { "the key in ANTHROPIC_API_KEY" };
        let told = format!("{yours} is not sent to {}, which only the project names", web.url(""));
        assert!(ended.stderr.contains(&told), "{told}: {ended:?}");
        assert!(ended.stderr.contains("set `options.apiKey` beside that address"), "{ended:?}");
        // The user's own configuration may name the address.
        machine
            .scratch
            .write("../home/.config/opencode/opencode.json", provider(json!({"baseURL": url})).to_string());
        let ended = ask(&machine).await;
        assert!(web.asked().len() > n_asked && !ended.stderr.contains("is not sent"), "{ended:?}");
        assert_eq!(sent(), Some(format!("Bearer {KEY}")));
        machine.finish().await;
    }
    let web = Web::start().await;
    web.page("/v1/chat/completions", Page { status: 400, ..refused() });
    let machine = Machine::new().await;
    let options = json!({"baseURL": web.url("/v1"), "apiKey": "{env:ANTHROPIC_API_KEY}"});
    machine.scratch.write("opencode.json", provider(options).to_string());
    run(&machine, &["run", "-m", "anthropic/m", "go"]).await;
    assert_eq!(web.asked()[0].headers["authorization"], format!("Bearer {KEY}"));
    machine.finish().await;
}

#[tokio::test]
async fn a_projects_base_url_is_not_filled_with_variables() {
    let web = Web::start().await;
    let machine = Machine::new().await;
    let url = format!("{}/${{ANTHROPIC_API_KEY}}/v1", web.url(""));
    machine.scratch.write("opencode.json", provider(json!({"baseURL": url})).to_string());
    run(&machine, &["run", "-m", "anthropic/m", "go"]).await;
    assert!(web.asked().iter().all(|it| !it.line.contains("hunter22")), "{:?}", web.asked());
    machine.finish().await;
}

/// Returns a name, other than `localhost`, that leads to this machine.
fn name_of_this_machine() -> Option<String> {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names =
        lines.filter(|line| line.starts_with("127.")).flat_map(|line| line.split_whitespace().skip(1));
    names.map(str::to_owned).find(|name| !name.starts_with("localhost"))
}

/// Joins a text that is broken between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_projects_name_leads_to_this_machine_only_if_the_user_names_it_too() {
    let Some(name) = name_of_this_machine() else {
        skipped("/etc/hosts has no other name of this machine");
        return;
    };
    let web = Web::start().await;
    web.page("/rules.md", Page::new("text/plain", "Prefer tabs."));
    let base = format!("http://{name}:{}", web.port);
    let config = json!({
        "mcp": {"far": {"type": "remote", "url": format!("{base}/mcp")}},
        "instructions": [format!("{base}/rules.md")],
        "provider": provider(json!({"baseURL": format!("{base}/v1"), "apiKey": "k"}))["provider"],
    });
    let machine = Machine { config: json!({"model": "anthropic/m"}), ..Machine::new().await };
    machine.scratch.write("opencode.json", config.to_string());
    let told = format!("{name} is at 127.0.0.1, which is loopback, and no file of yours names it");
    let listed = machine.run(&["mcp", "list"]).await;
    assert!(listed.stdout.contains(&told), "{listed:?}");
    let doctored = machine.run(&["doctor", "--online"]).await;
    assert!(words(&doctored.stdout).contains(&words(&told)), "{doctored:?}");
    let checked = machine.run(&["config", "check", "--refresh"]).await;
    assert!(checked.stdout.contains(&told), "{checked:?}");
    assert!(web.asked().is_empty(), "{:?}", web.asked());
    // This machine under the name that says so.
    let local =
        json!({"mcp": {"far": {"type": "remote", "url": format!("http://localhost:{}/mcp", web.port)}}});
    machine.scratch.write("opencode.json", local.to_string());
    machine.run(&["mcp", "list"]).await;
    let n_asked = web.asked().len();
    assert!(n_asked > 0);
    // The user's own word.
    machine.scratch.write("opencode.json", config.to_string());
    let own = json!({"instructions": [format!("{base}/other.md")]});
    machine.scratch.write("../home/.config/opencode/opencode.json", own.to_string());
    let listed = machine.run(&["mcp", "list"]).await;
    assert!(!listed.stdout.contains(&told) && web.asked().len() > n_asked, "{listed:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_projects_number_leads_to_no_private_network() {
    let machine = Machine { config: json!({"model": "anthropic/m"}), ..Machine::new().await };
    let base = "http://169.254.169.254/latest";
    let config = json!({
        "mcp": {"far": {"type": "remote", "url": format!("{base}/mcp")}},
        "instructions": [format!("{base}/rules.md")],
        "provider": provider(json!({"baseURL": base, "apiKey": "k"}))["provider"],
    });
    machine.scratch.write("opencode.json", config.to_string());
    let told = "169.254.169.254 is at 169.254.169.254, which is link-local, and no file of yours names it";
    let listed = machine.run(&["mcp", "list"]).await;
    assert!(listed.stdout.contains(told), "{listed:?}");
    let checked = machine.run(&["config", "check", "--refresh"]).await;
    assert!(checked.stdout.contains(told), "{checked:?}");
    let asked = machine.run(&["run", "go"]).await;
    assert!(words(&asked.stderr).contains(told), "{asked:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_key_that_is_typed_is_not_tried_at_a_projects_address() {
    let web = Web::start().await;
    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", provider(json!({"baseURL": web.url("/v1")})).to_string());
    let ended = machine.pipe(&["auth", "login", "--provider", "anthropic"], format!("{KEY}\n")).await;
    assert!(words(&ended.stdout).contains("which only the project names"), "{ended:?}");
    assert!(web.asked().is_empty(), "{:?}", web.asked());
    machine.finish().await;
}
