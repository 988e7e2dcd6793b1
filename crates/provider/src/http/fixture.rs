//! Recorded exchanges under `fixtures/providers`: each has a request and the stream that answers it.
//!
//! `WINDLASS_BLESS=1 cargo test -p windlass-provider` rewrites the requests.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Map, Value, json};
use windlass_protocol::opencode::config::{ModelCost, ModelLimit};

use super::{
    super::{
        AssistantContent, Auth, Delta, Media, Model, Prompt, PromptMessage, ProviderError, Quirks, Sampling,
        Secret, Timeouts, ToolResult, UserContent, Wire, encoded, event_stream as framed,
    },
    decoder,
    framing::Framing,
};

pub(crate) mod judge;

/// Makes a model with every capability.
pub(crate) fn model(wire: Wire) -> Model {
    Model {
        provider_id: "acme".to_owned(),
        provider_name: "Acme".to_owned(),
        id: "large".to_owned(),
        api_id: "acme-large-1".to_owned(),
        name: "Large".to_owned(),
        wire,
        base_url: "https://api.acme.example/v1".to_owned(),
        is_foreign: false,
        api_key: Some(Secret("key-123".to_owned())),
        has_login: false,
        key_variable: Some("ACME_API_KEY".into()),
        exchange: None,
        auth: Auth::Bearer,
        aws: None,
        quirks: Quirks::default(),
        headers: Vec::new(),
        fetch: None,
        limit: ModelLimit { context: 200_000, input: None, output: 64_000 },
        cost: ModelCost::default(),
        takes_images: true,
        takes_pdf: true,
        takes_tools: true,
        takes_temperature: true,
        reasons: true,
        sampling: Sampling::default(),
        options: Map::new(),
        variants: Vec::new(),
        timeouts: Timeouts { headers: Duration::from_secs(10), chunk: Duration::from_secs(10), total: None },
    }
}

/// Returns the folder of a wire's fixtures.
fn folder(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAiChat => "openai_chat",
        Wire::OpenAiResponses => "openai_responses",
        Wire::Anthropic => "anthropic",
        Wire::Google => "google",
        Wire::Bedrock => "bedrock",
        Wire::Demo => panic!("the demo model has no wire"),
    }
}

pub(crate) fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    super::encode(model, prompt).1
}

