//! Providers that a client routes while windlass runs (`providers/list`, `set` and `disable`).

use serde_json::{Value, json};

use crate::support::{
    agent::Agent,
    llm::{Llm, Reply},
};

async fn listed(agent: &Agent) -> Value {
    let list = agent.request("providers/list", json!({})).await.unwrap();
    assert!(!list.to_string().contains("s3cret"), "{list}");
    let found = list["providers"].as_array().unwrap().iter().find(|it| it["providerId"] == "mock");
    found.cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_client_routes_a_provider_to_an_address_of_its_own_and_switches_it_off() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let before = listed(&agent).await;
    assert_eq!((&before["supported"], &before["required"]), (&json!(["openai"]), &json!(false)));
    assert_eq!(before["current"]["baseUrl"], agent.llm.url());

    let gateway = Llm::start().await;
    gateway.reply(Reply::text("by the gateway"));
    let set = |url: &str, kind: &str| {
        json!({
            "providerId": "mock", "apiType": kind, "baseUrl": url,
            "headers": {"Authorization": "Bearer s3cret", "X-Team": "blue"},
        })
    };
    agent.request("providers/set", set(&gateway.url(), "openai")).await.unwrap();
    assert_eq!(listed(&agent).await["current"], json!({"apiType": "openai", "baseUrl": gateway.url()}));
    assert_eq!(agent.prompt(&session, "hello").await.text(), "by the gateway");
    let sent = gateway.last_request();
    assert_eq!((sent.header("authorization"), sent.header("x-team")), (Some("Bearer s3cret"), Some("blue")));

    agent.request("providers/disable", json!({"providerId": "mock"})).await.unwrap();
    let off = listed(&agent).await;
    assert_eq!(
        (&off["supported"], off.get("current").is_none_or(Value::is_null)),
        (&json!(["openai"]), true)
    );

    let refused = agent.request("providers/set", set("ftp://x", "openai")).await.unwrap_err();
    assert_eq!(refused.code, -32602);
    agent.request("providers/set", set(&agent.llm.url(), "openai")).await.unwrap();
    let refused = agent.request("providers/set", set(&gateway.url(), "bedrock")).await.unwrap_err();
    assert!(refused.message.contains("speaks `openai`"), "{}", refused.message);
    let unknown = json!({"providerId": "mocc", "apiType": "openai", "baseUrl": "https://x"});
    let refused = agent.request("providers/set", unknown).await.unwrap_err();
    assert!(refused.code == -32602 && refused.message.contains("mock"), "{}", refused.message);
    agent.finish().await;
}

#[tokio::test]
async fn headers_of_the_configuration_go_to_no_address_of_a_client() {
    let options = json!({"headers": {"X-Gateway": "internal"}});
    let provider = json!({"mock": {"options": options}});
    let agent = Agent::start_with(json!({ "provider": provider })).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("direct"));
    agent.prompt(&session, "hello").await;
    assert_eq!(agent.llm.last_request().header("x-gateway"), Some("internal"));
    let gateway = Llm::start().await;
    gateway.reply(Reply::text("routed"));
    let set = json!({"providerId": "mock", "apiType": "openai", "baseUrl": gateway.url()});
    agent.request("providers/set", set).await.unwrap();
    assert_eq!(agent.prompt(&session, "hello").await.text(), "routed");
    // Nor does the user's own key, before a session or in one.
    let key = agent.llm.last_request().header("authorization").unwrap().to_owned();
    assert_ne!(gateway.last_request().header("authorization"), Some(key.as_str()));
    assert_eq!(gateway.last_request().header("x-gateway"), None);
    agent.finish().await;
}

#[tokio::test]
async fn headers_that_are_none_are_refused_and_secrets_of_an_address_are_not_listed() {
    let agent = Agent::start().await;
    let url = "http://user:s3cret@127.0.0.1:9/v1?api_key=s3cret";
    let set = |headers: Value| json!({"providerId": "mock", "apiType": "openai", "baseUrl": url, "headers": headers});
    for bad in
        [json!({"A": 4}), json!({"bad name": "x"}), json!({"X": "a\nb"}), json!("x"), json!([{"name": "A"}])]
    {
        let refused = agent.request("providers/set", set(bad.clone())).await.unwrap_err();
        assert_eq!(refused.code, -32602, "{bad}");
    }
    agent.request("providers/set", set(json!({"X-Team": "blue"}))).await.unwrap();
    assert!(listed(&agent).await["current"]["baseUrl"].as_str().unwrap().contains("127.0.0.1:9"));
    agent.finish().await;
}
