//! Forms that a server wants the user to fill in, as questions, and their answers as the form's values.

use reqwest::Url;
use serde_json::{Map, Value};
use windlass_protocol::opencode::question::{Question, QuestionOption};

use super::fit;
use crate::tool::Answers;

const YES: &str = "Yes";
const NO: &str = "No";

/// A value that is wanted.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    title: String,
    description: Option<String>,
    kind: Kind,
    default: Option<Value>,
    is_required: bool,
    /// The field's schema, with its bounds.
    schema: Value,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Text,
    Number {
        is_whole: bool,
    },
    Boolean,
    /// The values with their names.
    Choice {
        options: Vec<(String, String)>,
        is_multiple: bool,
    },
}

/// A form of a flat JSON schema.
#[derive(Debug, PartialEq)]
pub(super) struct Form {
    message: String,
    fields: Vec<Field>,
}

impl Form {
    pub(super) fn new(message: String, schema: &Value) -> Self {
        let is_required = |name: &str| {
            let mut required = schema["required"].as_array().into_iter().flatten();
            required.any(|it| it == name)
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let fields = properties.map(|(name, field)| {
            let text = |key: &str| field[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            Field {
                name: name.clone(),
                title: text("title").unwrap_or_else(|| name.clone()),
                description: text("description"),
                kind: kind(field),
                default: field.get("default").cloned(),
                is_required: is_required(name),
                schema: field.clone(),
            }
        });
        Self { message, fields: fields.collect() }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the title of a field that asks for a secret, which is for pages alone.
    pub(super) fn secret(&self) -> Option<&str> {
        let is_secret = |field: &&Field| fit::is_secret(&field.name) || fit::is_secret(&field.title);
        self.fields.iter().find(is_secret).map(|field| &*field.title)
    }

    /// Returns a question for each value; one to agree to where no value is wanted.
    pub(super) fn questions(&self, server: &str) -> Vec<Question> {
        if self.fields.is_empty() {
            return vec![agreement(server, &self.message, YES)];
        }
        let asked = self.fields.iter().enumerate();
        asked.map(|(place, field)| field.question(server, (place == 0).then_some(&self.message))).collect()
    }

    /// Reads the answers; the error says of the first one why it does not fit. `None` where the user does not agree.
    pub(super) fn values(&self, answers: &Answers) -> Result<Option<Map<String, Value>>, String> {
        if self.fields.is_empty() {
            return Ok(is_agreed(answers, YES).then(Map::new));
        }
        let mut values = Map::new();
        for (place, field) in self.fields.iter().enumerate() {
            let given = answers.get(place).map(Vec::as_slice).unwrap_or_default();
            if let Some(value) = field.value(given)? {
                values.insert(field.name.clone(), value);
            }
        }
        Ok(Some(values))
    }
}

/// Returns a question that is answered by agreeing or not.
pub(super) fn agreement(server: &str, message: &str, yes: &str) -> Question {
    Question {
        question: format!("{server}: {message}"),
        header: server.to_owned(),
        options: vec![option(yes, ""), option(NO, "")],
        multiple: None,
        custom: Some(false),
    }
}

pub(super) fn is_agreed(answers: &Answers, yes: &str) -> bool {
    answers.first().and_then(|labels| labels.first()).is_some_and(|label| label == yes)
}

/// Returns the reason that a page may not be opened: browsers open more than pages, and an address is seen by many.
pub(super) fn unfit_address(url: &str) -> Option<&'static str> {
    match Url::parse(url) {
        Ok(url) if !["https", "http"].contains(&url.scheme()) => Some("only pages of the web are opened"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Some("an address may hold no user and no password")
        }
        Ok(_) => None,
        Err(_) => Some("the address of the page is invalid"),
    }
}

fn option(label: &str, description: &str) -> QuestionOption {
    QuestionOption { label: label.to_owned(), description: description.to_owned() }
}

fn kind(field: &Value) -> Kind {
    if let Some(options) = choices(field) {
        return Kind::Choice { options, is_multiple: false };
    }
    match field["type"].as_str() {
        Some("boolean") => Kind::Boolean,
        Some("integer") => Kind::Number { is_whole: true },
        Some("number") => Kind::Number { is_whole: false },
        Some("array") => match choices(&field["items"]) {
            Some(options) => Kind::Choice { options, is_multiple: true },
            None => Kind::Text,
        },
        _ => Kind::Text,
    }
}

/// Returns the values that a field may have, with their names.
fn choices(field: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = field["enum"].as_array() {
        let names = field["enumNames"].as_array();
        let named = values.iter().enumerate().filter_map(|(place, value)| {
            let value = value.as_str()?;
            let name = names.and_then(|names| names.get(place)?.as_str());
            Some((value.to_owned(), name.unwrap_or(value).to_owned()))
        });
        return Some(named.collect());
    }
    let listed = field["oneOf"].as_array().or(field["anyOf"].as_array())?;
    let named = listed.iter().filter_map(|it| {
        let value = it["const"].as_str()?;
        Some((value.to_owned(), it["title"].as_str().unwrap_or(value).to_owned()))
    });
    Some(named.collect())
}

impl Field {
    fn question(&self, server: &str, message: Option<&String>) -> Question {
        let mut question = message.map(|message| format!("{server}: {message}\n")).unwrap_or_default();
        question.push_str(&self.title);
        if let Some(description) = &self.description {
            question.push_str(&format!(": {description}"));
        }
        if !self.is_required {
            question.push_str(" (may be left out)");
        }
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let options = match &self.kind {
            Kind::Boolean => vec![option(YES, ""), option(NO, "")],
            Kind::Choice { options, .. } => options.iter().map(|(_, name)| option(name, "")).collect(),
            Kind::Text | Kind::Number { .. } => {
                self.default.iter().map(|value| option(&shown(value), "the default")).collect()
            }
        };
        Question {
            question,
            header: self.title.clone(),
            options,
            multiple: matches!(self.kind, Kind::Choice { is_multiple: true, .. }).then_some(true),
            custom: Some(matches!(self.kind, Kind::Text | Kind::Number { .. })),
        }
    }

    fn value(&self, given: &[String]) -> Result<Option<Value>, String> {
        let wrong = |what: &str| Err(format!("`{}` must be {what}.", self.title));
        if let Kind::Choice { options, is_multiple: true } = &self.kind
            && !given.is_empty()
        {
            let values: Option<Vec<Value>> = given.iter().map(|name| chosen(options, name)).collect();
            let Some(values) = values else { return wrong("some of the options") };
            return self.checked(Value::Array(values)).map(Some);
        }
        let Some(given) = given.first().map(|text| text.trim()).filter(|text| !text.is_empty()) else {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.is_required => wrong("given"),
                None => Ok(None),
            };
        };
        let value = match &self.kind {
            Kind::Text => Some(Value::from(given)),
            Kind::Boolean => match given {
                YES | "true" => Some(Value::from(true)),
                NO | "false" => Some(Value::from(false)),
                _ => None,
            },
            Kind::Choice { options, .. } => chosen(options, given),
            Kind::Number { is_whole: true } => {
                let written = given.strip_suffix(".0").unwrap_or(given);
                written.parse::<i64>().ok().map(Value::from)
            }
            Kind::Number { is_whole: false } => {
                given.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from)
            }
        };
        match (value, &self.kind) {
            (Some(value), _) => self.checked(value).map(Some),
            (None, Kind::Number { is_whole: true }) => wrong("a whole number"),
            (None, Kind::Number { is_whole: false }) => wrong("a number"),
            (None, Kind::Text | Kind::Boolean | Kind::Choice { .. }) => wrong("one of the options"),
        }
    }

