//! Sessions that are shared with accounts, step by step, and with everybody who has a link.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    llm::{Gate, Reply},
    people::{Person, Team},
};

/// Tries to become part of a page.
const HOSTILE: &str =
    "</title><script>alert(1)</script><img src=x onerror=alert(1)> [x](javascript:alert(1))";

async fn statuses(team: &Team, person: &Person, session: &str) -> [u16; 4] {
    let read = team.get(person, &format!("/session/{session}/message")).await;
    let reply = team.post(person, "/permission/per_none/reply", json!({"reply": "once"})).await;
    let abort = team.post(person, &format!("/session/{session}/abort"), json!({})).await;
    let change = team.send(person, "PATCH", &format!("/session/{session}"), json!({"title": "x"})).await;
    [read, reply, abort, change].map(|it| it.status.as_u16())
}

#[tokio::test]
async fn each_step_lets_others_do_more_and_none_more_than_their_role() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let eve = team.person("Eve", "reader").await;
    let session = team.session(&ada, "shared").await;
    assert_eq!(statuses(&team, &bob, &session).await, [404, 404, 404, 404]);
    for (level, expected) in
        [("read", [200, 404, 403, 403]), ("answer", [200, 404, 403, 403]), ("prompt", [200, 404, 200, 403])]
    {
        team.share(&ada, &session, &bob, level).await;
        team.share(&ada, &session, &eve, level).await;
        assert_eq!(statuses(&team, &bob, &session).await, expected, "{level}");
        assert_eq!(statuses(&team, &eve, &session).await, [200, 404, 403, 403], "{level}");
        let shared = team.get(&bob, "/account/shared").await.ok();
        assert_eq!((&shared[0]["sessionID"], &shared[0]["level"]), (&json!(session), &json!(level)));
        assert!(team.get(&bob, "/account").await.text.contains(&session), "the page lists it");
    }
    let listed = team.get(&bob, "/session").await.ok();
    assert_eq!(listed[0]["id"], json!(session));
    let own = json!({"account": "Bob", "level": "own"});
    team.post(&ada, &format!("/session/{session}/access"), own).await.refused(400);
    team.post(&bob, &format!("/session/{session}/access"), json!({"account": "*", "level": "read"}))
        .await
        .refused(403);
    team.get(&bob, &format!("/session/{session}/access")).await.refused(403);
    team.post(&eve, "/session", json!({})).await.refused(403);
    team.post(&eve, &format!("/session/{session}/fork"), json!({})).await.refused(403);

    // A copy belongs to the one who made it, and to nobody else.
    let copy = team.post(&bob, &format!("/session/{session}/fork"), json!({})).await.ok();
    let copy = copy["id"].as_str().unwrap();
    team.get(&ada, &format!("/session/{copy}")).await.refused(404);
    team.send(&bob, "PATCH", &format!("/session/{copy}"), json!({"title": "mine"})).await.ok();

    let access = format!("/session/{session}/access");
    for wrong in [
        json!({"account": "Bob", "level": "prompt", "ends": 1}),
        json!({"level": "read"}),
        json!({"acount": "Bob", "account": "*", "level": "read"}),
        json!({"account": null, "level": "read"}),
    ] {
        team.post(&ada, &access, wrong).await.refused(400);
    }
    team.send(&ada, "DELETE", &access, json!({})).await.refused(400);
    team.send(&ada, "DELETE", &format!("{access}?account=Bob"), json!({})).await.ok();
    assert_eq!(statuses(&team, &bob, &session).await, [404, 404, 404, 404], "taken back");
    team.post(&ada, &access, json!({"account": "*", "level": "read"})).await.ok();
    assert_eq!(statuses(&team, &bob, &session).await, [200, 404, 403, 403], "everybody reads");
    team.finish().await;
}

