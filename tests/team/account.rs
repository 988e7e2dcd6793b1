//! Accounts themselves: links, tokens, roles and directories, and their end.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::support::{
    llm::{Gate, Llm, Reply, Wire, provider_config},
    people::{Person, Team, link_key},
    server::Builder,
};

fn with_token(token: &str) -> Person {
    Person { token: Some(token.to_owned()), ..Person::default() }
}

#[tokio::test]
async fn an_invitation_logs_in_once() {
    let team = Team::start().await;
    let invited = team.run(&["account", "invite", "Ada"]).await;
    let key = link_key(&invited.stdout).to_owned();
    let looked = team.get(&Person::default(), &format!("/account/enter?key={key}")).await;
    assert!(looked.text.contains("Log in as Ada"), "{}", looked.text);
    let elsewhere = team.request(&Person::default(), "POST", "/account/enter").body(format!("key={key}"));
    let elsewhere = elsewhere.header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!(elsewhere.status(), 403);
    let ada = team.enter("Ada", &key).await.expect("the first time");
    assert!(team.enter("Ada", &key).await.is_none(), "the second time");
    let me = team.get(&ada, "/account/me").await.ok();
    assert_eq!((&me["account"]["name"], &me["account"]["role"]), (&json!("Ada"), &json!("member")));
    let out = team.post(&ada, "/account/logout", json!({})).await;
    assert_eq!(out.status, 303);
    team.get(&ada, "/account/me").await.refused(401);
    team.finish().await;
}

#[tokio::test]
async fn a_cookie_counts_only_for_pages_of_the_server() {
    let team = Team::start().await;
    let ada = Person { token: None, ..team.person("Ada", "member").await };
    let elsewhere =
        team.request(&ada, "POST", "/session").header("origin", "https://evil.example").body("{}");
    assert_eq!(elsewhere.send().await.unwrap().status(), 403);
    let site = team.request(&ada, "GET", "/session").header("sec-fetch-site", "cross-site");
    assert_eq!(site.send().await.unwrap().status(), 403);
    team.get(&ada, "/session").await.ok();
    team.finish().await;
}

#[tokio::test]
async fn tokens_hold_for_their_scope_until_they_are_revoked_and_guesses_are_counted() {
    let team = Team::start().await;
    let ada = team.person("Ada", "member").await;
    let reading = team.token(&ada, "reading", "read").await;
    team.get(&with_token(&reading), "/session").await.ok();
    team.post(&with_token(&reading), "/session", json!({})).await.refused(403);
    // None makes another, which would outlive it.
    let more = json!({"name": "more", "scope": "admin"});
    team.post(&with_token(&reading), "/account/token", more).await.refused(403);
    let listed = team.get(&ada, "/account/token").await.ok();
    let names: Vec<&Value> = listed.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["program", "reading"]);
    assert!(!listed.to_string().contains("wlt_"), "{listed}");
    let as_password =
        team.request(&Person::default(), "GET", "/session").basic_auth("opencode", Some(&reading));
    assert_eq!(as_password.send().await.unwrap().status(), 200);
    let id = listed[1]["id"].as_str().unwrap();
    team.send(&ada, "DELETE", &format!("/account/token/{id}"), json!({})).await.refused(403);
    let browser = Person { token: None, ..ada.clone() };
    assert_eq!(
        team.send(&browser, "DELETE", &format!("/account/token/{id}"), json!({})).await.ok(),
        json!(true)
    );
    team.get(&with_token(&reading), "/session").await.refused(401);
    for days in [0, 366] {
        team.post(&browser, "/account/token", json!({"name": "x", "days": days})).await.refused(400);
    }
    let mut statuses = Vec::new();
    for n in 0..40 {
        statuses.push(team.get(&with_token(&format!("wlt_{n:040}")), "/session").await.status.as_u16());
    }
    assert_eq!((statuses[0], statuses[39]), (401, 429), "{statuses:?}");
    team.get(&ada, "/session").await.ok();
    team.finish().await;
}

