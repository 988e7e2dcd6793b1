//! Questions of tools to the client's user: as one form where the client shows forms, else one choice after another.
//! A form or a page of an MCP server is shown as the server made it, where the client can show it.

use serde_json::{Map, Value, json};
use windlass_base::text;
use windlass_protocol::{
    opencode::{
        id::{QuestionId, SessionId},
        question::{Question, QuestionRequest, ServerWanted},
    },
    rpc::{ErrorBody, code},
};
use windlass_protocol_acp::{
    decode::{self, ClientCapabilities, FormOutcome},
    schema::{
        ContentBlock, CreateElicitationRequest, ElicitationFormMode, ElicitationPropertySchema,
        ElicitationSchema, ElicitationSessionScope, ElicitationUrlMode, EnumOption,
        MultiSelectPropertySchema, PermissionOption, PermissionOptionKind, RequestPermissionRequest,
        StringPropertySchema, TextContent, ToolCallId, ToolCallUpdate, ToolCallUpdateFields,
    },
};

use self::server_form::{answers, schema};
use super::to_proto;

mod server_form;

const DONE: &str = "done";
const DISMISS: &str = "dismiss";
/// Before the number of an answer in the id of its option.
const ANSWER: &str = "answer_";
/// Bytes of a label in a narrow place.
const MAX_HEADER: usize = 60;

/// Progress of the user through the questions of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    request: QuestionRequest,
    /// The server's wish that is shown in place of the questions.
    wanted: Option<Shape>,
    /// All questions stand in one form.
    is_form: bool,
    /// Answers to the questions that are done.
    answers: Vec<Vec<String>>,
    /// Options chosen so far for the current question, by index.
    chosen: Vec<usize>,
}

/// A server's wish in the client's form.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Form(ElicitationSchema),
    Page { id: String, url: String },
}

/// Message to the client that shows a question.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionMessage {
    Form(CreateElicitationRequest),
    Choice(RequestPermissionRequest),
}

/// Meaning of an answer of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There is more to ask.
    Continue,
    Answered(Vec<Vec<String>>),
    Dismissed,
    /// The user has neither answered nor declined a server's wish.
    Closed,
}

impl Dialog {
    pub fn new(request: QuestionRequest, client: &ClientCapabilities) -> Self {
        let wanted = request.wish.as_ref().map(|wish| &wish.wanted);
        let (wanted, is_form) = match wanted {
            Some(ServerWanted::Form(form)) if client.forms => (schema(form).map(Shape::Form), true),
            Some(ServerWanted::Page { id, url }) if client.pages => {
                (Some(Shape::Page { id: id.clone(), url: url.clone() }), false)
            }
            // A page may be for secrets, which no form may ask for.
            Some(ServerWanted::Page { .. }) => (None, false),
            Some(ServerWanted::Form(_)) | None => (None, client.forms),
        };
        Self { request, wanted, is_form, answers: Vec::new(), chosen: Vec::new() }
    }

    /// Returns the question's id.
    pub fn id(&self) -> &QuestionId {
        &self.request.id
    }

    /// Returns the session that asks.
    pub fn session_id(&self) -> &SessionId {
        &self.request.session_id
    }

