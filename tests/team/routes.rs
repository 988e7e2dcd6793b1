//! Every route of the API is tried with the ids of another account: nobody reads, answers, changes or hears of anything that is
//! not theirs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::fleet::LONG_LEASE;
use crate::support::{
    agent::DEADLINE,
    llm::{Gate, Llm, Reply},
    people::{Person, Team},
    postgres::Postgres,
    server::Events,
};

/// Stands in all that is the owner's.
const SECRET: &str = "a-word-of-ada";
/// Streams that are opened before, and requests that wait.
const STREAMS: [&str; 4] = ["/event", "/global/event", "/api/event", "/tui/control/next"];

/// Routes that are in no document: those of accounts, which other servers do not have, and pages.
const OURS: [(&str, &str); 14] = [
    ("GET", "/session/{sessionID}/access"),
    ("POST", "/session/{sessionID}/access"),
    ("DELETE", "/session/{sessionID}/access"),
    ("GET", "/page/session/{sessionID}"),
    ("GET", "/account/me"),
    ("GET", "/account/list"),
    ("GET", "/account/shared"),
    ("GET", "/account/token"),
    ("POST", "/account/token"),
    ("DELETE", "/account/token/{token}"),
    ("GET", "/acp"),
    ("POST", "/acp"),
    ("POST", "/mcp-server"),
    ("POST", "/page/link"),
];

