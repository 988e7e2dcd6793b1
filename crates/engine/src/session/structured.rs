//! An answer in a form that the user gave: the tool by which the model hands it over, and its check.

use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_base::json_schema::JsonSchema;
use windlass_protocol::opencode::{
    message::OutputFormat,
    part::{Part, PartKind, ToolState},
    tool::Look,
};
use windlass_provider::Model;
use windlass_services::tool::{
    ToolError, ToolOutput,
    row::{Offered, Run, Schema, Tool},
};

use crate::{EngineError, EngineErrorKind};

/// The tool's name (facts: OpenCode §6.3).
pub const NAME: &str = "StructuredOutput";
/// The end of the system prompt.
pub const NOTICE: &str = include_str!("structured/notice.txt");
/// The prompt in the user's place for a model that ended without calling the tool.
pub const REMINDER: &str = include_str!("structured/reminder.txt");
const TEXT: &str = include_str!("structured/tool.txt");

/// The wanted form of a turn's answer.
#[derive(Clone)]
pub struct Structured {
    pub format: OutputFormat,
    /// Times that the model may try again.
    pub n_retries: u32,
    schema: Arc<Value>,
    check: Arc<JsonSchema>,
}

/// Refuses a format with a schema that cannot be used.
pub fn check_format(format: &OutputFormat) -> Result<(), EngineError> {
    Structured::read(format).map(drop)
}

/// Refuses a model that cannot call the tool.
pub fn check_model(model: &Model) -> Result<(), EngineError> {
    if model.takes_tools {
        return Ok(());
    }
    let message = format!(
        "{} takes no tools, so it cannot answer by a schema. Choose another model.",
        model.reference()
    );
    Err(EngineError::new(EngineErrorKind::ModelUnusable, message))
}

impl Structured {
    /// Reads a format; `None` for text.
    pub fn read(format: &OutputFormat) -> Result<Option<Self>, EngineError> {
        let OutputFormat::JsonSchema { schema, retry_count } = format else { return Ok(None) };
        let refused = |reason: String| {
            let message = format!("The schema of the answer cannot be used: {reason}.");
            EngineError::new(EngineErrorKind::InvalidInput, message)
        };
        // The arguments of a tool are an object with every provider.
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(refused("it has to describe an object, with `\"type\": \"object\"`".to_owned()));
        }
        let check = JsonSchema::compile(schema).map_err(refused)?;
        let mut shown = schema.clone();
        // Some providers refuse fields that are no part of the schema itself.
        shown.as_object_mut().map(|shown| shown.remove("$schema"));
        Ok(Some(Self {
            format: format.clone(),
            n_retries: *retry_count,
            schema: Arc::new(shown),
            check: Arc::new(check),
        }))
    }

    /// Returns the tool that takes the answer as its arguments.
    pub fn tool(&self) -> Tool {
        let check = self.check.clone();
        Tool {
            name: NAME.into(),
            text: TEXT.trim_end().into(),
            schema: Schema::Shared(self.schema.clone()),
            permission: None,
            look: Look::OTHER,
            offered: Offered::Always,
            run: Run::Shared(Arc::new(move |_, input| {
                let result = check.check(&input);
                let result =
                    result.map_err(|issues| ToolError::Model(mismatch(&issues))).map(|()| ToolOutput {
                        title: "Structured output".to_owned(),
                        output: "The answer was accepted.".to_owned(),
                        metadata: Map::from_iter([("valid".to_owned(), true.into())]),
                        attachments: Vec::new(),
                    });
                Box::pin(std::future::ready(result))
            })),
        }
    }
}

/// Returns the text for the model about arguments that do not fit.
fn mismatch(issues: &str) -> String {
    format!(
        "The arguments do not fit the schema, so the answer was not accepted. Call {NAME} again with all of it:\n{issues}"
    )
}

/// Returns the accepted answer among the parts of a message.
pub fn accepted(parts: &[Part]) -> Option<&Value> {
    parts.iter().find_map(|part| match &part.kind {
        PartKind::Tool(tool) if tool.tool == NAME => match &tool.state {
            ToolState::Completed { input, .. } => Some(input),
            ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Error { .. } => None,
        },
        _other => None,
    })
}

/// Returns true if the model tried to give its answer.
pub fn was_tried(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(&part.kind, PartKind::Tool(tool) if tool.tool == NAME))
}

#[cfg(test)]
mod tests;
