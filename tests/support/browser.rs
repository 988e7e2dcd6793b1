//! A headless browser that shows a page: keys go in, and the page is read as a person or a screen reader would.

use std::{path::Path, process::Stdio};

use futures_util::{SinkExt, StreamExt};
use reqwest::{Client, Upgraded, header};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::{agent::DEADLINE, skip::skipped};

/// Returns the program; where there is none, the test is skipped.
pub fn program() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let found =
        names.into_iter().find(|name| std::env::split_paths(&path).any(|entry| entry.join(name).is_file()));
    if found.is_none() {
        skipped("there is no chromium on PATH to show the page in");
    }
    found
}

/// Waits until no other test of this process has a browser, as two make each other slow. No test has two of them.
pub async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// Times that a browser is started at most.
const MAX_TRIES: usize = 3;

/// A page in a browser of its own, the only one.
pub struct Page {
    socket: WebSocketStream<Upgraded>,
    last_id: u64,
    /// Messages of the console and the log since they are listened to.
    said: Vec<String>,
    child: Child,
    _alone: MutexGuard<'static, ()>,
}

impl Page {
    pub async fn open(program: &str, home: &Path, url: &str) -> Self {
        let alone = alone().await;
        // A browser that ends while it starts is no fault of the page.
        let mut said = String::new();
        for n_tries in 0..MAX_TRIES {
            match Self::start(program, &home.join(format!("browser-{n_tries}")), home).await {
                Ok((child, address)) => return Self::connect(child, &address, url, alone).await,
                Err(lines) => said.push_str(&lines),
            }
        }
        panic!("the browser ended: {said}");
    }

    /// Starts a browser; its address, or its words before it ended.
    async fn start(program: &str, profile: &Path, home: &Path) -> Result<(Child, String), String> {
        let mut child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--no-proxy-server", "--remote-debugging-port=0"])
            // A browser looks up hosts of its maker otherwise, many at a time where there is no network.
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while let Some(line) = timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap() {
            if let Some(address) = line.strip_prefix("DevTools listening on ws://") {
                let address = address.split('/').next().unwrap().to_owned();
                // Its later output must not fill the pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok((child, address));
            }
            said.push_str(&line);
            said.push('\n');
        }
        Err(format!("{said}{:?}\n", child.wait().await))
    }

    async fn connect(child: Child, address: &str, url: &str, alone: MutexGuard<'static, ()>) -> Self {
        // Several clients may install it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().http1_only().build().unwrap();
        let target = client.put(format!("http://{address}/json/new?{url}")).send().await.unwrap();
        let target: Value = serde_json::from_slice(&target.bytes().await.unwrap()).unwrap();
        let socket = target["webSocketDebuggerUrl"].as_str().unwrap().replacen("ws:", "http:", 1);
        let request =
            client.get(socket).header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "websocket");
        let request = request.header("sec-websocket-version", "13");
        let request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let upgraded = request.send().await.unwrap().upgrade().await.unwrap();
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
        Self { socket, last_id: 0, said: Vec::new(), child, _alone: alone }
    }

    /// Gives the browser a command and returns its result.
    pub async fn send(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let command = json!({"id": self.last_id, "method": method, "params": params});
        self.socket.send(Message::text(command.to_string())).await.unwrap();
        loop {
            let message = timeout(DEADLINE, self.socket.next()).await.unwrap().unwrap().unwrap();
            let Message::Text(text) = message else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.last_id {
                return answer;
            }
            let said = match answer["method"].as_str() {
                Some("Log.entryAdded") => &answer["params"]["entry"]["text"],
                Some("Runtime.consoleAPICalled") => &answer["params"]["args"],
                _ => continue,
            };
            self.said.push(said.to_string());
        }
    }

    /// Ends the browser, and waits until it has ended.
    pub async fn close(mut self) {
        self.ask("Browser.close", json!({})).await;
        timeout(DEADLINE, self.child.wait()).await.expect("the browser does not end").unwrap();
    }

    /// Goes to another page, and returns what is said on its console until it is there.
    pub async fn visit(&mut self, url: &str) -> Vec<String> {
        for domain in ["Log", "Runtime", "Page"] {
            self.send(&format!("{domain}.enable"), json!({})).await;
        }
        self.said.clear();
        self.send("Page.navigate", json!({"url": url})).await;
        self.until(&format!("location.href === {url:?} && document.readyState === 'complete'")).await;
        std::mem::take(&mut self.said)
    }

    /// Evaluates an expression in the page.
    pub async fn read(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        self.send("Runtime.evaluate", params).await["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page, also in one that takes its place.
    pub async fn until(&mut self, expression: &str) {
        let looking = format!(
            "new Promise((resolve) => {{ const look = () => {{ \
             let seen = false; try {{ seen = {expression}; }} catch {{ }} \
             if (seen) resolve(true); else setTimeout(look, 20); }}; look(); }})"
        );
        let params = json!({"expression": looking, "awaitPromise": true, "returnByValue": true});
        // A page that is left takes its answer with it.
        let waiting = async {
            while self.ask("Runtime.evaluate", params.clone()).await["result"]["result"]["value"] != true {}
        };
        if timeout(DEADLINE, waiting).await.is_err() {
            panic!("the page never showed {expression}");
        }
    }

    /// Presses a key, such as `Tab`; `modifiers` are the browser's (2 for Ctrl, 8 for Shift).
    pub async fn press(&mut self, key: &str, modifiers: u32) {
        let code = match key {
            "Enter" => 13,
            "ArrowDown" => 40,
            "Tab" => 9,
            " " => 32,
            other => panic!("the key {other} has no code here"),
        };
        let text = if key == "Enter" { "\r" } else { key };
        let mut down = json!({"type": "keyDown", "key": key, "code": key, "modifiers": modifiers,
            "windowsVirtualKeyCode": code});
        // With Shift these keys write the same.
        if !["ArrowDown", "Tab"].contains(&key) && [0, 8].contains(&modifiers) {
            down["text"] = text.into();
        }
        self.send("Input.dispatchKeyEvent", down).await;
        let up = json!({"type": "keyUp", "key": key, "code": key, "modifiers": modifiers,
            "windowsVirtualKeyCode": code});
        self.send("Input.dispatchKeyEvent", up).await;
    }

    pub async fn types(&mut self, text: &str) {
        self.send("Input.insertText", json!({"text": text})).await;
    }

    /// Returns role and name of everything that a screen reader reads out.
    pub async fn names(&mut self) -> Vec<String> {
        let tree = self.send("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes
            .filter(|node| node["ignored"] != true)
            .map(|node| format!("{}: {}", text(&node["role"]), text(&node["name"])))
            .collect()
    }
}
