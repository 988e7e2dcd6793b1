//! Asks the user one or more questions and hands their answers to the model.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_protocol::opencode::{
    question::{Question, QuestionOption},
    tool_metadata::{Answered, encode},
};

use super::{Answers, ToolCx, ToolError, ToolOutput, arguments::arguments, row::Offer};

/// Switches the tool on where no user seems to be there to answer, and off with `0` or `false`.
const SWITCH: &str = "OPENCODE_ENABLE_QUESTION_TOOL";

/// The questions to ask.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The questions, in the order for the user.
    pub questions: Vec<Item>,
}

/// One question.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Item {
    /// The whole question.
    pub question: String,
    /// A very short label, at most 30 characters.
    pub header: String,
    /// The answers to choose from.
    pub options: Vec<ItemOption>,
    /// True to let the user choose several answers.
    pub multiple: Option<bool>,
}

/// One answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ItemOption {
    /// The text of the choice, 1 to 5 words.
    pub label: String,
    /// An explanation of the choice.
    pub description: String,
}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    let environment = &offer.config.environment;
    match environment.get(SWITCH) {
        Some(_) => environment.is_on(SWITCH),
        None => offer.is_answerable,
    }
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("question", input)?;
    if args.questions.is_empty() {
        return Err(ToolError::Model("questions is empty: there must be at least one question".to_owned()));
    }
    let questions: Vec<Question> = args.questions.into_iter().map(question).collect();
    let answers = cx.host.question(questions.clone()).await?;
    let n_questions = questions.len();
    Ok(ToolOutput {
        title: format!("Asked {n_questions} question{}", if n_questions == 1 { "" } else { "s" }),
        output: output(&questions, &answers),
        metadata: encode(&Answered { answers: Cow::Borrowed(&answers) }),
        attachments: Vec::new(),
    })
}

fn question(item: Item) -> Question {
    let mut options: Vec<QuestionOption> = Vec::new();
    for option in item.options {
        // Answers are distinguished by their labels.
        if !option.label.trim().is_empty() && !options.iter().any(|it| it.label == option.label) {
            options.push(QuestionOption { label: option.label, description: option.description });
        }
    }
    Question {
        question: item.question,
        header: item.header,
        options,
        multiple: item.multiple.filter(|is_multiple| *is_multiple),
        custom: None,
    }
}

/// Formats the answers for the model (facts: OpenCode §5.9).
fn output(questions: &[Question], answers: &Answers) -> String {
    let answered = questions.iter().enumerate().map(|(idx, question)| {
        let answer = answers.get(idx).filter(|answer| !answer.is_empty());
        let answer = answer.map_or("Unanswered".to_owned(), |answer| answer.join(", "));
        format!("\"{}\"=\"{answer}\"", question.question)
    });
    let answered: Vec<String> = answered.collect();
    format!("User has answered your questions: {}. Go on with these answers.", answered.join(", "))
}

#[cfg(test)]
mod tests;