#[tokio::test]
async fn two_people_work_in_one_session_and_an_answer_of_the_other_is_not_remembered() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let session = team.session(&ada, "shared").await;
    team.share(&ada, &session, &bob, "prompt").await;
    let mut events = team.events(&ada, "/event").await;
    let call = |id: &str| Reply::call(id, "bash", json!({"command": "echo out", "description": "prints"}));
    for (n, person) in [(1, &bob), (2, &ada)] {
        team.server.llm.reply(call(&format!("call_{n}")));
        team.server.llm.reply(Reply::text("done"));
        team.begin(&bob, &session, "run it").await;
        let asked = events.until("permission.asked").await;
        let id = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
        let path = format!("/permission/{id}/reply");
        team.post(person, &path, json!({"reply": "always"})).await.ok();
        events.until("session.idle").await;
    }
    // The owner's answer holds from now on, in her sessions alone.
    let own = team.session(&ada, "another").await;
    team.server.llm.reply(call("call_3"));
    team.server.llm.reply(Reply::text("unasked"));
    let answer = team.prompt(&ada, &own, "run it again").await.ok();
    assert_eq!(
        answer["parts"].as_array().unwrap().iter().find(|it| it["type"] == "text").unwrap()["text"],
        "unasked"
    );
    let bobs = team.session(&bob, "of Bob").await;
    let mut events = team.events(&bob, "/event").await;
    team.server.llm.reply(call("call_4"));
    team.begin(&bob, &bobs, "run it too").await;
    events.until("permission.asked").await;
    team.post(&bob, &format!("/session/{bobs}/abort"), json!({})).await.ok();

    let audit = team.run(&["audit", "--json"]).await;
    let rows: Vec<Value> = audit.lines();
    let of = |name: &str, action: &str| rows.iter().any(|it| it["name"] == name && it["action"] == action);
    assert!(of("Bob", "login") && of("Bob", "POST /session/{id}/prompt_async"), "{audit:?}");
    let reply = rows.iter().find(|it| it["action"] == "POST /permission/{id}/reply").unwrap();
    assert_eq!(
        (&reply["name"], &reply["detail"]),
        (&json!("Bob"), &json!(format!("always: bash echo out in {session}")))
    );
    let shared = rows.iter().find(|it| it["action"] == "POST /session/{id}/access").unwrap();
    assert_eq!((&shared["name"], &shared["subject"]), (&json!("Ada"), &json!(session)));
    assert_eq!(shared["detail"], json!("prompt Bob"));
    let made = rows.iter().find(|it| it["action"] == "POST /session").unwrap();
    assert!(made["subject"].as_str().unwrap().starts_with("ses_"), "{made}");
    team.finish().await;
}

#[tokio::test]
async fn the_command_of_a_session_gives_it_a_page_of_this_server_for_its_owner_alone() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let session = team.session(&ada, "shared").await;
    team.share(&ada, &session, &bob, "prompt").await;
    let command = |words: &str| json!({"command": "share", "arguments": words});
    let path = format!("/session/{session}/command");
    team.post(&bob, &path, command("yes")).await.refused(403);
    let said = team.post(&ada, &path, command("")).await.ok().to_string();
    assert!(said.contains("The page lacks"), "{said}");
    let said = team.post(&ada, &path, command("yes")).await.ok();
    let url = team.get(&ada, &format!("/session/{session}")).await.ok()["share"]["url"].clone();
    assert!(said.to_string().contains(url.as_str().unwrap()), "{said}");
    let page = url.as_str().unwrap().strip_prefix(&team.server.url).unwrap().to_owned();
    assert_eq!(team.get(&Person::default(), &page).await.status, 200);
    team.post(&ada, &path, json!({"command": "unshare", "arguments": ""})).await.ok();
    team.get(&Person::default(), &page).await.refused(404);
    team.finish().await;
}