    /// Returns the value if it is within the bounds of the field.
    fn checked(&self, value: Value) -> Result<Value, String> {
        match fit::misfit(&self.schema, &value) {
            Some(wanted) => Err(format!("`{}` must {wanted}.", self.title)),
            None => Ok(value),
        }
    }
}

fn chosen(options: &[(String, String)], name: &str) -> Option<Value> {
    options
        .iter()
        .find(|(value, known)| known == name || value == name)
        .map(|(value, _)| Value::from(&**value))
}

#[cfg(test)]
mod tests {
    //! Forms become questions, and answers values.

    use serde_json::{Value, json};

    use super::{Form, unfit_address};

    fn form() -> Form {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Your name", "description": "as on the card"},
                "age": {"type": "integer"},
                "share": {"type": "number", "default": 0.5},
                "sure": {"type": "boolean"},
                "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
                "sizes": {"type": "array", "items": {"anyOf": [{"const": "s", "title": "small"}, {"const": "l"}]}},
            },
            "required": ["name", "age"],
        });
        Form::new("Who are you?".to_owned(), &schema)
    }

    fn answers(texts: &[&[&str]]) -> Vec<Vec<String>> {
        texts.iter().map(|given| given.iter().map(|text| (*text).to_owned()).collect()).collect()
    }

    #[test]
    fn each_value_is_a_question_and_the_first_one_says_what_for() {
        let questions = form().questions("shop");
        let texts: Vec<&str> = questions.iter().map(|it| it.question.as_str()).collect();
        let left_out = [
            "share (may be left out)",
            "sure (may be left out)",
            "color (may be left out)",
            "sizes (may be left out)",
        ];
        assert_eq!(texts[0], "shop: Who are you?\nYour name: as on the card");
        assert_eq!((texts[1], &texts[2..]), ("age", &left_out[..]));
        let labels = |place: usize| -> Vec<&str> {
            questions[place].options.iter().map(|it| it.label.as_str()).collect()
        };
        assert_eq!((labels(2), labels(3)), (vec!["0.5"], vec!["Yes", "No"]));
        assert_eq!((labels(4), labels(5)), (vec!["red", "green"], vec!["small", "l"]));
        assert!(questions[5].is_multiple() && !questions[5].takes_custom() && questions[0].takes_custom());
    }

    #[test]
    fn answers_become_values_of_their_types() {
        let given = answers(&[&["Ann"], &["42"], &[], &["No"], &["green"], &["small", "l"]]);
        let wanted = json!({
            "name": "Ann", "age": 42, "share": 0.5, "sure": false, "color": "g", "sizes": ["s", "l"],
        });
        assert_eq!(form().values(&given).unwrap().map(Value::Object), Some(wanted));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let values = |texts: &[&[&str]]| form().values(&answers(texts)).unwrap_err();
        assert_eq!(values(&[&["Ann"], &["old"]]), "`age` must be a whole number.");
        assert_eq!(values(&[&[" "]]), "`Your name` must be given.");
        assert_eq!(values(&[&["Ann"], &["1"], &[], &[], &["blue"]]), "`color` must be one of the options.");
    }

    #[test]
    fn a_form_that_asks_for_a_secret_is_known() {
        for (name, title) in [("apiKey", "Key"), ("x", "Your password"), ("github_token", "T"), ("pin", "P")]
        {
            let properties = json!({"a": {"type": "string"}, name: {"type": "string", "title": title}});
            let form = Form::new(String::new(), &json!({"type": "object", "properties": properties}));
            assert_eq!(form.secret(), Some(title));
        }
        assert_eq!(form().secret(), None);
        let harmless = json!({"max_tokens": {}, "keyboard": {}, "spin": {}, "secretary": {}});
        assert_eq!(Form::new(String::new(), &json!({"properties": harmless})).secret(), None);
    }

    #[test]
    fn only_pages_of_the_web_without_a_password_are_opened() {
        assert_eq!(unfit_address("https://shop.example/pay?x=1"), None);
        for unfit in ["file:///etc/passwd", "javascript:alert(1)", "https://a:b@c.d/", "https://a@c.d/", "x"]
        {
            assert!(unfit_address(unfit).is_some(), "{unfit}");
        }
    }

    #[test]
    fn a_form_without_values_is_agreed_to() {
        let form = Form::new("Go on?".to_owned(), &json!({"type": "object", "properties": {}}));
        assert_eq!(form.questions("shop")[0].question, "shop: Go on?");
        assert_eq!(form.values(&answers(&[&["Yes"]])), Ok(Some(serde_json::Map::new())));
        assert_eq!(form.values(&answers(&[&["No"]])), Ok(None));
    }
}
