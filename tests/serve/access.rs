//! Who may use the server: passwords, foreign pages, and the addresses it listens on.

use mdns_sd::ServiceEvent;
use reqwest::Version;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    agent::DEADLINE,
    server::{Builder, Server, answer},
    tls::AUTHORITY,
};

#[tokio::test]
async fn pages_from_elsewhere_may_neither_write_nor_call_by_another_name() {
    let server = Server::start().await;
    let own = server.url.clone();
    for (origin, is_allowed) in [
        ("https://evil.example", false),
        ("null", false),
        ("http://localhost:3000", true),
        ("https://app.opencode.ai", true),
        (own.as_str(), true),
    ] {
        let posted = answer(server.request("POST", "/session").header("origin", origin)).await;
        assert_eq!(posted.status.is_success(), is_allowed, "{origin} {}", posted.text);
        if !is_allowed {
            assert_eq!(posted.header("access-control-allow-origin"), None);
            assert!(posted.json()["data"]["message"].as_str().unwrap().contains("--cors"));
        } else {
            assert_eq!(posted.header("access-control-allow-origin"), Some(origin));
            let exposed = posted.header("access-control-expose-headers").unwrap();
            assert_eq!(exposed, "link,x-next-cursor,acp-connection-id");
        }
    }
    for host in ["evil.example", "evil.example:4096"] {
        let read = answer(server.request("GET", "/session").header("host", host)).await;
        assert_eq!(read.refused(403)["name"], "Forbidden");
    }
    let preflight = server
        .request("OPTIONS", "/session")
        .header("origin", "http://localhost:1")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "x-opencode-directory");
    let preflight = answer(preflight).await;
    assert_eq!(preflight.header("access-control-allow-headers"), Some("x-opencode-directory"));
    assert_eq!(preflight.header("access-control-max-age"), Some("86400"));
    server.finish().await;
}

#[tokio::test]
async fn a_password_is_wanted_everywhere_and_may_be_guessed_only_a_few_times() {
    let server = Server::builder().env("OPENCODE_SERVER_PASSWORD", "a:b").start().await;
    for path in ["/session", "/event", "/global/event", "/global/health", "/nowhere"] {
        let refused = server.get(path).await;
        assert_eq!((refused.status.as_u16(), refused.text.as_str()), (401, ""), "{path}");
        assert_eq!(refused.header("www-authenticate"), Some("Basic realm=\"Secure Area\""));
    }
    assert_eq!(server.get("/api/session").await.refused(401)["_tag"], "UnauthorizedError");
    let with = |password: &str| server.request("GET", "/session").basic_auth("opencode", Some(password));
    assert_eq!(answer(with("a:b")).await.ok(), json!([]));
    let token = "b3BlbmNvZGU6YTpi";
    assert_eq!(server.get(&format!("/session?auth_token={token}")).await.ok(), json!([]));
    let mut last = 0;
    for _ in 0..25 {
        last = answer(with("wrong")).await.status.as_u16();
    }
    assert_eq!(last, 429);
    assert_eq!(answer(with("a:b")).await.status, 429, "guessing must not go on");
    server.finish().await;
}

/// Returns the words with which a server refuses to start.
async fn refused(builder: &mut Builder) -> String {
    let mut child = builder.spawn().await;
    let status = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(2));
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).await.unwrap();
    words
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_password() {
    let words = refused(&mut Server::builder().arguments(&["--hostname=0.0.0.0"])).await;
    assert!(words.contains("OPENCODE_SERVER_PASSWORD") && words.contains("127.0.0.1"), "{words}");
}

