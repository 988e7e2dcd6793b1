//! The way to a provider: proxies, certificates of one's own, HTTP/2, and connections that are made ahead and shared.

use serde_json::json;

use crate::support::{
    agent::{Agent, Builder},
    llm::{Reply, Wire},
    tls::{AUTHORITY, TlsProxy},
};

fn behind(proxy: &TlsProxy) -> Builder {
    let config = json!({"small_model": "mock/mock", "provider": {"mock": {"options": {"baseURL": "https://models.example/v1"}}}});
    Agent::builder().wire(Wire::OpenAi).config(config).env("HTTPS_PROXY", &proxy.url)
}

#[tokio::test]
async fn sessions_share_one_http2_connection_that_was_made_ahead() {
    let proxy = TlsProxy::start().await;
    let agent = behind(&proxy).env("NODE_EXTRA_CA_CERTS", AUTHORITY).start().await;
    let one = agent.new_session().await;
    // It carries no key, and there is no prompt yet.
    let seen = proxy.requests(1).await;
    assert_eq!(seen.requests, [("HEAD".to_owned(), "/".to_owned(), None)]);
    let two = agent.new_session().await;
    assert_eq!(agent.prompt(&one, "go").await.text(), "Over TLS.");
    assert_eq!(agent.prompt(&two, "go").await.text(), "Over TLS.");
    let seen = proxy.seen();
    assert_eq!(seen.tunnels, ["models.example:443"]);
    let prompts = seen.requests.iter().filter(|(method, ..)| method == "POST");
    for (_, path, key) in prompts {
        assert_eq!((path.as_str(), key.as_deref()), ("/v1/chat/completions", Some("Bearer test")));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_certificate_is_trusted_only_where_a_variable_says_so() {
    let proxy = TlsProxy::start().await;
    let agent = behind(&proxy).env("SSL_CERT_FILE", AUTHORITY).start().await;
    let session = agent.new_session().await;
    assert_eq!(agent.prompt(&session, "go").await.text(), "Over TLS.");
    agent.finish().await;

    let agent = behind(&proxy).env("NODE_EXTRA_CA_CERTS", "/nowhere/ca.pem").start().await;
    let session = agent.new_session().await;
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    let message = format!("{error:?}");
    assert!(
        message.contains("/nowhere/ca.pem") && message.contains("correct NODE_EXTRA_CA_CERTS"),
        "{message}"
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_proxy_variable_holds_unless_the_host_is_excepted() {
    for is_excepted in [false, true] {
        let llm = crate::support::llm::Llm::start().await;
        let config = json!({"provider": {"mock": {"options": {"baseURL": "http://models.example/v1"}}}});
        let address = llm.url().trim_end_matches("/v1").to_owned();
        let builder = Agent::builder().wire(Wire::OpenAi).llm(&llm);
        // Nobody listens at the excepted host's proxy.
        let builder = if is_excepted {
            builder.env("HTTP_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1")
        } else {
            builder.env("HTTP_PROXY", &address).config(config)
        };
        let agent = builder.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("Here."));
        assert_eq!(agent.prompt(&session, "go").await.text(), "Here.", "{is_excepted}");
        agent.finish().await;
    }
}
