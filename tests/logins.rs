//! Logins by browser and by code against an issuer on loopback, and the tokens that requests carry.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use nix::sys::signal::Signal;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    sync::Semaphore,
    time::timeout,
};

use crate::{
    cli::{Ended, Machine, ended, signal},
    support::{
        agent::DEADLINE,
        http::Asked,
        llm::{Reply, Wire, provider_config},
        web::{Page, Web},
    },
};

const ACCESS: &str = "access-0123456789-secret";
const REFRESH: &str = "refresh-0123456789-secret";

/// A machine with logins that talk to an issuer on loopback.
struct Desk {
    machine: Machine,
    issuer: Web,
}

fn json_page(body: &Value) -> Page {
    Page::new("application/json", body.to_string())
}

fn granted(access: &str, refresh: &str) -> Page {
    json_page(&json!({"access_token": access, "refresh_token": refresh, "expires_in": 3600}))
}

fn refused() -> Page {
    let body = json!({"error": "invalid_grant", "error_description": "it was used before"});
    Page { status: 400, ..json_page(&body) }
}

/// Makes a token with claims, as ChatGPT's are.
fn signed(claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2ln", part(&json!({"alg": "none"})), part(claims))
}

impl Desk {
    async fn new() -> Self {
        Self { machine: Machine::new().await, issuer: Web::start().await }
    }

    /// Has OpenAI's model answer from here by the responses wire.
    async fn with_chatgpt() -> Self {
        let mut desk = Self::new().await;
        let url = desk.machine.llm.url();
        desk.machine.config = json!({
            "model": "openai/gpt-5.5",
            "provider": {"openai": {"options": {"baseURL": url}}},
        });
        desk
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(arguments);
        command.env("WINDLASS_LOGIN_ISSUER", self.issuer.url(""));
        command
    }

    async fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).spawn().unwrap()).await
    }

    /// Starts a login and returns the page that it names.
    async fn begin(&self, arguments: &[&str]) -> (Child, String) {
        let mut child = self.command(&[&["auth", "login"], arguments].concat()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap_or_default();
        (child, line)
    }

    fn file(&self) -> std::path::PathBuf {
        self.machine.scratch.home.join(".local/share/windlass/auth.json")
    }

    fn stored(&self) -> Value {
        let text = std::fs::read_to_string(self.file()).unwrap_or("null".to_owned());
        serde_json::from_str(&text).unwrap()
    }

    fn store(&self, entries: &Value) {
        std::fs::create_dir_all(self.file().parent().unwrap()).unwrap();
        std::fs::write(self.file(), entries.to_string()).unwrap();
    }

    /// Returns the requests for tokens.
    fn asked(&self, path: &str) -> Vec<Asked> {
        self.issuer.asked().into_iter().filter(|asked| asked.path() == path).collect()
    }
}

/// Returns an entry with a token that has expired.
fn expired_entry(refresh: &str) -> Value {
    json!({"openai": {"type": "oauth", "refresh": refresh, "access": "old", "expires": 1, "accountId": "acc"}})
}

fn page_of(line: &str) -> Url {
    Url::parse(line.split(' ').nth(1).unwrap()).unwrap()
}

