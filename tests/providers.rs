//! Providers over loopback: each wire with a loop of tools, and the requests that a provider is sent.

use serde_json::{Value, json};

use crate::support::{
    agent::Agent,
    llm::{Finish, Reply, Wire},
};

const WIRES: [Wire; 4] = [Wire::OpenAi, Wire::Responses, Wire::Anthropic, Wire::Google];

#[tokio::test]
async fn every_wire_carries_thoughts_and_parallel_calls_through_two_steps() {
    for wire in WIRES {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        let read =
            |offset: u32| json!({"filePath": agent.scratch.path("a.txt"), "offset": offset, "limit": 1});
        let calls = Reply::reasoning("Both lines at once.").and_text("Reading.");
        agent.llm.reply(calls.and_call("call_1", "read", read(1)).and_call("call_2", "read", read(2)));
        agent.llm.reply(Reply::text("Read."));
        let turn = agent.prompt(&session, "read it").await;
        assert_eq!(turn.text(), "Reading.Read.", "{wire:?}");
        let second = agent.llm.last_request();
        assert!(second.tool_result("call_1").contains("1: one"), "{wire:?}");
        assert!(second.tool_result("call_2").contains("2: two"), "{wire:?}");
        let body = second.body.to_string();
        let sent_back = match wire {
            Wire::OpenAi => json!("Both lines at once."),
            // The signatures of the scripted model.
            Wire::Responses | Wire::Anthropic | Wire::Google => json!("c2ln"),
        };
        assert!(body.contains(&sent_back.to_string()), "{wire:?}: {body}");
        assert!(second.system().contains("Today's date"), "{wire:?}");

        // Another prompt repeats the earlier messages without a change.
        agent.llm.reply(Reply::text("Again."));
        agent.prompt(&session, "again").await;
        let conversation = |request: &crate::support::llm::request::Request| -> Vec<Value> {
            let key = match wire {
                Wire::OpenAi | Wire::Anthropic => "messages",
                Wire::Responses => "input",
                Wire::Google => "contents",
            };
            request.body[key].as_array().unwrap().clone()
        };
        let (before, after) = (conversation(&second), conversation(&agent.llm.last_request()));
        let unmarked = |mut message: Value| {
            for block in message["content"].as_array_mut().into_iter().flatten() {
                block.as_object_mut().unwrap().remove("cache_control");
            }
            message
        };
        for (at, (old, new)) in before.into_iter().zip(after).enumerate() {
            assert_eq!(unmarked(new), unmarked(old), "{wire:?} {at}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_first_answer_that_says_nothing_is_an_error_with_a_name() {
    for wire in WIRES {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text(""));
        let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
        assert!(error.message.contains("the answer is empty"), "{wire:?}: {error:?}");
        agent.llm.reply(Reply::text("Here."));
        assert_eq!(agent.prompt(&session, "again").await.text(), "Here.", "{wire:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn calls_that_are_announced_and_never_come_are_an_empty_answer() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        let silent = || Reply::text("").finish(Finish::Calls);
        agent.llm.reply(silent());
        let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
        assert!(error.message.contains("the answer is empty"), "{wire:?}: {error:?}");
        // Behind results, saying nothing is an end; announcing a call is none.
        agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": agent.scratch.path("a.txt")})));
        agent.llm.reply(silent());
        let error = agent.send_prompt(&session, "again").answer().await.unwrap_err();
        assert!(error.message.contains("the answer is empty"), "{wire:?}: {error:?}");
        agent.llm.reply(Reply::text("Here.").finish(Finish::Calls));
        assert_eq!(agent.prompt(&session, "once more").await.text(), "Here.", "{wire:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn calls_of_one_id_or_of_a_tool_that_was_not_offered_are_answered_each() {
    for wire in WIRES {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        let file = json!({"filePath": agent.scratch.path("a.txt")});
        let calls = Reply::call("call_1", "teleport", json!({"to": "the moon"}));
        agent.llm.reply(calls.and_call("call_1", "read", file));
        agent.llm.reply(Reply::text("Done."));
        assert_eq!(agent.prompt(&session, "go").await.text(), "Done.", "{wire:?}");
        let second = agent.llm.last_request();
        assert!(second.tool_result("call_1").contains("teleport"), "{wire:?}");
        let body = second.body.to_string();
        assert!(body.contains("1: one"), "{wire:?}: {body}");
        agent.finish().await;
    }
}
