//! The tools of an agent in a step, their descriptions for the model, and the rules about their calls.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use windlass_core::{
    config::{policy::Policy, rules::rule},
    library::skills,
    permission,
};
use windlass_protocol::opencode::{
    message::Message,
    part::PartKind,
    permission::{Action, Rule},
};
use windlass_provider::ToolSpec;
use windlass_services::{
    mcp,
    tool::{
        self, ToolError,
        row::{Offer, Offered, Tool},
    },
};

use super::{
    answer::Call,
    subtask::{self, TaskCall},
    tool_search::{self, Behind, Defined},
};
use crate::{
    asking::questions,
    session::{context::TurnCx, state::SessionState, structured},
};

/// The id that unknown and malformed calls are sent to.
const INVALID: &str = "invalid";
const QUESTION: &str = "question";

/// The tools an agent may use in a step.
#[derive(Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Tool>,
    /// The tools of servers that the model has to search for.
    behind: Behind,
    /// The tools that a rule denies altogether.
    hidden: Vec<(String, String)>,
    policy: Policy,
    /// The skills that the model may load, as the system prompt lists them.
    skills: String,
    /// The instructions of the MCP servers of these tools, as the system prompt has them.
    server_instructions: String,
    /// The tool `question` is left out only because no user could answer.
    is_nobody_there: bool,
    /// Set when a command gives the task, instead of the model.
    pub(crate) task: Option<TaskCall>,
    /// Set for a command that the user runs.
    pub is_users: bool,
}

/// Treatment of a call.
pub(crate) enum Route {
    Run {
        name: String,
        tool: Tool,
        input: Value,
    },
    /// The call does not run; the model gets the reason.
    Refused {
        name: String,
        input: Value,
        error: ToolError,
    },
}

