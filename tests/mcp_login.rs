//! Logins at remote MCP servers by OAuth, against a server that guards its tools.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    cli::{Ended, Machine, ended},
    support::{agent::Agent, llm::Reply, server::Server},
};

/// A guarded server, which ends with this.
struct Guarded {
    _child: Child,
    base: String,
}

impl Guarded {
    async fn start(mode: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/oauth.py");
        let mut command = Command::new("python3");
        command.args([script, mode]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).await.unwrap();
        Self { _child: child, base: format!("http://127.0.0.1:{}", port.trim()) }
    }

    fn config(&self) -> Value {
        json!({"type": "remote", "url": format!("{}/mcp", self.base)})
    }

    /// Returns the requests for tokens.
    async fn log(&self) -> Vec<Value> {
        self.get("log").await.json().await.unwrap()
    }

    async fn get(&self, name: &str) -> reqwest::Response {
        self.visit(&format!("{}/{name}", self.base)).await
    }

    /// Goes to a page, as a browser does.
    async fn visit(&self, page: &str) -> reqwest::Response {
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::get(page).await.unwrap()
    }
}

/// Returns a machine with the server, and a browser that goes to each page that it is shown.
async fn machine(guarded: &Guarded, oauth: Value) -> Machine {
    let mut server = guarded.config();
    if !oauth.is_null() {
        server["oauth"] = oauth;
    }
    let machine = Machine::new().await.with("mcp", json!({"shop": server}));
    machine.scratch.write("bin/xdg-open", "#!/bin/sh\nexec curl -sL \"$1\"\n");
    let opener = machine.scratch.work.join("bin/xdg-open");
    fs::set_permissions(opener, fs::Permissions::from_mode(0o755)).unwrap();
    machine
}

async fn run(machine: &Machine, arguments: &[&str]) -> Ended {
    let path = format!("{}/bin:{}", machine.scratch.work.display(), std::env::var("PATH").unwrap());
    ended(machine.command(arguments).env("PATH", path).spawn().unwrap()).await
}

async fn status(machine: &Machine) -> Value {
    let listed = run(machine, &["mcp", "list", "--format", "json"]).await;
    let rows: Value = serde_json::from_str(&listed.stdout).unwrap();
    rows[0]["status"].clone()
}

#[tokio::test]
async fn a_login_in_the_browser_connects_the_server_until_it_is_forgotten() {
    for mode in ["good", "secret"] {
        let guarded = Guarded::start(mode).await;
        let machine = machine(&guarded, Value::Null).await;
        let listed = run(&machine, &["mcp", "list"]).await;
        assert!(listed.stdout.contains("`windlass mcp auth shop`"), "{listed:?}");
        let login = run(&machine, &["mcp", "auth", "shop"]).await;
        assert_eq!(login.code, Some(0), "{login:?}");
        assert!(login.stderr.starts_with(&format!("Log in at {}/authorize?", guarded.base)), "{login:?}");
        assert!(login.stdout.starts_with("shop: connected"), "{login:?}");
        assert!(login.stdout.contains("price"), "{login:?}");
        let file = machine.scratch.home.join(".local/share/windlass/mcp-auth.json");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let stored: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let shop = &stored["shop"];
        assert_eq!(
            (&shop["tokens"]["accessToken"], &shop["tokens"]["refreshToken"]),
            (&json!("access-1"), &json!("refresh-1"))
        );
        assert_eq!(
            (&shop["clientInfo"]["clientId"], &shop["serverUrl"]),
            (&json!("registered"), &guarded.config()["url"])
        );
        let log = guarded.log().await;
        assert_eq!(
            (&log[0]["kind"], &log[0]["resource"]),
            (&json!("authorization_code"), &guarded.config()["url"])
        );
        assert_eq!(status(&machine).await, "connected");
        assert_eq!(
            run(&machine, &["mcp", "logout", "shop"]).await.stdout,
            "The login at shop is forgotten.\n"
        );
        assert_eq!(run(&machine, &["mcp", "logout", "shop"]).await.stdout, "There is no login at shop.\n");
        assert_eq!(status(&machine).await, "needs_auth");
    }
}

