//! A call of a plugin's tool on its way: its messages meanwhile, and its answer.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::plugin::process::{CallReceivers, Process};
pub use crate::plugin::process::{Progress, Question};

/// The answer of a tool.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ToolAnswer {
    pub title: Option<String>,
    pub output: String,
    pub metadata: Option<Map<String, Value>>,
    pub attachments: Option<Vec<Value>>,
    /// The reason why the arguments cannot be used.
    pub invalid: Option<String>,
    /// The reason why the call failed.
    pub failed: Option<String>,
}

/// A tool call on its way.
pub struct Call {
    pub receivers: CallReceivers,
    pub answer: BoxFuture<'static, Result<ToolAnswer, String>>,
    process: Arc<Process>,
}

impl Call {
    pub(super) fn new(
        receivers: CallReceivers,
        answer: BoxFuture<'static, Result<ToolAnswer, String>>,
        process: Arc<Process>,
    ) -> Self {
        Self { receivers, answer, process }
    }

    /// Answers a question of the tool.
    pub fn answer_ask(&self, id: &Value, result: Result<(), String>) {
        self.process.answer(id, result);
    }
}
