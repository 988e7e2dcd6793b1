//! Access to the server: passwords, foreign pages, and the addresses it listens on.

use std::os::unix::fs::PermissionsExt;

use mdns_sd::ServiceEvent;
use reqwest::Version;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::support::{
    agent::{DEADLINE, binary},
    llm::Reply,
    server::{Builder, Server, answer},
    skip::skipped,
    tls::AUTHORITY,
};

#[tokio::test]
async fn no_page_writes_but_those_of_allowed_origins() {
    let server = Server::builder().arguments(&["--cors", "https://a.example"]).start().await;
    let own = server.url.clone();
    for (origin, is_allowed) in [
        ("https://evil.example", false),
        ("null", false),
        ("http://localhost:3000", false),
        ("http://127.0.0.1:3000", false),
        ("https://app.opencode.ai", false),
        ("tauri://localhost", false),
        (own.as_str(), false),
        ("https://a.example", true),
    ] {
        for path in ["/session", "/pty"] {
            let posted = answer(server.request("POST", path).header("origin", origin).body("{}")).await;
            assert_eq!(posted.status.is_success(), is_allowed, "{origin} {}", posted.text);
            if !is_allowed {
                assert_eq!(posted.header("access-control-allow-origin"), None);
                assert_eq!(posted.refused(403)["name"], "Forbidden");
            } else {
                assert_eq!(posted.header("access-control-allow-origin"), Some(origin));
                let exposed = posted.header("access-control-expose-headers").unwrap();
                assert_eq!(exposed, "link,x-next-cursor,acp-connection-id,x-windlass-unknown-keys");
            }
        }
    }
    for host in ["evil.example", "evil.example:4096"] {
        let read = answer(server.request("GET", "/session").header("host", host)).await;
        assert_eq!(read.refused(403)["name"], "Forbidden");
    }
    let preflight = server
        .request("OPTIONS", "/session")
        .header("origin", "https://a.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "x-opencode-directory");
    let preflight = answer(preflight).await;
    assert_eq!(preflight.header("access-control-allow-headers"), Some("x-opencode-directory"));
    assert_eq!(preflight.header("access-control-max-age"), Some("86400"));
    server.finish().await;
}

#[tokio::test]
async fn a_page_enters_once_by_a_link_and_then_by_its_cookie() {
    let server = Server::start().await;
    let link = server.link().await;
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let followed = client.get(&link).send().await.unwrap();
    assert_eq!((followed.status().as_u16(), &followed.headers()["location"]), (303, &"/".parse().unwrap()));
    let cookie = followed.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert_eq!(client.get(&link).send().await.unwrap().status(), 403, "a link is good for once");
    let cookie = cookie.split(';').next().unwrap();
    let own = server.url.clone();
    let post = |origin: &str| server.request("POST", "/session").header("origin", origin).body("{}");
    answer(post(&own)).await.refused(403);
    answer(post(&own).header("cookie", cookie)).await.ok();
    answer(post("http://localhost:3000").header("cookie", cookie)).await.refused(403);
    let read = || server.request("GET", "/session").header("sec-fetch-site", "same-origin");
    answer(read()).await.refused(403);
    answer(read().header("cookie", cookie)).await.ok();
    // The cookie outlives the server: its page finds it again.
    let server = server.restarted().await;
    answer(server.request("POST", "/session").header("origin", &own).header("cookie", cookie)).await.ok();
    server.finish().await;
}

/// Returns the output of a program that asks the server for a new session.
async fn printed(server: &Server, program: &[&str]) -> String {
    posted(&server.url, program).await
}

async fn posted(url: &str, program: &[&str]) -> String {
    let mut command = tokio::process::Command::new(program[0]);
    command.args(&program[1..]).args(["-s", "-X", "POST", "-d", "{}"]).arg(format!("{url}/session"));
    let output = tokio::time::timeout(DEADLINE, command.kill_on_drop(true).output()).await.unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn another_user_of_this_machine_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root can be another user");
    }
    let server = Server::start().await;
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl"];
    let told = printed(&server, &nobody).await;
    assert!(told.contains("Another user"), "{told}");
    assert!(printed(&server, &["curl"]).await.contains("ses_"), "a program of the user");
    server.finish().await;
}