#[tokio::test]
async fn a_unix_socket_serves_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;

    let builder = Server::builder();
    let path = "server.sock";
    let server = builder.arguments(&["--socket", path]).start().await;
    let path = server.scratch.work.join(path);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let request = "GET /global/health HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("\"healthy\":true"), "{text}");
    server.finish().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn certificate_files_encrypt_and_both_versions_are_offered() {
    let key = AUTHORITY.replace("ca.pem", "server.key");
    let chain = AUTHORITY.replace("ca.pem", "server.pem");
    let server = Server::builder().arguments(&["--tls-cert", &chain, "--tls-key", &key]).start().await;
    let port = server.url.strip_prefix("https://127.0.0.1:").unwrap().parse().unwrap();
    let authority = std::fs::read(AUTHORITY).unwrap();
    let client = |is_second: bool| {
        let builder = reqwest::Client::builder().no_proxy();
        let builder = builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(&authority).unwrap());
        let builder = builder.resolve("models.example", ([127, 0, 0, 1], port).into());
        if is_second { builder.build() } else { builder.http1_only().build() }.unwrap()
    };
    for (is_second, version) in [(true, Version::HTTP_2), (false, Version::HTTP_11)] {
        let request = client(is_second).get(format!("https://models.example:{port}/global/health"));
        let response = request.header("host", "localhost").send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
    }
    // A client that speaks without encryption gets nothing, and harms nobody.
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    server.finish().await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_named() {
    let mut builder = Server::builder().arguments(&["--tls-cert", "none.pem", "--tls-key", AUTHORITY]);
    assert!(refused(&mut builder).await.contains("none.pem cannot be used for TLS"));
}

#[tokio::test]
async fn the_users_settings_hold_and_a_projects_do_not() {
    let builder =
        Server::builder().config("server", json!({"cors": ["https://a.example"], "hostname": "localhost"}));
    let write = |directory: &std::path::Path, text: &str| {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("opencode.json"), text).unwrap();
    };
    write(&builder.scratch.work, r#"{"server": {"cors": ["https://project.example"]}}"#);
    let server = builder.start().await;
    assert!(server.url.starts_with("http://localhost:"), "{}", server.url);
    let create =
        |origin: &str| answer(server.request("POST", "/session").header("origin", origin).body("{}"));
    create("https://a.example").await.ok();
    create("https://project.example").await.refused(403);
    server.finish().await;
}

#[tokio::test]
async fn a_server_that_others_are_to_find_needs_a_password_and_a_name() {
    let words = refused(&mut Server::builder().config("server", json!({"mdns": true}))).await;
    assert!(words.contains("0.0.0.0") && words.contains("OPENCODE_SERVER_PASSWORD"), "{words}");
    let named = ["--mdns", "--mdns-domain", "opencode.example"];
    let words = refused(&mut Server::builder().arguments(&named)).await;
    assert!(words.contains("`opencode.example` cannot be announced"), "{words}");
    // Nobody else could reach it: it serves, and is not announced.
    let server = Server::builder().arguments(&["--mdns", "--hostname=127.0.0.1"]).start().await;
    server.get("/session").await.ok();
    server.finish().await;
}

#[tokio::test]
async fn a_server_is_found_in_the_network_until_it_ends() {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if probe.connect("224.0.0.251:5353").is_err() {
        // A machine without a network has nobody to find the server.
        return;
    }
    let browser = mdns_sd::ServiceDaemon::new().unwrap();
    let found = browser.browse("_http._tcp.local.").unwrap();
    let host = format!("windlass-{}.local", std::process::id());
    let builder = Server::builder().arguments(&["--mdns", "--mdns-domain", &host]);
    let server = builder.env("OPENCODE_SERVER_PASSWORD", "secret").start().await;
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let name = format!("opencode-{port}._http._tcp.local.");
    let seen = async |is_wanted: &dyn Fn(&ServiceEvent) -> bool| {
        let wanted = async { while !is_wanted(&found.recv_async().await.unwrap()) {} };
        tokio::time::timeout(DEADLINE, wanted).await.expect("the server in the network");
    };
    seen(&|event| match event {
        ServiceEvent::ServiceResolved(service) => {
            service.get_fullname() == name
                && service.get_hostname() == format!("{host}.")
                && service.get_property_val_str("path") == Some("/")
        }
        _other => false,
    })
    .await;
    server.finish().await;
    seen(&|event| matches!(event, ServiceEvent::ServiceRemoved(_, removed) if *removed == name)).await;
    browser.shutdown().unwrap();
}
