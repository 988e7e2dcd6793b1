//! Deltas become parts, which are stored and shown in their order.

use std::{collections::VecDeque, sync::Arc};

use serde_json::json;
use windlass_base::queue::Queue;
use windlass_core::{
    bus::{Bus, Filter},
    storage::{Storage, StoredSession},
};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    part::{Part, PartKind, ToolState},
};
use windlass_provider::{Delta, Finish, Usage};

use super::{Answer, BLOCK_BYTES};
use crate::session::state::{Journal, SessionState};

struct Scene {
    _directory: tempfile::TempDir,
    storage: Storage,
    bus: Bus,
    events: Arc<Queue<Arc<Event>>>,
    state: SessionState,
    journal: Journal,
    answer: Answer,
}

impl Scene {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let storage = Storage::new(directory.path().join("windlass.db"));
        let bus = Bus::default();
        let info: windlass_protocol::opencode::session::Session = serde_json::from_value(json!({
            "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/work", "title": "t",
            "version": "0", "time": {"created": 1, "updated": 1},
        }))
        .unwrap();
        let message = serde_json::from_value(json!({
            "role": "assistant", "id": "msg_2", "sessionID": "ses_1", "parentID": "msg_1",
            "modelID": "m", "providerID": "p", "agent": "build", "mode": "build",
            "path": {"cwd": "/work", "root": "/work"}, "time": {"created": 1}, "cost": 0.0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        }))
        .unwrap();
        storage.create_session(info.clone()).await.unwrap();
        let stored = StoredSession { info, messages: Vec::new(), todos: Vec::new(), known_files: Vec::new() };
        let (mut state, mut journal) = SessionState::from_stored(stored);
        state.push_message(message, &mut journal);
        journal.commit(&storage, &bus).await.unwrap();
        let events = bus.listen(Filter::All);
        Self { _directory: directory, storage, bus, events, state, journal, answer: Answer::new(1 << 20) }
    }

    fn read(&mut self, deltas: &[Delta]) {
        let mut deltas = deltas.to_vec();
        self.answer.apply(&mut deltas, &mut self.state, &mut self.journal);
        assert_eq!(deltas, []);
    }

    /// Commits, and returns the events in short.
    async fn shown(&mut self) -> Vec<String> {
        self.journal.commit(&self.storage, &self.bus).await.unwrap();
        let mut batch = VecDeque::new();
        self.events.take(&mut batch);
        batch.iter().map(|event| self.short(&event.payload)).collect()
    }

    fn short(&self, payload: &EventPayload) -> String {
        match payload {
            EventPayload::PartUpdated { part, .. } => short_part(part),
            EventPayload::PartDelta { part_id, delta, offset, .. } => {
                let parts = &self.state.history[0].parts;
                let idx = parts.iter().position(|part| part.id == *part_id).unwrap();
                format!("{idx}+{} {delta:?}", offset.unwrap())
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    fn parts(&self) -> Vec<String> {
        self.state.history[0].parts.iter().map(short_part).collect()
    }

    async fn check_stored(&mut self) {
        self.journal.commit(&self.storage, &self.bus).await.unwrap();
        let stored = self.storage.load(self.state.info.id.clone()).await.unwrap().unwrap();
        assert_eq!(stored.messages, *self.state.history);
    }
}

fn short_part(part: &Part) -> String {
    match &part.kind {
        PartKind::Text(text) => {
            let is_open = text.time.is_some_and(|time| time.end.is_none());
            format!("text {:?}{}", text.text, if is_open { " …" } else { "" })
        }
        PartKind::Reasoning(thought) => {
            let signature = thought.metadata.as_ref().and_then(|it| it.get("signature"));
            let signature = signature.map(|it| format!(" signed {it}")).unwrap_or_default();
            let end = if thought.time.end.is_none() { " …" } else { "" };
            format!("thought {:?}{signature}{end}", thought.text)
        }
        PartKind::Tool(tool) => match &tool.state {
            ToolState::Pending { input, raw } => {
                format!("{} {} pending {input} {raw:?}", tool.tool, tool.call_id)
            }
            other => panic!("unexpected {other:?}"),
        },
        other => panic!("unexpected {other:?}"),
    }
}

fn text(block: u32, text: &str) -> Delta {
    Delta::Text { block, text: text.to_owned() }
}

fn thought(block: u32, text: &str) -> Delta {
    Delta::Reasoning { block, text: text.to_owned() }
}

fn signature(block: u32, signature: &str) -> Delta {
    Delta::Signature { block, signature: signature.to_owned() }
}

fn call(block: u32, call_id: &str, name: &str) -> Delta {
    Delta::ToolCallStart { block, call_id: call_id.to_owned(), name: name.to_owned() }
}

fn input(block: u32, json: &str) -> Delta {
    Delta::ToolCallInput { block, json: json.to_owned() }
}

#[tokio::test]
async fn text_of_one_read_is_one_piece() {
    let mut scene = Scene::new().await;
    scene.read(&[Delta::TextStart { block: 0 }, text(0, "a"), text(0, "ä")]);
    scene.read(&[text(0, "b"), text(0, "c"), Delta::BlockEnd { block: 0 }]);
    let expected = ["text \"\" …", "0+0 \"aä\"", "0+3 \"bc\"", "text \"aäbc\""];
    assert_eq!(scene.shown().await, expected);
    scene.check_stored().await;
}

#[tokio::test]
async fn an_id_the_provider_uses_again_becomes_another() {
    let mut scene = Scene::new().await;
    scene.read(&[call(0, "call_0", "read"), call(1, "call_0", "grep")]);
    let ids: Vec<&str> = scene.answer.calls.iter().map(|call| call.call_id.as_str()).collect();
    assert_eq!(ids[0], "call_0");
    assert!(ids[1].starts_with("call_0_"), "{ids:?}");
}

#[tokio::test]
async fn text_of_different_blocks_stays_apart() {
    let mut scene = Scene::new().await;
    scene.read(&[text(0, "a"), text(1, "b"), text(0, "c"), thought(2, "d"), thought(2, "e")]);
    assert_eq!(scene.parts(), ["text \"ac\" …", "text \"b\" …", "thought \"de\" …"]);
    let expected =
        ["text \"\" …", "0+0 \"a\"", "text \"\" …", "1+0 \"b\"", "0+1 \"c\"", "thought \"\" …", "2+0 \"de\""];
    assert_eq!(scene.shown().await, expected);
}

#[tokio::test]
async fn a_thought_keeps_its_signature() {
    let mut scene = Scene::new().await;
    scene.read(&[Delta::ReasoningStart { block: 0 }, thought(0, "hm"), signature(0, "ab")]);
    scene.read(&[signature(0, "cd"), Delta::BlockEnd { block: 0 }]);
    let expected = ["thought \"\" …", "0+0 \"hm\"", "thought \"hm\" signed \"abcd\""];
    assert_eq!(scene.shown().await, expected);
    scene.check_stored().await;
}

#[tokio::test]
async fn a_block_begins_with_its_first_text() {
    let mut scene = Scene::new().await;
    scene.read(&[thought(0, "hm"), Delta::BlockEnd { block: 0 }, call(2, "c1", "bash")]);
    assert!(!scene.answer.has_text);
    scene.read(&[text(1, "a")]);
    assert!(scene.answer.has_text);
    assert_eq!(scene.parts(), ["thought \"hm\"", "bash c1 pending {} \"\"", "text \"a\" …"]);
}

#[tokio::test]
async fn a_call_is_shown_when_it_begins_and_its_arguments_are_kept() {
    let mut scene = Scene::new().await;
    scene.read(&[call(0, "c1", "bash"), input(0, "{\"comm"), call(1, "c2", "read")]);
    scene.read(&[input(1, "{}"), input(0, "and\":1}"), Delta::BlockEnd { block: 0 }]);
    assert_eq!(scene.shown().await, ["bash c1 pending {} \"\"", "read c2 pending {} \"\""]);
    let calls: Vec<_> =
        scene.answer.calls.iter().map(|it| (it.part, &*it.call_id, &*it.tool, &*it.raw)).collect();
    assert_eq!(calls, [(0, "c1", "bash", "{\"command\":1}"), (1, "c2", "read", "{}")]);
}

#[tokio::test]
async fn an_answer_holds_as_much_as_it_may_and_not_more() {
    let mut scene = Scene::new().await;
    scene.answer = Answer::new(2 * BLOCK_BYTES + 5);
    scene.read(&[call(0, "c1", "write"), input(0, "{\""), text(1, "ab"), text(1, "€")]);
    assert!(scene.answer.is_cut);
    scene.read(&[input(0, "x"), text(1, "c")]);
    assert_eq!(scene.answer.calls[0].raw, "{\"");
    assert_eq!(scene.shown().await, ["write c1 pending {} \"\"", "text \"\" …", "1+0 \"ab\""]);
    let mut scene = Scene::new().await;
    scene.answer = Answer::new(3 * BLOCK_BYTES);
    scene.read(&[0, 1, 2, 3].map(|block| Delta::TextStart { block }));
    assert_eq!((scene.answer.is_cut, scene.parts().len()), (true, 3));
}

#[tokio::test]
async fn what_belongs_to_no_open_block_is_dropped() {
    let mut scene = Scene::new().await;
    scene.read(&[input(0, "{}"), signature(1, "ab"), Delta::BlockEnd { block: 2 }]);
    assert_eq!(scene.parts(), [""; 0]);
    assert_eq!(scene.shown().await, [""; 0]);
}

#[tokio::test]
async fn a_text_behind_a_closed_block_of_the_same_number_is_a_new_part() {
    let mut scene = Scene::new().await;
    scene.read(&[text(0, "a"), Delta::BlockEnd { block: 0 }, text(0, "b")]);
    assert_eq!(scene.parts(), ["text \"a\"", "text \"b\" …"]);
}

#[tokio::test]
async fn the_largest_report_of_each_count_holds() {
    let mut scene = Scene::new().await;
    let first = Usage { input: 10, output: 1, reasoning: 0, cache_read: 5, cache_write: 7 };
    let second = Usage { input: 0, output: 9, reasoning: 3, cache_read: 6, cache_write: 0 };
    scene.read(&[Delta::Usage(first), Delta::Finish(Finish::Length), Delta::Usage(second)]);
    let expected = Usage { input: 10, output: 9, reasoning: 3, cache_read: 6, cache_write: 7 };
    assert_eq!((scene.answer.usage, scene.answer.finish), (expected, Some(Finish::Length)));
    assert!(!scene.answer.has_text);
}

#[tokio::test]
async fn what_the_provider_left_open_is_closed_at_the_end() {
    let mut scene = Scene::new().await;
    scene.read(&[thought(0, "hm"), text(1, "a"), call(2, "c", "bash")]);
    scene.shown().await;
    for expected in [&["thought \"hm\"", "text \"a\""][..], &[]] {
        scene.answer.end_all(&mut scene.state, &mut scene.journal);
        assert_eq!(scene.shown().await, expected);
    }
    assert_eq!(scene.parts(), ["thought \"hm\"", "text \"a\"", "bash c pending {} \"\""]);
    scene.check_stored().await;
}
