//! A person in a real browser: from the link to an own session on the page.

use serde_json::json;

use crate::support::{
    browser::{Page, program},
    llm::Reply,
    people::{Person, Team, link_key},
};

const READY: &str = "document.getElementById('state').textContent === 'Ready'";

fn headed(text: &str) -> String {
    format!("document.querySelector('h1').textContent === '{text}'")
}

#[tokio::test]
async fn a_link_leads_to_an_account_with_tokens_and_to_the_page_of_its_sessions() {
    let Some(program) = program() else { return };
    let team = Team::start().await;
    let work = team.server.scratch.cwd().to_owned();
    let invited = team.run(&["account", "invite", "Ada", "--role", "admin", "--dir", &work]).await;
    let url = format!("{}/account/enter?key={}", team.server.url, link_key(&invited.stdout));
    let mut page = Page::open(program, &team.server.scratch.home, &url).await;
    page.until(&headed("Log in as Ada")).await;
    page.read("document.querySelector('button').click()").await;
    page.until(&headed("Ada")).await;

    page.read("document.querySelector('h1 ~ table ~ form [name=name]').value = 'laptop'").await;
    page.read("document.querySelector('button[value=token]').click()").await;
    page.until("document.querySelector('.secret').textContent.startsWith('wlt_')").await;
    let token = page.read("document.querySelector('.secret').textContent").await;
    let ada = Person { token: Some(token.as_str().unwrap().to_owned()), ..Person::default() };
    assert_eq!(team.get(&ada, "/account/me").await.ok()["account"]["name"], "Ada");

    page.read("document.querySelector('form:has(button[value=invite]) [name=name]').value = 'Bob'").await;
    page.read("document.querySelector('button[value=invite]').click()").await;
    page.until("document.querySelector('.secret').textContent.includes('/account/enter?key=')").await;
    let link = page.read("document.querySelector('.secret').textContent").await;
    assert!(team.enter("Bob", link_key(link.as_str().unwrap())).await.is_some());

    page.visit(&format!("{}/", team.server.url)).await;
    page.until(READY).await;
    team.server.llm.reply(Reply::text("All **done**."));
    page.read("document.getElementById('prompt').focus()").await;
    page.types("say it").await;
    page.press("Enter", 2).await;
    page.until("document.getElementById('conversation').innerText.includes('All done.')").await;
    let sessions = team.get(&ada, "/session").await.ok();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");

    page.visit(&format!("{}/account", team.server.url)).await;
    page.read("document.querySelector('form[action=\"/account/logout\"] button').click()").await;
    page.until(&headed("Log in")).await;
    page.close().await;
    let waiting = team.post(&ada, "/account/device", json!({"name": "x"})).await.ok();
    assert!(waiting["user_code"].is_string());
    team.finish().await;
}
