//! The row of a tool: the model's view of it, its permission, its look, the condition of its offer, and its function.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::Value;
use windlass_base::tool_name;
use windlass_core::{config::Config, library::Agent};
use windlass_protocol::opencode::tool::Look;

use super::{ToolCx, ToolError, ToolOutput, schema};
use crate::plugin::{manifest::Manifest, offer::PluginTool};

/// A tool, built in or from elsewhere.
///
/// Rows are values: those of [`super::BUILTIN`] borrow, those that came at run time own, and clones share.
#[derive(Clone)]
pub struct Tool {
    pub name: Cow<'static, str>,
    /// The tool's description for the model.
    pub text: Cow<'static, str>,
    pub schema: Schema,
    /// The permission that decides if the tool is shown and may run, if it is not of the tool's name.
    pub permission: Option<Cow<'static, str>>,
    pub look: Look,
    pub offered: Offered,
    pub run: Run,
}

/// The JSON schema of a tool's arguments.
#[derive(Debug, Clone)]
pub enum Schema {
    Of(fn() -> Value),
    Shared(Arc<Value>),
    /// A JSON object that is kept as its text.
    Text(Arc<str>),
}

/// The function of a tool.
#[derive(Clone)]
pub enum Run {
    BuiltIn(for<'a> fn(&'a ToolCx<'a>, Value) -> Running<'a>),
    Shared(Arc<Function>),
    /// The host of plugins runs it.
    Plugin(Arc<PluginTool>),
    /// A program of the user's runs it.
    Program(Arc<Manifest>),
}

/// A function that a tool from elsewhere brings along.
pub type Function = dyn for<'a> Fn(&'a ToolCx<'a>, Value) -> Running<'a> + Send + Sync;

/// A call that runs.
pub type Running<'a> = BoxFuture<'a, Result<ToolOutput, ToolError>>;

/// The condition under which a tool is offered, beside the rules.
#[derive(Debug, Clone, Copy)]
pub enum Offered {
    Always,
    If(fn(&Offer<'_>) -> bool),
    /// Like `If`, for a tool that is of use only where the user can be asked.
    ToUser(fn(&Offer<'_>) -> bool),
    /// Only with subagents to choose from; they are listed behind the tool's text.
    WithSubagents,
    /// Only with skills to choose from; they are listed behind the tool's text.
    WithSkills,
}

/// The circumstances in which tools are offered.
pub struct Offer<'a> {
    pub config: &'a Config,
    pub agents: &'a [Agent],
    /// The agent that is to use them.
    pub agent: &'a str,
    pub provider_id: &'a str,
    /// The provider's own name of the model.
    pub model_id: &'a str,
    /// Set for a session that works for another.
    pub is_subagent: bool,
    /// Set if a front end can put questions to its user.
    pub is_answerable: bool,
    /// Set if a command of the session runs, or ran, in the background.
    pub has_jobs: bool,
    /// Set if a connected MCP server has resources and the rules let them be read.
    pub has_resources: bool,
}

impl Tool {
    /// Names a tool from elsewhere as providers take it; rules go on to name it by its own name.
    pub fn named(
        name: &str,
        permission: Option<Cow<'static, str>>,
    ) -> (Cow<'static, str>, Option<Cow<'static, str>>) {
        match tool_name::offered(name) {
            Cow::Borrowed(_) => (Cow::Owned(name.to_owned()), permission),
            Cow::Owned(offered) => (offered.into(), permission.or(Some(name.to_owned().into()))),
        }
    }

    /// Returns the permission that decides if the tool is shown and may run.
    pub fn permission(&self) -> &str {
        self.permission.as_deref().unwrap_or(&self.name)
    }

    /// Returns the schema of the arguments.
    pub fn schema(&self) -> Cow<'_, Value> {
        match &self.schema {
            Schema::Of(_) => Cow::Borrowed(schema(&self.name)),
            Schema::Shared(schema) => Cow::Borrowed(schema),
            Schema::Text(text) => Cow::Owned(read(text)),
        }
    }

    pub fn is_built_in(&self) -> bool {
        matches!(self.run, Run::BuiltIn(_))
    }

    /// Returns true if the tool is one of an MCP server.
    pub fn is_servers(&self) -> bool {
        matches!(self.run, Run::Shared(_))
    }

    /// Returns true if the tool is offered, subject to rules and to the lists that it needs.
    pub fn is_offered(&self, offer: &Offer<'_>) -> bool {
        match self.offered {
            Offered::Always | Offered::WithSubagents | Offered::WithSkills => true,
            Offered::If(is_offered) | Offered::ToUser(is_offered) => is_offered(offer),
        }
    }

    /// Returns true if the tool is of use only where the user can be asked.
    pub fn needs_user(&self) -> bool {
        matches!(self.offered, Offered::ToUser(_))
    }
}

impl Schema {
    /// Makes the schema anew.
    pub fn made(&self) -> Value {
        match self {
            Self::Of(make) => make(),
            Self::Shared(schema) => Value::clone(schema),
            Self::Text(text) => read(text),
        }
    }
}

/// Reads a schema that was written from a tree, and so is well formed.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

impl Offer<'_> {
    /// Returns true for models that have learnt to write patches; the others replace text (facts: OpenCode §5.5).
    pub fn writes_patches(&self) -> bool {
        let model = self.model_id;
        model.contains("gpt-") && !model.contains("oss") && !model.contains("gpt-4")
    }

    /// Returns true if the user can be asked about a switch to that agent. A subagent works for one task and has no
    /// mode that the user could see.
    pub fn may_switch_to(&self, agent: &str) -> bool {
        let exists = self.agents.iter().any(|it| it.name == agent && it.is_primary());
        self.is_answerable && exists && self.agent != agent && !self.is_subagent
    }
}
