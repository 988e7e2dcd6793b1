//! Pictures and documents: sent as such, and left out where a provider refuses them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::support::{agent::Agent, llm::Reply};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and pixels";
const JPEG: &[u8] = b"\xff\xd8\xff and pixels";
const HTML: &str = "<html>not found</html>";

fn image(bytes: &[u8], mime: &str) -> Value {
    json!({"type": "image", "data": BASE64_STANDARD.encode(bytes), "mimeType": mime})
}

async fn prompt(agent: &Agent, session: &str, blocks: Value) {
    agent.request("session/prompt", json!({"sessionId": session, "prompt": blocks})).await.unwrap();
}

#[tokio::test]
async fn a_picture_is_sent_as_the_type_of_its_bytes_and_what_is_none_as_text() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.scratch.write("fake.png", HTML);
    std::fs::write(agent.scratch.path("photo.png"), JPEG).unwrap();
    let link = |name: &str| {
        let uri = format!("file://{}", agent.scratch.path(name));
        json!({"type": "resource_link", "uri": uri, "name": name})
    };
    let (png, jpeg) = (BASE64_STANDARD.encode(PNG), BASE64_STANDARD.encode(JPEG));
    for (block, expected) in [
        (image(PNG, "image/jpeg"), format!("data:image/png;base64,{png}")),
        (image(PNG, "IMAGE/PNG"), format!("data:image/png;base64,{png}")),
        (image(PNG, "image/png; charset=binary"), format!("data:image/png;base64,{png}")),
        (image(JPEG, "image/jpg"), format!("data:image/jpeg;base64,{jpeg}")),
        (image(HTML.as_bytes(), "image/png"), HTML.to_owned()),
        (link("photo.png"), format!("data:image/jpeg;base64,{jpeg}")),
        (link("fake.png"), HTML.to_owned()),
    ] {
        agent.llm.reply(Reply::text("ok"));
        prompt(&agent, &session, json!([{"type": "text", "text": "see"}, block.clone()])).await;
        let messages = agent.llm.last_request().messages();
        let sent = messages.last().unwrap().to_string();
        assert!(sent.contains(&expected), "{block}: {sent}");
        assert_eq!(sent.contains(";base64,"), expected.contains(";base64,"), "{block}: {sent}");
    }
    for (name, expected) in
        [("photo.png", format!("data:image/jpeg;base64,{jpeg}")), ("fake.png", HTML.to_owned())]
    {
        let path = agent.scratch.path(name);
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": path})));
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "read it").await;
        let sent = agent.llm.last_request().body["messages"].to_string();
        assert!(sent.contains(&expected), "{name}: {sent}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_session_with_a_picture_that_the_provider_refuses_goes_on_without_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let png = BASE64_STANDARD.encode(PNG);
    agent.llm.reply(Reply::status(400));
    agent.llm.reply(Reply::text("I cannot see it."));
    prompt(&agent, &session, json!([{"type": "text", "text": "see"}, image(PNG, "image/png")])).await;
    let requests = agent.llm.requests();
    let has_picture = |at: usize| requests[at].body.to_string().contains(&png);
    assert_eq!((requests.len(), has_picture(0), has_picture(1)), (2, true, false));
    let sent = requests[1].body.to_string();
    assert!(sent.contains("(image/png) was left out: the provider refuses requests with it"), "{sent}");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go on").await;
    let third = agent.llm.last_request().body.to_string();
    assert!(!third.contains(&png), "{third}");
    assert_eq!(agent.llm.requests().len(), 3);
    agent.finish().await;
}

#[tokio::test]
async fn a_request_that_is_refused_for_another_reason_says_so_and_keeps_its_pictures() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let png = BASE64_STANDARD.encode(PNG);
    agent.llm.reply(Reply::status(422));
    agent.llm.reply(Reply::status(400));
    let blocks = json!([{"type": "text", "text": "see"}, image(PNG, "image/png")]);
    let refused = agent.request("session/prompt", json!({"sessionId": session, "prompt": blocks})).await;
    let refused = format!("{:?}", refused.unwrap_err());
    assert!(refused.contains("scripted failure 422"), "{refused}");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "again").await;
    let sent = agent.llm.last_request().body.to_string();
    assert!(sent.contains(&png), "{sent}");
    agent.finish().await;
}
