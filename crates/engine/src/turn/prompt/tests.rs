//! Requests that are made of a history.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_core::{
    config::{Environment, fixture::load, paths::Paths},
    library::{self, Agent, BUILD_REMINDER, InstructionBlock, PLAN_FILE_REMINDER, PLAN_REMINDER},
};
use windlass_protocol::opencode::{
    config::ModelLimit,
    message::{Message, MessageWithParts},
};
use windlass_provider::{
    self as provider, AssistantContent, Auth, Encoded, Media, Model, PromptMessage, Quirks, Sampling,
    Timeouts, ToolResult, ToolSpec, UserContent, Wire, auth::Credentials, catalog,
};

use super::{CLAUDE, DEFAULT, GEMINI, GPT, Inputs, LAST_STEP, assemble, keep};
use crate::{session::state::SessionState, workspace::loaded::Loaded};

/// 2026-09-21 11:00 UTC: the same day in nearly every time zone.
const ASKED: i64 = 1_789_988_400_000;

struct Scene {
    loaded: Loaded,
    agent: Agent,
    model: Model,
    instructions: Vec<InstructionBlock>,
    state: SessionState,
    is_last: bool,
}

impl Scene {
    fn new(history: Vec<MessageWithParts>) -> Self {
        let environment =
            Environment { trusts_projects: true, home: "/nowhere".into(), ..Environment::default() };
        let config = load(&environment, &Paths::new(&environment), Path::new("/nowhere/project"));
        let (agents, _) = library::agents(&config, &[]);
        let (catalog, _) = catalog::resolve(&config, &Credentials::default());
        let info = json!({
            "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/nowhere/project", "title": "t",
            "version": "0", "time": {"created": 1, "updated": 1},
        });
        Self {
            agent: agents.iter().find(|agent| agent.name == "build").unwrap().clone(),
            model: model(),
            instructions: Vec::new(),
            state: SessionState::new(serde_json::from_value(info).unwrap(), history),
            is_last: false,
            loaded: Loaded {
                config,
                agents,
                skills: Vec::new(),
                commands: Default::default(),
                catalog,
                last_used: None,
                model_places: Default::default(),
                market: Vec::new(),
                plan: Default::default(),
                warnings: Vec::new(),
                notes: Vec::new(),
            },
        }
    }

    fn by(self, agent: &str) -> Self {
        Self { agent: self.loaded.agent(agent).unwrap().clone(), ..self }
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            loaded: &self.loaded,
            agent: &self.agent,
            model: &self.model,
            variant: None,
            instructions: &self.instructions,
            skills: "<skills>",
            server_instructions: "<of servers>",
            state: &self.state,
            tools: vec![tool()],
            is_last: self.is_last,
            is_structured: false,
            client_prompt: None,
        }
    }

    #[track_caller]
    fn check(&self, expected: &[PromptMessage<'_>]) {
        assert_eq!(assemble(&self.inputs()).messages, expected);
    }
}

fn tool() -> ToolSpec<'static> {
    ToolSpec {
        name: "read".into(),
        description: "reads".into(),
        schema: std::borrow::Cow::Owned(json!({"type": "object"})),
    }
}

fn model() -> Model {
    Model {
        provider_id: "p".to_owned(),
        provider_name: "P".to_owned(),
        id: "m".to_owned(),
        api_id: "m-1".to_owned(),
        name: "Em".to_owned(),
        wire: Wire::Demo,
        base_url: String::new(),
        is_foreign: false,
        api_key: None,
        has_login: false,
        key_variable: None,
        exchange: None,
        auth: Auth::Bearer,
        aws: None,
        quirks: Quirks::default(),
        headers: Vec::new(),
        fetch: None,
        limit: ModelLimit::default(),
        cost: Default::default(),
        takes_images: true,
        takes_pdf: true,
        takes_tools: true,
        takes_temperature: true,
        reasons: false,
        sampling: Sampling::default(),
        options: Map::new(),
        variants: Vec::new(),
        timeouts: Timeouts::DEFAULT,
    }
}

