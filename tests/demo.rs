//! The demo model: no key, no network, the whole loop.

use serde_json::json;

use crate::support::{
    agent::{Agent, Answer},
    llm::Llm,
    message::{content_text, diff},
};

async fn demo() -> Agent {
    let config = json!({"permission": {"edit": "ask", "bash": "ask"}});
    Agent::builder().without_provider().config(config).start().await
}

/// Ends the agent and checks that the only model around was never asked.
async fn finish(agent: Agent) {
    let llm: Llm = agent.llm.clone();
    agent.finish().await;
    assert!(llm.requests().is_empty() && llm.title_requests().is_empty());
}

#[tokio::test]
async fn without_a_provider_the_demo_says_how_to_get_one() {
    let agent = demo().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "hello").await;
    assert_eq!(turn.stop, "end_turn");
    let said = turn.text();
    assert!(said.contains("ANTHROPIC_API_KEY") && said.contains("opencode.json"), "{said}");
    assert!(said.contains("/demo tour"), "the demo must say what it understands: {said}");
    finish(agent).await;
}

#[tokio::test]
async fn the_default_model_is_the_demo() {
    let agent = demo().await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    let model =
        answer["configOptions"].as_array().unwrap().iter().find(|option| option["id"] == "model").unwrap();
    assert_eq!(model["currentValue"], "windlass/demo");
    finish(agent).await;
}

#[tokio::test]
async fn run_runs_the_command_after_asking() {
    let agent = demo().await;
    let session = agent.new_session().await;
    let prompt = agent.send_prompt(&session, "/demo run echo from the demo");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "echo from the demo");
    agent.answer(&ask, Answer::AllowOnce);
    let turn = prompt.turn().await;
    let call = turn.tool(ask.call()["toolCallId"].as_str().unwrap());
    assert!(content_text(&call).contains("from the demo"), "{call}");
    finish(agent).await;
}

#[tokio::test]
async fn read_reads_the_file() {
    let agent = demo().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "/demo read a.txt").await;
    let call = turn.tool(turn.all("tool_call")[0]["toolCallId"].as_str().unwrap());
    assert_eq!((&call["kind"], &call["status"]), (&json!("read"), &json!("completed")));
    assert!(content_text(&call).contains("two"), "{call}");
    finish(agent).await;
}

#[tokio::test]
async fn edit_changes_the_file_behind_a_permission_with_a_diff() {
    let agent = demo().await;
    let session = agent.new_session().await;
    let before = agent.scratch.read("a.txt");
    let prompt = agent.send_prompt(&session, "/demo edit a.txt");
    let ask = agent.permission().await;
    assert_eq!(diff(ask.call())["oldText"], before.as_str());
    assert_eq!(agent.scratch.read("a.txt"), before);
    agent.answer(&ask, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert_eq!(diff(ask.call())["newText"], agent.scratch.read("a.txt"));
    assert_ne!(agent.scratch.read("a.txt"), before);
    finish(agent).await;
}

#[tokio::test]
async fn plan_shows_a_plan() {
    let agent = demo().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "/demo plan").await;
    let plan = turn.all("plan");
    assert!(!plan.is_empty() && plan[0]["entries"].as_array().is_some_and(|entries| entries.len() > 1));
    finish(agent).await;
}

#[tokio::test]
async fn tour_shows_everything_and_is_the_same_every_time() {
    let mut said = Vec::new();
    for _ in 0..2 {
        let config = json!({"permission": {"edit": "ask", "bash": "ask"}});
        let builder = Agent::builder().without_provider().config(config).answering(Answer::AllowOnce);
        let agent = builder.start().await;
        let session = agent.new_session().await;
        let turn = agent.prompt(&session, "/demo tour").await;
        assert_eq!(turn.stop, "end_turn");
        let tags = turn.tags();
        for tag in ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"] {
            assert!(tags.contains(&tag), "the tour shows no {tag}");
        }
        let mut kinds: Vec<&str> =
            turn.all("tool_call").into_iter().filter_map(|call| call["kind"].as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in ["edit", "execute", "read"] {
            assert!(kinds.contains(&kind), "the tour shows no {kind}: {kinds:?}");
        }
        assert!(agent.n_asked() > 0, "the tour asks for nothing");
        said.push(turn.text().replace(agent.scratch.cwd(), "/work"));
        finish(agent).await;
    }
    assert_eq!(said[0], said[1]);
}