#[tokio::test]
async fn a_page_is_for_everybody_with_its_link_until_it_is_taken_back() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let nobody = Person::default();
    let session = team.session(&ada, HOSTILE).await;
    let gate = Gate::new();
    team.server.llm.reply(Reply::text(HOSTILE).and_gate(&gate).and_text(" and the end"));
    let mut events = team.events(&ada, "/event").await;
    team.begin(&ada, &session, HOSTILE).await;
    events.until("message.part.delta").await;
    let shared = team.post(&ada, &format!("/session/{session}/share"), json!({})).await.ok();
    let url = shared["share"]["url"].as_str().unwrap();
    let path = url.strip_prefix(&team.server.url).unwrap().to_owned();
    assert_eq!(path.len(), "/s/".len() + 32);
    let page = team.get(&nobody, &path).await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    for active in ["<script>alert", "<img src=x", "href=\"javascript:"] {
        assert!(!page.text.contains(active), "{active}");
    }
    gate.open();
    events.until("session.idle").await;

    let readers = (0..200).map(|_| team.get(&nobody, &path));
    let pages = futures_util::future::join_all(readers).await;
    assert!(pages.iter().all(|it| it.status == 200 && it.text.len() == pages[0].text.len()));
    let read_to_the_end = async {
        while !team.get(&nobody, &path).await.text.contains("and the end") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::agent::DEADLINE, read_to_the_end).await.expect("the page follows");

    for wrong in ["/s/", "/s/x", &path[..path.len() - 1], &path.to_uppercase()] {
        assert!(team.get(&nobody, wrong).await.status.is_client_error(), "{wrong}");
    }
    let login = team.post(&ada, &format!("/session/{session}/share"), json!({"login": true})).await.ok();
    assert_eq!(login["share"]["url"], json!(url), "the link stays");
    let sent = team.get(&nobody, &path).await;
    assert_eq!(
        (sent.status.as_u16(), sent.header("location")),
        (303, Some(&*format!("/account?back={path}")))
    );
    assert_eq!(team.get(&bob, &path).await.status, 200);
    team.post(&ada, &format!("/session/{session}/share"), json!({"ends": 1})).await.refused(400);
    team.post(&ada, &format!("/session/{session}/share"), json!({})).await.ok();
    assert_eq!(team.get(&nobody, &path).await.status, 200);
    let unshared = team.send(&ada, "DELETE", &format!("/session/{session}/share"), json!({})).await.ok();
    assert_eq!(unshared["share"], Value::Null);
    team.get(&nobody, &path).await.refused(404);
    let again = team.post(&ada, &format!("/session/{session}/share"), json!({})).await.ok();
    assert_ne!(again["share"]["url"], json!(url), "a link that was taken back never holds again");
    let disabled = team.post(&bob, &format!("/session/{session}/share"), json!({})).await;
    disabled.refused(404);
    team.finish().await;
}

#[tokio::test]
async fn a_guest_neither_ends_the_questions_of_a_session_nor_takes_its_changes_back() {
    let team = Team::start().await;
    let (ada, bob) = (team.person("Ada", "member").await, team.person("Bob", "member").await);
    let session = team.session(&ada, "shared").await;
    team.share(&ada, &session, &bob, "prompt").await;
    let mut events = team.events(&ada, "/event").await;
    let call = json!({"command": "echo out", "description": "prints"});
    team.server.llm.reply(Reply::call("call_1", "bash", call));
    let body = json!({"parts": [{"type": "text", "text": "go"}], "tools": {"bash": true}});
    team.post(&bob, &format!("/session/{session}/prompt_async"), body).await;
    events.until("permission.asked").await;
    team.post(&bob, &format!("/session/{session}/abort"), json!({})).await.ok();
    events.until("session.idle").await;
    for (command, arguments) in [("undo", ""), ("redo", ""), ("mcp", "connect x")] {
        let body = json!({"command": command, "arguments": arguments});
        team.post(&bob, &format!("/session/{session}/command"), body).await.refused(403);
    }
    let copied = json!({"command": "fork", "arguments": ""});
    team.post(&ada, &format!("/session/{session}/command"), copied).await.ok();
    assert_eq!(
        team.get(&ada, "/session").await.ok().as_array().unwrap().len(),
        1,
        "no copy without an owner"
    );
    team.finish().await;
}