#[tokio::test]
async fn a_token_is_renewed_when_it_ends_and_the_new_one_is_kept() {
    for mode in ["brief", "loose_brief"] {
        let guarded = Guarded::start(mode).await;
        let machine = machine(&guarded, Value::Null).await;
        assert_eq!(run(&machine, &["mcp", "auth", "shop"]).await.code, Some(0), "{mode}");
        // Each start renews it, so that the tokens for renewals must follow one another.
        for _ in 0..3 {
            assert_eq!(status(&machine).await, "connected", "{mode}");
        }
        let log = guarded.log().await;
        assert!(log.iter().filter(|it| it["kind"] == "refresh_token").count() >= 3, "{log:?}");
    }
}

#[tokio::test]
async fn an_authority_that_answers_nearly_in_the_form_gives_a_login() {
    for mode in ["loose", "form"] {
        let guarded = Guarded::start(mode).await;
        let machine = machine(&guarded, Value::Null).await;
        let login = run(&machine, &["mcp", "auth", "shop"]).await;
        assert!(login.code == Some(0) && login.stdout.starts_with("shop: connected"), "{mode}: {login:?}");
        let file = machine.scratch.home.join(".local/share/windlass/mcp-auth.json");
        let stored: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert!(stored["shop"]["tokens"]["expiresAt"].is_number(), "{mode}: {stored}");
        assert_eq!(status(&machine).await, "connected", "{mode}");
    }
}

#[tokio::test]
async fn a_session_says_that_tools_are_gone_because_a_login_has_ended() {
    let guarded = Guarded::start("good").await;
    let machine = machine(&guarded, Value::Null).await;
    assert_eq!(run(&machine, &["mcp", "auth", "shop"]).await.code, Some(0));
    guarded.get("revoke").await;
    machine.llm.reply(Reply::text("ok"));
    let ran = run(&machine, &["run", "hello"]).await;
    let told =
        "The login at the MCP server shop has ended, and its tools are gone. Run `windlass mcp auth shop`.";
    assert!(ran.code == Some(0) && ran.stderr.contains(told), "{ran:?}");
}