    /// Returns the question to ask now. `root` is the session that the client knows.
    pub fn show(&self, root: &SessionId) -> QuestionMessage {
        let call_id = match &self.request.tool {
            Some(tool) if self.request.session_id == *root => tool.call_id.clone(),
            Some(tool) => to_proto::child_call_id(&self.request.session_id, &tool.call_id),
            None => self.request.id.to_string(),
        };
        if let (Some(wanted), Some(wish)) = (&self.wanted, &self.request.wish) {
            let scope = ElicitationSessionScope::new(root.shared()).tool_call_id(ToolCallId::new(call_id));
            let message = to_proto::label(&wish.message);
            return QuestionMessage::Form(match wanted {
                Shape::Form(schema) => {
                    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema.clone()), message)
                }
                Shape::Page { id, url } => {
                    let mode = ElicitationUrlMode::new(scope, id.clone(), url.clone());
                    CreateElicitationRequest::new(mode, message)
                }
            });
        }
        match self.request.questions.get(self.answers.len()) {
            Some(question) if !self.is_form => QuestionMessage::Choice(self.choice(root, call_id, question)),
            Some(_) | None => QuestionMessage::Form(self.form(root, call_id)),
        }
    }

    fn form(&self, root: &SessionId, call_id: String) -> CreateElicitationRequest {
        let questions = &self.request.questions;
        let mut schema = ElicitationSchema::new();
        for (idx, question) in questions.iter().enumerate() {
            let name = self.field(idx);
            schema = schema.property(name.clone(), property(question), is_required(question));
            if question.takes_custom() && !question.options.is_empty() {
                let title = match questions.len() {
                    1 => "Other answer".to_owned(),
                    _ => to_proto::label(&format!("{}: other answer", header(question))),
                };
                let other = StringPropertySchema::new().title(title);
                schema = schema.property(other_field(&name), other, false);
            }
        }
        let message = match questions.as_slice() {
            [only] => to_proto::label(&only.question),
            several => format!("{} questions", several.len()),
        };
        let scope = ElicitationSessionScope::new(root.shared()).tool_call_id(ToolCallId::new(call_id));
        CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), message)
    }

    /// Returns a name that keeps the fields in the order of the questions where a client sorts them.
    fn field(&self, idx: usize) -> String {
        let width = self.request.questions.len().to_string().len();
        format!("question_{:0width$}", idx + 1)
    }

    fn choice(&self, root: &SessionId, call_id: String, question: &Question) -> RequestPermissionRequest {
        let n_questions = self.request.questions.len();
        let title = match n_questions {
            1 => question.question.clone(),
            _ => format!("{} ({} of {n_questions})", question.question, self.answers.len() + 1),
        };
        let mut lines = vec![to_proto::label(&question.question), String::new()];
        let options = question.options.iter();
        lines.extend(options.map(|it| to_proto::label(&format!("- **{}**: {}", it.label, it.description))));
        let fields = ToolCallUpdateFields::new()
            .title(to_proto::label(&title))
            .raw_input(json!(question))
            .content(vec![ContentBlock::Text(TextContent::new(lines.join("\n"))).into()]);
        let allow =
            |id: String, name: String| PermissionOption::new(id, name, PermissionOptionKind::AllowOnce);
        let answers = question.options.iter().enumerate().map(|(idx, option)| {
            let mark = match (question.is_multiple(), self.chosen.contains(&idx)) {
                (false, _) => "",
                (true, false) => "☐ ",
                (true, true) => "☑ ",
            };
            allow(format!("{ANSWER}{}", idx + 1), format!("{mark}{}", to_proto::label(&option.label)))
        });
        let done = match (question.is_multiple(), self.chosen.len()) {
            (true, 0) => Some("None of these".to_owned()),
            (true, n_chosen) => Some(format!("Done ({n_chosen} chosen)")),
            // Only a form can take the user's own words.
            (false, _) if question.options.is_empty() => Some("Continue without an answer".to_owned()),
            (false, _) => None,
        };
        let done = done.map(|name| allow(DONE.to_owned(), name));
        // A client that always takes the first answer must come to an end.
        let (first, last) = if self.chosen.is_empty() { (None, done) } else { (done, None) };
        let mut options: Vec<PermissionOption> = first.into_iter().chain(answers).chain(last).collect();
        options.push(PermissionOption::new(DISMISS, "Dismiss", PermissionOptionKind::RejectOnce));
        RequestPermissionRequest::new(root.shared(), ToolCallUpdate::new(call_id, fields), options)
    }

    /// Applies the client's answer to the form or choice that was shown.
    pub fn apply_reply(&mut self, result: Result<Option<&str>, &ErrorBody>) -> Progress {
        if self.wanted.is_some() {
            return self.granted(result);
        }
        match result {
            Err(failure) if self.is_form && is_unsupported(failure) => {
                self.is_form = false;
                Progress::Continue
            }
            Err(_) => Progress::Dismissed,
            Ok(result) if self.is_form => match decode::form_outcome(result.unwrap_or("{}")) {
                Ok(FormOutcome::Accepted(content)) => match self.filled_in(&content) {
                    Some(answers) => Progress::Answered(answers),
                    // A client that lets such a thing through shows its user too little: choices are safer.
                    None => {
                        self.is_form = false;
                        Progress::Continue
                    }
                },
                Ok(FormOutcome::Declined | FormOutcome::Cancelled) | Err(_) => Progress::Dismissed,
            },
            Ok(result) => match decode::permission_outcome(result.unwrap_or("{}")) {
                Ok(Some(option)) => self.chose(&option),
                Ok(None) | Err(_) => Progress::Dismissed,
            },
        }
    }

    /// Applies the client's answer to a server's wish. The values are checked where the server's call is.
    fn granted(&mut self, result: Result<Option<&str>, &ErrorBody>) -> Progress {
        let outcome = match result {
            // The questions take its place.
            Err(failure) if is_unsupported(failure) => {
                self.wanted = None;
                return Progress::Continue;
            }
            Err(_) => return Progress::Closed,
            Ok(result) => decode::form_outcome(result.unwrap_or("{}")),
        };
        let form = self.request.wish.as_ref().map(|wish| &wish.wanted);
        match (outcome, form) {
            (Ok(FormOutcome::Accepted(content)), Some(ServerWanted::Form(form))) => {
                Progress::Answered(answers(form, &content).unwrap_or_else(|| self.agreed()))
            }
            (Ok(FormOutcome::Accepted(_)), _) => Progress::Answered(self.agreed()),
            (Ok(FormOutcome::Declined), _) => Progress::Dismissed,
            (Ok(FormOutcome::Cancelled) | Err(_), _) => Progress::Closed,
        }
    }

    /// Returns the first answer to each question, which agrees where nothing else is asked.
    fn agreed(&self) -> Vec<Vec<String>> {
        let first =
            |it: &Question| it.options.first().map(|option| option.label.clone()).into_iter().collect();
        self.request.questions.iter().map(first).collect()
    }

    /// Returns the answers in a form, checked again because a client may send anything; `None` for answers that the
    /// form did not offer.
    fn filled_in(&self, content: &Map<String, Value>) -> Option<Vec<Vec<String>>> {
        let questions = self.request.questions.iter().enumerate();
        let answers = questions.map(|(idx, question)| {
            let name = self.field(idx);
            let is_offered = |label: &str| question.options.iter().any(|option| option.label == label);
            let mut answer = words(content.get(&name))?;
            answer.retain(|label| is_offered(label) || !label.trim().is_empty());
            let is_too_much = !question.is_multiple() && answer.len() > 1;
            let is_unknown = !question.options.is_empty() && !answer.iter().all(|label| is_offered(label));
            if is_too_much || is_unknown {
                return None;
            }
            if question.takes_custom() && !question.options.is_empty() {
                let mut own = words(content.get(&other_field(&name)))?;
                own.iter_mut().for_each(|words| *words = words.trim().to_owned());
                own.retain(|words| !words.is_empty());
                if !own.is_empty() && !question.is_multiple() {
                    answer.clear();
                }
                answer.extend(own);
            }
            let is_missing = answer.is_empty() && is_required(question);
            (!is_missing).then_some(answer)
        });
        answers.collect()
    }

    fn chose(&mut self, option: &str) -> Progress {
        let Some(question) = self.request.questions.get(self.answers.len()) else {
            return Progress::Dismissed;
        };
        let number = option.strip_prefix(ANSWER).and_then(|number| number.parse::<usize>().ok());
        let chosen = number.and_then(|number| number.checked_sub(1));
        match chosen.filter(|idx| *idx < question.options.len()) {
            Some(idx) if question.is_multiple() => {
                match self.chosen.iter().position(|it| *it == idx) {
                    Some(place) => _ = self.chosen.remove(place),
                    None => self.chosen.push(idx),
                }
                return Progress::Continue;
            }
            Some(idx) => self.chosen = vec![idx],
            None if option == DONE => {}
            None => return Progress::Dismissed,
        }
        self.chosen.sort_unstable();
        let labels = self.chosen.drain(..).filter_map(|idx| question.options.get(idx));
        self.answers.push(labels.map(|option| option.label.clone()).collect());
        if self.answers.len() < self.request.questions.len() {
            return Progress::Continue;
        }
        Progress::Answered(std::mem::take(&mut self.answers))
    }
}

