//! Each byte once in a terminal, the last lines now and then elsewhere, and never more on the wire than that needs.

use std::path::Path;

use serde_json::{Value, json};
use windlass_protocol_acp::decode::Version;

use super::*;
use crate::acp::{lines::Dialect, to_proto};

fn bases() -> BaseDirectories<'static> {
    BaseDirectories { cwd: Path::new("/work"), home: Path::new("/home/u") }
}

/// Returns a destination in the words of version 1, or of version 2 where the terminals are ours.
fn lines(terminals: Terminals, bytes: &mut Vec<u8>) -> Lines<'_> {
    let version = if terminals == Terminals::Owned { Version::V2 } else { Version::V1 };
    Lines { dialect: Dialect { version, has_diff_patches: false, has_plans: false }, bytes }
}

struct Scene {
    outputs: Outputs,
    session_id: SessionId,
    part_id: PartId,
    out: Vec<u8>,
    printed: String,
    now: Instant,
}

impl Scene {
    fn new(terminals: Terminals) -> Self {
        Self {
            outputs: Outputs { terminals, ..Outputs::default() },
            session_id: SessionId::from_trusted("ses_1"),
            part_id: PartId::from_trusted("prt_1"),
            out: Vec::new(),
            printed: String::new(),
            now: Instant::now(),
        }
    }

    /// Returns the updates since the last look.
    fn updates(&mut self) -> Vec<Value> {
        let text = String::from_utf8(std::mem::take(&mut self.out)).unwrap();
        let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        messages.map(|mut message| message["params"]["update"].take()).collect()
    }

    fn begin(&mut self, state: Value) -> Vec<Value> {
        let tool = tool(state);
        let update = to_proto::tool_call_update(&tool, bases());
        let mut out = lines(self.outputs.terminals, &mut self.out);
        let id = &self.session_id;
        let update = self.outputs.begin(id, update, &tool, bases(), Some(bases()), &mut out);
        out.update(id, SessionUpdate::ToolCallUpdate(update));
        self.outputs.more(id, &self.part_id, &tool, self.now, &mut out);
        self.updates()
    }

    /// Has the command print more, of which the report holds the last `n_kept` bytes.
    fn print(&mut self, more: &str, n_kept: usize) -> Vec<Value> {
        self.printed.push_str(more);
        let state = running(text::tail(&self.printed, n_kept), self.printed.len());
        let mut out = lines(self.outputs.terminals, &mut self.out);
        assert!(self.outputs.more(&self.session_id, &self.part_id, &tool(state), self.now, &mut out));
        self.updates()
    }

    fn end(&mut self, state: Value) -> Value {
        let tool = tool(state);
        let update = to_proto::tool_call_update(&tool, bases());
        let mut out = lines(self.outputs.terminals, &mut self.out);
        self.outputs.end(&self.session_id, &self.part_id, &tool, update, &mut out);
        let mut updates = self.updates();
        assert_eq!(updates.len(), 1, "{updates:?}");
        updates.remove(0)
    }
}

fn tool(state: Value) -> ToolPart {
    serde_json::from_value(json!({ "callID": "call_1", "tool": "bash", "state": state })).unwrap()
}

fn running(output: &str, n_printed: usize) -> Value {
    json!({ "status": "running", "input": {"command": "make"}, "time": {"start": 1},
            "metadata": {"output": output, "printed": n_printed} })
}

fn completed(metadata: Value) -> Value {
    json!({ "status": "completed", "input": {"command": "make"}, "output": "told", "title": "make",
            "metadata": metadata, "time": {"start": 1, "end": 2} })
}

fn failed(metadata: Value) -> Value {
    json!({ "status": "error", "input": {"command": "make"}, "error": "no", "metadata": metadata,
            "time": {"start": 1, "end": 2} })
}

/// Returns the text that an update writes to the terminal; it must do nothing else.
fn data(update: &Value) -> String {
    let data = update["_meta"]["terminal_output"]["data"].as_str().unwrap_or_default().to_owned();
    let expected = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "call_1",
        "_meta": {"terminal_output": {"terminal_id": "call_1", "data": data}} });
    assert_eq!(*update, expected);
    data
}

fn tail(update: &Value) -> String {
    let text = update["content"][0]["content"]["text"].as_str().unwrap_or_default().to_owned();
    let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let expected = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "call_1", "content": content });
    assert_eq!(*update, expected);
    text
}