#[tokio::test]
async fn an_administrator_alone_trusts_a_project() {
    let team = Team::of(Team::builder().env("WINDLASS_TRUST", "0")).await;
    let ada = team.person("Ada", "member").await;
    let server = json!({"mcp": {"own": {"type": "local", "command": ["cat", "/etc/passwd"]}}});
    team.server.scratch.write("opencode.json", server.to_string());
    let session = team.session(&ada, "trust").await;
    let mut events = team.events(&ada, "/event").await;
    team.server.llm.reply(Reply::text("done"));
    team.begin(&ada, &session, "go").await;
    let asked = events.until("permission.asked").await;
    let asked = &asked.last().unwrap()["properties"];
    assert_eq!(asked["permission"], "trust");
    let path = format!("/permission/{}/reply", asked["id"].as_str().unwrap());
    for reply in ["once", "always"] {
        let refused = team.post(&ada, &path, json!({ "reply": reply })).await.refused(403);
        assert!(refused.to_string().contains("windlass trust"), "{refused}");
    }
    team.post(&ada, &path, json!({"reply": "reject"})).await.ok();
    team.finish().await;
}

#[tokio::test]
async fn an_administrator_alone_lets_a_change_of_the_configuration_act() {
    let team = Team::of(Team::builder().env("WINDLASS_TRUST", "0")).await;
    let ada = team.person("Ada", "member").await;
    let session = team.session(&ada, "change").await;
    team.server.llm.reply(Reply::text("done"));
    team.prompt(&ada, &session, "go").await.ok();
    let mut events = team.events(&ada, "/event").await;
    let server = json!({"mcp": {"own": {"type": "local", "command": ["cat", "/etc/passwd"]}}});
    team.server.scratch.write("opencode.json", server.to_string());
    team.server.llm.reply(Reply::text("done"));
    team.begin(&ada, &session, "go on").await;
    let asked = events.until("permission.asked").await;
    let asked = &asked.last().unwrap()["properties"];
    let path = format!("/permission/{}/reply", asked["id"].as_str().unwrap());
    team.post(&ada, &path, json!({"reply": "once"})).await.refused(403);
    team.post(&ada, &path, json!({"reply": "reject"})).await.ok();
    team.finish().await;
}

#[tokio::test]
async fn files_outside_of_an_accounts_directories_are_read_by_no_tool_and_no_attachment() {
    let team = Team::start().await;
    let ada = team.person("Ada", "member").await;
    let private = team.server.scratch.home.join("private.txt");
    fs::write(&private, "words of elsewhere\n").unwrap();
    std::os::unix::fs::symlink(&private, team.server.scratch.work.join("link.txt")).unwrap();
    let session = team.session(&ada, "reads").await;
    team.server.llm.reply(Reply::call("call_1", "read", json!({"filePath": private})));
    team.server.llm.reply(Reply::call(
        "call_2",
        "read",
        json!({"filePath": team.server.scratch.path("link.txt")}),
    ));
    team.server.llm.reply(Reply::text("done"));
    team.prompt(&ada, &session, "read it").await.ok();
    for mime in ["text/plain", "image/png"] {
        team.server.llm.reply(Reply::text("done"));
        let url = format!("file://{}", private.display());
        let parts = json!([{"type": "text", "text": "see"}, {"type": "file", "mime": mime, "url": url}]);
        team.post(&ada, &format!("/session/{session}/message"), json!({ "parts": parts })).await.ok();
    }
    let messages = team.get(&ada, &format!("/session/{session}/message")).await;
    assert!(!messages.text.contains("words of elsewhere"), "{}", messages.text);
    let asked: String =
        team.server.llm.requests().iter().map(|it| json!(it.messages()).to_string()).collect();
    assert!(!asked.contains("words of elsewhere"), "{asked}");
    assert!(messages.text.contains("outside the directories"), "{}", messages.text);

    let elsewhere = team.server.scratch.home.display().to_string();
    team.post(&ada, &format!("/session?directory={elsewhere}"), json!({})).await.refused(403);
    for path in ["/file", "/find/file", "/config", "/path", "/vcs", "/agent"] {
        team.get(&ada, &format!("{path}?directory={elsewhere}&path=.&query=x")).await.refused(403);
    }
    for path in ["../home/private.txt", &private.display().to_string(), "link.txt"] {
        let read = team.get(&ada, &format!("/file/content?path={path}")).await;
        assert!(!read.text.contains("words of elsewhere"), "{path}: {}", read.text);
    }
    team.finish().await;
}