/// Returns true if an option has to be chosen: the user can neither write an answer nor leave all options out.
fn is_required(question: &Question) -> bool {
    !question.takes_custom() && !question.is_multiple()
}

/// Returns the text or texts of a field; `None` when it holds something else.
fn words(field: Option<&Value>) -> Option<Vec<String>> {
    match field {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(one)) => Some(vec![one.clone()]),
        Some(Value::Array(several)) => several.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    }
}

/// Returns true if the error says that the client has no forms after all.
fn is_unsupported(failure: &ErrorBody) -> bool {
    [code::METHOD_NOT_FOUND, code::INVALID_PARAMS].contains(&failure.code)
}

fn header(question: &Question) -> &str {
    text::head(&question.header, MAX_HEADER)
}

fn other_field(name: &str) -> String {
    format!("{name}_other")
}

fn property(question: &Question) -> ElicitationPropertySchema {
    let (title, description) = (to_proto::label(header(question)), to_proto::label(&question.question));
    let options = question.options.iter();
    let options: Vec<EnumOption> = options
        .map(|option| {
            let description = Some(to_proto::label(&option.description)).filter(|it| !it.is_empty());
            // The answer holds the label as it is; the label that is shown hides nothing.
            EnumOption::new(option.label.clone(), to_proto::label(&option.label)).description(description)
        })
        .collect();
    match (options.is_empty(), question.is_multiple()) {
        (true, _) => StringPropertySchema::new().title(title).description(description).into(),
        (false, true) => {
            MultiSelectPropertySchema::titled(options).title(title).description(description).into()
        }
        (false, false) => {
            StringPropertySchema::new().title(title).description(description).one_of(options).into()
        }
    }
}

#[cfg(test)]
mod tests;
