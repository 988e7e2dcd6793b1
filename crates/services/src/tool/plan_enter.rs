//! Asks the user about planning first, and switches to the `plan` agent.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_protocol::opencode::question::{Question, QuestionOption};

use super::{AgentSwitch, Answers, ToolCx, ToolError, ToolOutput, arguments::arguments, row::Offer};

/// The agent for planning.
pub const AGENT: &str = "plan";
const YES: &str = "Yes";

/// The tool takes no arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    offer.may_switch_to(AGENT)
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let _: Args = arguments("plan_enter", input)?;
    let plan = super::path::display(&cx.host.plan_file());
    let question = yes_or_no(
        "Plan Mode",
        format!("Switch to the plan agent first, and write a plan to {plan}?"),
        "Look around and plan, without changing anything else",
        "Go on working without a plan",
    );
    if !is_yes(&cx.host.question(vec![question]).await?) {
        let text = "The user wants no plan first. Go on with the work as you are.";
        return Err(ToolError::Model(text.to_owned()));
    }
    cx.host.switch_agent(AgentSwitch {
        agent: AGENT.to_owned(),
        message: format!("I want a plan first. Plan mode is on; the plan belongs into {plan}."),
    });
    Ok(ToolOutput {
        title: "Switching to plan agent".to_owned(),
        output: format!(
            "The user agreed to plan first. The plan agent takes over with the next message. The plan file is {plan}."
        ),
        metadata: Map::new(),
        attachments: Vec::new(),
    })
}

/// Makes a question with two answers and no other.
pub(super) fn yes_or_no(header: &str, question: String, yes: &str, no: &str) -> Question {
    let option = |label: &str, description: &str| QuestionOption {
        label: label.to_owned(),
        description: description.to_owned(),
    };
    Question {
        question,
        header: header.to_owned(),
        options: vec![option(YES, yes), option("No", no)],
        multiple: None,
        custom: Some(false),
    }
}

/// Returns true for a clear yes only.
pub(super) fn is_yes(answers: &Answers) -> bool {
    answers.first().is_some_and(|answer| answer.iter().any(|label| label == YES))
}

#[cfg(test)]
mod tests;
