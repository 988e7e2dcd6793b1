//! Resources of MCP servers: listed, read, asked for, and their fate when a server hangs or dies.

use serde_json::{Value, json};

use crate::{
    mcp::{named, session_with, until_offered},
    support::{
        agent::{Agent, Answer},
        llm::Reply,
        message::content_text,
        server::Server,
    },
};

const LIST: &str = "list_mcp_resources";
const TEMPLATES: &str = "list_mcp_resource_templates";
const READ: &str = "read_mcp_resource";

/// Returns a session with one server, called `docs`, which has its resources offered.
async fn with_docs(config: Value) -> (Agent, String) {
    let agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([named("docs", "docs")])).await;
    until_offered(&agent, &session, READ).await;
    (agent, session)
}

fn doc(uri: &str) -> Value {
    json!({"server": "docs", "uri": uri})
}

#[tokio::test]
async fn all_pages_are_listed_without_what_is_malformed() {
    let (agent, session) = with_docs(json!({})).await;
    let (turn, told) = agent.call(&session, "call_1", LIST, json!({})).await;
    let listed: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        listed,
        json!({"resources": [
            {"uri": "docs://guide", "name": "guide", "title": "The guide", "mimeType": "text/markdown", "size": 7,
                "server": "docs"},
            {"uri": "docs://logo", "name": "logo", "mimeType": "image/png", "server": "docs"},
            {"uri": "docs://archive", "name": "archive", "description": "All of it.", "server": "docs"},
            {"uri": "file:///srv/.env", "name": "settings", "server": "docs"},
        ]})
    );
    let call = turn.tool("call_1");
    assert_eq!((&call["title"], &call["kind"]), (&json!("MCP resources"), &json!("search")));
    let metadata = json!({"count": 4, "servers": ["docs"], "truncated": false});
    assert_eq!(call["rawOutput"]["metadata"], metadata);
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_template_makes_a_uri_that_can_be_read() {
    let (agent, session) = with_docs(json!({})).await;
    let told = agent.told(&session, TEMPLATES, json!({"server": "docs"})).await;
    let template = json!({"uriTemplate": "docs://pages/{name}", "name": "page", "mimeType": "text/plain",
        "server": "docs"});
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({ "resourceTemplates": [template] }));
    let (turn, told) = agent.call(&session, "call_1", READ, doc("docs://pages/one")).await;
    assert_eq!(told, "Resource: docs://pages/one\nthis is docs://pages/one");
    let call = turn.tool("call_1");
    assert_eq!((&call["title"], &call["kind"]), (&json!("MCP resource: docs://pages/one"), &json!("read")));
    let metadata = &call["rawOutput"]["metadata"];
    assert_eq!(metadata["uri"], "docs://pages/one");
    agent.finish().await;
}

#[tokio::test]
async fn images_are_attached_and_what_is_not_is_named() {
    let (agent, session) = with_docs(json!({})).await;
    let (turn, told) = agent.call(&session, "call_1", READ, doc("docs://logo")).await;
    let logo = "[Binary MCP resource attached: docs://logo (image/png, 1 KB)]\n\n\
        Resource: docs://logo#alt\na logo";
    assert_eq!(told, logo);
    let content = turn.tool("call_1")["content"].clone();
    assert_eq!(content[1]["content"], json!({"type": "image", "mimeType": "image/png", "data": "iVBORw=="}));
    let sent = serde_json::to_string(&agent.llm.last_request().messages()).unwrap();
    assert!(sent.contains("data:image/png;base64,iVBORw=="), "{sent}");
    for (uri, named) in [
        ("docs://archive", "(application/zip, 1 KB) is not a supported attachment type]"),
        ("docs://large", "(application/pdf, 11264 KB) exceeds 10 MB]"),
        ("docs://broken", "(image/png, 0 KB) is not valid base64]"),
    ] {
        let told = agent.told(&session, READ, doc(uri)).await;
        assert_eq!(told, format!("[Binary MCP resource omitted: {uri} {named}"));
    }
    let odd = agent.told(&session, READ, doc("docs://odd")).await;
    assert_eq!(odd, "[MCP resource content without text or blob: docs://odd]");
    let empty = agent.told(&session, READ, doc("docs://empty")).await;
    assert_eq!(empty, "The MCP resource docs://empty of docs is empty.");
    agent.finish().await;
}

#[tokio::test]
async fn a_long_resource_is_cut_and_kept_whole() {
    let (agent, session) = with_docs(json!({})).await;
    let told = agent.told(&session, READ, doc("docs://long")).await;
    assert!(told.contains("line 1990") && !told.contains("line 2000\n"), "{told}");
    let saved = told.split("Full output saved to: ").nth(1).and_then(|rest| rest.lines().next());
    let whole = std::fs::read_to_string(saved.unwrap()).unwrap();
    assert!(whole.ends_with("line 2999"));
    agent.finish().await;
}

