//! The tools an agent may use in a step, what the model is told of them, and the rules that decide about their calls.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use windlass_protocol::opencode::{
    message::Message,
    part::PartKind,
    permission::{Action, Rule},
};

use super::{
    answer::{Call, MAX_INPUT},
    context::TurnCx,
    questions,
    state::SessionState,
    subtask::{self, TaskCall},
};
use crate::{
    config::{policy::Policy, rules::rule},
    library::skills,
    mcp, permission,
    provider::ToolSpec,
    tool::{self, Tool, ToolError},
};

/// The id that unknown and malformed calls are sent to.
const INVALID: &str = "invalid";
const QUESTION: &str = "question";

/// The tools an agent may use in a step.
pub struct Toolbox {
    tools: BTreeMap<String, Entry>,
    /// The tools that a rule denies altogether.
    hidden: Vec<String>,
    policy: Policy,
    /// The subagents the `task` tool may start, as the model reads of them.
    subagents: String,
    /// The skills the `skill` tool may load, for its description and for the system prompt.
    skills: Skills,
    /// The tool `question` is left out only because nobody could answer.
    is_nobody_there: bool,
    /// Set when a command gives the task, instead of the model.
    pub(super) task: Option<TaskCall>,
}

/// What becomes of a call.
pub(super) enum Route {
    Run {
        name: String,
        entry: Entry,
        input: Value,
    },
    /// It is not run; the model reads why.
    Refused {
        name: String,
        input: Value,
        error: ToolError,
    },
}

#[derive(Default)]
struct Skills {
    lines: String,
    listing: String,
}

/// A tool, and whose it is.
#[derive(Clone)]
pub(super) enum Entry {
    Builtin(&'static Tool),
    /// The place is the server's among [`TurnCx::servers`].
    Mcp {
        tool: Arc<mcp::McpTool>,
        place: usize,
    },
}

impl Toolbox {
    /// Built-in tools and those of connected MCP servers, without what a rule hides.
    pub fn new(cx: &TurnCx<'_>, state: &SessionState) -> Self {
        let policy = policy(cx, state, &mentioned(state));
        let mut tools = BTreeMap::new();
        for tool in tool::BUILTIN.iter().filter(|it| tool::is_offered(it.name, &cx.model.api_id)) {
            tools.insert(tool.name.to_owned(), Entry::Builtin(tool));
        }
        tools.retain(|name, _| tool::web::is_available(name, &cx.loaded.config, &cx.model.provider_id));
        tools.retain(|name, _| name != "lsp" || tool::lsp::is_available(&cx.loaded.config.environment));
        tools.retain(|name, _| questions::is_offered(name, cx, state));
        // A server must not take the name of a tool or permission of ours: rules would mean the wrong one.
        let is_free = |tool: &Arc<mcp::McpTool>| {
            tool::find(&tool.key).is_none() && !tool::OTHER_PERMISSIONS.contains(&tool.key.as_str())
        };
        let servers = cx.servers();
        let has_resources = !tool::mcp::with_resources(&servers).is_empty() && !tool::mcp::is_denied(&policy);
        tools.retain(|name, _| has_resources || !tool::is_about_resources(name));
        for (place, held) in servers.iter().enumerate() {
            for tool in held.tools().into_iter().filter(is_free) {
                tools.insert(tool.key.clone(), Entry::Mcp { tool, place });
            }
        }
        let is_hidden = |name: &str| policy.hides(tool::permission_name(name));
        let hidden = tools.extract_if(.., |name, _| name != INVALID && is_hidden(name));
        let hidden = hidden.map(|(name, _)| name).collect();
        let is_nobody_there = !cx.session.engine.questions().is_answerable(&cx.session.id)
            && !tools.contains_key(QUESTION)
            && !is_hidden(QUESTION);
        let subagents = subtask::offered(&cx.loaded, &policy);
        if subagents.is_empty() {
            tools.remove("task");
        }
        let skills = match tools.contains_key("skill") {
            true => skills::offered(&cx.loaded.skills, &policy),
            false => Vec::new(),
        };
        if skills.is_empty() {
            tools.remove("skill");
        }
        let skills = Skills { lines: skills::lines(&skills), listing: skills::listing(&skills) };
        Self { tools, hidden, policy, subagents, skills, is_nobody_there, task: None }
    }

    /// The task that a command gives: the user asked for it, so only the administrator's rules are in its way.
    pub fn for_task(cx: &TurnCx<'_>, state: &SessionState, task: TaskCall) -> Self {
        let policy = policy(cx, state, &[rule("task", &task.agent, Action::Allow)]);
        let tools = tool::find("task").map(|tool| (tool.name.to_owned(), Entry::Builtin(tool)));
        let tools = tools.into_iter().collect();
        let (subagents, skills) = (String::new(), Skills::default());
        let hidden = Vec::new();
        Self { tools, hidden, policy, subagents, skills, is_nobody_there: false, task: Some(task) }
    }

    /// What the system prompt says of the skills.
    pub fn skills(&self) -> &str {
        &self.skills.listing
    }