#[tokio::test]
async fn an_account_that_is_removed_while_it_works_is_out_at_once() {
    let team = Team::start().await;
    let ada = team.person("Ada", "member").await;
    let bob = team.person("Bob", "member").await;
    let session = team.session(&ada, "at work").await;
    team.share(&ada, &session, &bob, "prompt").await;
    let shared = team.post(&ada, &format!("/session/{session}/share"), json!({})).await.ok();
    let page = shared["share"]["url"].as_str().unwrap().strip_prefix(&team.server.url).unwrap().to_owned();
    assert_eq!(team.get(&bob, &page).await.status, 200);
    let gate = Gate::new();
    team.server.llm.reply(Reply::text("begun").and_gate(&gate));
    let mut events = team.events(&ada, "/event").await;
    team.begin(&ada, &session, "go").await;
    events.until("message.part.delta").await;
    let removed = team.run(&["account", "remove", "Ada"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    while events.read().await.is_some() {}
    team.get(&ada, "/session").await.refused(401);
    // Its request to the model is given up, and nobody else has its session.
    gate.abandoned().await;
    let adam = team.person("Adam", "admin").await;
    for person in [&adam, &bob] {
        team.get(person, &format!("/session/{session}")).await.refused(404);
        team.prompt(person, &session, "go on").await.refused(404);
        team.get(person, &page).await.refused(404);
    }
    team.finish().await;
}

#[tokio::test]
async fn a_role_and_directories_that_are_taken_away_hold_for_open_streams_too() {
    let team = Team::start().await;
    let bob = team.person("Bob", "member").await;
    let mut events = team.events(&bob, "/event").await;
    let changed = team.run(&["account", "change", "Bob", "--role", "reader", "--dir", "/nowhere"]).await;
    assert_eq!(changed.code, Some(0), "{changed:?}");
    while events.read().await.is_some() {}
    team.post(&bob, "/session", json!({})).await.refused(403);
    team.get(&bob, "/file?path=.").await.refused(403);
    let link = team.run(&["account", "link", "Bob"]).await;
    assert!(team.enter("Bob", link_key(&link.stdout)).await.is_some());
    let out = team.run(&["account", "logout", "Bob"]).await;
    assert_eq!(out.code, Some(0), "{out:?}");
    team.get(&bob, "/session").await.refused(401);
    let unknown = team.run(&["account", "logout", "Nobody"]).await;
    assert!(unknown.code == Some(1) && unknown.stderr.contains("Nobody"), "{unknown:?}");
    team.finish().await;
}

#[tokio::test]
async fn names_are_text_wherever_they_are_shown() {
    let team = Team::start().await;
    let adam = team.person("Adam", "admin").await;
    let name = "<b>Eve</b>\u{1b}[31m\u{202e}";
    team.person(name, "member").await;
    let page = team.get(&Person { token: None, ..adam }, "/account").await;
    assert!(page.text.contains("&lt;b&gt;Eve&lt;/b&gt;") && !page.text.contains("<b>Eve"), "{}", page.text);
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let listed = team.run(&["account", "list"]).await;
    assert!(!listed.stdout.contains(['\u{1b}', '\u{202e}']), "{listed:?}");
    let nameless = team.run(&["account", "invite", "  "]).await;
    assert_eq!(nameless.code, Some(1), "{nameless:?}");
    team.finish().await;
}

#[tokio::test]
async fn what_is_for_one_user_alone_is_refused_beside_accounts() {
    let (code, said) = refused(Team::builder().env("OPENCODE_SERVER_PASSWORD", "secret")).await;
    assert!(code == Some(2) && said.contains("one user alone"), "{code:?} {said}");
}

#[tokio::test]
async fn a_server_that_cannot_read_the_shared_accounts_does_not_start_with_others() {
    let shared = json!({"shared": {"url": "postgres://nobody@127.0.0.1:1/none"}});
    let (code, said) = refused(Team::builder().config("windlass", shared)).await;
    assert!(code == Some(1) && said.contains("The accounts are shared"), "{code:?} {said}");
}

/// Returns the code and the words of a server that does not start.
async fn refused(mut builder: Builder) -> (Option<i32>, String) {
    let mut child = builder.spawn().await;
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    (child.wait().await.unwrap().code(), said)
}

#[tokio::test]
async fn a_server_without_accounts_says_so() {
    let server = crate::support::server::Server::start().await;
    let session = server.session().await;
    for path in ["/account", "/account/me", &format!("/session/{session}/access"), "/s/x"] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
    }
    server.finish().await;
}

#[tokio::test]
async fn an_account_works_in_as_many_sessions_and_for_as_much_as_it_may() {
    let limits = json!({"accounts": {"max_working": 1, "max_cost": 1}});
    let llm = Llm::start().await;
    let mut provider = provider_config(&llm, Wire::OpenAi)["provider"].take();
    provider["mock"]["models"]["mock"]["cost"] = json!({"input": 1_000_000, "output": 1});
    let builder = Team::builder().llm(&llm).config("windlass", limits).config("provider", provider);
    let team = Team::of(builder).await;
    let ada = team.person("Ada", "member").await;
    let (first, second) = (team.session(&ada, "first").await, team.session(&ada, "second").await);
    let gate = Gate::new();
    llm.reply(Reply::text("begun").and_gate(&gate).tokens(2, 1));
    // Each that is let through costs as much again.
    llm.answer_with(|_| Reply::text("more").tokens(2, 1));
    let mut events = team.events(&ada, "/event").await;
    team.begin(&ada, &first, "go").await;
    events.until("message.part.delta").await;
    let refused = team.prompt(&ada, &second, "too many").await.refused(429);
    assert!(refused["data"]["message"].as_str().unwrap().contains("1 sessions"), "{refused}");
    team.post(&ada, &format!("/session/{second}/abort"), json!({})).await.ok();
    gate.open();
    events.until("session.idle").await;
    let spent = async {
        loop {
            let answer = team.prompt(&ada, &second, "go on").await;
            if answer.status == 429 {
                return answer.text;
            }
        }
    };
    let said = tokio::time::timeout(crate::support::agent::DEADLINE, spent).await.unwrap();
    assert!(said.contains("in 24 hours"), "{said}");
    team.finish().await;
}

#[tokio::test]
async fn an_own_key_is_used_in_own_sessions_alone_and_shown_nowhere() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let key = json!({"type": "api", "key": "the-key-of-ada"});
    team.send(&ada, "PUT", "/auth/mock", key).await.ok();
    let login = json!({"type": "oauth", "refresh": "x", "access": "x", "expires": 1});
    team.send(&ada, "PUT", "/auth/mock", login).await.refused(403);
    let asked_with = async |person: &Person| {
        let session = team.session(person, "asks").await;
        team.server.llm.reply(Reply::text("done"));
        team.prompt(person, &session, "go").await.ok();
        team.server.llm.last_request().header("authorization").unwrap().to_owned()
    };
    assert_eq!(asked_with(&ada).await, "Bearer the-key-of-ada");
    assert_eq!(asked_with(&bob).await, "Bearer test");
    for path in ["/provider", "/config", "/config/providers", "/account", "/account/me", "/api/provider"] {
        for person in [&ada, &bob] {
            let shown = team.get(person, path).await.text;
            assert!(!shown.contains("the-key-of-ada"), "{path}: {shown}");
        }
    }
    team.send(&ada, "DELETE", "/auth/mock", json!({})).await.ok();
    assert_eq!(asked_with(&ada).await, "Bearer test");
    team.finish().await;
}