fn with_parts(info: Value, parts: Value) -> MessageWithParts {
    let mut parts = parts;
    for (idx, part) in parts.as_array_mut().unwrap().iter_mut().enumerate() {
        part["id"] = json!(format!("prt_{idx}"));
        part["sessionID"] = json!("ses_1");
        part["messageID"] = info["id"].clone();
    }
    serde_json::from_value(json!({"info": info, "parts": parts})).unwrap()
}

fn user_of(agent: &str, id: &str, parts: Value) -> MessageWithParts {
    let info = json!({
        "role": "user", "id": id, "sessionID": "ses_1", "time": {"created": ASKED}, "agent": agent,
        "model": {"providerID": "p", "modelID": "m"},
    });
    with_parts(info, parts)
}

fn user(parts: Value) -> MessageWithParts {
    user_of("build", "msg_1", parts)
}

fn answer_with(changes: Value, parts: Value) -> MessageWithParts {
    let mut info = json!({
        "role": "assistant", "id": "msg_2", "sessionID": "ses_1", "parentID": "msg_1", "modelID": "m",
        "providerID": "p", "agent": "build", "mode": "build", "path": {"cwd": "/", "root": "/"},
        "time": {"created": 1, "completed": 2}, "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    info.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    with_parts(info, parts)
}

fn answer(parts: Value) -> MessageWithParts {
    answer_with(json!({}), parts)
}

fn said(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn asks<'a>(texts: &[&'a str]) -> PromptMessage<'a> {
    PromptMessage::User(texts.iter().map(|&text| UserContent::Text(text.into())).collect())
}

fn answers<'a>(texts: &[&'a str]) -> PromptMessage<'a> {
    PromptMessage::Assistant(texts.iter().map(|&text| AssistantContent::Text(text.into())).collect())
}

#[track_caller]
fn check_user(parts: Value, expected: &[UserContent<'_>]) {
    let scene = Scene::new(vec![user(parts)]);
    let expected = [PromptMessage::User(expected.to_vec())];
    scene.check(if expected == [PromptMessage::User(vec![])] { &[] } else { &expected });
}

#[test]
fn the_user_says_what_is_not_ignored() {
    check_user(
        json!([
            {"type": "text", "text": "a"},
            {"type": "text", "text": "for the user", "ignored": true},
            {"type": "text", "text": "read for you", "synthetic": true},
            {"type": "text", "text": ""},
        ]),
        &[UserContent::Text("a".into()), UserContent::Text("read for you".into())],
    );
    // A compaction that has brought no summary.
    check_user(json!([{"type": "compaction", "auto": true}]), &[]);
    check_user(
        json!([{"type": "subtask", "prompt": "p", "description": "d", "agent": "general"}]),
        &[UserContent::Text("The following tool was executed by the user".into())],
    );
    check_user(json!([{"type": "text", "text": "", "synthetic": true}, {"type": "agent", "name": "x"}]), &[]);
}

#[test]
fn a_file_that_was_read_into_text_is_not_sent_again() {
    check_user(json!([{"type": "file", "mime": "text/plain", "url": "file:///a.rs"}]), &[]);
    check_user(json!([{"type": "file", "mime": "text/plain", "url": "data:text/plain;base64,AAAA"}]), &[]);
}

#[track_caller]
fn check_media(mime: &str, filename: Option<&str>, change: fn(&mut Model), expected: UserContent<'_>) {
    let url = format!("data:{mime};base64,{}", data(mime));
    let file = json!([{"type": "file", "mime": mime, "filename": filename, "url": url}]);
    let mut scene = Scene::new(vec![user(file)]);
    change(&mut scene.model);
    scene.check(&[PromptMessage::User(vec![expected])]);
}

#[test]
fn media_goes_to_models_that_take_it_and_the_others_are_told() {
    let media = |mime, filename| UserContent::Media(Media { mime, filename, base64: data(mime) });
    check_media("image/png", None, |_| {}, media("image/png", None));
    check_media("image/png", None, |model| model.takes_pdf = false, media("image/png", None));
    check_media("application/pdf", Some("a.pdf"), |_| {}, media("application/pdf", Some("a.pdf")));
    let refused = "ERROR: Cannot read a.png (this model does not support image input). Inform the user.";
    check_media(
        "image/png",
        Some("a.png"),
        |model| model.takes_images = false,
        UserContent::Text(refused.into()),
    );
    let refused =
        "ERROR: Cannot read the attachment (this model does not support pdf input). Inform the user.";
    check_media("application/pdf", None, |model| model.takes_pdf = false, UserContent::Text(refused.into()));
}

/// The data of a picture or a document of this type.
fn data(mime: &str) -> &'static str {
    match mime {
        "image/png" => "iVBORw0KGgo=",
        "application/pdf" => "JVBERi0x",
        _ => "AAAA",
    }
}

