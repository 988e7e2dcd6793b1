//! A network by name: the hosts that a sandboxed command reaches through its proxy, and those that it does not.

use std::{path::Path, process::Command, sync::Arc};

use serde_json::{Value, json};

use crate::{
    sandbox::lacks,
    support::{
        agent::{Agent, Answer},
        process,
        scratch::Scratch,
        server::Server,
        web::{Page, Web},
    },
};

/// A session whose commands reach hosts by name.
struct Cell {
    agent: Agent,
    session: String,
}

impl Cell {
    async fn new(network: Value, answer: Option<Answer>) -> Self {
        // `/dev/tcp` is a path, which is another question.
        Self::over(&Scratch::new(), network, json!({"external_directory": "allow"}), answer).await
    }

    async fn over(scratch: &Arc<Scratch>, network: Value, permission: Value, answer: Option<Answer>) -> Self {
        let config = json!({"permission": permission, "windlass": {"sandbox": {"network": network}}});
        let mut builder = Agent::builder().scratch(scratch).config(config);
        if let Some(answer) = answer {
            builder = builder.answering(answer);
        }
        let agent = builder.start().await;
        let session = agent.new_session().await;
        Self { agent, session }
    }

    async fn bash(&self, command: &str) -> String {
        self.agent.told(&self.session, "bash", json!({"command": command})).await
    }
}

/// Returns a network that allows this web server by the name `localhost`.
fn named(web: &Web) -> Value {
    json!({"allow": [format!("localhost:{}", web.port)]})
}

async fn web() -> Web {
    let web = Web::start().await;
    web.page("/", Page::new("text/plain", "seen\n"));
    web
}

#[tokio::test]
async fn a_named_host_is_reached_by_every_way_through_the_proxy_and_by_none_around_it() {
    if lacks("full") {
        return;
    }
    let (web, other) = (web().await, web().await);
    let cell = Cell::new(named(&web), None).await;
    let at = format!("localhost:{}", web.port);
    for way in ["", "-p", "--proxy socks5h://127.0.0.1:3128", "--proxy socks5h://127.0.0.1:3128 -4"] {
        let told = cell.bash(&format!("curl -sS -m 20 {way} http://{at}/")).await;
        assert_eq!(told, "seen\n", "{way}");
    }
    // A kept connection is judged for each request.
    let told =
        cell.bash(&format!("curl -sS --noproxy '' http://{at}/ http://127.0.0.1:{}/", other.port)).await;
    assert!(told.starts_with("seen\n") && told.contains("windlass: 127.0.0.1"), "{told}");
    let told = cell.bash(&format!("curl -sS --noproxy '*' http://{at}/; echo $?")).await;
    assert!(told.contains("\n7\n") && !told.contains("seen"), "{told}");
    let told = cell.bash("exec 3<>/dev/tcp/93.184.215.14/80").await;
    assert!(told.contains("unreachable"), "{told}");
    assert_eq!(other.asked().len(), 0);
    assert_eq!(cell.agent.n_asked(), 0);
    cell.agent.finish().await;
}

#[tokio::test]
async fn a_redirect_to_another_host_is_refused_in_words() {
    if lacks("full") {
        return;
    }
    let (web, other) = (web().await, web().await);
    web.page("/away", Page::redirect(&other.url("/")));
    let cell = Cell::new(named(&web), None).await;
    let told = cell.bash(&format!("curl -sSL --noproxy '' http://localhost:{}/away", web.port)).await;
    let sentence = format!("127.0.0.1:{} is 127.0.0.1, which is loopback and not for commands", other.port);
    assert_eq!(told.matches(&sentence).count(), 2, "{told}");
    assert!(told.contains("<sandbox>\nThe command could not reach every host: "), "{told}");
    assert_eq!(other.asked().len(), 0);
    cell.agent.finish().await;
}

#[tokio::test]
async fn a_host_that_no_setting_names_is_asked_about_once() {
    if lacks("full") {
        return;
    }
    let cell = Cell::over(&Scratch::new(), json!({}), json!({"*": "allow"}), None).await;
    let call = json!({
        "command": "for n in 1 2 3; do curl -sS https://a.invalid/ & done; wait; curl -sS https://b.invalid/",
        "timeout": 2000,
    });
    let asked = async {
        let ask = cell.agent.permission().await;
        let title = ask.call()["title"].as_str().unwrap();
        assert!(title.starts_with("reach a.invalid:443: for n in"), "{title}");
        cell.agent.answer(&ask, Answer::AllowAlways);
        let ask = cell.agent.permission().await;
        assert!(ask.call()["title"].as_str().unwrap().starts_with("reach b.invalid:443"));
        cell.agent.answer(&ask, Answer::RejectOnce);
    };
    let (told, ()) = tokio::join!(cell.agent.told(&cell.session, "bash", call), asked);
    // It was allowed, and has no address.
    assert_eq!(told.matches("response 502").count(), 3, "{told}");
    assert_eq!(told.matches("response 403").count(), 1, "{told}");
    assert!(
        told.contains("b.invalid:443 is not named by `windlass.sandbox.network`, and it was not"),
        "{told}"
    );
    assert!(!told.contains("a.invalid:443 is not named"), "{told}");
    let told = cell.bash("curl -sS https://a.invalid/").await;
    assert!(told.contains("response 502"), "{told}");
    assert_eq!(cell.agent.n_asked(), 2, "the answer holds for the session");
    cell.agent.finish().await;
}