/// The things of one account, by their names in the document.
struct Things(BTreeMap<&'static str, String>);

impl Things {
    /// Makes a session that waits for an answer, with a prompt behind it, and one that asks a question.
    async fn make(team: &Team, owner: &Person) -> Self {
        let llm = &team.server.llm;
        let (busy, asking) = (team.session(owner, SECRET).await, team.session(owner, SECRET).await);
        let mut events = team.events(owner, "/event").await;
        let command = json!({"command": format!("echo {SECRET}"), "description": SECRET});
        llm.reply(Reply::text(SECRET).and_call("call_1", "bash", command));
        team.begin(owner, &busy, SECRET).await;
        let asked = events.until("permission.asked").await;
        let permission = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
        let option =
            json!([{"label": SECRET, "description": SECRET}, {"label": "no", "description": "none"}]);
        let question = json!({"questions": [{"question": SECRET, "header": "Header", "options": option}]});
        llm.reply(Reply::call("call_2", "question", question));
        team.begin(owner, &asking, SECRET).await;
        let asked = events.until("question.asked").await;
        let question = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
        let next = json!({"prompt": {"text": SECRET, "agents": [], "files": []}, "delivery": "queue"});
        team.post(owner, &format!("/api/session/{busy}/prompt"), next).await.ok();
        let waiting = team.get(owner, &format!("/api/session/{busy}/inbox")).await.ok();
        let messages = team.get(owner, &format!("/session/{busy}/message")).await.ok();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self(BTreeMap::from([
            ("sessionID", busy),
            ("askingID", asking),
            ("permissionID", permission),
            ("questionID", question),
            ("inboxID", text(&waiting["data"][0]["id"])),
            ("messageID", text(&messages[0]["info"]["id"])),
            ("partID", text(&messages[0]["parts"][0]["id"])),
            ("jobID", "job_1".to_owned()),
        ]))
    }

    fn get(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// Returns true if a text tells of any of them.
    fn are_in(&self, text: &str) -> bool {
        text.contains(SECRET) || self.0.values().filter(|id| id.contains('_')).any(|id| text.contains(id))
    }

    /// Fills their ids into a path of the document; the session may be another one.
    fn fill(&self, path: &str, session: &str) -> String {
        let request = if path.contains("question") { "questionID" } else { "permissionID" };
        let filled = path.replace("{requestID}", self.get(request)).replace("{sessionID}", session);
        let filled = self.0.iter().fold(filled, |path, (name, id)| path.replace(&format!("{{{name}}}"), id));
        // Names of providers, servers and terminals are nobody's.
        let mut parts: Vec<&str> = Vec::new();
        for part in filled.split('/') {
            parts.push(if part.starts_with('{') { "none_x" } else { part });
        }
        parts.join("/")
    }

    /// Returns all that their owner sees of them.
    async fn seen(&self, team: &Team, owner: &Person) -> Vec<Value> {
        let (busy, asking) = (self.get("sessionID"), self.get("askingID"));
        let mut seen = Vec::new();
        for path in [
            format!("/session/{busy}"),
            format!("/session/{busy}/message"),
            format!("/session/{asking}"),
            format!("/session/{asking}/message"),
            format!("/api/session/{busy}/inbox"),
            format!("/session/{busy}/access"),
            "/permission".to_owned(),
            "/question".to_owned(),
        ] {
            seen.push(team.get(owner, &path).await.ok());
        }
        seen
    }
}

/// Reads the events of a stream up to those of an own session that is made now.
async fn drain(team: &Team, person: &Person, streams: Vec<Events>) -> String {
    let own = team.post(person, "/session", json!({"title": "the last"})).await;
    let id = own.ok()["id"].as_str().unwrap().to_owned();
    let mut heard = String::new();
    for mut events in streams {
        loop {
            let event = events.frame().await.expect("the stream goes on");
            heard.push_str(&event);
            if event.contains("session.created") && event.contains(&id) {
                break;
            }
        }
    }
    heard
}

#[tokio::test]
async fn no_route_lets_an_account_use_what_is_anothers() {
    let team = Team::start().await;
    try_every_route(&team, &[&team]).await;
    team.finish().await;
}

#[tokio::test]
async fn no_route_of_another_server_lets_an_account_use_what_is_anothers() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let home = Team::in_fleet(&postgres, &llm, "one", LONG_LEASE).await;
    let (two, three) = (
        Team::in_fleet(&postgres, &llm, "two", LONG_LEASE).await,
        Team::in_fleet(&postgres, &llm, "three", LONG_LEASE).await,
    );
    try_every_route(&home, &[&two, &three]).await;
    for team in [home, two, three] {
        team.finish().await;
    }
}

/// Tries every route at the doors with the ids of sessions that are at work at home.
async fn try_every_route(home: &Team, doors: &[&Team]) {
    let directories: Vec<&str> = doors.iter().chain([&home]).map(|team| team.server.scratch.cwd()).collect();
    let ada = home.person_in("Ada", "member", &directories).await;
    let bob = home.person_in("Bob", "member", &directories).await;
    let eve = home.person_in("Eve", "reader", &directories).await;
    let adam = home.person_in("Adam", "admin", &directories).await;
    let mut streams = Vec::new();
    for door in doors {
        let mut of_door = Vec::new();
        for path in ["/event", "/global/event", "/api/event"] {
            door.knows(&bob).await;
            of_door.push(door.stream(&bob, path).await);
        }
        streams.push((door, of_door));
    }
    let things = Things::make(home, &ada).await;
    let bobs = doors[0].session(&bob, "of Bob").await;
    let before = things.seen(home, &ada).await;
    for door in doors {
        assert_eq!(things.seen(door, &ada).await, before, "their owner sees them everywhere");
    }
    let document = home.get(&ada, "/doc").await.ok();
    let (mut n_requests, mut n_routes) = (0, 0);
    let mut problems = Vec::new();
    let documented = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(|method| (path.as_str(), method.to_uppercase()))
    });
    let ours = OURS.iter().map(|(method, path)| (*path, (*method).to_owned()));
    for (path, method) in documented.chain(ours) {
        let team = doors[n_routes % doors.len()];
        n_routes += 1;
        let of_ada = things.fill(path, things.get("sessionID"));
        let stranger = Person::default();
        if !STREAMS.contains(&path) {
            let refused = team.send(&stranger, &method, &of_ada, json!({})).await;
            if refused.status != 401 || things.are_in(&refused.text) {
                problems.push(format!("a stranger: {method} {path}: {} {}", refused.status, refused.text));
            }
            n_requests += 1;
        }
        let is_of_ada = things.are_in(&of_ada);
        // An administrator's own requests end the server, or change it.
        let people: &[&Person] = if is_of_ada { &[&bob, &eve, &adam] } else { &[&bob, &eve] };
        for person in people {
            if STREAMS.contains(&path) {
                continue;
            }
            let mut tried = vec![of_ada.clone()];
            let beside_own = things.fill(path, &bobs);
            if person.name == "Bob" && is_of_ada && beside_own != of_ada && things.are_in(&beside_own) {
                tried.push(beside_own);
            }
            for (n, path) in tried.into_iter().enumerate() {
                let answer = team.send(person, &method, &path, body(&path)).await;
                n_requests += 1;
                // Beside an own session the ids of another's are unknown, which each route says in its way.
                let is_refused =
                    [403, 404].contains(&answer.status.as_u16()) || n > 0 && answer.status.is_client_error();
                if is_of_ada && !is_refused || things.are_in(&without_echo(&answer.text, &path)) {
                    problems
                        .push(format!("{}: {method} {path}: {} {}", person.name, answer.status, answer.text));
                }
            }
        }
    }
    for (door, streams) in streams {
        let heard = drain(door, &bob, streams).await;
        if things.are_in(&heard) {
            problems.push(format!("Bob hears of Ada's: {heard}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(things.seen(home, &ada).await, before, "nothing of Ada's has changed");
    assert!(n_routes > 170 && n_requests > 550, "{n_routes} routes, {n_requests} requests");
    eprintln!("{n_routes} routes, {n_requests} requests, none let through");
    for waiting in ["sessionID", "askingID"] {
        home.post(&ada, &format!("/session/{}/abort", things.get(waiting)), json!({})).await.ok();
    }
}

/// Returns a body that the route would take, where one could change something.
fn body(path: &str) -> Value {
    let parts = json!([{"type": "text", "text": "from elsewhere"}]);
    match path.rsplit('/').next().unwrap_or_default() {
        "reply" if path.contains("question") => json!({"answers": [["no"]]}),
        "reply" => json!({"reply": "once"}),
        "message" | "prompt_async" => json!({ "parts": parts }),
        "prompt" => json!({"prompt": {"text": "from elsewhere", "agents": [], "files": []}}),
        "shell" => json!({"agent": "build", "command": "true"}),
        last if last.starts_with("per_") => json!({"response": "once"}),
        last if last.starts_with("ses_") => json!({"title": "from elsewhere"}),
        _other => json!({}),
    }
}

/// Returns an answer without the ids that its request has named.
fn without_echo(text: &str, path: &str) -> String {
    let ids = path.split('/').filter(|it| it.contains('_'));
    ids.fold(text.to_owned(), |text, id| text.replace(id, ""))
}

#[tokio::test]
async fn terminals_are_for_administrators() {
    let team = Team::start().await;
    let (bob, adam) = (team.person("Bob", "member").await, team.person("Adam", "admin").await);
    let terminal = team.post(&adam, "/pty", json!({"command": "cat"})).await.ok();
    let path = format!("/pty/{}", terminal["id"].as_str().unwrap());
    let upgrade = |person: &Person| {
        let request = team.request(person, "GET", &format!("{path}/connect"));
        let request = request.header("connection", "upgrade").header("upgrade", "websocket");
        request.header("sec-websocket-version", "13").header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    assert_eq!(upgrade(&bob).send().await.unwrap().status(), 403);
    assert_eq!(upgrade(&Person::default()).send().await.unwrap().status(), 401);
    team.get(&bob, &path).await.refused(403);
    let connected = upgrade(&adam).send().await.unwrap();
    assert_eq!(connected.status(), 101);
    let mut socket = connected.upgrade().await.unwrap();
    let demoted = team.run(&["account", "change", "Adam", "--role", "member"]).await;
    assert_eq!(demoted.code, Some(0), "{demoted:?}");
    // The terminal is closed to an administrator who is none any more.
    let mut said = Vec::new();
    tokio::time::timeout(DEADLINE, socket.read_to_end(&mut said)).await.expect("it is closed").unwrap();
    team.finish().await;
}

#[tokio::test]
async fn a_stream_tells_only_of_sessions_that_are_shared() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let session = team.session(&ada, SECRET).await;
    let mut events = team.events(&bob, "/event").await;
    team.share(&ada, &session, &bob, "read").await;
    let gate = Gate::new();
    team.server.llm.reply(Reply::text("first").and_gate(&gate).and_text("second"));
    team.begin(&ada, &session, "go").await;
    events.until("message.part.delta").await;
    let taken = team.send(&ada, "DELETE", &format!("/session/{session}/access?account=Bob"), json!({})).await;
    assert_eq!(taken.ok(), json!(true));
    team.get(&bob, &format!("/session/{session}")).await.refused(404);
    gate.open();
    let mut own = team.events(&ada, "/event").await;
    if team.get(&ada, "/session/status").await.ok()[&session].is_object() {
        own.until("session.idle").await;
    }
    let heard = drain(&team, &bob, vec![events]).await;
    assert!(!heard.contains("second") && !heard.contains("session.idle"), "{heard}");
    team.finish().await;
}
