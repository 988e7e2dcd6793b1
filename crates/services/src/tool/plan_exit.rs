//! Asks the user about carrying out the plan, and switches to the `build` agent.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    AgentSwitch, ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    plan_enter::{is_yes, yes_or_no},
    row::Offer,
};

/// The agent for working.
pub const AGENT: &str = "build";

/// The tool takes no arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    offer.may_switch_to(AGENT)
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let _: Args = arguments("plan_exit", input)?;
    let plan = super::path::display(&cx.host.plan_file());
    let question = yes_or_no(
        "Build Agent",
        format!("The plan ({plan}) is ready. Switch to the build agent and carry it out?"),
        "Switch to the build agent and start with the plan",
        "Stay with the plan agent and go on planning",
    );
    if !is_yes(&cx.host.question(vec![question]).await?) {
        return Err(ToolError::Dismissed);
    }
    cx.host.switch_agent(AgentSwitch {
        agent: AGENT.to_owned(),
        message: format!(
            "The plan is approved ({plan}, where it was written there). Execute it; you can edit files now."
        ),
    });
    Ok(ToolOutput {
        title: "Switching to build agent".to_owned(),
        output: "The user approved the plan. The build agent takes over with the next message.".to_owned(),
        metadata: Map::new(),
        attachments: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