#[test]
fn a_command_gets_a_terminal_where_the_client_has_them() {
    let terminals = Outputs { terminals: Terminals::Output, ..Outputs::default() };
    let open = |outputs: &Outputs, name: &str, input: Value| {
        let state = json!({ "status": "pending", "input": input, "raw": "" });
        let mut tool = tool(state);
        tool.tool = name.to_owned();
        let (id, call) = (SessionId::from_trusted("ses_1"), to_proto::tool_call(&tool, bases()));
        json!(outputs.open(&id, call, &tool, bases(), &mut lines(outputs.terminals, &mut Vec::new())))
    };
    let call = open(&terminals, "bash", json!({}));
    assert_eq!(call["content"], json!([{"type": "terminal", "terminalId": "call_1"}]));
    assert_eq!(call["_meta"], json!({"terminal_info": {"terminal_id": "call_1", "cwd": "/work"}}));
    let call = open(&terminals, "bash", json!({"workdir": "sub"}));
    assert_eq!(call["_meta"]["terminal_info"]["cwd"], "/work/sub");
    for call in [open(&terminals, "read", json!({})), open(&Outputs::default(), "bash", json!({}))] {
        assert_eq!((&call["content"], &call["_meta"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn a_terminal_learns_where_the_command_runs_once_that_is_known() {
    let begin = |workdir: &str| {
        let input = json!({"command": "make", "workdir": workdir});
        Scene::new(Terminals::Output)
            .begin(json!({ "status": "running", "input": input, "time": {"start": 1} }))
    };
    assert_eq!(begin("sub")[0]["_meta"]["terminal_info"]["cwd"], "/work/sub");
    assert_eq!(begin("/work")[0]["_meta"], Value::Null);
}

#[test]
fn a_terminal_is_written_each_byte_once() {
    let mut scene = Scene::new(Terminals::Output);
    let begun = scene.begin(running("", 0));
    assert_eq!((begun.len(), &begun[0]["status"]), (1, &json!("in_progress")));
    let mut seen = String::new();
    for more in ["one\n", "\u{1b}[31mtwo\u{1b}[0m", "é\u{0}", "three\r\n"] {
        let updates = scene.print(more, 12);
        assert_eq!(updates.len(), 1);
        seen.push_str(&data(&updates[0]));
    }
    assert_eq!(seen, scene.printed);
    assert_eq!(scene.print("", 12), Vec::<Value>::new());
    let end = scene.end(completed(json!({"output": "anything", "exit": 0, "truncated": false})));
    let exit = json!({"terminal_exit": {"terminal_id": "call_1", "exit_code": 0, "signal": null}});
    assert_eq!((&end["_meta"], &end["content"], &end["status"]), (&exit, &Value::Null, &json!("completed")));
    assert_eq!(end["rawOutput"], json!({"output": "told", "metadata": {"exit": 0, "truncated": false}}));
}

#[test]
fn of_a_flood_a_terminal_is_written_the_end_and_told_what_is_missing() {
    let mut scene = Scene::new(Terminals::Output);
    scene.print("begin\n", 12);
    let updates = scene.print(&format!("{}\nlast\n", "x".repeat(100)), 12);
    assert_eq!(data(&updates[0]), "\u{1b}[0m\r\n[101 bytes are not shown]\r\nlast\n");
    assert_eq!(data(&scene.print("more\n", 12)[0]), "more\n");
}

#[test]
fn a_call_of_the_past_is_shown_in_its_terminal_with_its_end() {
    let mut scene = Scene::new(Terminals::Output);
    let shown = |scene: &mut Scene, state: Value| {
        let tool = tool(state);
        let update = to_proto::tool_call_update(&tool, bases());
        let mut out = lines(scene.outputs.terminals, &mut scene.out);
        scene.outputs.end(&scene.session_id, &scene.part_id, &tool, update, &mut out);
        scene.updates()
    };
    let updates =
        shown(&mut scene, completed(json!({"output": "said\n", "exit": null, "signal": "SIGTERM"})));
    assert_eq!(data(&updates[0]), "said\n");
    assert_eq!(updates[1]["_meta"]["terminal_exit"]["signal"], "SIGTERM");
    let updates = shown(&mut scene, failed(json!({"output": "said\n", "interrupted": true})));
    assert_eq!(data(&updates[0]), "said\n");
    assert_eq!((&updates[1]["status"], &updates[1]["content"]), (&json!("failed"), &Value::Null));
    let long = "x".repeat(MAX_LIVE_CHARS);
    let updates = shown(&mut scene, completed(json!({"output": long, "exit": 0, "truncated": true})));
    assert_eq!(data(&updates[0]), format!("[what came before is not shown]\r\n{long}"));
    let updates = shown(&mut scene, completed(json!({"output": "", "exit": 0, "truncated": false})));
    assert_eq!(updates.len(), 1);
}

#[test]
fn where_nothing_ran_the_reason_takes_the_place_of_the_terminal() {
    let end = Scene::new(Terminals::Output).end(failed(json!({})));
    assert_eq!(end["content"][0]["content"]["text"], "no");
    let exit = json!({"terminal_id": "call_1", "exit_code": null, "signal": null});
    assert_eq!(end["_meta"]["terminal_exit"], exit);
}

#[test]
fn a_terminal_opened_late_gets_what_there_still_is() {
    let mut scene = Scene::new(Terminals::Output);
    let updates = scene.begin(running("x\nend\n", 100));
    assert_eq!((updates.len(), &updates[0]["content"]), (2, &Value::Null));
    assert_eq!(data(&updates[1]), "\u{1b}[0m\r\n[96 bytes are not shown]\r\nend\n");
}

#[test]
fn without_terminals_the_last_lines_are_shown_at_once_then_now_and_then() {
    let mut scene = Scene::new(Terminals::None);
    assert_eq!(scene.begin(running("", 0)).len(), 1);
    assert_eq!(tail(&scene.print("one\n", 30_000)[0]), "one\n");
    // Few new lines wait, and nothing is due before the time has come.
    scene.now += Duration::from_millis(200);
    assert_eq!(scene.print("t\n", 30_000), Vec::<Value>::new());
    let due = scene.outputs.due().unwrap();
    assert_eq!(due - scene.now, Duration::from_millis(800));
    scene.outputs.show_due(scene.now, &mut lines(Terminals::None, &mut scene.out));
    assert_eq!(scene.updates(), Vec::<Value>::new());
    scene.now += Duration::from_millis(800);
    scene.outputs.show_due(scene.now, &mut lines(Terminals::None, &mut scene.out));
    assert_eq!(tail(&scene.updates()[0]), "one\nt\n");
    assert_eq!(scene.outputs.due(), None);
    // As much that is new as is sent does not wait that long.
    scene.now += QUICK;
    assert_eq!(tail(&scene.print(&"x".repeat(9000), 30_000)[0]).len(), LIVE_TAIL);
    let end = scene.end(completed(json!({"output": "said", "exit": 0, "truncated": false})));
    assert_eq!((&end["content"][0]["content"]["text"], &end["_meta"]), (&json!("told"), &Value::Null));
}

#[test]
fn what_waits_is_forgotten_with_its_call() {
    let mut scene = Scene::new(Terminals::None);
    scene.print("one\n", 30_000);
    scene.print("t\n", 30_000);
    assert!(scene.outputs.due().is_some());
    scene.end(completed(json!({"output": "one\nt\n", "exit": 0, "truncated": false})));
    assert_eq!(scene.outputs.due(), None);
    scene.printed.clear();
    scene.print("one\n", 30_000);
    scene.print("t\n", 30_000);
    scene.outputs.forget(&scene.session_id);
    assert_eq!(scene.outputs.due(), None);
}

#[test]
fn a_client_of_jetbrains_gets_the_bytes_by_its_own_key() {
    let mut scene = Scene::new(Terminals::OutputDelta);
    scene.begin(running("", 0));
    let written = scene.print("one\n", 12);
    assert_eq!(
        written[0]["_meta"],
        json!({"terminal_output_delta": {"terminal_id": "call_1", "data": "one\n"}})
    );
    let end = scene.end(completed(json!({"output": "one\n", "exit": 0, "truncated": false})));
    assert_eq!(end["_meta"]["terminal_exit"]["exit_code"], 0);
}

#[test]
fn in_version_2_a_terminal_of_ours_begins_is_written_and_ends() {
    let mut scene = Scene::new(Terminals::Owned);
    let begun = scene.begin(running("", 0));
    let begin = json!({"sessionUpdate": "terminal_update", "terminalId": "call_1", "cwd": "/work", "command": "make"});
    assert_eq!(begun[0], begin);
    let written = scene.print("one\n", 12);
    let chunk = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "call_1", "data": "b25lCg=="});
    assert_eq!(written, [chunk]);
    let mut out = lines(Terminals::Owned, &mut scene.out);
    let tool = tool(completed(json!({"output": "one\n", "exit": 3, "truncated": false})));
    let update = to_proto::tool_call_update(&tool, bases());
    scene.outputs.end(&scene.session_id, &scene.part_id, &tool, update, &mut out);
    let ended = scene.updates();
    let exit =
        json!({"sessionUpdate": "terminal_update", "terminalId": "call_1", "exitStatus": {"exitCode": 3}});
    assert!(ended.contains(&exit), "{ended:?}");
    assert_eq!(ended.last().unwrap()["status"], "failed");
}
