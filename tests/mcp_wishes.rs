//! Wishes of MCP servers while they work on a call: forms, pages, and a model's answer.

use serde_json::{Value, json};

use crate::{
    mcp::{named, session_with},
    support::{
        agent::{Agent, Answer, asks::Ask},
        llm::Reply,
    },
};

/// Returns an agent with a client that shows these kinds of wishes, and a session with the server.
async fn open(elicitation: Value) -> (Agent, String) {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"elicitation": elicitation})).await;
    let session = session_with(&agent, json!([named("shop", "wishes")])).await;
    (agent, session)
}

/// Has the model call a tool of the server, and returns our answer to the server once `answer` has dealt with its
/// wish.
async fn call(agent: &Agent, session: &str, tool: &str, answer: impl AsyncFnOnce(&Agent)) -> Value {
    let call_id = format!("call_{}", agent.llm.requests().len());
    agent.llm.reply(Reply::call(&call_id, &format!("shop_{tool}"), json!({})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(session, "go");
    answer(agent).await;
    prompt.turn().await;
    serde_json::from_str(&agent.llm.last_request().tool_result(&call_id)).unwrap()
}

async fn form(agent: &Agent) -> Ask {
    let ask = agent.permission().await;
    assert_eq!(ask.method, "elicitation/create", "{ask:?}");
    ask
}

#[tokio::test]
async fn a_form_of_a_server_is_shown_as_it_is_until_its_values_fit() {
    let (agent, session) = open(json!({"form": {}})).await;
    let got = call(&agent, &session, "form", async |agent| {
        let mut ask = form(agent).await;
        assert_eq!(
            (&ask.params["mode"], &ask.params["message"]),
            (&json!("form"), &json!("shop: Which one?"))
        );
        let schema = &ask.params["requestedSchema"];
        assert_eq!(schema["properties"]["size"], json!({"type": "integer", "maximum": 9}));
        assert_eq!(schema["properties"]["color"]["enum"], json!(["red", "green"]));
        for (content, reason) in [
            (json!({"size": "large"}), "`size` must be a whole number."),
            (json!({"size": 10, "color": "green"}), "`size` must be at most 9."),
        ] {
            agent.fill_in(&ask, json!({"action": "accept", "content": content}));
            ask = form(agent).await;
            let message = ask.params["message"].as_str().unwrap();
            assert_eq!(message, format!("{reason}\nshop: Which one?"));
        }
        agent.fill_in(&ask, json!({"action": "accept", "content": {"size": 7, "color": "green"}}));
    });
    assert_eq!(got.await, json!({"action": "accept", "content": {"size": 7, "color": "green"}}));
    for action in ["decline", "cancel"] {
        let got = call(&agent, &session, "form", async |agent| {
            agent.fill_in(&form(agent).await, json!({"action": action}));
        });
        assert_eq!(got.await, json!({"action": action}));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_form_without_the_capability_is_choices_and_a_page_never_becomes_a_form() {
    let (agent, session) = open(json!({"form": {}})).await;
    let got = call(&agent, &session, "page", async |agent| {
        let ask = agent.permission().await;
        assert_eq!(ask.method, "session/request_permission");
        assert!(ask.params.to_string().contains("https://shop.example/pay"), "{}", ask.params);
        agent.choose(&ask, "Done");
    });
    assert_eq!(got.await, json!({"action": "accept"}));
    agent.finish().await;
}

#[tokio::test]
async fn a_page_of_a_server_is_opened_by_the_client_and_told_when_it_is_done_with() {
    let (agent, session) = open(json!({"url": {}})).await;
    let got = call(&agent, &session, "page", async |agent| {
        let ask = form(agent).await;
        let params = &ask.params;
        assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://shop.example/pay")));
        agent.fill_in(&ask, json!({"action": "accept"}));
        let completed = |message: &Value| message["method"] == "elicitation/complete";
        let told = agent.wait_for("the page's end", completed).await;
        assert_eq!(told["params"]["elicitationId"], params["elicitationId"]);
    });
    assert_eq!(got.await, json!({"action": "accept"}));
    for action in ["decline", "cancel"] {
        let got = call(&agent, &session, "page", async |agent| {
            agent.fill_in(&form(agent).await, json!({"action": action}));
        });
        assert_eq!(got.await, json!({"action": action}));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_form_for_a_secret_and_an_address_with_a_password_are_refused_with_words() {
    let (agent, session) = open(json!({"form": {}, "url": {}})).await;
    let got = call(&agent, &session, "secret", async |_| {}).await;
    assert!(
        got["message"].as_str().unwrap().contains("a form may not ask for secrets such as `apiKey`"),
        "{got}"
    );
    let got = call(&agent, &session, "passwords", async |_| {}).await;
    assert_eq!(got["message"], "an address may hold no user and no password");
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn the_sessions_model_answers_a_server_if_the_user_allows_it() {
    let (agent, session) = open(json!({"form": {}})).await;
    let got = call(&agent, &session, "sample", async |agent| {
        let ask = agent.permission().await;
        assert_eq!(ask.call()["title"], "MCP server shop asks the model: Name a tea.");
        agent.answer(&ask, Answer::AllowOnce);
    });
    let got = got.await;
    assert_eq!(
        (&got["role"], &got["content"]),
        (&json!("assistant"), &json!({"type": "text", "text": "Scripted title"}))
    );
    // The scripted model takes a request without tools for a wish for a title.
    let asked = agent.llm.title_requests();
    let asked = asked.iter().find(|it| it.body.to_string().contains("Name a tea.")).unwrap();
    assert!(asked.body.to_string().contains("You know teas.") && asked.tools().is_empty());

    let got = call(&agent, &session, "sample", async |agent| {
        let ask = agent.permission().await;
        agent.answer(&ask, Answer::RejectOnce);
    });
    assert!(got.await["message"].is_string());
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_takes_a_servers_form_back() {
    let (agent, session) = open(json!({"form": {}})).await;
    agent.llm.reply(Reply::call("call_1", "shop_form", json!({})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = form(&agent).await;
    agent.cancel(&session);
    agent.withdrawn_by_code(&ask).await;
    assert_eq!(prompt.answer().await.unwrap()["stopReason"], "cancelled");
    agent.finish().await;
}
