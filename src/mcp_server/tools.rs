//! The tools of the MCP server: the calls that a client may want, and the schemas that say so.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A call that can be carried out.
pub enum Wanted {
    Start(Start),
    Prompt(NewPrompt),
    Read(Named),
    Answer(Answer),
    Cancel(Named),
    List(Listing),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The task.
    pub prompt: String,
    /// The directory to work in, as an absolute path or below the server's own.
    pub directory: Option<String>,
    /// The agent that is to work, such as `build` or `plan`.
    pub agent: Option<String>,
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// A title for the session.
    pub title: Option<String>,
    /// Return after this many seconds even if the work goes on; without it the call ends with the work.
    pub wait_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPrompt {
    /// The session to go on with.
    pub session_id: String,
    /// The next task.
    pub prompt: String,
    /// Another agent from now on.
    pub agent: Option<String>,
    /// Another model, as `provider/model`.
    pub model: Option<String>,
    /// Return after this many seconds even if the work goes on; without it the call ends with the work.
    pub wait_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub session_id: String,
    /// Return after this many seconds even if the work goes on; without it the call ends with the work.
    pub wait_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub session_id: String,
    /// The `id` of one of `questions`.
    pub question_id: String,
    /// One of the `options` of a permission. For other questions a label or words of your own; a list with one entry
    /// for each question where there are several; null to dismiss them.
    pub answer: Option<Choice>,
    /// With `reject`: the agent's task instead.
    pub feedback: Option<String>,
    /// Return after this many seconds even if the work goes on; without it the call ends with the work.
    pub wait_seconds: Option<f64>,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Choice {
    One(String),
    /// For each question a label, or several.
    Each(Vec<Labels>),
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Labels {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listing {
    /// Only sessions of this directory.
    pub directory: Option<String>,
    /// How many, 20 unless given and 200 at most; those that changed last come first.
    pub limit: Option<usize>,
}

impl Wanted {
    /// Reads a call; the error names the mistake in it.
    pub fn read(name: &str, arguments: Value) -> Result<Self, String> {
        fn read<T: DeserializeOwned>(name: &str, arguments: Value) -> Result<T, String> {
            serde_json::from_value(arguments).map_err(|error| format!("arguments of {name}: {error}"))
        }
        match name {
            "start_session" => read(name, arguments).map(Self::Start),
            "prompt_session" => read(name, arguments).map(Self::Prompt),
            "read_session" => read(name, arguments).map(Self::Read),
            "answer_question" => read(name, arguments).map(Self::Answer),
            "cancel_session" => read(name, arguments).map(Self::Cancel),
            "list_sessions" => read(name, arguments).map(Self::List),
            _ => Err(format!("there is no tool {name}")),
        }
    }
}

impl Wanted {
    /// Refuses a call that says nothing, or that waits for less than no time.
    pub fn checked(self) -> Result<Self, String> {
        let (prompt, wait) = match &self {
            Self::Start(start) => (Some(&start.prompt), start.wait_seconds),
            Self::Prompt(prompt) => (Some(&prompt.prompt), prompt.wait_seconds),
            Self::Read(named) | Self::Cancel(named) => (None, named.wait_seconds),
            Self::Answer(answer) => (None, answer.wait_seconds),
            Self::List(_) => (None, None),
        };
        if prompt.is_some_and(|prompt| prompt.trim().is_empty()) {
            return Err("`prompt` is empty".to_owned());
        }
        if wait.is_some_and(|seconds| seconds < 0.0 || seconds.is_nan()) {
            return Err("`wait_seconds` must not be less than 0".to_owned());
        }
        Ok(self)
    }
}

/// Returns the tools as they are listed.
pub fn list() -> Vec<Tool> {
    let working = ToolAnnotations::new().read_only(false).destructive(true).open_world(true);
    let reading = ToolAnnotations::new().read_only(true);
    vec![
        tool::<Start>(
            "start_session",
            "Start a session of the coding agent with a task, and wait for its result or its first question.",
        )
        .with_raw_output_schema(state())
        .annotate(working.clone()),
        tool::<NewPrompt>(
            "prompt_session",
            "Go on with a session: give it another prompt and wait for the result.",
        )
        .with_raw_output_schema(state())
        .annotate(working.clone()),
        tool::<Named>(
            "read_session",
            "Wait for a session that works, and read its newest result and its questions.",
        )
        .with_raw_output_schema(state())
        .annotate(reading.clone()),
        tool::<Answer>(
            "answer_question",
            "Answer a question or a permission request of a session, and wait again.",
        )
        .with_raw_output_schema(state())
        .annotate(working.clone()),
        tool::<Named>("cancel_session", "Stop what a session is doing; it can be prompted again.")
            .with_raw_output_schema(state())
            .annotate(working),
        tool::<Listing>("list_sessions", "List sessions, those that changed last first.").annotate(reading),
    ]
}

fn tool<T: JsonSchema>(name: &'static str, description: &'static str) -> Tool {
    let schema = schema_for!(T).to_value();
    Tool::new(name, description, Arc::new(object(schema)))
}

/// Returns the schema of how a session is.
fn state() -> Arc<JsonObject> {
    let text = json!({ "type": "string" });
    let schema = json!({
        "type": "object",
        "properties": {
            "session_id": text,
            "state": { "enum": ["done", "running", "waiting", "cancelled", "failed", "idle"] },
            "answer": { "type": "string", "description": "The agent's newest answer." },
            "stop_reason": text,
            "error": { "type": "string", "description": "Why the turn failed." },
            "doing": { "type": "string", "description": "The call that began last, while it works." },
            "questions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": { "id": text, "kind": { "enum": ["permission", "question"] } },
                    "required": ["id", "kind"],
                },
            },
            "tokens": { "type": "object" },
            "warnings": { "type": "array", "items": text },
        },
        "required": ["session_id", "state", "questions"],
    });
    Arc::new(object(schema))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
