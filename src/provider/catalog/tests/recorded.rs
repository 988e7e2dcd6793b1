//! Requests that OpenCode was seen to send, compared with ours for the same conversation: address, place of the
//! key, and keys of the body.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::message::ModelRef;

use super::catalog;
use crate::provider::{
    AssistantContent, Auth, Model, Prompt, PromptMessage, ToolResult, ToolSpec, UserContent, http::encode,
};

/// The second step of a run: `bash` was called and has answered.
#[derive(Deserialize)]
struct Recorded {
    /// `provider/model`.
    model: String,
    url: String,
    /// The header of the key.
    auth: Option<String>,
    /// The keys of the body.
    keys: BTreeSet<String>,
}

pub(super) const RECORDED: &str = include_str!("../../../../fixtures/providers/recorded.json");

/// Differences by model or by wire: what OpenCode or we alone send, and why.
const DIFFERENCES: [(&str, &str, &str); 6] = [
    ("chat", "tool_choice", "`auto` is what holds without it"),
    ("anthropic", "tool_choice", "`auto` is what holds without it"),
    ("venice/", "n", "1 is what holds without it"),
    ("minimax/MiniMax-M2.5", "top_p", "newer models of the wire refuse two sampling settings at once"),
    ("minimax/MiniMax-M2.5", "top_k", "newer models of the wire refuse two sampling settings at once"),
    ("databricks/", "authorization", "OpenCode sends no key at all, which fails"),
];

const VARIABLES: [(&str, &str); 12] = [
    ("AZURE_RESOURCE_NAME", "myres"),
    ("AZURE_API_KEY", "k"),
    ("GOOGLE_VERTEX_PROJECT", "test-project"),
    ("CLOUDSDK_AUTH_ACCESS_TOKEN", "k"),
    ("CLOUDFLARE_ACCOUNT_ID", "acc0unt"),
    ("CLOUDFLARE_API_KEY", "k"),
    ("SNOWFLAKE_ACCOUNT", "acct"),
    ("SNOWFLAKE_CORTEX_PAT", "k"),
    ("DATABRICKS_HOST", "dbc.cloud.databricks.com"),
    ("DATABRICKS_TOKEN", "k"),
    ("GEMINI_API_KEY", "k"),
    ("OPENCODE_API_KEY", "k"),
];

/// Returns the address and the body of the second step.
fn request(model: &Model) -> (String, Map<String, Value>) {
    let (input, schema) =
        (json!({"command": "echo hi"}), json!({"type": "object", "properties": {"command": {}}}));
    let call = AssistantContent::ToolCall { call_id: "call_1", name: "bash", input: &input, signature: None };
    let prompt = Prompt {
        system: vec!["You help.".into()],
        messages: vec![
            PromptMessage::User(vec![UserContent::Text("Run it.".into())]),
            PromptMessage::Assistant(vec![call]),
            PromptMessage::ToolResults(vec![ToolResult {
                call_id: "call_1",
                name: "bash",
                output: "hi".into(),
                is_error: false,
                media: Vec::new(),
            }]),
        ],
        tools: vec![ToolSpec {
            name: "bash".into(),
            description: "Runs.".into(),
            schema: Cow::Borrowed(&schema),
        }],
        temperature: model.sampling.temperature.filter(|_| model.takes_temperature),
        top_p: model.sampling.top_p,
        top_k: model.sampling.top_k,
        max_output_tokens: Some(32_000),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    };
    let (url, body) = encode(model, &prompt);
    (url, serde_json::from_slice(&body).unwrap())
}

/// Returns the reason for a difference.
fn reason(model: &Model, name: &str, key: &str) -> Option<&'static str> {
    let holds = |place: &str| place == model.wire.name() || name.starts_with(place);
    DIFFERENCES.iter().find(|(place, known, _)| holds(place) && *known == key).map(|(.., reason)| *reason)
}

#[test]
fn requests_are_those_of_opencode_but_for_the_differences_in_the_table() {
    let recorded: Vec<Recorded> = serde_json::from_str(RECORDED).unwrap();
    let providers = recorded.iter().filter_map(|it| it.model.split('/').next());
    let options: Map<String, Value> = providers.map(|id| (id.to_owned(), json!({}))).collect();
    let mut text = json!({"provider": options});
    for (id, provider) in text["provider"].as_object_mut().unwrap() {
        let has_variable = ["azure", "google", "snowflake", "databricks", "cloudflare", "opencode"];
        if !has_variable.iter().any(|start| id.starts_with(start)) {
            provider["options"] = json!({"apiKey": "k"});
        }
    }
    let catalog = catalog(&text, &VARIABLES);
    let mut unexplained = Vec::new();
    for Recorded { model: name, url: recorded_url, auth, keys } in &recorded {
        let model = catalog.get(&ModelRef::parse(name).unwrap()).unwrap();
        let (url, body) = request(&model);
        assert_eq!(url, *recorded_url, "{name}");
        let ours = match model.auth {
            Auth::Bearer => "authorization",
            Auth::Header(header) | Auth::BearerIn(header) => header,
        };
        let mut differing: BTreeSet<String> = body.keys().cloned().collect();
        differing = differing.symmetric_difference(keys).cloned().collect();
        if auth.as_deref() != Some(ours) {
            differing.insert(ours.to_owned());
        }
        for key in differing {
            match reason(&model, name, &key) {
                Some(reason) => println!("{name}: {key}: {reason}"),
                None => unexplained.push(format!("{name}: {key}")),
            }
        }
    }
    assert_eq!(unexplained, Vec::<String>::new());
}
