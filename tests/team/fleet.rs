//! Servers that share their accounts: each knows what any of them was told, and passes on what another one has.

use serde_json::{Value, json};

use crate::support::{
    agent::DEADLINE,
    llm::{Gate, Llm, Reply},
    people::{Person, Team},
    postgres::Postgres,
};

/// A lease that no test outlasts.
pub const LONG_LEASE: u32 = 600_000;

/// Waits until a request of a person is answered with a status.
async fn until(team: &Team, person: &Person, path: &str, status: u16) {
    let answered = async {
        while team.get(person, path).await.status.as_u16() != status {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, answered).await.unwrap_or_else(|_| panic!("{path} is {status} at last"));
}

async fn two_servers(postgres: &Postgres, llm: &Llm, lease: u32) -> [Team; 2] {
    [Team::in_fleet(postgres, llm, "one", lease).await, Team::in_fleet(postgres, llm, "two", lease).await]
}

async fn people(teams: &[Team; 2]) -> [Person; 2] {
    let directories = [teams[0].server.scratch.cwd(), teams[1].server.scratch.cwd()];
    let people = [
        teams[0].person_in("Ada", "member", &directories).await,
        teams[0].person_in("Bob", "member", &directories).await,
    ];
    for person in &people {
        teams[1].knows(person).await;
    }
    people
}

#[tokio::test]
async fn an_account_is_the_same_at_each_server_until_any_removes_it() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let teams = two_servers(&postgres, &llm, LONG_LEASE).await;
    let [ada, bob] = people(&teams).await;
    // Behind one address they have one name; here it has the server's port.
    let port = teams[1].server.url.rsplit(':').next().unwrap();
    let secret = ada.cookie.split_once('=').unwrap().1;
    let cookie = format!("windlass_account_{port}={secret}");
    let browser = Person { token: None, cookie, ..ada.clone() };
    assert_eq!(teams[1].get(&browser, "/account/me").await.ok()["account"]["name"], "Ada");
    // One of two servers that start has made the first administrator.
    let listed: Value =
        serde_json::from_str(&teams[1].run(&["account", "list", "--format", "json"]).await.stdout).unwrap();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Ada", "Bob", "admin"]);
    let removed = teams[1].run(&["account", "remove", "Ada"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    for team in &teams {
        until(team, &ada, "/account/me", 401).await;
        until(team, &bob, "/account/me", 200).await;
    }
    let audit = teams[0].run(&["audit", "--json"]).await;
    assert!(audit.lines().iter().any(|it| it["action"] == "account remove"), "{audit:?}");
    for team in teams {
        team.finish().await;
    }
}

#[tokio::test]
async fn people_work_in_one_session_from_different_servers_and_it_is_taken_back_at_both() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let teams = two_servers(&postgres, &llm, LONG_LEASE).await;
    let [ada, bob] = people(&teams).await;
    let session = teams[0].session(&ada, "shared").await;
    teams[0].share(&ada, &session, &bob, "answer").await;
    let call = json!({"command": "echo out", "description": "prints"});
    llm.reply(Reply::call("call_1", "bash", call));
    let gate = Gate::new();
    llm.reply(Reply::text("half").and_gate(&gate).and_text(" and the rest"));
    let mut at_home = teams[0].events(&ada, "/event").await;
    teams[0].begin(&ada, &session, "go").await;
    let asked = at_home.until("permission.asked").await;
    let id = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();

    // The other server lists it, hears of it, and takes the answer of the one who may give it.
    let mut elsewhere = teams[1].events(&bob, "/event").await;
    until(&teams[1], &bob, &format!("/session/{session}"), 200).await;
    let prompt = json!({"parts": [{"type": "text", "text": "no"}]});
    teams[1].post(&bob, &format!("/session/{session}/message"), prompt).await.refused(403);
    let reply = teams[1].post(&bob, &format!("/permission/{id}/reply"), json!({"reply": "always"})).await;
    assert_eq!(reply.ok(), json!(true));
    elsewhere.until("message.part.delta").await;
    let rows: Vec<Value> = teams[0].run(&["audit", "--json"]).await.lines();
    let noted = rows.iter().find(|it| it["action"] == "POST /permission/{id}/reply").expect("it is noted");
    assert_eq!(noted["name"], "Bob");

    // Its page is live at both servers.
    let page = teams[1].post(&ada, &format!("/session/{session}/share"), json!({})).await.ok();
    let path = format!("/s/{}", page["share"]["url"].as_str().unwrap().rsplit('/').next().unwrap());
    for team in &teams {
        let page = team.get(&Person::default(), &path).await;
        assert!(page.status == 200 && page.text.contains("half"), "{} {}", page.status, page.text);
    }

    // Taken back at the one, it is gone at the other.
    let access = format!("/session/{session}/access?account=Bob");
    assert_eq!(teams[1].send(&ada, "DELETE", &access, json!({})).await.ok(), json!(true));
    until(&teams[1], &bob, &format!("/session/{session}"), 404).await;
    assert_eq!(
        teams[1].send(&ada, "DELETE", &format!("/session/{session}/share"), json!({})).await.status,
        200
    );
    gate.open();
    at_home.until("session.idle").await;
    for team in &teams {
        until(team, &Person::default(), &path, 404).await;
    }
    let own = teams[1].session(&bob, "the last").await;
    let heard = elsewhere.until("session.created").await;
    let heard = json!(heard).to_string();
    assert!(heard.contains(&own) && !heard.contains("and the rest"), "{heard}");
    for team in teams {
        team.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_reach_the_database_lets_nobody_in_until_it_does() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let teams = two_servers(&postgres, &llm, 2_000).await;
    let [ada, _] = people(&teams).await;
    postgres.stop();
    for team in &teams {
        until(team, &ada, "/account/me", 503).await;
    }
    let refused = teams[0].get(&ada, "/account/me").await;
    assert!(refused.text.contains("out of reach"), "{}", refused.text);
    postgres.begin().await;
    for team in &teams {
        until(team, &ada, "/account/me", 200).await;
    }
    for team in teams {
        team.finish().await;
    }
}
