//! The web tools against a web server on loopback.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, Builder, CANCEL_LIMIT},
    llm::Reply,
    message::content_text,
    web::{Page, Web},
};

const HTML: &str = "<html><head><title>Tea</title><script>no()</script></head><body><h1>Tea</h1><p>One <b>cup</b> &amp; more</p></body></html>";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

/// Returns an agent with rules that let `webfetch` reach the server.
async fn agent(web: &Web) -> Agent {
    with(web, json!({"webfetch": {web.url("/*"): "allow"}})).start().await
}

fn with(web: &Web, permission: Value) -> Builder {
    let config = json!({
        "permission": permission,
        "windlass": {"exa_url": web.url("/exa"), "parallel_url": web.url("/parallel")},
    });
    Agent::builder().config(config)
}

async fn fetch(agent: &Agent, url: &str) -> String {
    agent.run("webfetch", json!({"url": url})).await.1
}

#[tokio::test]
async fn a_page_is_given_in_the_format_that_was_asked_for() {
    let web = Web::start().await;
    web.page("/tea", Page::new("text/html; charset=utf-8", HTML));
    let agent = agent(&web).await;
    for (arguments, expected, accept) in [
        (json!({}), "Tea\n\n# Tea\n\nOne **cup** & more", "text/markdown;q=1.0"),
        (json!({"format": "markdown"}), "Tea\n\n# Tea\n\nOne **cup** & more", "text/markdown;q=1.0"),
        (json!({"format": "text"}), "Tea\nTea\nOne cup & more", "text/plain;q=1.0"),
        (json!({"format": "html"}), HTML, "text/html;q=1.0"),
    ] {
        let mut arguments = arguments;
        arguments["url"] = json!(web.url("/tea"));
        let (turn, told) = agent.run("webfetch", arguments).await;
        assert_eq!(told, expected);
        let call = turn.tool("call_1");
        assert_eq!((&call["kind"], &call["status"]), (&json!("fetch"), &json!("completed")));
        let asked = web.asked().pop().unwrap();
        assert_eq!(asked.line, "GET /tea");
        assert!(asked.headers["accept"].starts_with(accept), "{}", asked.headers["accept"]);
        assert!(asked.headers["user-agent"].starts_with("Mozilla/5.0 "));
        assert_eq!(asked.headers["accept-encoding"], "identity");
    }
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn an_image_is_attached() {
    let web = Web::start().await;
    web.page("/x.png", Page::new("image/png", PNG));
    let agent = agent(&web).await;
    let (turn, told) = agent.run("webfetch", json!({"url": web.url("/x.png")})).await;
    assert!(told.starts_with("Image fetched successfully"), "{told}");
    let shown = turn.tool("call_1")["content"].to_string();
    assert!(shown.contains("iVBORw0KGgpyZXN0") && shown.contains("image/png"), "{shown}");
    agent.finish().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_by_its_length_and_by_its_body() {
    let web = Web::start().await;
    let limit = 5 << 20;
    web.page("/said", Page::new("text/plain", "x").header("content-length", &(limit + 1).to_string()));
    web.page("/sent", Page::new("text/plain", vec![b'x'; limit + 1]).chunked());
    web.page("/fits", Page::new("text/plain", vec![b'x'; limit]).chunked());
    let agent = agent(&web).await;
    for path in ["/said", "/sent"] {
        assert_eq!(fetch(&agent, &web.url(path)).await, "Response too large (exceeds 5MB limit)");
    }
    let told = fetch(&agent, &web.url("/fits")).await;
    assert!(told.contains("Full output saved to: "), "{}", &told[told.len() - 300..]);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let web = Web::start().await;
    web.page("/hang", Page::hanging());
    let agent = agent(&web).await;
    let (_, told) = agent.run("webfetch", json!({"url": web.url("/hang"), "timeout": 0.3})).await;
    assert_eq!(told, "Request timed out");
    agent.finish().await;
}

#[tokio::test]
async fn a_challenge_is_answered_with_a_plain_name_once() {
    let web = Web::start().await;
    let challenge = || Page::status(403).header("cf-mitigated", "challenge");
    web.page("/once", challenge());
    web.page("/once", Page::new("text/plain", "passed"));
    web.page("/always", challenge());
    web.page("/forbidden", Page::status(403));
    let agent = agent(&web).await;
    assert_eq!(fetch(&agent, &web.url("/once")).await, "passed");
    assert_eq!(fetch(&agent, &web.url("/always")).await, "Request failed with status code: 403");
    assert_eq!(fetch(&agent, &web.url("/forbidden")).await, "Request failed with status code: 403");
    let names: Vec<bool> =
        web.asked().iter().map(|asked| asked.headers["user-agent"] == "opencode").collect();
    assert_eq!(names, [false, true, false, true, false]);
    agent.finish().await;
}

#[tokio::test]
async fn a_private_address_is_refused_without_a_rule_that_names_it() {
    let web = Web::start().await;
    web.page("/secret", Page::new("text/plain", "secret"));
    let permission = json!({"webfetch": {"*": "allow", "http://*": "allow"}});
    let agent = with(&web, permission).start().await;
    for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0"] {
        let told = fetch(&agent, &format!("http://{host}:{}/secret", web.port)).await;
        assert!(told.contains("only public addresses are fetched"), "{host}: {told}");
    }
    assert_eq!(web.asked().len(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let web = Web::start().await;
    web.page("/secret", Page::new("text/plain", "secret"));
    web.page("/here", Page::redirect("/secret"));
    web.page("/there", Page::redirect(&format!("http://localhost:{}/secret", web.port)));
    web.page("/meta", Page::redirect("http://169.254.169.254/latest/meta-data/"));
    let agent = agent(&web).await;
    assert_eq!(fetch(&agent, &web.url("/here")).await, "secret");
    for path in ["/there", "/meta"] {
        let told = fetch(&agent, &web.url(path)).await;
        assert!(told.contains("only public addresses are fetched"), "{told}");
    }
    assert_eq!(web.asked().iter().filter(|asked| asked.line == "GET /secret").count(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_denied_page_is_not_fetched_however_it_is_written() {
    let web = Web::start().await;
    web.page("/secret", Page::new("text/plain", "secret"));
    web.page("/here", Page::redirect("/%73ecret"));
    web.page("/open", Page::new("text/plain", "open"));
    let permission = json!({"webfetch": {web.url("/*"): "allow", web.url("/secret*"): "deny"}});
    let agent = with(&web, permission).start().await;
    assert_eq!(fetch(&agent, &web.url("/open")).await, "open");
    let shouted = web.url("/secret").replace("http", "HTTP");
    let dotted = web.url("/secret").replace("127.0.0.1", "127.0.0.1.");
    for url in [web.url("/%73ecret"), shouted, dotted, web.url("/a/../secret"), web.url("/here")] {
        let told = fetch(&agent, &url).await;
        assert!(told.contains("The user has specified a rule which prevents you"), "{url}: {told}");
    }
    assert!(!web.asked().iter().any(|asked| asked.line.contains("ecret")));
    agent.finish().await;
}

#[tokio::test]
async fn a_fetch_is_asked_for_by_its_url() {
    let web = Web::start().await;
    web.page("/tea", Page::new("text/plain", "tea"));
    // The last rule decides that it is asked, the first lets it reach the loopback.
    let permission = json!({"webfetch": {web.url("/*"): "allow", "*": "ask"}});
    for (answer, told) in [
        (Answer::AllowOnce, Some("tea")),
        (Answer::AllowAlways, Some("tea")),
        (Answer::RejectOnce, None),
        (Answer::Cancelled, None),
    ] {
        let agent = with(&web, permission.clone()).start().await;
        let n_before = web.asked().len();
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "webfetch", json!({"url": web.url("/tea")})));
        if told.is_some() {
            agent.llm.reply(Reply::call("call_2", "webfetch", json!({"url": web.url("/tea?again")})));
            agent.llm.reply(Reply::text("done"));
        }
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert_eq!((&ask.call()["kind"], &ask.call()["title"]), (&json!("fetch"), &json!(web.url("/tea"))));
        assert_eq!(web.asked().len(), n_before, "it was fetched before it was allowed");
        agent.answer(&ask, answer);
        // An `always` holds for the second call as well.
        if answer == Answer::AllowOnce {
            let ask = agent.permission().await;
            assert_eq!(ask.call()["title"], web.url("/tea?again"));
            agent.answer(&ask, Answer::AllowOnce);
        }
        let turn = prompt.turn().await;
        match told {
            Some(text) => assert_eq!(content_text(&turn.tool("call_1")), text),
            None => {
                assert_eq!(turn.tool("call_1")["status"], "failed");
                assert_eq!(web.asked().len(), n_before);
            }
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_is_asked_for_again() {
    let (web, other) = (Web::start().await, Web::start().await);
    web.page("/go", Page::redirect(&other.url("/tea")));
    other.page("/tea", Page::new("text/plain", "tea"));
    let permission = json!({"webfetch": {other.url("/*"): "allow", "*": "ask", web.url("/*"): "allow"}});
    let agent = with(&web, permission).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "webfetch", json!({"url": web.url("/go")})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], other.url("/tea"));
    agent.answer(&ask, Answer::RejectOnce);
    assert_eq!(prompt.turn().await.tool("call_1")["status"], "failed");
    assert_eq!(other.asked().len(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_fetch_that_hangs_can_be_cancelled() {
    let web = Web::start().await;
    web.page("/hang", Page::hanging());
    let agent = agent(&web).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "webfetch", json!({"url": web.url("/hang")})));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_for("the tool to run", |message| message["params"]["update"]["status"] == "in_progress").await;
    let watch = agent.stopwatch();
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert!(watch.elapsed() < CANCEL_LIMIT);
    assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
    agent.finish().await;
}

fn found(text: &str) -> Page {
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    Page::new("text/event-stream", format!("event: message\ndata: {message}\n\n"))
}

/// Returns an agent with the search tools on, by the variables given.
async fn searching(web: &Web, variables: &[(&str, &str)]) -> Agent {
    let mut builder = with(web, json!({}));
    for (name, value) in variables {
        builder = builder.env(name, value);
    }
    builder.start().await
}

#[tokio::test]
async fn searching_is_hidden_by_default_and_a_call_of_it_names_what_there_is() {
    let web = Web::start().await;
    let agent = agent(&web).await;
    let (_, told) = agent.run("websearch", json!({"query": "tea"})).await;
    assert!(told.contains("unavailable tool 'websearch'"), "{told}");
    let tools = agent.llm.last_request().tools();
    assert!(tools.contains(&"webfetch".to_owned()));
    assert!(
        !tools.contains(&"websearch".to_owned()) && !tools.contains(&"codesearch".to_owned()),
        "{tools:?}"
    );
    agent.finish().await;
}

#[tokio::test]
async fn exa_and_parallel_are_searched() {
    let web = Web::start().await;
    web.page("/exa", found("tea is a leaf"));
    web.page("/parallel", found("tea is a drink"));
    let exa = searching(&web, &[("OPENCODE_ENABLE_EXA", "1"), ("EXA_API_KEY", "secret")]).await;
    let arguments = json!({"query": "tea", "numResults": "3", "type": "deep", "contextMaxCharacters": 500});
    let (turn, told) = exa.run("websearch", arguments).await;
    assert_eq!(told, "tea is a leaf");
    assert_eq!(turn.tool("call_1")["rawOutput"]["metadata"]["provider"], "exa");
    let asked = web.asked().pop().unwrap();
    let expected = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "web_search_exa",
        "arguments": {"query": "tea", "type": "deep", "numResults": 3, "livecrawl": "fallback", "contextMaxCharacters": 500}}});
    assert_eq!((asked.line.as_str(), &asked.body), ("POST /exa", &expected));
    assert_eq!(asked.headers["accept"], "application/json, text/event-stream");
    // The address came from a configuration file, which may be a project's.
    assert!(!asked.headers.contains_key("x-api-key"));
    exa.finish().await;

    let url = web.url("/parallel");
    let variables = [
        ("OPENCODE_ENABLE_EXA", "1"),
        ("OPENCODE_WEBSEARCH_PROVIDER", "parallel"),
        ("PARALLEL_API_KEY", "secret"),
        ("WINDLASS_PARALLEL_URL", url.as_str()),
    ];
    let parallel = searching(&web, &variables).await;
    let (_, told) = parallel.run("websearch", json!({"query": "tea"})).await;
    assert_eq!(told, "tea is a drink");
    let asked = web.asked().pop().unwrap();
    let arguments = &asked.body["params"]["arguments"];
    assert_eq!(
        (&asked.body["params"]["name"], &arguments["objective"]),
        (&json!("web_search"), &json!("tea"))
    );
    assert_eq!(asked.headers["authorization"], "Bearer secret");
    parallel.finish().await;
}

#[tokio::test]
async fn code_is_searched() {
    let web = Web::start().await;
    web.page("/exa", found("fn tea() {}"));
    let agent = searching(&web, &[("OPENCODE_EXPERIMENTAL_EXA", "true")]).await;
    assert_eq!(agent.run("codesearch", json!({"query": "tea"})).await.1, "fn tea() {}");
    let params = &web.asked().pop().unwrap().body["params"];
    let expected = json!({"name": "get_code_context_exa", "arguments": {"query": "tea", "tokensNum": 5000}});
    assert_eq!(params, &expected);
    let (_, told) = agent.run("codesearch", json!({"query": "tea", "tokensNum": 10})).await;
    assert!(told.contains("tokensNum is 10, it must be from 1000 to 50000"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_search_that_fails_or_finds_nothing_says_so() {
    let web = Web::start().await;
    for _ in 0..2 {
        web.page("/exa", Page { body: b"slow down".to_vec(), ..Page::status(429) });
    }
    web.page(
        "/exa",
        Page::new(
            "text/event-stream",
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n",
        ),
    );
    let agent = searching(&web, &[("OPENCODE_ENABLE_EXA", "1")]).await;
    for (tool, expected) in [
        ("websearch", "Search error (429): slow down"),
        ("codesearch", "Code search error (429): slow down"),
        ("websearch", "No search results found. Please try a different query."),
    ] {
        assert_eq!(agent.run(tool, json!({"query": "tea"})).await.1, expected);
    }
    let (_, told) = agent.run("codesearch", json!({"query": "tea"})).await;
    assert!(told.starts_with("No code snippets or documentation found."), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_search_is_asked_for_by_its_query_and_can_be_cancelled() {
    let web = Web::start().await;
    web.page("/exa", Page::hanging());
    let builder = with(&web, json!({"websearch": "ask"})).env("OPENCODE_ENABLE_EXA", "1");
    let agent = builder.start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "websearch", json!({"query": "tea"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "tea");
    assert_eq!(web.asked().len(), 0);
    agent.answer(&ask, Answer::AllowOnce);
    web.reached().await;
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
    agent.finish().await;
}