#[test]
fn a_picture_of_another_type_than_it_was_stored_as_is_sent_as_what_it_is_and_no_picture_is_named() {
    let stored = |mime: &str, base64: &str| {
        let url = format!("data:{mime};base64,{base64}");
        Scene::new(vec![user(json!([{"type": "file", "mime": mime, "filename": "a.png", "url": url}]))])
    };
    let (png, filename) = (data("image/png"), Some("a.png"));
    for mime in ["image/jpeg", "image/jpg", "IMAGE/PNG", "image/png; charset=binary"] {
        let sent = UserContent::Media(Media { mime: "image/png", filename, base64: png });
        stored(mime, png).check(&[PromptMessage::User(vec![sent])]);
    }
    let note = "[a.png is not shown: it is no file of the type image/png]";
    stored("image/png", "PGh0bWw+").check(&[PromptMessage::User(vec![UserContent::Text(note.into())])]);
}

/// Checks the result that the model gets for a call of `read` in this state.
#[track_caller]
fn check_tool(state: Value, expected: &str, is_error: bool) {
    let input = state["input"].clone();
    let parts = json!([{"type": "tool", "callID": "c", "tool": "read", "state": state}]);
    Scene::new(vec![user(said("a")), answer(parts)]).check(&[
        asks(&["a"]),
        PromptMessage::Assistant(vec![AssistantContent::ToolCall {
            call_id: "c",
            name: "read",
            input: &input,
            signature: None,
        }]),
        PromptMessage::ToolResults(vec![ToolResult {
            call_id: "c",
            name: "read",
            output: expected.into(),
            is_error,
            media: Vec::new(),
        }]),
    ]);
}

#[test]
fn every_call_has_a_result() {
    let (input, time) = (json!({"filePath": "/a"}), json!({"start": 1, "end": 2}));
    let completed = json!({
        "status": "completed", "input": input, "output": "o", "title": "t", "metadata": {}, "time": time,
    });
    check_tool(completed.clone(), "o", false);
    let mut compacted = completed;
    compacted["time"]["compacted"] = json!(3);
    compacted["attachments"] = json!([attachment("image/png")]);
    check_tool(compacted, "[Old tool result content cleared]", false);

    let failed = |error: &str, metadata: Value| json!({"status": "error", "input": input, "error": error, "metadata": metadata, "time": time});
    check_tool(failed("no such file", json!({"output": "partial"})), "no such file", true);
    check_tool(failed("no such file", Value::Null), "no such file", true);
    let aborted = "Tool execution aborted";
    check_tool(
        failed(aborted, json!({"output": "cc main.c", "interrupted": true})),
        "cc main.c\n\nTool execution aborted",
        true,
    );
    check_tool(failed(aborted, json!({"interrupted": true})), aborted, true);

    let interrupted = "[Tool execution was interrupted]";
    check_tool(json!({"status": "pending", "input": {}, "raw": "{"}), interrupted, true);
    check_tool(json!({"status": "running", "input": input, "time": {"start": 1}}), interrupted, true);
}

fn attachment(mime: &str) -> Value {
    json!({
        "id": "prt_9", "sessionID": "ses_1", "messageID": "msg_2", "type": "file", "mime": mime,
        "url": format!("data:{mime};base64,{}", data(mime)),
    })
}

