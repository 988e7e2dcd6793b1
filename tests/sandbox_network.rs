//! A network by name: the hosts that a sandboxed command reaches through its proxy, and those that it does not.

use std::{path::Path, process::Command, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use crate::{
    sandbox::lacks,
    support::{
        agent::{Agent, Answer, DEADLINE},
        http::Asked,
        process,
        scratch::Scratch,
        server::Server,
        web::{Page, Web},
    },
};

/// A session with commands that reach hosts by name.
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
    let told = cell.bash(&format!("curl -sS --noproxy '*' http://{at}/ 2>&1; echo $?")).await;
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
        "command": "for n in 1 2 3; do curl -sS https://a.invalid/ 2> told$n & done; wait; cat told*; \
                    curl -sS https://b.invalid/",
        "timeout": 10_000,
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
        assert!(told.contains("is a server of windlass, or one that hides"), "{told}");
    }
    cell.agent.finish().await;
    server.finish().await;
}

#[tokio::test]
async fn the_proxy_has_no_port_outside() {
    if lacks("full") {
        return;
    }
    let (web, scratch) = (web().await, Scratch::new());
    let cell = Cell::over(&scratch, named(&web), json!({}), None).await;
    let outside = async {
        web.reached().await;
        let reached = TcpStream::connect("127.0.0.1:3128").await;
        scratch.write("go", "");
        assert!(reached.is_err());
    };
    let command = format!("curl -sS http://localhost:{}/; until [ -e go ]; do sleep 0.01; done", web.port);
    let (told, ()) = tokio::join!(cell.bash(&command), outside);
    assert_eq!(told, "seen\n");
    cell.agent.finish().await;
}

#[tokio::test]
async fn no_pattern_can_be_had_allowed_in_a_hosts_place() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({}), Some(Answer::AllowAlways)).await;
    // `*.github.com`, by SOCKS
    let told = cell
        .bash(r"exec 3<>/dev/tcp/127.0.0.1/3128; printf '\5\1\0\5\1\0\3\14*.github.com\1\273' >&3; head -c 4 <&3 | od -An -tx1")
        .await;
    assert!(told.contains("05 00 05 04"), "{told}");
    assert_eq!(cell.agent.n_asked(), 0);
    cell.agent.finish().await;
}

#[tokio::test]
async fn a_command_that_tries_many_hosts_asks_about_few() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({}), Some(Answer::RejectOnce)).await;
    let told = cell.bash("for n in 1 2 3 4 5 6 7 8; do curl -sS http://$n.invalid/; done").await;
    assert_eq!(cell.agent.n_asked(), 3, "{told}");
    assert!(
        told.contains("3.invalid:80 is not named by `windlass.sandbox.network`, and it was not allowed"),
        "{told}"
    );
    assert!(
        told.contains("8.invalid:80 is not named by `windlass.sandbox.network`; the user can add it"),
        "{told}"
    );
    cell.agent.finish().await;
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
    // One that holds its connection open ends with its command, and so does the proxy's part of it.
    let name = format!("windlass-net-{}", std::process::id());
    let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = far.local_addr().unwrap().port();
    cell.agent.finish().await;
    let cell = Cell::new(json!({"allow": [format!("localhost:{port}")]}), None).await;
    let accepting = async {
        let (mut stream, _) = far.accept().await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.map(|_| rest)
    };
    let hold = format!(
        "cp $(command -v sleep) {name}; exec 3<>/dev/tcp/127.0.0.1/3128; \
         printf 'CONNECT localhost:{port} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&3; read -r line <&3; echo \"$line\"; \
         ./{name} 300 &"
    );
    let (told, rest) = tokio::join!(cell.bash(&hold), tokio::time::timeout(DEADLINE, accepting));
    assert!(told.contains("200 OK"), "{told}");
    assert!(rest.expect("the proxy's connection is left").is_ok_and(|it| it.is_empty()));
    assert_eq!(process::describe(&process::gone_with_word(&name).await), "");
    cell.agent.finish().await;
}

/// Ends TLS as `localhost` before a web server; returns its port. The certificate of its authority is in the file.
async fn behind_tls(web: &Web, authority: &Path) -> u16 {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(authority, certificate.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, plain) = (listener.local_addr().unwrap().port(), web.port);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut inner) = acceptor.accept(socket).await else { return };
                let mut outer = TcpStream::connect(("127.0.0.1", plain)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_key_is_put_in_for_its_host_alone_and_the_command_never_has_it() {
    if lacks("full") {
        return;
    }
    let (web, other, scratch) = (web().await, web().await, Scratch::new());
    let authority = scratch.home.join("authority.pem");
    let port = behind_tls(&web, &authority).await;
    let keyed = format!("localhost:{port}");
    let network = json!({
        "allow": [keyed, format!("localhost:{}", other.port)],
        "keys": {"SHOP_TOKEN": [keyed], "UNSET_TOKEN": [keyed]},
    });
    let config = json!({"windlass": {"sandbox": {"network": network}}});
    let builder = Agent::builder().scratch(&scratch).config(config).env("SHOP_TOKEN", "very-secret");
    let agent = builder.env("SSL_CERT_FILE", authority.to_str().unwrap()).start().await;
    let session = agent.new_session().await;
    let ask = "curl -sS -H \"x-shop: $SHOP_TOKEN\" -u \"me:$SHOP_TOKEN\"";
    let command = format!(
        "echo \"$SHOP_TOKEN [$UNSET_TOKEN]\"; env | grep very; {ask} https://{keyed}/ https://{keyed}/; {ask} http://localhost:{}/",
        other.port
    );
    let told = agent.told(&session, "bash", json!({ "command": command })).await;
    assert!(told.starts_with("windlass-placeholder-") && told.contains(" []\nseen\nseen\nseen\n"), "{told}");
    assert!(!told.contains("very-secret"), "{told}");
    let header = |asked: &Asked, name: &str| asked.headers.get(name).cloned();
    let asked = web.asked();
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert_eq!(header(&asked, "x-shop").as_deref(), Some("very-secret"));
        // `me:very-secret`
        assert_eq!(header(&asked, "authorization").as_deref(), Some("Basic bWU6dmVyeS1zZWNyZXQ="));
        assert_eq!(header(&asked, "host").as_deref(), Some(keyed.as_str()));
    }
    assert!(header(&other.asked()[0], "x-shop").unwrap().starts_with("windlass-placeholder-"));
    // Where its network is none by name, it has neither the key nor a placeholder.
    let plain =
        json!({"windlass": {"sandbox": {"network": "deny", "agents": {"plan": {"network": network}}}}});
    let bare = Agent::builder().config(plain).env("SHOP_TOKEN", "very-secret").start().await;
    let in_it = bare.new_session().await;
    let told_bare = bare.told(&in_it, "bash", json!({"command": "echo \"[$SHOP_TOKEN]\""})).await;
    assert_eq!(told_bare, "[]\n");
    bare.finish().await;
    // The same address under another name would get it.
    let told = agent
        .told(
            &session,
            "bash",
            json!({"command": format!("{ask} -H 'host: other.example' https://{keyed}/")}),
        )
        .await;
    assert!(told.contains("names another host"), "{told}");
    agent.finish().await;
}
