//! An answer in a form that the user gave: the tool by which the model hands it over, and its check.

use std::sync::Arc;

use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    message::OutputFormat,
    part::{Part, PartKind, ToolState},
    tool::Look,
};

use crate::{
    engine::{EngineError, EngineErrorKind},
    tool::{
        ToolError, ToolOutput,
        row::{Offered, Run, Schema, Tool},
    },
};

/// The tool's name (facts: OpenCode §6.3).
pub const NAME: &str = "StructuredOutput";
/// The end of the system prompt.
pub const NOTICE: &str = include_str!("structured/notice.txt");
/// The prompt in the user's place for a model that ended without calling the tool.
pub const REMINDER: &str = include_str!("structured/reminder.txt");
const TEXT: &str = include_str!("structured/tool.txt");
/// The address of the schema, from which its own references start.
const ADDRESS: &str = "windlass:///schema";

/// The wanted form of a turn's answer.
#[derive(Clone)]
pub struct Structured {
    pub format: OutputFormat,
    /// Times that the model may try again.
    pub n_retries: u32,
    schema: Arc<Value>,
    check: Arc<Check>,
}

struct Check {
    schemas: Schemas,
    root: SchemaIndex,
}

/// Loads nothing: a schema that a client gives must not read files.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside of the schema").into())
    }
}

/// Refuses a format whose schema cannot be used.
pub fn check_format(format: &OutputFormat) -> Result<(), EngineError> {
    Structured::read(format).map(drop)
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
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(NoLoader));
        let mut schemas = Schemas::new();
        let unfit = |error: CompileError| refused(one_line(&format!("{error:#}")));
        compiler.add_resource(ADDRESS, schema.clone()).map_err(unfit)?;
        let root = compiler.compile(ADDRESS, &mut schemas).map_err(unfit)?;
        let mut shown = schema.clone();
        // Some providers refuse what is no part of the schema itself.
        shown.as_object_mut().map(|shown| shown.remove("$schema"));
        Ok(Some(Self {
            format: format.clone(),
            n_retries: *retry_count,
            schema: Arc::new(shown),
            check: Arc::new(Check { schemas, root }),
        }))
    }

    /// Returns the tool, whose arguments are the answer.
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
                let result = check.schemas.validate(&input, check.root);
                let result =
                    result.map_err(|error| ToolError::Model(mismatch(&error))).map(|()| ToolOutput {
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
fn mismatch(error: &ValidationError<'_, '_>) -> String {
    let text = error.to_string();
    let issues: Vec<&str> = text.lines().skip(1).collect();
    format!(
        "The arguments do not fit the schema, so the answer was not accepted. Call {NAME} again with all of it:\n{}",
        issues.join("\n")
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

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(ADDRESS, "")
}

#[cfg(test)]
mod tests;