impl Toolbox {
    /// Collects built-in tools and those of connected MCP servers, without those that a rule hides.
    pub fn new(cx: &TurnCx<'_>, state: &SessionState) -> Self {
        let policy = policy(cx, state, &mentioned(state));
        let servers = cx.servers();
        let offer = Offer {
            config: &cx.loaded.config,
            agents: &cx.loaded.agents,
            agent: &cx.agent.name,
            provider_id: &cx.model.provider_id,
            model_id: &cx.model.api_id,
            is_subagent: state.info.parent_id.is_some(),
            is_answerable: cx.session.engine.questions().pending().is_answerable(&cx.session.id),
            has_jobs: !cx.session.engine.sessions().jobs(&cx.session.id).is_empty(),
            has_resources: !tool::mcp::with_resources(&servers).is_empty() && !tool::mcp::is_denied(&policy),
        };
        // A server must not take the name of a tool or permission of ours: rules would mean the wrong one.
        let is_free = |tool: &mcp::McpTool| {
            let name = tool.key.as_str();
            tool::find(name).is_none()
                && !tool::OTHER_PERMISSIONS.contains(&name)
                && name != tool_search::NAME
        };
        let external = servers.iter().enumerate().flat_map(|(place, held)| {
            held.tools().into_iter().filter(|tool| is_free(tool)).map(move |tool| tool::mcp::row(tool, place))
        });
        let defined = |tool: &Arc<mcp::McpTool>| {
            let (name, _) = Tool::named(&tool.key, None);
            (name.into_owned(), Defined { server: tool.server.clone(), n_bytes: tool.n_bytes })
        };
        // A later row of the same name takes the place of an earlier one.
        let offered = cx.plugins.as_ref().map(|host| host.offer());
        let of_plugins = offered.iter().flat_map(|offer| &offer.tools).map(tool::plugin::row);
        let programs = cx.loaded.plan.manifests.iter().map(tool::program::row);
        let rows = tool::BUILTIN.iter().cloned().chain(external).chain(programs).chain(of_plugins);
        let rows = rows.filter(|tool| tool.is_offered(&offer));
        let mut tools: BTreeMap<String, Tool> = rows.map(|tool| (tool.name.to_string(), tool)).collect();
        let hidden = tools.extract_if(.., |name, tool| name != INVALID && policy.hides(tool.permission()));
        let hidden = hidden.map(|(name, tool)| (name, tool.permission().to_owned())).collect();
        let is_nobody_there =
            !offer.is_answerable && !tools.contains_key(QUESTION) && !policy.hides(QUESTION);
        let subagents = subtask::offered(&cx.loaded, &policy);
        let has_skills = tools.values().any(|tool| matches!(tool.offered, Offered::WithSkills));
        let skills = if has_skills { skills::offered(&cx.loaded.skills, &policy) } else { Vec::new() };
        tools.retain(|_, tool| match tool.offered {
            Offered::WithSubagents => !subagents.is_empty(),
            Offered::WithSkills => !skills.is_empty(),
            Offered::Always | Offered::If(_) | Offered::ToUser(_) => true,
        });
        for tool in tools.values_mut() {
            let listing = match tool.offered {
                Offered::WithSubagents => {
                    let (text, schema) = tool::task::described(&cx.loaded.config, &tool.text);
                    (tool.text, tool.schema) = (Cow::Owned(text), schema);
                    subagents.clone()
                }
                Offered::WithSkills => format!("Skills:\n{}", skills::lines(&skills)),
                Offered::Always | Offered::If(_) | Offered::ToUser(_) => continue,
            };
            tool.text = Cow::Owned(format!("{}\n{listing}", tool.text));
        }
        let behind = if policy.hides(tool_search::NAME) {
            Behind::default()
        } else {
            let defined = servers.iter().flat_map(|held| held.tools()).map(|tool| defined(&tool)).collect();
            let settings = &cx.loaded.config.settings.windlass.tool_search;
            Behind::split(&mut tools, &defined, settings, &state.history)
        };
        let server_instructions = tool::mcp::instructions(&servers, |tool| {
            let shown = tools.get(&tool.key).or(behind.get(&tool.key).map(|(_, tool)| tool));
            is_free(tool) && shown.is_some_and(Tool::is_servers)
        });
        if let Some(structured) = &cx.structured {
            // The user asked for it, so the agent's tools do not matter.
            tools.insert(structured::NAME.to_owned(), structured.tool());
        }
        let skills = skills::listing(&skills);
        Self {
            tools,
            behind,
            hidden,
            policy,
            skills,
            server_instructions,
            is_nobody_there,
            ..Self::default()
        }
    }

    /// Returns one tool for a call of the user's: the user asked for the rules in `granted`, so only the
    /// administrator's rules are in its way.
    pub fn of_one(cx: &TurnCx<'_>, state: &SessionState, name: &str, granted: &[Rule]) -> Self {
        let policy = policy(cx, state, granted);
        let tools = tool::find(name).map(|tool| (tool.name.to_string(), tool.clone()));
        let tools = tools.into_iter().collect();
        Self { tools, policy, ..Self::default() }
    }

    /// Returns every tool that the model is shown, for changes of its description.
    pub fn tools_mut(&mut self) -> impl Iterator<Item = &mut Tool> {
        self.tools.values_mut().chain(self.behind.tools_mut())
    }

    /// Returns the text about the skills in the system prompt.
    pub fn skills(&self) -> &str {
        &self.skills
    }

    /// Returns the text of the MCP servers' instructions in the system prompt.
    pub fn server_instructions(&self) -> &str {
        &self.server_instructions
    }