#[test]
fn what_a_tool_attached_is_in_its_result() {
    let parts = json!([{"type": "tool", "callID": "c", "tool": "read", "state": {
        "status": "completed", "input": {}, "output": "Image read", "title": "t", "metadata": {},
        "time": {"start": 1, "end": 2}, "attachments": [attachment("image/png"), attachment("text/plain")],
    }}]);
    let scene = Scene::new(vec![user(said("a")), answer(parts)]);
    let media = vec![Media { mime: "image/png", filename: None, base64: data("image/png") }];
    match assemble(&scene.inputs()).messages.as_slice() {
        [_, _, PromptMessage::ToolResults(results)] => assert_eq!(results[0].media, media),
        other => panic!("expected a result: {other:?}"),
    }
}

#[test]
fn an_answer_keeps_its_order_and_its_results_follow_it() {
    let done = |id: &str| {
        json!({"type": "tool", "callID": id, "tool": "read", "state": {
            "status": "completed", "input": {}, "output": id, "title": "t", "metadata": {},
            "time": {"start": 1, "end": 2},
        }})
    };
    let parts = json!([
        {"type": "step-start"},
        {"type": "text", "text": "a"},
        done("c1"),
        {"type": "text", "text": ""},
        {"type": "text", "text": "b"},
        done("c2"),
        {"type": "step-finish", "reason": "stop", "cost": 0.0,
         "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}},
    ]);
    let input = json!({});
    let call = |call_id| AssistantContent::ToolCall { call_id, name: "read", input: &input, signature: None };
    let result = |call_id: &'static str| ToolResult {
        call_id,
        name: "read",
        output: call_id.into(),
        is_error: false,
        media: Vec::new(),
    };
    let text = |text: &'static str| AssistantContent::Text(text.into());
    Scene::new(vec![user(said("x")), answer(parts), answer(said("done"))]).check(&[
        asks(&["x"]),
        PromptMessage::Assistant(vec![text("a"), call("c1"), text("b"), call("c2")]),
        PromptMessage::ToolResults(vec![result("c1"), result("c2")]),
        answers(&["done"]),
    ]);
}

#[track_caller]
fn check_thought(
    model_id: &str,
    text: &str,
    signature: Option<&str>,
    expected: Option<AssistantContent<'_>>,
) {
    let metadata = signature.map(|it| json!({"signature": it}));
    let parts =
        json!([{"type": "reasoning", "text": text, "time": {"start": 1, "end": 2}, "metadata": metadata}]);
    let scene = Scene::new(vec![answer_with(json!({"modelID": model_id}), parts)]);
    let expected: Vec<_> =
        expected.map(|content| PromptMessage::Assistant(vec![content])).into_iter().collect();
    scene.check(&expected);
}

#[test]
fn a_thought_goes_back_signed_to_its_own_model_and_as_text_to_another() {
    let reasoning =
        |text: &'static str, signature| Some(AssistantContent::Reasoning { text: text.into(), signature });
    check_thought("m", "hm", Some("s"), reasoning("hm", Some("s")));
    check_thought("m", "hm", None, reasoning("hm", None));
    check_thought("m", "", Some("s"), reasoning("", Some("s")));
    check_thought("m", "", None, None);
    check_thought("other", "hm", Some("s"), Some(AssistantContent::Text("hm".into())));
    check_thought("other", "", Some("s"), None);
}

/// Returns true if an answer with this error and these parts is sent again.
#[track_caller]
fn check_failed(error: &str, parts: Value, is_sent: bool) {
    let error = json!({"error": {"name": error, "data": {"message": "m", "isRetryable": false}}});
    let scene = Scene::new(vec![user(said("a")), answer_with(error, parts)]);
    let n_messages = assemble(&scene.inputs()).messages.len();
    assert_eq!(n_messages > 1, is_sent);
}

#[test]
fn a_failed_answer_is_left_out_and_an_aborted_one_stays_when_it_said_or_did_something() {
    let thought = json!([{"type": "reasoning", "text": "hm", "time": {"start": 1}}]);
    let call = json!([{"type": "tool", "callID": "c", "tool": "bash", "state": {
        "status": "pending", "input": {}, "raw": "",
    }}]);
    check_failed("APIError", said("so fa"), false);
    check_failed("UnknownError", call.clone(), false);
    check_failed("MessageAbortedError", said("so fa"), true);
    check_failed("MessageAbortedError", call, true);
    check_failed("MessageAbortedError", said(""), false);
    check_failed("MessageAbortedError", thought, false);
    check_failed("MessageAbortedError", json!([]), false);
}

