//! `windlass web --pair`: another device comes in by a link, once, and goes on by its cookie.

use std::net::UdpSocket;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    cli::Machine,
    support::{scratch::Scratch, terminal::Terminal},
};

#[tokio::test]
async fn a_device_enters_by_the_link_that_the_terminal_shows_and_by_nothing_else() {
    let scratch = Scratch::new();
    let terminal = Terminal::builder(&scratch, &json!({})).size(160, 60);
    let mut terminal = terminal.arguments(&["web", "--pair", "--port", "0"]).start();
    let screen = terminal.shows_text("opencode server listening on http://0.0.0.0:").await;
    let line = screen.lines().into_iter().find(|line| line.contains("listening on")).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    // The address by which this machine reaches others; nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()).ok().map(|it| it.ip());
    if let Some(own) = own.filter(|it| !it.is_loopback()) {
        let screen = terminal.shows_text("For one device in this network, within five minutes: ").await;
        assert!(screen.lines().iter().any(|line| line.contains('█')), "{screen}");
        let host = format!("http://{own}:{port}");
        let text: String = screen.lines().iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
        let key = text.split("/enter?key=").nth(1).unwrap().chars().take(40).collect::<String>();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let redirects = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().no_proxy().redirect(redirects).build().unwrap();
        let get = |path: &str| client.get(format!("{host}{path}"));
        let refused = get("/session").send().await.unwrap();
        assert_eq!(refused.status(), 403);
        assert!(refused.text().await.unwrap().contains("`windlass web --pair`"));
        // The bare page holds nothing.
        assert_eq!(get("/").send().await.unwrap().status(), 200);
        assert_eq!(get("/enter?key=wrong").send().await.unwrap().status(), 403);
        let entered = get(&format!("/enter?key={key}")).send().await.unwrap();
        assert_eq!(entered.status(), 303);
        let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(get(&format!("/enter?key={key}")).send().await.unwrap().status(), 403);
        for path in ["/", "/session"] {
            assert_eq!(get(path).header("cookie", &cookie).send().await.unwrap().status(), 200, "{path}");
        }
        // A page elsewhere has no say, whatever its browser sends along.
        let foreign = client.post(format!("{host}/session")).header("cookie", &cookie);
        let foreign = foreign.header("origin", "https://evil.example").json(&json!({}));
        assert_eq!(foreign.send().await.unwrap().status(), 403);
        let own_page = client.post(format!("{host}/session")).header("cookie", &cookie);
        let own_page = own_page.header("origin", &host).json(&json!({}));
        assert_eq!(own_page.send().await.unwrap().status(), 200);
    } else {
        terminal.shows_text("This machine has no address that a device elsewhere could reach.").await;
    }
    terminal.signal(Signal::SIGTERM);
    terminal.ends_with(0).await;
}

#[tokio::test]
async fn an_address_that_no_device_reaches_is_refused() {
    let machine = Machine::new().await;
    let refused = machine.run(&["web", "--pair", "--hostname", "127.0.0.1"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("No other device reaches 127.0.0.1"), "{refused:?}");
}