fn parameter(url: &Url, name: &str) -> String {
    url.query_pairs().find(|(it, _)| it == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Asks as a browser does; returns the status and the page.
async fn visit(url: &str) -> (u16, String) {
    let url = Url::parse(url).unwrap();
    let address = (url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

async fn status(url: &str) -> u16 {
    visit(url).await.0
}

#[tokio::test]
async fn a_browser_brings_a_code_that_only_this_login_can_use() {
    let desk = Desk::with_chatgpt().await;
    let claims = json!({"https://api.openai.com/auth": {"chatgpt_account_id": "acc_1"}});
    let answer = json!({
        "access_token": ACCESS, "refresh_token": REFRESH, "expires_in": 3600, "id_token": signed(&claims),
    });
    desk.issuer.page("/oauth/token", json_page(&answer));
    let (child, line) = desk.begin(&["--provider", "openai", "--method", "browser"]).await;
    let page = page_of(&line);
    assert_eq!((page.path(), parameter(&page, "response_type").as_str()), ("/oauth/authorize", "code"));
    assert_eq!(parameter(&page, "client_id"), "app_EMoamEEZ73f0CkXaXp7hrann");
    assert_eq!(parameter(&page, "scope"), "openid profile email offline_access");
    assert_eq!(parameter(&page, "code_challenge_method"), "S256");
    let (back, state) = (parameter(&page, "redirect_uri"), parameter(&page, "state"));
    assert!(back.starts_with("http://localhost:") && back.ends_with("/auth/callback"), "{back}");
    let here = back.replace("localhost", "127.0.0.1");
    // Any page of the web can send a browser here.
    assert_eq!(status(&format!("{here}?code=stolen&state=other")).await, 400);
    assert_eq!(status(&here.replace("callback", "elsewhere")).await, 404);
    assert_eq!(status(&format!("{here}?code=c%2F1&state={state}")).await, 200);
    let ended = ended(child).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("You are logged in at OpenAI; the login is stored in "), "{ended:?}");
    assert!(ended.stdout.contains("such as openai/gpt-"), "{ended:?}");
    let exchange = &desk.asked("/oauth/token")[0].body;
    assert_eq!(exchange["grant_type"], "authorization_code");
    assert_eq!((&exchange["code"], &exchange["redirect_uri"]), (&json!("c/1"), &json!(back)));
    let verifier = exchange["code_verifier"].as_str().unwrap();
    assert_eq!(verifier.len(), 43);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    assert_eq!(parameter(&page, "code_challenge"), challenge);
    let entry = &desk.stored()["openai"];
    assert_eq!((&entry["access"], &entry["refresh"]), (&json!(ACCESS), &json!(REFRESH)));
    assert_eq!((&entry["type"], &entry["accountId"]), (&json!("oauth"), &json!("acc_1")));
    assert_eq!(desk.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let listed = desk.run(&["auth", "list"]).await;
    assert_eq!(listed.stdout, "openai\toauth\n");
    let out = desk.run(&["auth", "logout", "openai"]).await;
    assert_eq!((out.code, desk.stored()), (Some(0), json!({})), "{out:?}");
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_login_that_is_not_granted_says_why_and_stores_nothing() {
    let desk = Desk::new().await;
    let (child, line) = desk.begin(&["-p", "poe", "-m", "browser"]).await;
    let page = page_of(&line);
    let (back, state) = (parameter(&page, "redirect_uri"), parameter(&page, "state"));
    assert_eq!(status(&format!("{back}?error=access_denied&state={state}")).await, 200);
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert_eq!(desk.stored(), Value::Null);
    // An issuer that refuses the code.
    desk.issuer.page("/token", refused());
    let mut command = desk.command(&["auth", "login", "-p", "poe", "-m", "browser"]);
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let page = page_of(&stderr.next_line().await.unwrap().unwrap());
    let (back, state) = (parameter(&page, "redirect_uri"), parameter(&page, "state"));
    assert_eq!(status(&format!("{back}?code=used-code-12345&state={state}")).await, 200);
    let told = stderr.next_line().await.unwrap().unwrap();
    assert_eq!(told, "The login at poe failed: 127.0.0.1 says: it was used before.");
    assert_eq!((child.wait().await.unwrap().code(), desk.stored()), (Some(1), Value::Null));
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_key_that_a_login_gives_is_stored_as_a_key() {
    let desk = Desk::new().await;
    desk.issuer.page("/token", json_page(&json!({"api_key": "poe-key", "api_key_expires_in": null})));
    let (child, line) = desk.begin(&["poe", "-m", "browser"]).await;
    let page = page_of(&line);
    let (back, state) = (parameter(&page, "redirect_uri"), parameter(&page, "state"));
    assert_eq!(status(&format!("{back}?code=c&state={state}")).await, 200);
    assert_eq!(ended(child).await.code, Some(0));
    assert_eq!(desk.stored(), json!({"poe": {"type": "api", "key": "poe-key"}}));

    // A token behind `#` comes by way of the page that the first answer is.
    let (child, line) = desk.begin(&["digitalocean", "-m", "browser"]).await;
    let page = page_of(&line);
    assert_eq!(parameter(&page, "response_type"), "token");
    let back = parameter(&page, "redirect_uri").replace("localhost", "127.0.0.1");
    let (_, first) = visit(&back).await;
    assert!(first.contains("location.hash"), "{first}");
    let state = parameter(&page, "state");
    assert_eq!(status(&format!("{back}?access_token=do-token&state={state}&expires_in=60")).await, 200);
    assert_eq!(ended(child).await.code, Some(0));
    assert_eq!(desk.stored()["digitalocean"], json!({"type": "api", "key": "do-token"}));
    desk.machine.finish().await;
}

#[tokio::test]
async fn gitlab_is_logged_in_at_by_browser_with_an_instance() {
    let desk = Desk::new().await;
    let answer = json!({"access_token": ACCESS, "refresh_token": REFRESH, "expires_in": 7200});
    desk.issuer.page("/oauth/token", json_page(&answer));
    let (child, line) = desk.begin(&["gitlab", "-m", "browser", "--instance", "git.acme.example"]).await;
    let page = page_of(&line);
    assert_eq!((page.path(), parameter(&page, "scope").as_str()), ("/oauth/authorize", "api"));
    let client = "1d89f9fdb23ee96d4e603201f6861dab6e143c5c3c00469a018a2d94bdc03d4e";
    assert_eq!(parameter(&page, "client_id"), client);
    let (back, state) = (parameter(&page, "redirect_uri"), parameter(&page, "state"));
    assert!(back.starts_with("http://127.0.0.1:") && back.ends_with("/callback"), "{back}");
    assert_eq!(status(&format!("{back}?code=c1&state={state}")).await, 200);
    let ended = ended(child).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let exchange = &desk.asked("/oauth/token")[0].body;
    assert_eq!((&exchange["code"], &exchange["client_id"]), (&json!("c1"), &json!(client)));
    assert_eq!(exchange["code_verifier"].as_str().map(str::len), Some(43));
    let entry = &desk.stored()["gitlab"];
    assert_eq!((&entry["access"], &entry["refresh"]), (&json!(ACCESS), &json!(REFRESH)));
    assert_eq!(entry["enterpriseUrl"], "git.acme.example");
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_code_is_shown_and_asked_about_until_it_was_typed() {
    let desk = Desk::new().await;
    let begun = json!({
        "device_code": "dev-1", "user_code": "ABCD-1234", "interval": 0, "expires_in": 900,
        "verification_uri": "https://github.com/login/device",
    });
    desk.issuer.page("/login/device/code", json_page(&begun));
    desk.issuer.page("/login/oauth/access_token", json_page(&json!({"error": "authorization_pending"})));
    desk.issuer.page("/login/oauth/access_token", Page::status(502));
    desk.issuer.page("/login/oauth/access_token", json_page(&json!({"access_token": ACCESS})));
    let (child, line) = desk.begin(&["github-copilot", "-m", "device"]).await;
    assert_eq!(line, "Open https://github.com/login/device and type the code ABCD-1234 there.");
    let ended = ended(child).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let entry = json!({"type": "oauth", "refresh": ACCESS, "access": ACCESS, "expires": 0});
    assert_eq!(desk.stored(), json!({"github-copilot": entry}));
    let begin = &desk.asked("/login/device/code")[0].body;
    assert_eq!(*begin, json!({"client_id": "Ov23li8tweQw6odWQebz", "scope": "read:user"}));
    let polls = desk.asked("/login/oauth/access_token");
    assert_eq!(polls.len(), 3);
    assert_eq!(polls[0].body["grant_type"], "urn:ietf:params:oauth:grant-type:device_code");

    // An instance of one's own is kept with the login.
    let enterprise = ["github-copilot", "-m", "device", "--instance", "https://ghe.example/"];
    let (child, _) = desk.begin(&enterprise).await;
    assert_eq!(crate::cli::ended(child).await.code, Some(0));
    assert_eq!(desk.stored()["github-copilot"]["enterpriseUrl"], "ghe.example");
    desk.machine.finish().await;
}

#[tokio::test]
async fn openais_codes_are_exchanged() {
    let desk = Desk::with_chatgpt().await;
    let begun = json!({"device_auth_id": "d1", "user_code": "WXYZ", "interval": "0"});
    desk.issuer.page("/api/accounts/deviceauth/usercode", json_page(&begun));
    desk.issuer.page("/api/accounts/deviceauth/token", Page::status(403));
    desk.issuer.page("/api/accounts/deviceauth/token", Page::status(404));
    let code = json!({"authorization_code": "code-1", "code_verifier": "verifier-1"});
    desk.issuer.page("/api/accounts/deviceauth/token", json_page(&code));
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    let (child, line) = desk.begin(&["openai", "-m", "device"]).await;
    assert!(line.ends_with("/codex/device and type the code WXYZ there."), "{line}");
    assert_eq!(ended(child).await.code, Some(0));
    let exchange = &desk.asked("/oauth/token")[0].body;
    assert_eq!((&exchange["code"], &exchange["code_verifier"]), (&json!("code-1"), &json!("verifier-1")));
    assert_eq!(exchange["redirect_uri"], "https://auth.openai.com/deviceauth/callback");
    assert_eq!(desk.stored()["openai"]["refresh"], REFRESH);
    desk.machine.finish().await;
}

#[tokio::test]
async fn xai_gets_forms_and_a_declined_login_is_said() {
    let desk = Desk::new().await;
    let begun = json!({
        "device_code": "d", "user_code": "U", "interval": 0, "verification_uri": "https://x.ai/device",
        "verification_uri_complete": "https://x.ai/device?code=U",
    });
    desk.issuer.page("/oauth2/device/code", json_page(&begun));
    let declined = Page { status: 400, ..json_page(&json!({"error": "access_denied"})) };
    desk.issuer.page("/oauth2/token", declined);
    let ended = desk.run(&["auth", "login", "xai", "-m", "device"]).await;
    assert_eq!(ended.code, Some(1));
    let told = "Open https://x.ai/device?code=U and type the code U there.\n\
                The login at xai failed: the login was declined on the page.\n";
    assert_eq!(ended.stderr, told);
    assert_eq!(
        desk.asked("/oauth2/device/code")[0].body["client_id"],
        "b1a00492-073a-47ea-816f-4c329264a828"
    );
    assert_eq!(desk.stored(), Value::Null);
    let ended = desk.run(&["auth", "login", "xai", "-m", "browser"]).await;
    let told = "xai has no login by `browser`; use `--method device` or `--method key`.\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), told));
    desk.machine.finish().await;
}

#[tokio::test]
async fn no_variable_sends_a_login_to_another_machine() {
    let desk = Desk::new().await;
    for place in ["https://evil.example", "http://10.0.0.1:80", "localhost"] {
        let mut command = desk.machine.command(&["auth", "login", "openai", "-m", "device"]);
        let ended = ended(command.env("WINDLASS_LOGIN_ISSUER", place).spawn().unwrap()).await;
        assert_eq!(ended.code, Some(1), "{place}: {ended:?}");
        assert!(ended.stderr.contains("WINDLASS_LOGIN_ISSUER names no address of this machine"), "{ended:?}");
    }
    desk.machine.finish().await;
}

#[tokio::test]
async fn an_expired_token_is_renewed_and_stored_before_it_is_sent() {
    let desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first"));
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    desk.issuer.page("/oauth/token", refused());
    desk.machine.llm.reply(Reply::text("hello"));
    let run = desk.run(&["run", "go"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    let renewal = &desk.asked("/oauth/token")[0].body;
    assert_eq!(renewal["grant_type"], "refresh_token");
    assert_eq!(renewal["refresh_token"], "first");
    let entry = &desk.stored()["openai"];
    assert_eq!((&entry["refresh"], &entry["accountId"]), (&json!(REFRESH), &json!("acc")));
    let request = desk.machine.llm.last_request();
    assert_eq!(request.header("authorization"), Some(format!("Bearer {ACCESS}").as_str()));
    assert_eq!(request.header("chatgpt-account-id"), Some("acc"));
    assert_eq!(request.header("originator"), Some("windlass"));
    assert!(request.header("session-id").is_some_and(|id| id.starts_with("ses_")));
    assert!(request.body["instructions"].is_string() && request.body["max_output_tokens"].is_null());
    desk.machine.finish().await;
}

#[tokio::test]
async fn processes_that_renew_at_once_renew_once() {
    let desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first"));
    let gate = Arc::new(Semaphore::new(0));
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH).behind(&gate));
    desk.issuer.page("/oauth/token", refused());
    let runs: Vec<Child> = (0..3)
        .map(|n| {
            desk.machine.llm.reply(Reply::text("hello"));
            desk.command(&["run", &format!("go {n}")]).spawn().unwrap()
        })
        .collect();
    desk.issuer.reached().await;
    gate.add_permits(1);
    for run in runs {
        let run = ended(run).await;
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    }
    assert_eq!(desk.asked("/oauth/token").len(), 1);
    assert_eq!(desk.stored()["openai"]["refresh"], REFRESH);
    for request in desk.machine.llm.requests() {
        assert_eq!(request.header("authorization"), Some(format!("Bearer {ACCESS}").as_str()));
    }
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_renews_holds_up_nobody() {
    let desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first"));
    let gate = Arc::new(Semaphore::new(0));
    desk.issuer.page("/oauth/token", granted("lost", "lost").behind(&gate));
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    let killed = desk.command(&["run", "go"]).spawn().unwrap();
    desk.issuer.reached().await;
    signal(&killed, Signal::SIGKILL);
    ended(killed).await;
    assert_eq!(desk.stored(), expired_entry("first"), "nothing was half written");
    desk.machine.llm.reply(Reply::text("hello"));
    let run = desk.run(&["run", "go"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    assert_eq!(desk.stored()["openai"]["refresh"], REFRESH);
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_does_not_lose_the_token_that_was_on_its_way() {
    let desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first"));
    let gate = Arc::new(Semaphore::new(0));
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH).behind(&gate));
    let run = desk.command(&["run", "go"]).spawn().unwrap();
    desk.issuer.reached().await;
    signal(&run, Signal::SIGTERM);
    gate.add_permits(1);
    ended(run).await;
    assert_eq!(desk.stored()["openai"]["refresh"], REFRESH);
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_is_one_sentence_with_the_way_out() {
    let desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first-0123456789"));
    desk.issuer.page("/oauth/token", refused());
    let run = desk.run(&["run", "go"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    for told in
        ["OpenAI", "the login has expired", "it was used before", "`windlass auth login --provider openai`"]
    {
        assert!(run.stderr.contains(told), "{told}: {run:?}");
    }
    assert!(!run.stderr.contains("first-0123456789"), "{run:?}");
    assert!(desk.machine.llm.requests().is_empty());
    // Another login may have come by another way; this one is not thrown away.
    assert_eq!(desk.stored()["openai"]["refresh"], "first-0123456789");
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_token_that_is_refused_before_its_time_is_renewed_once() {
    let desk = Desk::with_chatgpt().await;
    let far = 4_102_444_800_000_i64;
    desk.store(
        &json!({"openai": {"type": "oauth", "refresh": "first", "access": "revoked", "expires": far}}),
    );
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    desk.machine.llm.answer_with(|request| match request.header("authorization") {
        Some("Bearer revoked") => Reply::status(401),
        _ => Reply::text("hello"),
    });
    let run = desk.run(&["run", "go"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    assert_eq!(desk.asked("/oauth/token").len(), 1);
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_refused_token_whose_renewal_meets_a_page_is_renewed_later() {
    let desk = Desk::with_chatgpt().await;
    let far = 4_102_444_800_000_i64;
    desk.store(
        &json!({"openai": {"type": "oauth", "refresh": "first", "access": "revoked", "expires": far}}),
    );
    for answer in [
        Page::new("text/html", "<p>Log in to this network</p>"),
        Page::redirect("https://login.example"),
        granted(ACCESS, REFRESH),
    ] {
        desk.issuer.page("/oauth/token", answer);
    }
    desk.machine.llm.answer_with(|request| match request.header("authorization") {
        Some("Bearer revoked") => Reply::status(401),
        _ => Reply::text("hello"),
    });
    let run = desk.run(&["run", "go"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    assert_eq!(desk.asked("/oauth/token").len(), 3);
    desk.machine.finish().await;
}

#[tokio::test]
async fn opencodes_logins_are_used_and_only_ours_is_written() {
    let desk = Desk::with_chatgpt().await;
    let theirs = desk.machine.scratch.home.join(".local/share/opencode/auth.json");
    std::fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    std::fs::write(&theirs, expired_entry("theirs").to_string()).unwrap();
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    desk.machine.llm.reply(Reply::text("hello"));
    assert_eq!(desk.run(&["run", "go"]).await.code, Some(0));
    assert_eq!(desk.stored()["openai"]["refresh"], REFRESH);
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), expired_entry("theirs").to_string());
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_login_in_the_variable_is_renewed_beside_it() {
    let desk = Desk::with_chatgpt().await;
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    desk.issuer.page("/oauth/token", refused());
    for _ in 0..2 {
        desk.machine.llm.reply(Reply::text("hello"));
        let mut command = desk.command(&["run", "go"]);
        command.env("OPENCODE_AUTH_CONTENT", expired_entry("first").to_string());
        let run = ended(command.spawn().unwrap()).await;
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    }
    assert_eq!((desk.asked("/oauth/token").len(), desk.stored()), (1, Value::Null));
    desk.machine.finish().await;
}

#[tokio::test]
async fn copilot_is_told_who_asks_on_each_of_its_wires() {
    let mut desk = Desk::new().await;
    let entry = json!({"type": "oauth", "refresh": ACCESS, "access": ACCESS, "expires": 0});
    desk.store(&json!({"github-copilot": entry}));
    let url = desk.machine.llm.url();
    desk.machine.config = json!({"provider": {"github-copilot": {"options": {"baseURL": url}}}});
    for (model, path) in [
        ("gpt-6-sol", "/v1/responses"),
        ("claude-opus-5.5", "/v1/v1/messages"),
        ("grok-4.7", "/v1/chat/completions"),
    ] {
        let before = desk.machine.llm.requests().len();
        desk.machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "true"})));
        desk.machine.llm.reply(Reply::text("done"));
        let run = desk.run(&["run", "-m", &format!("github-copilot/{model}"), "go"]).await;
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{model}: {run:?}");
        let requests = desk.machine.llm.requests().split_off(before);
        let initiators: Vec<_> = requests.iter().map(|it| it.header("x-initiator")).collect();
        assert_eq!(initiators, [Some("user"), Some("agent")], "{model}");
        for request in &requests {
            assert_eq!(request.path, path, "{model}");
            assert_eq!(request.header("authorization"), Some(format!("Bearer {ACCESS}").as_str()));
            assert_eq!(request.header("openai-intent"), Some("conversation-edits"));
            assert_eq!(request.header("x-github-api-version"), Some("2026-06-01"));
            assert!(request.header("x-api-key").is_none() && request.header("x-interaction-id").is_some());
        }
    }
    desk.machine.finish().await;
}

#[tokio::test]
async fn gitlab_gives_a_token_for_its_models_in_exchange() {
    let mut desk = Desk::new().await;
    desk.machine.config = json!({"provider": {"gitlab": {"options": {"baseURL": desk.machine.llm.url()}}}});
    let path = "/api/v4/ai/third_party_agents/direct_access";
    let duo = |token: &str| {
        json_page(&json!({"token": token, "expires_at": 4_102_444_800_u64,
            "headers": {"x-gitlab-instance-id": "abc", "Authorization": "Bearer other"}}))
    };
    desk.issuer.page(path, duo("duo-1"));
    desk.issuer.page(path, duo("duo-2"));
    desk.machine.llm.answer_with(|request| match request.header("authorization") {
        Some("Bearer duo-1") => Reply::status(401),
        _ => Reply::text("hello"),
    });
    for (model, folder, sent) in [
        ("duo-chat-opus-5", "/v1/anthropic/v1/messages", "claude-opus-5"),
        ("duo-chat-gpt-5-6-sol", "/v1/openai/v1/responses", "gpt-5.6-sol"),
    ] {
        let mut command = desk.command(&["run", "-m", &format!("gitlab/{model}"), "go"]);
        command.env("GITLAB_TOKEN", "glpat-0123456789").env("GITLAB_INSTANCE_URL", desk.issuer.url(""));
        let run = ended(command.spawn().unwrap()).await;
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
        let request = desk.machine.llm.last_request();
        assert_eq!((request.path.as_str(), &request.body["model"]), (folder, &json!(sent)));
        assert_eq!(request.header("authorization"), Some("Bearer duo-2"));
        assert_eq!(request.header("x-gitlab-instance-id"), Some("abc"));
        assert!(request.header("x-api-key").is_none());
    }
    let asked = desk.asked(path);
    assert_eq!(asked[0].headers["authorization"], "Bearer glpat-0123456789");
    assert_eq!(asked[0].body["feature_flags"]["duo_agent_platform"], true);
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_login_is_in_no_log_trace_export_or_error() {
    let desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first-0123456789"));
    desk.issuer.page("/oauth/token", granted(ACCESS, REFRESH));
    // The provider repeats the token that it does not like.
    let body = json!({"error": {"message": format!("the token {ACCESS} is not for this model")}});
    desk.machine.llm.reply(Reply::status(400).body(body));
    let mut command = desk.command(&["run", "go"]);
    command.env("WINDLASS_LOG", "trace").env("WINDLASS_TRACE", "1");
    let run = ended(command.spawn().unwrap()).await;
    assert_eq!(run.code, Some(1), "{run:?}");
    let mut shown = format!("{}{}", run.stdout, run.stderr);
    let id = desk.machine.sessions().await[0]["id"].as_str().unwrap().to_owned();
    for arguments in [&["export", &id][..], &["auth", "list"], &["debug", "config"], &["doctor"], &["log"]] {
        let ended = desk.run(arguments).await;
        shown += &format!("{}{}", ended.stdout, ended.stderr);
    }
    for log in std::fs::read_dir(desk.file().parent().unwrap().join("log")).into_iter().flatten().flatten() {
        shown += &std::fs::read_to_string(log.path()).unwrap_or_default();
    }
    for secret in [ACCESS, REFRESH, "first-0123456789"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("is not for this model"), "{shown}");
    desk.machine.finish().await;
}

#[tokio::test]
async fn a_key_in_the_configuration_goes_before_the_login() {
    let mut desk = Desk::with_chatgpt().await;
    desk.store(&expired_entry("first"));
    desk.machine.config["provider"]["openai"]["options"]["apiKey"] = "own-key".into();
    desk.machine.llm.reply(Reply::text("hello"));
    assert_eq!(desk.run(&["run", "go"]).await.code, Some(0));
    let request = desk.machine.llm.last_request();
    assert_eq!(request.header("authorization"), Some("Bearer own-key"));
    assert!(desk.issuer.asked().is_empty());
    desk.machine.finish().await;
}

#[tokio::test]
async fn an_organisation_is_logged_in_at_by_its_url() {
    let desk = Desk { machine: Machine::new().await, issuer: Web::start().await };
    let mut config = provider_config(&desk.machine.llm, Wire::OpenAi);
    config["model"] = Value::Null;
    let known =
        json!({"auth": {"command": ["corp-token"], "env": "CORP_TOKEN"}, "config": {"model": "mock/other"}});
    desk.issuer.page("/.well-known/opencode", json_page(&known));
    let url = desk.issuer.url("");
    let ended = desk.machine.pipe(&["auth", "login", &url], "corp-0123456789\n").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stdout.contains("corp-0123456789"));
    let entry = json!({"type": "wellknown", "key": "CORP_TOKEN", "token": "corp-0123456789"});
    assert_eq!(desk.stored(), json!({url.clone(): entry}));
    assert_eq!(desk.run(&["auth", "list"]).await.stdout, format!("{url}\twell-known\n"));
    desk.machine.finish().await;

    let plain = Web::start().await;
    plain.page("/.well-known/opencode", json_page(&json!({"config": {}})));
    let machine = Machine::new().await;
    let ended = machine.pipe(&["auth", "login", &plain.url("")], "t\n").await;
    assert!(ended.stderr.contains("says nothing of a login"), "{ended:?}");
    let ended = machine.pipe(&["auth", "login", "http://far.example"], "t\n").await;
    assert!(ended.stderr.contains("it is neither https nor this machine"), "{ended:?}");
    machine.finish().await;
}