    /// The policy that decides about calls.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the model is told of the tools, sorted by name so that the provider's cache holds.
    pub fn specs(&self) -> Vec<ToolSpec<'_>> {
        let visible = self.tools.iter().filter(|(name, _)| *name != INVALID);
        visible
            .map(|(name, entry)| match entry {
                Entry::Builtin(tool) => ToolSpec {
                    name: Cow::Borrowed(name),
                    description: match name.as_str() {
                        "task" => Cow::Owned(format!("{}\n{}", tool.text, self.subagents)),
                        "skill" => Cow::Owned(format!("{}\nSkills:\n{}", tool.text, self.skills.lines)),
                        _ => Cow::Borrowed(tool.text),
                    },
                    schema: Cow::Borrowed(tool::schema(tool.name)),
                },
                Entry::Mcp { tool, .. } => ToolSpec {
                    name: Cow::Borrowed(name),
                    description: Cow::Borrowed(&tool.description),
                    schema: Cow::Borrowed(&tool.schema),
                },
            })
            .collect()
    }

    /// The built-in tool that a batch may call by this name; else the name and why not.
    pub(super) fn nested(&self, name: String) -> Result<(String, Entry), (String, String)> {
        match self.meant(&name) {
            Some((name, entry @ Entry::Builtin(_))) if name != INVALID => return Ok((name, entry)),
            Some(_) | None => {}
        }
        let builtin = self.tools.iter().filter(|(_, entry)| matches!(entry, Entry::Builtin(_)));
        let builtin = builtin.map(|(name, _)| name.as_str());
        let available: Vec<&str> = builtin.filter(|name| ![INVALID, "batch"].contains(name)).collect();
        let reason = format!(
            "Tool '{name}' not in registry. External tools (MCP, environment) cannot be batched - call them \
             directly. Available tools: {}",
            available.join(", ")
        );
        Err((name, reason))
    }

    /// The tool of that name, also when the name is written in another case.
    fn meant(&self, name: &str) -> Option<(String, Entry)> {
        let same = |known: &&String| known.eq_ignore_ascii_case(name);
        let known = self.tools.get_key_value(name).map(|(known, _)| known);
        let known = known.or_else(|| self.tools.keys().find(same))?;
        Some((known.clone(), self.tools.get(known)?.clone()))
    }

    /// The tool a call means and its input; a call that means none goes to `invalid`.
    pub(super) fn route(&self, call: &Call) -> Route {
        let Some((name, entry)) = self.meant(&call.tool) else {
            if self.is_nobody_there && call.tool.eq_ignore_ascii_case(QUESTION) {
                let error = ToolError::Model(questions::NOBODY.to_owned());
                return Route::Refused { name: QUESTION.to_owned(), input: shown_input(call), error };
            }
            if let Some(name) = self.hidden.iter().find(|name| name.eq_ignore_ascii_case(&call.tool)) {
                let rules = self.policy.denial(tool::permission_name(name), "*");
                let error = ToolError::Forbidden(permission::denied_message(&rules));
                return Route::Refused { name: name.clone(), input: shown_input(call), error };
            }
            let available: Vec<&str> =
                self.tools.keys().map(String::as_str).filter(|name| *name != INVALID).collect();
            let error = format!(
                "Model tried to call unavailable tool '{}'. Available tools: {}.",
                call.tool,
                available.join(", ")
            );
            return invalid(call, &error);
        };
        if call.is_too_large {
            let limit = MAX_INPUT >> 20;
            let reason = format!(
                "The arguments of '{name}' are larger than {limit} MiB, so the call was not run and nothing was \
                 changed. Do it in several smaller calls: write a large file in pieces, the first with its beginning \
                 and the others appended to it, or have a command make it."
            );
            return Route::Refused { name, input: json!({}), error: ToolError::Model(reason) };
        }
        let raw = if call.raw.trim().is_empty() { "{}" } else { &call.raw };
        let parsed = match serde_json::from_str::<Value>(raw) {
            // Some models write the object as a text.
            Ok(Value::String(text)) => serde_json::from_str(&text),
            parsed => parsed,
        };
        match parsed {
            Ok(input @ Value::Object(_)) => Route::Run { name, entry, input },
            Ok(_) => invalid(call, &format!("the arguments of '{name}' must be a JSON object")),
            Err(error) => invalid(call, &format!("the arguments of '{name}' are not valid JSON: {error}")),
        }
    }
}

/// The policy that decides about a turn: its agent's, its session's, what the user `granted` by naming it, and the
/// sessions above.
pub fn policy(cx: &TurnCx<'_>, state: &SessionState, granted: &[Rule]) -> Policy {
    let mut policy = cx.agent.policy.clone();
    policy.extend(state.info.permission.as_deref().unwrap_or_default());
    policy.extend(granted);
    policy.below(&cx.above)
}

/// Lets the subagents that the user named in their last message be given work, whatever the user's rules say.
fn mentioned(state: &SessionState) -> Vec<Rule> {
    let last = state.history.iter().rev().find(|message| matches!(message.info, Message::User(_)));
    let rules = last.into_iter().flat_map(|message| &message.parts).filter_map(|part| match &part.kind {
        PartKind::Agent { name, .. } => Some(rule("task", name, Action::Allow)),
        _other => None,
    });
    rules.collect()
}

/// The arguments of a call that is not run, as far as they can be read.
fn shown_input(call: &Call) -> Value {
    let input = serde_json::from_str(&call.raw).ok();
    input.filter(|input: &Value| input.is_object() && !call.is_too_large).unwrap_or_else(|| json!({}))
}

fn invalid(call: &Call, error: &str) -> Route {
    let entry = tool::find(INVALID).map(Entry::Builtin);
    // The table always holds `invalid`; a test checks it.
    let entry = entry.unwrap_or(Entry::Builtin(&tool::BUILTIN[0]));
    Route::Run { name: INVALID.to_owned(), entry, input: json!({ "tool": call.tool, "error": error }) }
}
