//! `windlass web` in a real browser: turns are driven and questions answered by keys alone.

use serde_json::{Value, json};

use crate::support::{
    browser::{Page, program},
    llm::{Gate, Reply},
    server::Server,
};

const READY: &str = "document.getElementById('state').textContent === 'Ready'";

/// Presses Tab until the element with this name has the focus.
async fn focus(page: &mut Page, name: &str) {
    for _ in 0..40 {
        let focused = page.read("document.activeElement.ariaLabel || document.activeElement.innerText").await;
        if focused == name {
            return;
        }
        page.press("Tab", 0).await;
    }
    panic!("no key leads to {name}");
}

/// Types a prompt and sends it by keys.
async fn prompt(page: &mut Page, words: &str) {
    page.read("document.getElementById('prompt').focus()").await;
    page.types(words).await;
    page.press("Enter", 2).await;
}

fn shows(text: &str) -> String {
    format!("document.getElementById('conversation').innerText.includes({})", json!(text))
}

fn bash() -> Reply {
    Reply::call("call_1", "bash", json!({"command": "echo out", "description": "prints"}))
}

#[tokio::test]
async fn a_turn_is_driven_and_a_permission_answered_by_keys_alone() {
    let Some(program) = program() else { return };
    let server = Server::asking("bash").await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    server.llm.reply(bash());
    server.llm.reply(Reply::text("All **done**."));
    prompt(&mut page, "run it").await;
    page.until("document.querySelector('#asks .ask pre').textContent === 'echo out'").await;
    let buttons = "[...document.querySelectorAll('#asks button')].map((it) => it.textContent).join()";
    assert_eq!(page.read(buttons).await, "Allow once,Always allow bash: echo *,Reject,Reject, and say why");
    // A key that was meant for the prompt allows nothing.
    page.press(" ", 0).await;
    assert_eq!(server.get("/permission").await.ok().as_array().unwrap().len(), 1);
    focus(&mut page, "Allow once").await;
    page.press("Enter", 0).await;
    page.until(&shows("All done.")).await;
    page.until(READY).await;
    page.until("document.getElementById('asks').childElementCount === 0").await;
    assert_eq!(page.read("document.activeElement.id").await, "prompt");
    assert_eq!(page.read("document.querySelector('#conversation strong').textContent").await, "done");
    assert_eq!(page.read("document.getElementById('live').hidden").await, true);
    let names = page.names().await;
    for wanted in [
        "navigation: Sessions",
        "region: Conversation",
        "region: Questions",
        "button: New session",
        "textbox: Prompt",
        "button: Send",
    ] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} is missing in {names:#?}");
    }
    let nameless = |name: &&String| ["button: ", "link: ", "textbox: ", "heading: "].contains(&name.as_str());
    assert_eq!(names.iter().find(nameless), None);
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn a_question_is_answered_and_what_is_typed_stays_while_others_ask() {
    let Some(program) = program() else { return };
    let server = Server::asking("bash").await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    let asked = json!({"questions": [{"question": "Which colour?", "header": "Colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]});
    server.llm.reply(Reply::call("call_1", "question", asked));
    server.llm.reply(Reply::text("Green it is."));
    prompt(&mut page, "ask me").await;
    page.until("document.querySelector('#asks legend').textContent === 'Which colour?'").await;
    page.read("document.querySelector('#asks input[type=text]').focus()").await;
    page.types("green").await;
    // Another session asks in between.
    let other = server.session().await;
    server.llm.reply_to("second", bash());
    let body = json!({"parts": [{"type": "text", "text": "second"}]});
    server.post(&format!("/session/{other}/prompt_async"), body).await;
    page.until("document.querySelectorAll('#asks .ask').length === 2").await;
    page.read("document.querySelector('#asks input[type=text]').focus()").await;
    page.press("Enter", 0).await;
    page.until(&shows("Green it is.")).await;
    assert!(server.llm.last_request().tool_result("call_1").contains("green"));
    server.post(&format!("/session/{other}/abort"), json!({})).await.ok();
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn enter_sends_a_prompt_and_commands_and_files_are_completed() {
    let Some(program) = program() else { return };
    let server = Server::start().await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    page.until("document.querySelectorAll('#model option').length > 1").await;
    let prompt = "document.getElementById('prompt')";
    page.read(&format!("{prompt}.focus()")).await;
    server.llm.reply(Reply::text("Both lines."));
    page.types("one").await;
    page.press("Enter", 8).await;
    page.types("two @a.t").await;
    page.until("document.querySelector('#offers li')?.textContent === '@a.txt'").await;
    page.press("Tab", 0).await;
    assert_eq!(page.read(&format!("{prompt}.value")).await, "one\ntwo @a.txt ");
    page.press("Enter", 0).await;
    page.until(&shows("Both lines.")).await;
    page.until(READY).await;
    assert!(server.llm.last_request().last_user().contains("one\ntwo @a.txt"));
    page.types("/und").await;
    page.until("document.querySelector('#offers [aria-selected=true]')?.firstChild.textContent === '/undo'")
        .await;
    page.press("Enter", 0).await;
    page.press("Enter", 0).await;
    page.until(&shows("Undone:")).await;
    // The habit is kept.
    page.read("document.getElementById('enter').click()").await;
    page.send("Page.reload", json!({})).await;
    page.until(READY).await;
    assert_eq!(page.read("document.getElementById('enter').checked").await, false);
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn a_change_is_drawn_and_refused_with_a_reason_and_the_session_renamed() {
    let Some(program) = program() else { return };
    let server = Server::asking("edit").await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    server.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new line\n"})));
    server.llm.reply(Reply::text("Then not."));
    prompt(&mut page, "write it").await;
    page.until("document.querySelector('#asks .diff .add')?.textContent === '+new line'").await;
    assert_eq!(page.read("document.title.startsWith('(1) ')").await, true);
    assert_eq!(page.read("document.querySelector('#asks .diff').textContent.includes('===')").await, false);
    focus(&mut page, "Reject, and say why").await;
    page.press("Enter", 0).await;
    page.until("document.activeElement.ariaLabel === 'Reason'").await;
    page.types("use another name").await;
    page.press("Enter", 0).await;
    page.until(&shows("Then not.")).await;
    assert!(server.llm.last_request().tool_result("call_1").contains("use another name"));
    page.until(READY).await;
    page.read("document.getElementById('rename').click()").await;
    page.until("document.activeElement.id === 'dialog-text'").await;
    page.types("A better title").await;
    page.press("Enter", 0).await;
    page.until("document.getElementById('title').textContent === 'A better title'").await;
    page.until("document.querySelector('#sessions button').textContent.startsWith('A better title')").await;
    page.read("document.getElementById('undo').click()").await;
    page.until("document.getElementById('prompt').value === 'write it'").await;
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn the_agent_and_the_model_are_chosen_by_keys() {
    let Some(program) = program() else { return };
    let server = Server::start().await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    page.until("document.querySelectorAll('#model option').length > 1").await;
    let names = page.names().await;
    for wanted in ["combobox: Agent", "combobox: Model"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} is missing in {names:#?}");
    }
    page.read("document.getElementById('agent').focus()").await;
    for agent in ["build", "plan"] {
        page.press("ArrowDown", 0).await;
        page.until(&format!("document.getElementById('agent').value === '{agent}'")).await;
    }
    page.press("Tab", 0).await;
    assert_eq!(page.read("document.activeElement.id").await, "model");
    page.read("document.getElementById('model').value = 'mock/other'").await;
    server.llm.reply(Reply::text("planned"));
    prompt(&mut page, "think").await;
    page.until(&shows("planned")).await;
    let id = page.read("location.hash.slice(1)").await;
    let messages = server.get(&format!("/session/{}/message", id.as_str().unwrap())).await.ok();
    let info = &messages[0]["info"];
    assert_eq!(info["agent"], "plan");
    assert_eq!(info["model"], json!({"providerID": "mock", "modelID": "other"}));
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn a_turn_that_ends_before_its_prompt_is_answered_leaves_the_page_ready() {
    let Some(program) = program() else { return };
    let server = Server::start().await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    let held = "{ const send = window.fetch; window.fetch = async (path, init) => { \
                const answer = await send(path, init); \
                if (path.includes('prompt_async')) await new Promise((go) => { window.release = go; }); \
                return answer; }; }";
    page.read(held).await;
    server.llm.reply(Reply::text("short"));
    prompt(&mut page, "one").await;
    page.until(&shows("short")).await;
    page.until(READY).await;
    page.until("!!window.release").await;
    page.read("window.release()").await;
    page.until("document.getElementById('prompt').value === ''").await;
    assert_eq!(page.read(READY).await, true);
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn the_page_finds_its_server_again_after_a_restart() {
    let Some(program) = program() else { return };
    let server = Server::builder().command("web").start().await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    server.llm.reply(Reply::text("before"));
    prompt(&mut page, "one").await;
    page.until(&shows("before")).await;
    page.until(READY).await;
    let server = server.restarted().await;
    page.until(READY).await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("half ").and_gate(&gate).and_text("whole"));
    prompt(&mut page, "two").await;
    page.until("document.getElementById('live').innerText.includes('half')").await;
    gate.open();
    page.until(&shows("half whole")).await;
    page.until(READY).await;
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn the_page_fits_a_phone_and_names_what_it_shows() {
    let Some(program) = program() else { return };
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text(&"wide ".repeat(80)));
    server.prompt(&id, &"w".repeat(400)).await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    let phone = json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true});
    page.send("Emulation.setDeviceMetricsOverride", phone).await;
    page.send("Page.navigate", json!({"url": format!("{}/?#{id}", server.url)})).await;
    page.until(READY).await;
    page.until(&shows("wide")).await;
    assert_eq!(page.read("document.documentElement.scrollWidth <= 390").await, true);
    assert_eq!(page.read("document.getElementById('list').open").await, false);
    let small = "[...document.querySelectorAll('.app button')].filter((it) => it.offsetParent && \
                 it.getBoundingClientRect().height < 44).map((it) => it.innerText)";
    assert_eq!(page.read(small).await, json!(Vec::<Value>::new()));
    drop(page);
    server.finish().await;
}

#[tokio::test]
async fn prompts_that_wait_are_listed_and_taken_back_and_a_stop_leaves_them_in_sight() {
    let Some(program) = program() else { return };
    let server = Server::start().await;
    let mut page = Page::open(program, &server.scratch.work, &server.link().await).await;
    page.until(READY).await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("half").and_gate(&gate));
    prompt(&mut page, "one").await;
    page.until("document.getElementById('live').innerText.includes('half')").await;
    for words in ["two", "three"] {
        prompt(&mut page, words).await;
        page.until(&format!("document.getElementById('waiting').innerText.includes('{words}')")).await;
    }
    page.read("document.querySelector('#waiting [aria-label=\"Take back: three\"]').click()").await;
    page.until("document.getElementById('prompt').value === 'three'").await;
    page.until("document.querySelectorAll('#waiting li').length === 1").await;
    page.read("document.getElementById('stop').click()").await;
    gate.abandoned().await;
    page.until("document.querySelector('#waiting small').textContent === 'stopped'").await;
    server.llm.reply(Reply::text("answered"));
    page.read("document.querySelector('#waiting [aria-label=\"Now: two\"]').click()").await;
    page.until(&shows("answered")).await;
    page.until("document.getElementById('waiting').hidden").await;
    drop(page);
    server.finish().await;
}