/// Checks that the request body is the recorded one, and that the recorded stream gives `expected` however it
/// is split.
#[track_caller]
pub(crate) fn check(
    case: &str,
    model: &Model,
    prompt: &Prompt<'_>,
    expected: &[Delta],
    end: Result<(), ProviderError>,
) {
    let (wire, body) = (folder(model.wire), encode(model, prompt));
    let dir =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/providers").join(wire).join(case);
    let body: Value = serde_json::from_slice(&body).unwrap();
    let body = format!("{body:#}\n");
    if option_env!("WINDLASS_BLESS").is_some() {
        fs::write(dir.join("request.json"), &body).unwrap();
    }
    assert_eq!(body, fs::read_to_string(dir.join("request.json")).unwrap());

    let stream = match model.wire {
        Wire::Bedrock => event_stream(&fs::read_to_string(dir.join("stream.json")).unwrap()),
        _ => fs::read(dir.join("stream.sse")).unwrap(),
    };
    assert_eq!(decode(model.wire, &[&stream]), (expected.to_vec(), end.clone()));
    if model.wire != Wire::Bedrock {
        let unfinished = stream.trim_ascii_end();
        assert_eq!(
            decode(model.wire, &[unfinished]),
            (expected.to_vec(), end.clone()),
            "without its last lines"
        );
    }
    for at in 0..=stream.len() {
        let (head, tail) = stream.split_at(at);
        assert_eq!(decode(model.wire, &[head, tail]), (expected.to_vec(), end.clone()), "split at {at}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(decode(model.wire, &bytes), (expected.to_vec(), end), "byte by byte");
}

/// Encodes events of AWS's framing: a list of objects with a name and a payload, or of an exception.
pub(crate) fn event_stream(events: &str) -> Vec<u8> {
    let events: Vec<Map<String, Value>> = serde_json::from_str(events).unwrap();
    let messages = events.iter().flatten().map(|(name, payload)| {
        let kind = if name.ends_with("Exception") { "exception" } else { "event" };
        let headers = [
            (format!(":{kind}-type"), name.as_str()),
            (":content-type".to_owned(), "application/json"),
            (":message-type".to_owned(), kind),
        ];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        framed::encode(&headers, payload.to_string().as_bytes())
    });
    messages.collect::<Vec<Vec<u8>>>().concat()
}

/// Checks that a conversation that was encoded in part before makes the same request as one that was not.
#[track_caller]
pub(crate) fn check_encoded(model: &Model) {
    let input = json!({"filePath": "a \"b\"\n", "n": [1, null]});
    let call = |call_id: &'static str, input| AssistantContent::ToolCall {
        call_id,
        name: "read",
        input,
        signature: None,
    };
    let result = |call_id: &'static str, output: &'static str, media| ToolResult {
        call_id,
        name: "read",
        output: output.into(),
        is_error: output.is_empty(),
        media,
    };
    let image = Media { mime: "image/png", filename: None, base64: "AAAA" };
    let messages = [
        PromptMessage::User(vec![UserContent::Text("Read.".into())]),
        PromptMessage::Assistant(vec![
            AssistantContent::Reasoning { text: "Two files.".into(), signature: Some("EqQB") },
            AssistantContent::Text("Reading.".into()),
            call("c/1", &input),
            call("c2", &Value::Null),
        ]),
        PromptMessage::ToolResults(vec![result("c/1", "x", vec![image]), result("c2", "", Vec::new())]),
        PromptMessage::Assistant(vec![call("c3", &input)]),
        PromptMessage::ToolResults(vec![result("c3", "y", Vec::new())]),
        PromptMessage::Assistant(vec![AssistantContent::Text("Read them.".into())]),
        PromptMessage::User(vec![UserContent::Text("Another.".into())]),
        PromptMessage::Assistant(vec![call("c4", &input)]),
        PromptMessage::ToolResults(vec![result("c4", "z", Vec::new())]),
    ];
    let body = |messages: Vec<PromptMessage<'_>>| {
        let prompt = Prompt { messages, ..Prompt::default() };
        String::from_utf8(encode(model, &prompt)).unwrap()
    };
    let plain = body(messages.to_vec());
    assert!(plain.contains("Two files.") && plain.contains("\"z\""), "{plain}");
    let rounds = [0..1, 1..3, 3..5, 5..6, 6..7];
    for n_left in 0..rounds.len() {
        let rounds = &rounds[n_left..];
        let encoded =
            rounds.iter().map(|round| encoded(model, &Map::new(), &messages[round.clone()]).unwrap());
        let encoded: Vec<_> = encoded.collect();
        let mut mixed = messages.to_vec();
        for (round, pieces) in rounds.iter().zip(&encoded).rev() {
            mixed.splice(round.clone(), [PromptMessage::Encoded(pieces)]);
        }
        assert_eq!(body(mixed), plain, "{rounds:?}");
    }
}

/// Decodes the pieces of a stream, with adjacent fragments of one block joined.
pub(crate) fn decode(wire: Wire, pieces: &[&[u8]]) -> (Vec<Delta>, Result<(), ProviderError>) {
    let mut decoder = decoder(wire);
    let mut framing = Framing::of(wire);
    let mut deltas = Vec::new();
    let mut run = || {
        for piece in pieces {
            let mut events = Vec::new();
            framing.push(piece, &mut events)?;
            for event in &events {
                decoder.push(event, &mut deltas)?;
            }
        }
        let mut events = Vec::new();
        framing.finish(&mut events);
        for event in &events {
            decoder.push(event, &mut deltas)?;
        }
        decoder.finish(&mut deltas)
    };
    let end = run();
    (merge(deltas), end)
}

/// Decodes events that are given by their data alone.
pub(crate) fn decode_data(wire: Wire, data: &[&str]) -> (Vec<Delta>, Result<(), ProviderError>) {
    let stream: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    decode(wire, &[stream.as_bytes()])
}

pub(crate) fn merge(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut res: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (res.last_mut(), delta) {
            (Some(Delta::Text { block, text }), Delta::Text { block: next, text: more })
                if *block == next =>
            {
                text.push_str(&more);
            }
            (Some(Delta::Reasoning { block, text }), Delta::Reasoning { block: next, text: more })
                if *block == next =>
            {
                text.push_str(&more);
            }
            (
                Some(Delta::ToolCallInput { block, json }),
                Delta::ToolCallInput { block: next, json: more },
            ) if *block == next => {
                json.push_str(&more);
            }
            (_, delta) => res.push(delta),
        }
    }
    res
}

pub(crate) fn text(block: u32, text: &str) -> [Delta; 3] {
    [Delta::TextStart { block }, Delta::Text { block, text: text.to_owned() }, Delta::BlockEnd { block }]
}

pub(crate) fn call_start(block: u32, call_id: &str, name: &str) -> Delta {
    Delta::ToolCallStart { block, call_id: call_id.to_owned(), name: name.to_owned() }
}

pub(crate) fn call_input(block: u32, json: &str) -> Delta {
    Delta::ToolCallInput { block, json: json.to_owned() }
}