#[tokio::test]
async fn a_server_of_an_ordinary_user_takes_its_users_programs_and_not_roots() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root can be another user");
    }
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("home");
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    // Other users reach no program below a private home.
    let program = place.path().join("windlass");
    std::fs::copy(binary(), &program).unwrap();
    let drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut child = tokio::process::Command::new(drop[0])
        .args(&drop[1..])
        .arg(&program)
        .args(["serve", "--port", "0"])
        .current_dir(&home)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", &home)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let url = line.rsplit(' ').next().unwrap();
    let own = posted(url, &[&drop[..], &["curl"]].concat()).await;
    assert!(own.contains("ses_"), "{own}");
    // Root may read the secret; a forwarder that runs as root is anybody's.
    let roots = posted(url, &["curl"]).await;
    assert!(roots.contains("server-ADDRESS-PORT.secret"), "{roots}");
    let hides = "import ctypes, os; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); \
                 import sys, urllib.request, urllib.error\n\
                 try: urllib.request.urlopen(sys.argv[-1], b'{}')\n\
                 except urllib.error.HTTPError as error: print(error.read().decode())";
    // The first one of `PATH` may be in a private home.
    let python = ["env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3", "-c", hides];
    let hidden = posted(url, &[&drop[..], &python].concat()).await;
    assert!(hidden.contains("server-ADDRESS-PORT.secret"), "{hidden}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_program_in_a_sandbox_that_is_not_ours_shows_the_servers_secret() {
    let probe = std::process::Command::new("unshare").args(["--user", "--map-current-user", "true"]).status();
    if !probe.is_ok_and(|it| it.success()) {
        return skipped("this machine makes no user namespaces");
    }
    let server = Server::start().await;
    let port = server.url.rsplit(':').next().unwrap();
    let data = server.scratch.home.join(".local/share/windlass");
    let file = data.join(format!("server-127.0.0.1-{port}.secret"));
    for file in [&file, &data.join("server.key")] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let within = ["unshare", "--user", "--map-current-user", "curl"];
    let told = printed(&server, &within).await;
    assert!(told.contains("server-ADDRESS-PORT.secret"), "{told}");
    let secret = format!("opencode:{}", std::fs::read_to_string(&file).unwrap());
    let told = printed(&server, &[&within[..], &["-u", &secret]].concat()).await;
    assert!(told.contains("ses_"), "{told}");
    server.llm.reply(Reply::text("Hello."));
    let attached = tokio::process::Command::new("unshare")
        .args(["--user", "--map-current-user"])
        .arg(binary())
        .args(["run", "--attach", &server.url.replace("127.0.0.1", "localhost"), "hi"])
        .env("HOME", &server.scratch.home)
        .current_dir(&server.scratch.work)
        .stdin(std::process::Stdio::null())
        .output();
    let attached = tokio::time::timeout(DEADLINE, attached).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&attached.stdout), "Hello.\n", "{attached:?}");
    server.finish().await;
    assert!(!file.exists());
}

#[tokio::test]
async fn a_command_of_a_session_reaches_the_server_in_no_way() {
    use serde_json::Value;

    let builder = Server::builder().arguments(&["--socket", "server.sock"]);
    let builder = builder.config("windlass", json!({"sandbox": {"network": "allow"}}));
    let server = builder.config("permission", json!({"*": "allow"})).start().await;
    let session = server.session().await;
    let ask =
        |way: &str| format!("curl -s -m 60 -X POST -d '{{}}' -w ' %{{http_code}}' {way} {}/pty", server.url);
    let kept = "f=$(mktemp); setsid -f sh -c \"WAY > $f; echo ended >> $f\"; \
                until grep -q ended $f; do sleep 0.01; done; cat $f";
    let socket = server.scratch.work.join("server.sock");
    let commands = [
        ask(""),
        ask(&format!("--unix-socket {}", socket.display())),
        // It has lost its parents.
        kept.replace("WAY", &ask("")),
    ];
    for agent in ["plan", "build"] {
        for command in &commands {
            server.llm.reply(Reply::call(
                "call_1",
                "bash",
                json!({"command": command, "description": "asks"}),
            ));
            server.llm.reply(Reply::text("done"));
            let parts = json!([{"type": "text", "text": "go"}]);
            let body = json!({"agent": agent, "parts": parts});
            server.post(&format!("/session/{session}/message"), body).await.ok();
            let told = server.llm.last_request().tool_result("call_1");
            assert!(told.contains(" 403") || told.contains(" 000"), "{agent}: {command}: {told}");
        }
    }
    assert_eq!(server.get("/pty").await.ok(), Value::Array(Vec::new()));
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
        return skipped("a machine without a network has nobody to find the server");
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
