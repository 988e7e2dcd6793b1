//! A server with accounts, and the people who use it.

use reqwest::{RequestBuilder, redirect::Policy};
use serde_json::{Value, json};

use super::{
    agent::DEADLINE,
    server::{Answer, Builder, Events, Server, answer, stream},
};
use crate::cli::{Ended, Machine};

/// A server of a team whose directory is the scratch repository.
pub struct Team {
    pub server: Server,
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
        Self { server: builder.start().await }
    }

    /// Runs a command at the machine itself.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        let (scratch, llm) = (self.server.scratch.clone(), self.server.llm.clone());
        Machine { scratch, llm, config: json!({}) }.run(arguments).await
    }

    /// Invites a person who may open the repository, follows the link, and makes a token.
    pub async fn person(&self, name: &str, role: &str) -> Person {
        let work = self.server.scratch.cwd();
        let invited = self.run(&["account", "invite", name, "--role", role, "--dir", work]).await;
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

    /// Opens a stream of events, behind its first word.
    pub async fn events(&self, person: &Person, path: &str) -> Events {
        let mut events = stream(self.request(person, "GET", path)).await;
        let first = events.next().await;
        let first = if first["payload"].is_object() { &first["payload"] } else { &first };
        assert_eq!(first["type"], "server.connected");
        events
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