#[tokio::test]
async fn a_list_that_changed_is_as_it_is_now() {
    let (agent, session) = with_docs(json!({})).await;
    assert_eq!(agent.told(&session, READ, doc("docs://grow")).await, "Resource: docs://grow\ngrew");
    let told = agent.told(&session, LIST, json!({})).await;
    assert!(told.contains("docs://grown"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn without_a_server_that_offers_resources_there_are_no_tools_for_them() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([named("shop", "good")])).await;
    until_offered(&agent, &session, "shop_price").await;
    let offered = agent.llm.last_request().tools();
    for tool in [LIST, TEMPLATES, READ] {
        assert!(!offered.contains(&tool.to_owned()), "{tool} is offered");
    }
    let told = agent.told(&session, READ, doc("docs://guide")).await;
    assert!(told.contains("unavailable tool 'read_mcp_resource'"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn who_may_read_nothing_has_no_tools_for_resources() {
    let config = json!({"permission": {"read": "deny"}});
    let agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([named("docs", "docs")])).await;
    until_offered(&agent, &session, "docs_price").await;
    let offered = agent.llm.last_request().tools();
    for tool in [LIST, TEMPLATES, READ] {
        assert!(!offered.contains(&tool.to_owned()), "{tool} is offered");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_question_names_the_resource_and_always_means_its_server() {
    let config = json!({"permission": {"read": {"mcp:*": "ask"}}});
    let (agent, session) = with_docs(config).await;
    agent.llm.reply(Reply::call("call_1", READ, doc("docs://guide")));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let call = ask.call();
    assert_eq!((&call["title"], &call["kind"]), (&json!("mcp:docs:docs://guide"), &json!("read")));
    assert_eq!(call["rawInput"], doc("docs://guide"));
    let names: Vec<&Value> =
        ask.params["options"].as_array().unwrap().iter().map(|option| &option["name"]).collect();
    assert_eq!(
        names,
        ["Allow once", "Always allow read: mcp:docs:*", "Reject", "Always reject read: mcp:docs:*"]
    );
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    let guide = "Resource: docs://guide\nMIME: text/markdown\n# Guide";
    assert_eq!(agent.llm.last_request().tool_result("call_1"), guide);

    agent.llm.reply(Reply::call("call_2", LIST, json!({})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "mcp:docs:*");
    agent.answer(&ask, Answer::AllowAlways);
    prompt.turn().await;
    let n_asked = agent.n_asked();
    assert_eq!(agent.told(&session, READ, doc("docs://guide")).await, guide);
    assert_eq!(agent.n_asked(), n_asked);
    agent.finish().await;
}

#[tokio::test]
async fn a_refusal_ends_the_turn_and_nothing_is_read() {
    let config = json!({"permission": {"read": {"mcp:*": "ask"}}});
    let (agent, session) = with_docs(config).await;
    agent.llm.reply(Reply::call("call_1", READ, doc("docs://grow")));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectAlways);
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    // The remembered answer decides from then on, without a question.
    let told = agent.told(&session, READ, doc("docs://guide")).await;
    assert!(told.contains("prevents you from using this specific tool call"), "{told}");
    assert_eq!(agent.n_asked(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_rule_about_a_server_decides_and_the_others_are_listed() {
    let config = json!({"permission": {"read": {"mcp:docs:*": "deny"}}});
    let agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([named("docs", "docs"), named("wiki", "docs")])).await;
    until_offered(&agent, &session, "docs_price").await;
    until_offered(&agent, &session, "wiki_price").await;
    for (tool, input) in [(READ, doc("docs://guide")), (LIST, json!({"server": "docs"}))] {
        let told = agent.told(&session, tool, input).await;
        assert!(told.contains("prevents you") && told.contains("mcp:docs:*"), "{told}");
    }
    let (turn, told) = agent.call(&session, "call_1", LIST, json!({})).await;
    assert!(told.contains("\"wiki\"") && !told.contains("\"docs\""), "{told}");
    assert_eq!(turn.tool("call_1")["rawOutput"]["metadata"]["servers"], json!(["wiki"]));
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_secret_of_a_server_is_asked_for_however_it_is_written() {
    let (agent, session) = with_docs(json!({})).await;
    for (id, uri) in [
        ("call_1", "file:///srv/.env"),
        ("call_2", "file:///srv/x/../%2Een%76"),
        ("call_3", "file:///srv/.ENV?raw"),
    ] {
        agent.llm.reply(Reply::call(id, READ, doc(uri)));
        agent.llm.reply(Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert!(
            ask.call()["title"].as_str().unwrap().contains("mcp:docs:file:///srv/.env"),
            "{}",
            ask.params
        );
        agent.answer(&ask, Answer::AllowOnce);
        let turn = prompt.turn().await;
        assert!(content_text(&turn.tool(id)).ends_with(&format!("this is {uri}")));
    }
    agent.finish().await;
}

#[tokio::test]
async fn what_is_not_there_is_named_with_what_is() {
    let agent = Agent::start().await;
    let servers =
        json!([named("docs", "docs"), named("shop", "good"), named("lost", "crash"), named("deaf", "deaf")]);
    let session = session_with(&agent, servers).await;
    for tool in [READ, "docs_price", "shop_price", "deaf_price"] {
        until_offered(&agent, &session, tool).await;
    }
    agent.wait_stderr("lost").await;
    let there = ". Available resource servers: deaf, docs";
    for (server, why) in [
        ("nowhere", "is not connected"),
        ("shop", "does not support resources"),
        ("lost", "is not connected: MCP server lost stopped (exit status: 7): crashing as told"),
    ] {
        let expected = format!("MCP server \"{server}\" {why}{there}");
        let input = json!({"server": server, "uri": "docs://guide"});
        assert_eq!(agent.told(&session, READ, input).await, expected);
        assert_eq!(agent.told(&session, LIST, json!({"server": server})).await, expected);
    }
    let told = agent.told(&session, READ, doc("docs://nothing")).await;
    assert_eq!(told, "Failed to read MCP resource: docs/docs://nothing: no such resource");
    assert_eq!(agent.told(&session, READ, doc("")).await, "uri is required");
    // It says that it has resources and lists none.
    let told = agent.told(&session, LIST, json!({"server": "deaf"})).await;
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({"resources": []}));
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_the_others_are_listed() {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let mute = json!({"type": "local", "command": ["python3", script, "silent"], "timeout": 4000});
    let agent = Agent::start_with(json!({"mcp": {"mute": mute}})).await;
    let session = session_with(&agent, json!([named("docs", "docs")])).await;
    until_offered(&agent, &session, "mute_price").await;
    until_offered(&agent, &session, "docs_price").await;
    let told = agent.told(&session, LIST, json!({})).await;
    let listed: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(listed["resources"].as_array().unwrap().len(), 4);
    let error = "the MCP server did not answer within 4s";
    assert_eq!(listed["errors"], json!([{"server": "mute", "error": error}]));
    let told = agent.told(&session, TEMPLATES, json!({"server": "mute"})).await;
    assert_eq!(told, format!("Cannot list MCP resource templates of mute: {error}"));
    let told = agent.told(&session, READ, json!({"server": "mute", "uri": "docs://guide"})).await;
    assert_eq!(told, format!("Failed to read MCP resource: mute/docs://guide: {error}"));
    agent.finish().await;
}

#[tokio::test]
async fn a_read_that_hangs_can_be_cancelled_and_a_server_that_died_is_asked_again() {
    let (agent, session) = with_docs(json!({})).await;
    agent.llm.reply(Reply::call("call_1", READ, doc("docs://hang")));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_running(&session, &["call_1"]).await;
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));

    let told = agent.told(&session, READ, doc("docs://die")).await;
    let closed = "MCP server docs closed the connection before resources/read was done";
    assert_eq!(told, format!("Failed to read MCP resource: docs/docs://die: {closed}"));
    agent.wait_stderr("MCP server docs stopped (exit status: 3)").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "still there?").await;
    assert!(agent.llm.last_request().tools().contains(&READ.to_owned()), "it is started again");
    agent.finish().await;
}

#[tokio::test]
async fn a_resource_that_the_user_names_is_read_into_the_prompt() {
    let agent = Agent::start().await;
    // The prompt comes while the server starts.
    let session = session_with(&agent, json!([named("docs", "docs")])).await;
    agent.llm.reply(Reply::text("read"));
    agent.prompt(&session, "Sum up @docs:docs://guide, @docs:docs://logo and @nobody:docs://x.").await;
    let sent = agent.llm.last_request().body.to_string();
    for words in [
        "Reading MCP resource: docs:docs://guide (docs://guide)",
        "# Guide",
        "a logo",
        "data:image/png;base64",
    ] {
        assert!(sent.contains(words), "{words}: {sent}");
    }
    assert!(!sent.contains("nobody:docs://x ("), "{sent}");
    agent.llm.reply(Reply::text("no"));
    agent.prompt(&session, "And @docs:docs://nope?").await;
    assert!(
        agent.llm.last_request().body.to_string().contains("Failed to read MCP resource: docs/docs://nope")
    );
    agent.finish().await;
}

#[tokio::test]
async fn programs_list_those_of_a_server_that_they_have_added() {
    let server = Server::start().await;
    assert_eq!(server.get("/experimental/resource").await.ok(), json!({}));
    let named = named("docs", "docs");
    let command =
        [&json!([named["command"]]), &named["args"]].map(|it| it.as_array().unwrap().clone()).concat();
    let config = json!({"type": "local", "command": command});
    let states = server.post("/mcp", json!({"name": "docs", "config": config})).await.ok();
    assert_eq!(states["docs"]["status"], "connected");
    let listed = server.get("/experimental/resource").await.ok();
    let keys: Vec<_> = listed.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["docs:archive", "docs:guide", "docs:logo", "docs:settings"]);
    let guide = &listed["docs:guide"];
    assert_eq!((&guide["client"], &guide["uri"]), (&json!("docs"), &json!("docs://guide")));
    server.finish().await;
}