#[tokio::test]
async fn a_rule_under_its_own_name_decides_ahead() {
    if lacks("full") {
        return;
    }
    for (rule, status) in [("allow", 502), ("deny", 403)] {
        let permission = json!({"network": {"*.invalid:443": rule}});
        let cell = Cell::over(&Scratch::new(), json!({}), permission, None).await;
        let told = cell.bash("curl -sS https://a.invalid/").await;
        assert!(told.contains(&format!("response {status}")), "{rule}: {told}");
        assert_eq!(cell.agent.n_asked(), 0);
        cell.agent.finish().await;
    }
}

#[tokio::test]
async fn a_server_of_windlass_is_not_reached_where_it_is_named() {
    if lacks("full") {
        return;
    }
    let server = Server::start().await;
    let at = server.url.trim_start_matches("http://").to_owned();
    let port = at.rsplit_once(':').unwrap().1.to_owned();
    let cell = Cell::new(json!({"allow": [at, format!("localhost:{port}")]}), None).await;
    for host in ["127.0.0.1", "localhost"] {
        let told = cell.bash(&format!("curl -sS http://{host}:{port}/session")).await;
        assert!(told.contains("is a server of windlass, which commands never reach"), "{told}");
    }
    // The proxy has no port outside.
    let told = cell.bash("curl -sS --noproxy '' http://127.0.0.1:3128/").await;
    assert!(told.contains("not for commands") || told.contains("this is a proxy"), "{told}");
    cell.agent.finish().await;
    server.finish().await;
}

#[tokio::test]
async fn git_clones_from_a_named_host() {
    if lacks("full") {
        return;
    }
    let (web, scratch) = (Web::start().await, Scratch::new());
    let bare = scratch.root().join("bare.git");
    let git = |directory: &Path, arguments: &[&str]| {
        let output = Command::new("git").current_dir(directory).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let source = scratch.root().join("source");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q"]);
    std::fs::write(source.join("file"), "cloned\n").unwrap();
    git(&source, &["add", "."]);
    git(&source, &["-c", "user.name=a", "-c", "user.email=a@example", "commit", "-qm", "first"]);
    git(scratch.root(), &["clone", "-q", "--bare", "source", "bare.git"]);
    git(&bare, &["update-server-info"]);
    let mut pending = vec![bare.clone()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() {
                pending.push(entry.path());
                continue;
            }
            let name = entry.path().strip_prefix(scratch.root()).unwrap().display().to_string();
            let page = Page::new("application/octet-stream", std::fs::read(entry.path()).unwrap());
            for query in ["", "?service=git-upload-pack"] {
                web.page(&format!("/{name}{query}"), page.clone());
            }
        }
    }
    let cell = Cell::over(&scratch, named(&web), json!({}), None).await;
    let clone = format!("git clone -q http://localhost:{}/bare.git copy && cat copy/file", web.port);
    assert_eq!(cell.bash(&clone).await, "cloned\n");
    cell.agent.finish().await;
}

#[tokio::test]
async fn the_next_command_has_a_proxy_of_its_own_and_none_is_left() {
    if lacks("full") {
        return;
    }
    let web = web().await;
    let cell = Cell::new(named(&web), None).await;
    for _ in 0..4 {
        let told = cell.bash(&format!("curl -sS http://localhost:{}/", web.port)).await;
        assert_eq!(told, "seen\n");
    }
    // One that holds its connection open ends with its command.
    let name = format!("windlass-net-{}", std::process::id());
    let hold = format!(
        "cp $(command -v sleep) {name}; exec 3<>/dev/tcp/127.0.0.1/3128; \
         printf 'CONNECT localhost:{} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&3; read -r line <&3; echo \"$line\"; \
         ./{name} 300 &",
        web.port
    );
    let told = cell.bash(&hold).await;
    assert!(told.contains("200 OK"), "{told}");
    assert_eq!(process::describe(&process::gone_with_word(&name).await), "");
    cell.agent.finish().await;
}