    /// Returns the policy that decides about calls.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the specifications of the tools for the model, sorted by name and behind them those that it has loaded, so
    /// that the provider's cache holds.
    pub fn specs(&self) -> Vec<ToolSpec<'_>> {
        let visible = self.tools.iter().filter(|(name, _)| *name != INVALID);
        visible
            .chain(self.behind.loaded())
            .map(|(name, tool)| ToolSpec {
                name: Cow::Borrowed(name),
                description: Cow::Borrowed(&tool.text),
                schema: tool.schema(),
            })
            .collect()
    }

    /// Returns true if a tool is of use only where the user can be asked.
    pub fn needs_user(&self, name: &str) -> bool {
        self.tools.get(name).is_some_and(Tool::needs_user)
    }

    /// Returns the built-in tool that a batch may call by this name; else the name and why not.
    pub(crate) fn nested(&self, name: String) -> Result<(String, Tool), (String, String)> {
        match self.meant(&name) {
            Some((name, tool)) if name != INVALID && tool.is_built_in() => return Ok((name, tool)),
            Some(_) | None => {}
        }
        let builtin = self.tools.iter().filter(|(_, tool)| tool.is_built_in());
        let builtin = builtin.map(|(name, _)| name.as_str());
        let available: Vec<&str> = builtin.filter(|name| ![INVALID, "batch"].contains(name)).collect();
        let reason = format!(
            "Tool '{name}' not in registry. External tools (MCP, environment) cannot be batched - call them \
             directly. Available tools: {}",
            available.join(", ")
        );
        Err((name, reason))
    }

    /// Returns the tool of that name, also when the name is written in another case.
    fn meant(&self, name: &str) -> Option<(String, Tool)> {
        let same = |known: &&String| known.eq_ignore_ascii_case(name);
        let known =
            self.tools.get_key_value(name).or_else(|| self.tools.iter().find(|(known, _)| same(known)));
        let (known, tool) = known.or_else(|| self.behind.get(name))?;
        Some((known.clone(), tool.clone()))
    }

    /// Returns the tool a call means and its input; a call that means none goes to `invalid`.
    pub(crate) fn route(&self, call: &Call) -> Route {
        let Some((name, tool)) = self.meant(&call.tool) else {
            if self.is_nobody_there && call.tool.eq_ignore_ascii_case(QUESTION) {
                let error = ToolError::Model(questions::NOBODY.to_owned());
                return Route::Refused { name: QUESTION.to_owned(), input: shown_input(call), error };
            }
            if let Some((name, permission)) =
                self.hidden.iter().find(|(name, _)| name.eq_ignore_ascii_case(&call.tool))
            {
                let rules = self.policy.denial(permission, "*");
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
        let raw = if call.raw.trim().is_empty() { "{}" } else { &call.raw };
        let parsed = match serde_json::from_str::<Value>(raw) {
            // Some models write the object as a text.
            Ok(Value::String(text)) => serde_json::from_str(&text),
            parsed => parsed,
        };
        match parsed {
            Ok(input @ Value::Object(_)) => Route::Run { name, tool, input },
            Ok(_) => invalid(call, &format!("the arguments of '{name}' must be a JSON object")),
            Err(error) => invalid(call, &format!("the arguments of '{name}' are not valid JSON: {error}")),
        }
    }
}

/// Returns the policy that decides about a turn: its agent's, its session's, the rules that the user `granted` by
/// naming it, and the sessions above.
pub fn policy(cx: &TurnCx<'_>, state: &SessionState, granted: &[Rule]) -> Policy {
    let mut policy = cx.agent.policy.clone();
    policy.extend(state.info.permission.as_deref().unwrap_or_default());
    policy.extend(granted);
    policy.below(&cx.parent_limits.rules)
}

/// Lets the subagents that the user named in their last message be given work, even against the user's rules.
fn mentioned(state: &SessionState) -> Vec<Rule> {
    let last = state.history.iter().rev().find(|message| matches!(message.info, Message::User(_)));
    let rules = last.into_iter().flat_map(|message| &message.parts).filter_map(|part| match &part.kind {
        PartKind::Agent { name, .. } => Some(rule("task", name, Action::Allow)),
        _other => None,
    });
    rules.collect()
}

/// Returns the arguments of a call that is not run, as far as they can be read.
fn shown_input(call: &Call) -> Value {
    let input = serde_json::from_str(&call.raw).ok();
    input.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

fn invalid(call: &Call, error: &str) -> Route {
    // The table always holds `invalid`; a test checks it.
    let tool = tool::find(INVALID).unwrap_or(&tool::BUILTIN[0]).clone();
    Route::Run { name: INVALID.to_owned(), tool, input: json!({ "tool": call.tool, "error": error }) }
}