#[tokio::test]
async fn a_login_that_cannot_be_is_one_sentence() {
    let case = async |mode: &str, oauth: Value| {
        let guarded = Guarded::start(mode).await;
        let ended = run(&machine(&guarded, oauth).await, &["mcp", "auth", "shop"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        ended.stderr.lines().last().unwrap_or_default().to_owned()
    };
    assert!(case("deny", Value::Null).await.ends_with("the login was not granted: The user said no."));
    assert_eq!(case("open", Value::Null).await, "MCP server shop does not support OAuth.");
    assert_eq!(case("good", json!(false)).await, "MCP server shop does not support OAuth.");
    let closed = case("closed", Value::Null).await;
    assert!(
        closed.contains("registers no clients") && closed.contains("`mcp.shop.oauth.clientId`"),
        "{closed}"
    );
    let unknown = run(&Machine::new().await, &["mcp", "auth", "nothing"]).await;
    assert!(unknown.stderr.contains("there is no MCP server nothing"), "{unknown:?}");
}

#[tokio::test]
async fn a_server_that_takes_none_of_its_tokens_is_told_and_not_asked_again_and_again() {
    let guarded = Guarded::start("foreign").await;
    let machine = machine(&guarded, Value::Null).await;
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert_eq!((login.code, login.stdout.as_str()), (Some(1), ""), "{login:?}");
    assert!(login.stderr.contains("shop rejects the token of this login"), "{login:?}");
    assert_eq!(status(&machine).await, "needs_auth");
    let log = guarded.log().await;
    assert!(log.len() <= 3, "{log:?}");
}

#[tokio::test]
async fn a_login_that_the_server_does_not_renew_is_needed_again() {
    let guarded = Guarded::start("ended").await;
    let machine = machine(&guarded, Value::Null).await;
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert!(login.stderr.contains("shop rejects the token of this login"), "{login:?}");
    assert_eq!(status(&machine).await, "needs_auth");
    let log = guarded.log().await;
    assert!(log.iter().filter(|it| it["kind"] == "refresh_token").count() <= 4, "{log:?}");
    let listed = run(&machine, &["mcp", "list"]).await;
    assert!(listed.stdout.contains("`windlass mcp auth shop`"), "{listed:?}");
}

#[tokio::test]
async fn a_login_that_cannot_be_read_is_said_and_is_not_taken_for_none() {
    let guarded = Guarded::start("good").await;
    let of_guarded = machine(&guarded, Value::Null).await;
    fs::create_dir_all(of_guarded.scratch.home.join(".local/share/windlass/mcp-auth.json")).unwrap();
    let listed = run(&of_guarded, &["mcp", "list"]).await;
    assert!(listed.stdout.contains("the login at MCP server shop is not known: "), "{listed:?}");
    // A server that wants none does not need it, nor what OpenCode keeps.
    let open = Guarded::start("open").await;
    for owner in ["windlass", "opencode"] {
        let of_open = machine(&open, Value::Null).await;
        fs::create_dir_all(of_open.scratch.home.join(format!(".local/share/{owner}/mcp-auth.json"))).unwrap();
        assert_eq!(status(&of_open).await, "connected", "{owner}");
    }
}

#[tokio::test]
async fn a_server_that_registers_nobody_says_so_until_a_client_is_named() {
    let guarded = Guarded::start("closed").await;
    assert_eq!(status(&machine(&guarded, Value::Null).await).await, "needs_client_registration");
    assert_eq!(status(&machine(&guarded, json!({"clientId": "known"})).await).await, "needs_auth");
    let server = Server::builder().config("mcp", json!({"shop": guarded.config()})).start().await;
    let shop = server.get("/mcp").await.ok()["shop"].clone();
    assert_eq!(shop["status"], "needs_client_registration");
    assert!(shop["error"].as_str().unwrap().contains("`mcp.shop.oauth.clientId`"), "{shop}");
    server.finish().await;
}

#[tokio::test]
async fn a_known_client_needs_no_registration_and_a_probe_says_what_the_server_tells() {
    let guarded = Guarded::start("closed").await;
    let oauth = json!({"clientId": "known", "callbackPort": 0, "scope": "read"});
    let machine = machine(&guarded, oauth).await;
    let probe = run(&machine, &["mcp", "debug", "shop"]).await;
    for line in [
        "login: none",
        &format!("issuer: {}", guarded.base),
        "registration: known clients only",
        "status: NeedsAuth",
    ] {
        assert!(probe.stdout.lines().any(|it| it == line), "{line}: {probe:?}");
    }
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert_eq!(login.code, Some(0), "{login:?}");
    assert!(login.stderr.contains("scope=read"), "{login:?}");
    assert_eq!(guarded.log().await[0]["client"], "known");
}

#[tokio::test]
async fn programs_log_in_over_http() {
    let guarded = Guarded::start("good").await;
    let server = Server::builder().config("mcp", json!({"shop": guarded.config()})).start().await;
    assert_eq!(server.get("/mcp").await.ok()["shop"], json!({"status": "needs_auth"}));
    server.post("/mcp/nothing/auth", json!({})).await.refused(404);
    let page = server.post("/mcp/shop/auth", json!({})).await.ok();
    let url = page["authorizationUrl"].as_str().unwrap();
    assert!(url.contains(&format!("state={}", page["oauthState"].as_str().unwrap())), "{page}");
    // The browser brings the code itself, or a person brings it.
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let back = http.get(url).send().await.unwrap().headers()["location"].to_str().unwrap().to_owned();
    let back = reqwest::Url::parse(&back).unwrap();
    let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let state = server.post("/mcp/shop/auth/callback", json!({"code": code})).await.ok();
    assert_eq!(state, json!({"status": "connected"}));
    let late = server.post("/mcp/shop/auth/callback", json!({"code": "x"})).await.refused(400);
    assert!(late["message"].as_str().unwrap().contains("has begun"), "{late}");
    assert_eq!(server.send("DELETE", "/mcp/shop/auth", json!({})).await.ok(), json!({"success": true}));
    assert_eq!(server.get("/mcp").await.ok()["shop"], json!({"status": "needs_auth"}));
    let page = server.post("/mcp/shop/auth", json!({})).await.ok();
    reqwest::get(page["authorizationUrl"].as_str().unwrap()).await.unwrap();
    let mut state = server.get("/mcp").await.ok()["shop"].clone();
    while state != json!({"status": "connected"}) {
        state = server.get("/mcp").await.ok()["shop"].clone();
    }

    // A login that ends in the middle of a session is wanted again.
    reqwest::get(format!("{}/revoke", guarded.base)).await.unwrap();
    let id = server.session().await;
    server.llm.reply(Reply::call("call_1", "shop_price", json!({})));
    server.llm.reply(Reply::text("done"));
    server.prompt(&id, "go").await;
    let told = server.llm.last_request().tool_result("call_1");
    assert!(told.contains("shop wants a login again") && told.contains("`windlass mcp auth shop`"), "{told}");
    while state != json!({"status": "needs_auth"}) {
        state = server.get("/mcp").await.ok()["shop"].clone();
    }
    server.finish().await;
}

#[tokio::test]
async fn servers_are_added_to_the_configuration_and_taken_out_again() {
    let machine = Machine::new().await;
    let file = machine.scratch.work.join("opencode.json");
    machine.scratch.write("opencode.json", "{\n  // ours\n  \"theme\": \"x\"\n}\n");
    let added = machine.run(&["mcp", "add", "web", "--url", "http://h/mcp", "--header", "X-Key=a=b"]).await;
    assert_eq!((added.code, added.stderr.as_str()), (Some(0), ""), "{added:?}");
    assert_eq!(
        machine.run(&["mcp", "add", "here", "--env", "A=1", "--", "npx", "-y", "thing"]).await.code,
        Some(0)
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("// ours"), "{text}");
    let written: Value = serde_json::from_str(&text.replace("// ours", "")).unwrap();
    assert_eq!(
        written["mcp"]["web"],
        json!({"type": "remote", "url": "http://h/mcp", "headers": {"X-Key": "a=b"}})
    );
    let here = json!({"type": "local", "command": ["npx", "-y", "thing"], "environment": {"A": "1"}});
    assert_eq!(written["mcp"]["here"], here);
    let twice = machine.run(&["mcp", "add", "web", "--url", "http://h/mcp"]).await;
    assert!(twice.code == Some(1) && twice.stderr.contains("remove it first"), "{twice:?}");
    assert_eq!(machine.run(&["mcp", "remove", "web"]).await.code, Some(0));
    let gone = machine.run(&["mcp", "rm", "web"]).await;
    assert!(gone.code == Some(1) && gone.stderr.contains("There is no MCP server web"), "{gone:?}");
    machine.scratch.write("opencode.json", "{\"mcp\": {");
    for command in [["mcp", "remove", "web"], ["plugin", "remove", "web"]] {
        let broken = machine.run(&command).await;
        assert!(
            broken.code == Some(1) && broken.stderr.contains("opencode.json: line 1, column"),
            "{broken:?}"
        );
    }
    for arguments in [
        &["mcp", "add", "x"][..],
        &["mcp", "add", "x", "--url", "u", "--", "c"],
        &["mcp", "add", "x", "--url", "u", "--header", "y"],
    ] {
        assert_eq!(machine.run(arguments).await.code, Some(2), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_server_says_in_its_refusal_where_its_metadata_are_and_which_scope_it_wants() {
    let guarded = Guarded::start("pointer").await;
    let machine = machine(&guarded, Value::Null).await;
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert!(login.stdout.starts_with("shop: connected"), "{login:?}");
    assert_eq!(guarded.log().await[0]["scope"], "prices");
    // Its tokens are renewed where they come from, which only a refusal tells.
    assert_eq!(status(&machine).await, "connected");
    assert!(guarded.log().await.iter().any(|it| it["kind"] == "refresh_token"));
    // A scope of the configuration goes before it.
    let machine = self::machine(&guarded, json!({"scope": "all of it"})).await;
    run(&machine, &["mcp", "auth", "shop"]).await;
    let log = guarded.log().await;
    assert_eq!(log.iter().rfind(|it| it["kind"] == "authorization_code").unwrap()["scope"], "all of it");
}

#[tokio::test]
async fn a_server_of_the_first_standard_has_its_pages_at_the_known_places() {
    let guarded = Guarded::start("legacy").await;
    let machine = machine(&guarded, Value::Null).await;
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert!(login.stdout.starts_with("shop: connected"), "{login:?}");
}

#[tokio::test]
async fn a_client_is_known_by_the_document_that_describes_it_where_the_authority_takes_such() {
    let document = "https://windlass.example/client.json";
    let guarded = Guarded::start("document").await;
    // The document would name the usual port, which tests that run beside this one take.
    let oauth = json!({"clientMetadataUrl": document, "callbackPort": 0});
    let machine = machine(&guarded, oauth.clone()).await;
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert!(login.stdout.starts_with("shop: connected"), "{login:?}");
    assert_eq!(guarded.log().await[0]["client"], document);
    // Others are registered as ever.
    let guarded = Guarded::start("good").await;
    let machine = self::machine(&guarded, oauth).await;
    let login = run(&machine, &["mcp", "auth", "shop"]).await;
    assert!(login.stdout.starts_with("shop: connected"), "{login:?}");
    assert_eq!(guarded.log().await[0]["client"], "registered");
}

#[tokio::test]
async fn a_call_that_needs_a_scope_more_says_so_and_the_next_login_asks_for_it() {
    let guarded = Guarded::start("wider").await;
    let machine = machine(&guarded, json!({"scope": "read"})).await;
    run(&machine, &["mcp", "auth", "shop"]).await;
    let call = async || {
        machine.llm.reply(Reply::call("call_1", "shop_price", json!({})));
        machine.llm.reply(Reply::text("done"));
        machine.run(&["run", "what is it?"]).await;
        machine.llm.last_request().tool_result("call_1")
    };
    let refused = call().await;
    assert!(
        refused.contains("needs a login that allows more") && refused.contains("`windlass mcp auth shop`"),
        "{refused}"
    );
    assert_eq!(status(&machine).await, "connected", "its other tools go on");
    run(&machine, &["mcp", "auth", "shop"]).await;
    // Renewals in between have not lost it.
    let log = guarded.log().await;
    assert!(log.iter().filter(|it| it["kind"] == "refresh_token").count() >= 2, "{log:?}");
    assert_eq!(log.iter().rfind(|it| it["kind"] == "authorization_code").unwrap()["scope"], "read write");
    assert_eq!(call().await, "it costs 3");
    machine.finish().await;
}

#[tokio::test]
async fn a_client_that_opens_pages_is_offered_the_login_once_and_the_tools_are_there_behind_it() {
    let guarded = Guarded::start("good").await;
    let config = json!({"mcp": {"shop": guarded.config()}});
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(json!({"elicitation": {"url": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let ask = agent.permission().await;
    assert_eq!((ask.method.as_str(), &ask.params["mode"]), ("elicitation/create", &json!("url")));
    assert_eq!(ask.params["sessionId"], session);
    let page = ask.params["url"].as_str().unwrap();
    assert!(page.starts_with(&format!("{}/authorize?", guarded.base)), "{page}");
    agent.fill_in(&ask, json!({"action": "accept"}));
    guarded.visit(page).await;
    let completed = |message: &Value| message["method"] == "elicitation/complete";
    let told = agent.wait_for("the page's end", completed).await;
    assert_eq!(told["params"]["elicitationId"], ask.params["elicitationId"]);
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "what is it?").await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "it costs 3");
    agent.finish().await;
}

#[tokio::test]
async fn a_login_that_the_user_declines_is_not_offered_again() {
    let guarded = Guarded::start("good").await;
    let config = json!({"mcp": {"shop": guarded.config()}});
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(json!({"elicitation": {"url": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "go").await;
    let ask = agent.permission().await;
    agent.fill_in(&ask, json!({"action": "decline"}));
    for _ in 0..2 {
        agent.llm.reply(Reply::text("more"));
        agent.prompt(&session, "go").await;
    }
    let offers = agent.lines().into_iter().filter(|line| line.message["method"] == "elicitation/create");
    assert_eq!(offers.count(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_program_logs_in_as_itself_by_its_secret_or_its_key_and_needs_no_person() {
    let guarded = Guarded::start("program").await;
    let key = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls/server.key")).unwrap();
    for shown in [json!({"clientSecret": "s3cret"}), json!({"privateKey": key})] {
        let mut oauth = json!({"grant": "client_credentials", "clientId": "robot", "scope": "prices"});
        oauth.as_object_mut().unwrap().extend(shown.as_object().unwrap().clone());
        let machine = machine(&guarded, oauth).await;
        assert_eq!(status(&machine).await, "connected", "{shown}");
        let refused = run(&machine, &["mcp", "auth", "shop"]).await;
        assert!(refused.stderr.contains("needs no login by a person"), "{refused:?}");
    }
    let log = guarded.log().await;
    // Each token ends at once, so that each request asked for its own.
    assert!(log.len() > 4, "{log:?}");
    let last = log.last().unwrap();
    assert_eq!((&last["kind"], &last["scope"]), (&json!("client_credentials"), &json!("prices")));
    assert_eq!(
        (&last["resource"], &last["shown"]["iss"], &last["shown"]["aud"]),
        (&guarded.config()["url"], &json!("robot"), &json!(guarded.base))
    );
}

#[tokio::test]
async fn a_program_that_is_refused_is_told_why() {
    let guarded = Guarded::start("program").await;
    let check = async |oauth: Value, reason: &str| {
        let machine = machine(&guarded, oauth).await;
        let listed = run(&machine, &["mcp", "list"]).await;
        assert!(listed.stdout.contains(reason), "{listed:?}");
    };
    let by = |fields: Value| {
        let mut oauth = json!({"grant": "client_credentials", "clientId": "robot"});
        oauth.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        oauth
    };
    check(by(json!({"clientSecret": "wrong"})), "invalid_client").await;
    check(by(json!({"privateKey": "no key"})), "no private key").await;
    check(by(json!({})), "`oauth.clientSecret` or `oauth.privateKey` is missing").await;
    // An authority in the place of the one before gets no secret until that is wanted.
    let machine = machine(&guarded, by(json!({"clientSecret": "s3cret"}))).await;
    assert_eq!(status(&machine).await, "connected");
    let file = machine.scratch.home.join(".local/share/windlass/mcp-auth.json");
    let noted = fs::read_to_string(&file)
        .unwrap()
        .replace(&format!("\"issuer\": \"{}", guarded.base), "\"issuer\": \"https://before");
    fs::write(&file, noted).unwrap();
    let listed = run(&machine, &["mcp", "list"]).await;
    assert!(listed.stdout.contains("it was https://before before"), "{listed:?}");
    run(&machine, &["mcp", "logout", "shop"]).await;
    assert_eq!(status(&machine).await, "connected");
}