#[test]
fn a_refused_prompt_and_its_answers_are_not_sent_again() {
    let refusal = json!({"name": "ContentFilterError", "data": {"message": "no"}});
    let history = vec![
        user_of("build", "msg_a", said("fine")),
        answer_with(json!({"parentID": "msg_a"}), said("ok")),
        user_of("build", "msg_b", said("bad")),
        answer_with(json!({"parentID": "msg_b"}), said("let me see")),
        answer_with(json!({"parentID": "msg_b", "error": refusal}), said("I can")),
        user_of("build", "msg_c", said("other")),
    ];
    Scene::new(history).check(&[asks(&["fine"]), answers(&["ok"]), asks(&["other"])]);
}

#[test]
fn plan_is_reminded_in_the_last_prompt_only() {
    let history = vec![
        user_of("plan", "msg_1", said("a")),
        answer(said("b")),
        user_of("plan", "msg_3", said("c")),
        answer(said("d")),
    ];
    let expected = [asks(&["a"]), answers(&["b"]), asks(&["c", PLAN_REMINDER]), answers(&["d"])];
    Scene::new(history).by("plan").check(&expected);
}

#[test]
fn plan_is_told_its_file_where_it_can_hand_the_plan_over() {
    let scene = Scene::new(vec![user_of("plan", "msg_1", said("a"))]).by("plan");
    let plan_exit = ToolSpec { name: "plan_exit".into(), ..tool() };
    let inputs = Inputs { tools: vec![plan_exit], ..scene.inputs() };
    let file = "/nowhere/.local/share/windlass/plans/1-s.md";
    let told = PLAN_FILE_REMINDER.replace("{plan}", file);
    assert_ne!(told, PLAN_FILE_REMINDER);
    assert_eq!(assemble(&inputs).messages, [asks(&["a", PLAN_REMINDER, &told])]);
}

#[test]
fn build_is_told_that_planning_is_over_once() {
    let planned = || vec![user_of("plan", "msg_1", said("a")), user_of("build", "msg_2", said("b"))];
    Scene::new(planned()).check(&[asks(&["a"]), asks(&["b", BUILD_REMINDER])]);
    let mut later = planned();
    later.push(user_of("build", "msg_3", said("c")));
    Scene::new(later).check(&[asks(&["a"]), asks(&["b"]), asks(&["c"])]);
    Scene::new(vec![user(said("a"))]).check(&[asks(&["a"])]);
}

#[test]
fn the_last_step_has_no_tools_and_says_so() {
    let mut scene = Scene::new(vec![user(said("a")), answer(said("b"))]);
    assert_eq!(assemble(&scene.inputs()).tools, [tool()]);
    scene.is_last = true;
    scene.check(&[asks(&["a"]), answers(&["b"]), asks(&[LAST_STEP])]);
    assert_eq!(assemble(&scene.inputs()).tools, []);
}

#[test]
fn a_model_without_tools_is_given_none() {
    let mut scene = Scene::new(vec![user(said("a"))]);
    scene.model.takes_tools = false;
    assert_eq!(assemble(&scene.inputs()).tools, []);
}

