//! A server with accounts, and the people who use it.

use reqwest::{RequestBuilder, redirect::Policy};
use serde_json::{Value, json};

use super::{
    agent::DEADLINE,
    llm::Llm,
    postgres::Postgres,
    server::{Answer, Builder, Events, Server, answer, own_port, stream},
};
use crate::cli::{Ended, Machine};

/// A server of a team whose directory is the scratch repository.
pub struct Team {
    pub server: Server,
    /// The configuration of commands at its machine.
    config: Value,
}

/// A person with an account, or nobody.
#[derive(Debug, Clone, Default)]
pub struct Person {
    pub name: String,
    /// The browser's, as its header has it.
    pub cookie: String,
    pub token: Option<String>,
}

impl Team {
    pub async fn start() -> Self {
        Self::of(Self::builder()).await
    }

    /// Returns a server to be started where commands and answers to questions wait for a person.
    pub fn builder() -> Builder {
        Server::builder().arguments(&["--accounts"]).config("permission", json!({"bash": "ask"}))
    }

    pub async fn of(builder: Builder) -> Self {
        Self { server: builder.start().await, config: json!({}) }
    }

    /// Starts a server that shares its accounts and sessions with others.
    /// `lease` is in milliseconds.
    pub async fn in_fleet(postgres: &Postgres, llm: &Llm, name: &str, lease: u32) -> Self {
        let port = own_port();
        let mut shared = postgres.shared(name, "shared");
        shared["lease"] = lease.into();
        let mut of_server = shared.clone();
        of_server["address"] = format!("http://127.0.0.1:{port}").into();
        let builder = Self::builder().llm(llm).arguments(&["--port", &port.to_string()]);
        let server = builder.config("windlass", json!({"shared": of_server})).start().await;
        Self { server, config: json!({"windlass": {"shared": shared}}) }
    }

    /// Runs a command at the machine itself.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        let (scratch, llm) = (self.server.scratch.clone(), self.server.llm.clone());
        Machine { scratch, llm, config: self.config.clone() }.run(arguments).await
    }

    /// Invites a person who may open the repository, follows the link, and makes a token.
    pub async fn person(&self, name: &str, role: &str) -> Person {
        self.person_in(name, role, &[self.server.scratch.cwd()]).await
    }

    /// Invites a person who may open some directories.
    pub async fn person_in(&self, name: &str, role: &str, directories: &[&str]) -> Person {
        let mut arguments = vec!["account", "invite", name, "--role", role];
        directories.iter().for_each(|it| arguments.extend(["--dir", it]));
        let invited = self.run(&arguments).await;
        assert_eq!(invited.code, Some(0), "{invited:?}");
        let mut person = self.enter(name, link_key(&invited.stdout)).await.expect("the link holds");
        let scope = if role == "reader" {
            "read"
        } else if role == "admin" {
            "admin"
        } else {
            "work"
        };
        person.token = Some(self.token(&person, "program", scope).await);
        person
    }

    /// Follows a link as a browser does; `None` where it does not hold.
    pub async fn enter(&self, name: &str, key: &str) -> Option<Person> {
        let entered = self.request(&Person::default(), "POST", "/account/enter");
        let entered = answer(entered.body(format!("key={key}"))).await;
        let cookie = entered.headers.get("set-cookie")?.to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Some(Person { name: name.to_owned(), cookie, token: None })
    }

    /// Makes a token by a person's browser.
    pub async fn token(&self, person: &Person, name: &str, scope: &str) -> String {
        let browser = Person { token: None, ..person.clone() };
        let made = self.post(&browser, "/account/token", json!({"name": name, "scope": scope})).await.ok();
        made["token"].as_str().unwrap().to_owned()
    }

    pub fn request(&self, person: &Person, method: &str, path: &str) -> RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        let url = format!("{}{path}", self.server.url);
        let request = client.request(method.parse().unwrap(), url).timeout(DEADLINE);
        match &person.token {
            Some(token) => request.bearer_auth(token),
            None if person.cookie.is_empty() => request,
            None => request.header("cookie", &person.cookie),
        }
    }

    pub async fn get(&self, person: &Person, path: &str) -> Answer {
        answer(self.request(person, "GET", path)).await
    }

    pub async fn post(&self, person: &Person, path: &str, body: Value) -> Answer {
        self.send(person, "POST", path, body).await
    }

    pub async fn send(&self, person: &Person, method: &str, path: &str, body: Value) -> Answer {
        answer(self.request(person, method, path).body(body.to_string())).await
    }

    /// Makes a session and returns its id.
    pub async fn session(&self, person: &Person, title: &str) -> String {
        let session = self.post(person, "/session", json!({"title": title})).await.ok();
        session["id"].as_str().unwrap().to_owned()
    }

    /// Sends words and returns the answer at the end of the turn.
    pub async fn prompt(&self, person: &Person, session: &str, words: &str) -> Answer {
        let body = json!({"parts": [{"type": "text", "text": words}]});
        self.post(person, &format!("/session/{session}/message"), body).await
    }

    /// Sends words without waiting for the answer.
    pub async fn begin(&self, person: &Person, session: &str, words: &str) {
        let body = json!({"parts": [{"type": "text", "text": words}]});
        let begun = self.post(person, &format!("/session/{session}/prompt_async"), body).await;
        assert!(begun.status.is_success(), "{}", begun.text);
    }

    /// Opens a stream of events, which lasts as long as its test.
    pub async fn stream(&self, person: &Person, path: &str) -> Events {
        stream(self.request(person, "GET", path).timeout(DEADLINE * 30)).await
    }

    /// Opens a stream of events, behind its first word.
    pub async fn events(&self, person: &Person, path: &str) -> Events {
        let mut events = self.stream(person, path).await;
        let first = events.next().await;
        let first = if first["payload"].is_object() { &first["payload"] } else { &first };
        assert_eq!(first["type"], "server.connected");
        events
    }

    /// Waits until a server knows a person that another one knows.
    pub async fn knows(&self, person: &Person) {
        let known = async {
            while self.get(person, "/account/me").await.status != 200 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, known).await.expect("it comes to know them");
    }

    /// Shares a session with a person.
    pub async fn share(&self, owner: &Person, session: &str, with: &Person, level: &str) {
        let body = json!({"account": with.name, "level": level});
        self.post(owner, &format!("/session/{session}/access"), body).await.ok();
    }

    pub async fn finish(self) {
        self.server.finish().await;
    }
}

/// Returns the key of the link in a command's output.
pub fn link_key(output: &str) -> &str {
    output.split_once("/account/enter?key=").expect("a link").1.split_whitespace().next().unwrap()
}