#[test]
fn the_system_text_has_the_constant_before_what_depends_on_the_place() {
    let mut asked = user(said("a"));
    if let Message::User(user) = &mut asked.info {
        user.system = Some("be brief".to_owned());
    }
    let mut scene = Scene::new(vec![asked]);
    scene.instructions = ["one", "two"]
        .map(|text| InstructionBlock { source: format!("/{text}"), text: text.to_owned() })
        .to_vec();
    let prompt = assemble(&scene.inputs());
    let situation = prompt.system[1].replace(std::env::consts::OS, "OS");
    assert_eq!((prompt.system.len(), prompt.system[0].as_ref()), (2, DEFAULT));
    insta::assert_snapshot!(situation, @r"
    You are powered by the model named Em. The exact model ID is p/m
    Here is what is known of the environment you work in:
    <env>
      Working directory: /nowhere/project
      Workspace root folder: /
      Is directory a git repo: no
      Platform: OS
      Today's date: Mon Sep 21 2026
    </env>

    one

    two

    <of servers>

    <skills>

    be brief
    ");
    assert_eq!(prompt.cache_key, Some("ses_1"));
    assert_eq!((prompt.ids.parent_session, prompt.ids.project), (None, Some("global")));
    assert!(prompt.ids.message.is_some());
}

#[test]
fn the_same_turn_is_the_same_prompt_and_a_later_step_keeps_the_system_text() {
    let mut scene = Scene::new(vec![user(said("a"))]);
    let first = assemble(&scene.inputs());
    assert_eq!(first, assemble(&scene.inputs()));
    let system: Vec<_> = first.system.iter().map(|it| it.clone().into_owned()).collect();
    let messages = format!("{:?}", first.messages);
    scene.state.history = vec![user(said("a")), answer(said("b"))].into();
    let next = assemble(&scene.inputs());
    assert_eq!(next.system, system);
    assert_eq!(format!("{:?}", &next.messages[..1]), messages);
}

fn called(n: usize) -> MessageWithParts {
    let state = json!({
        "status": "completed", "input": {"n": n}, "output": "done", "title": "", "metadata": {},
        "time": {"start": 1, "end": 2},
    });
    let call = json!({"type": "tool", "callID": format!("c{n}"), "tool": "read", "state": state});
    answer_with(json!({"id": format!("msg_{n}")}), json!([{"type": "text", "text": "Reading."}, call]))
}

#[test]
fn what_comes_before_the_newest_answer_is_encoded_once_and_sent_the_same() {
    for wire in [Wire::OpenAiChat, Wire::Anthropic] {
        let next = user_of("build", "msg_6", said("go on"));
        let history = vec![user(said("a")), called(3), answer(said("b")), next, called(7), called(8)];
        let mut scene = Scene::new(history);
        scene.model.wire = wire;
        let plain = provider::encoded(&scene.model, &Map::new(), &assemble(&scene.inputs()).messages);
        keep(&scene.agent, &scene.model, None, &mut scene.state);
        let prompt = assemble(&scene.inputs());
        let is_kept = |message: &PromptMessage<'_>| matches!(message, PromptMessage::Encoded(_));
        // The newest prompt is left as it is, and the newest answer, which is a message and its results.
        let kept: Vec<bool> = prompt.messages.iter().map(is_kept).collect();
        assert_eq!(kept, [true, true, true, false, true, false, false]);
        let sent: Vec<Encoded> = prompt
            .messages
            .iter()
            .flat_map(|message| match message {
                PromptMessage::Encoded(pieces) => pieces.to_vec(),
                plain => provider::encoded(&scene.model, &Map::new(), std::slice::from_ref(plain)).unwrap(),
            })
            .collect();
        assert_eq!(Some(sent), plain);
    }
}

#[test]
fn the_newest_answer_and_what_a_summary_replaced_are_not_encoded_beforehand() {
    let is_kept = |message: &PromptMessage<'_>| matches!(message, PromptMessage::Encoded(_));
    let kept = |history: Vec<MessageWithParts>| {
        let mut scene = Scene::new(history);
        scene.model.wire = Wire::Anthropic;
        keep(&scene.agent, &scene.model, None, &mut scene.state);
        let prompt = assemble(&scene.inputs());
        let n_kept = ["msg_3", "msg_4", "msg_8"].map(|id| {
            let idx = scene.state.history.iter().position(|message| message.info.id().as_str() == id);
            idx.is_some_and(|idx| scene.state.encoded.get(idx).is_some())
        });
        (prompt.messages.iter().map(is_kept).collect::<Vec<_>>(), n_kept)
    };
    let next = user_of("build", "msg_5", said("go on"));
    let (sent, made) = kept(vec![user(said("a")), called(3), called(4), next]);
    assert_eq!((sent, made), (vec![true, true, false, false, false], [true, false, false]));
    let asked = user_of("build", "msg_6", json!([{"type": "compaction", "auto": true}]));
    let summary = json!({"id": "msg_7", "parentID": "msg_6", "summary": true, "finish": "stop"});
    let summary = answer_with(summary, said("in short"));
    let history = vec![user(said("a")), called(3), called(4), asked, summary, called(8), called(9)];
    assert_eq!(kept(history).1, [false, false, true]);
}

#[test]
fn what_was_encoded_for_one_model_is_not_sent_to_another() {
    let mut scene = Scene::new(vec![user(said("a")), called(2), called(3)]);
    scene.model.wire = Wire::OpenAiChat;
    keep(&scene.agent, &scene.model, None, &mut scene.state);
    let is_kept = |message: &PromptMessage<'_>| matches!(message, PromptMessage::Encoded(_));
    assert!(assemble(&scene.inputs()).messages.iter().any(is_kept));
    scene.model.options.insert("interleaved".to_owned(), json!("thoughts"));
    assert!(!assemble(&scene.inputs()).messages.iter().any(is_kept));
    keep(&scene.agent, &scene.model, None, &mut scene.state);
    assert!(assemble(&scene.inputs()).messages.iter().any(is_kept));
    scene.agent.options.insert("seed".to_owned(), json!(1));
    assert!(!assemble(&scene.inputs()).messages.iter().any(is_kept));
}

#[test]
fn an_older_answer_that_changed_is_encoded_anew() {
    let mut scene = Scene::new(vec![user(said("a")), called(2), called(3)]);
    scene.model.wire = Wire::OpenAiChat;
    keep(&scene.agent, &scene.model, None, &mut scene.state);
    let part = &mut scene.state.history.older_mut(1).unwrap().parts[1];
    let mut cleared = serde_json::to_value(&*part).unwrap();
    cleared["state"]["time"]["compacted"] = json!(3);
    *part = serde_json::from_value(cleared).unwrap();
    let is_kept = |message: &PromptMessage<'_>| matches!(message, PromptMessage::Encoded(_));
    let messages = assemble(&scene.inputs()).messages;
    assert!(!messages.iter().any(is_kept));
    assert!(format!("{messages:?}").contains("[Old tool result content cleared]"));
    keep(&scene.agent, &scene.model, None, &mut scene.state);
    assert!(assemble(&scene.inputs()).messages.iter().any(is_kept));
}

#[test]
fn an_agents_own_prompt_replaces_the_family_s() {
    let mut scene = Scene::new(vec![user(said("a"))]);
    scene.agent.prompt = Some("You review.".into());
    assert_eq!(assemble(&scene.inputs()).system[0], "You review.");
}

#[test]
fn the_family_is_known_by_the_model_s_id() {
    for (id, expected) in [
        ("claude-sonnet-4-5", CLAUDE),
        ("anthropic/Claude-3", CLAUDE),
        ("gpt-5", GPT),
        ("openai/gpt-4.1", GPT),
        ("codex-mini", GPT),
        ("o1", GPT),
        ("o3-mini", GPT),
        ("gemini-2.5-pro", GEMINI),
        ("qwen3-coder", DEFAULT),
        ("", DEFAULT),
    ] {
        let mut scene = Scene::new(vec![user(said("a"))]);
        scene.model.api_id = id.to_owned();
        assert!(assemble(&scene.inputs()).system[0] == expected, "{id}");
    }
}

#[test]
fn the_request_is_bounded_by_what_the_model_and_the_agent_allow() {
    let mut scene = Scene::new(vec![user(said("a"))]);
    scene.agent.temperature = Some(0.5);
    scene.agent.top_p = Some(0.9);
    scene.agent.options = json!({"effort": "high"}).as_object().unwrap().clone();
    for (output, expected) in [(0, None), (8_000, Some(8_000)), (64_000, Some(32_000))] {
        scene.model.limit.output = output;
        let prompt = assemble(&scene.inputs());
        assert_eq!(prompt.max_output_tokens, expected);
        assert_eq!((prompt.temperature, prompt.top_p), (Some(0.5), Some(0.9)));
        assert_eq!(prompt.options, scene.agent.options);
    }
    scene.model.takes_temperature = false;
    assert_eq!(assemble(&scene.inputs()).temperature, None);
}
