//! Meaning of the answer to a form or a choice, for anything that a client sends.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_protocol::{
    opencode::{
        id::{QuestionId, SessionId},
        question::{Question, QuestionOption, QuestionRequest, ServerWanted, ServerWish},
    },
    rpc::ErrorBody,
};
use windlass_protocol_acp::decode::ClientCapabilities;

use super::{Dialog, Progress, QuestionMessage};

fn question(labels: &[&str], is_multiple: bool, takes_custom: bool) -> Question {
    let option = |label: &&str| QuestionOption { label: (*label).to_owned(), description: String::new() };
    Question {
        question: "Q?".to_owned(),
        header: "H".to_owned(),
        options: labels.iter().map(option).collect(),
        multiple: is_multiple.then_some(true),
        custom: (!takes_custom).then_some(false),
    }
}

fn dialog(questions: Vec<Question>, is_form: bool) -> Dialog {
    let request = QuestionRequest {
        id: QuestionId::from_trusted("que_1"),
        session_id: SessionId::from_trusted("ses_1"),
        questions,
        tool: None,
        wish: None,
    };
    Dialog::new(request, &ClientCapabilities { forms: is_form, ..ClientCapabilities::default() })
}

/// Returns the dialog about a server's wish that has this many plain questions.
fn wish(wanted: ServerWanted, n_questions: usize, (forms, pages): (bool, bool)) -> Dialog {
    let mut asked = dialog(vec![question(&["Yes", "No"], false, false); n_questions], false).request;
    asked.wish = Some(Arc::new(ServerWish { message: "shop: Which?".to_owned(), wanted }));
    Dialog::new(asked, &ClientCapabilities { forms, pages, ..ClientCapabilities::default() })
}

fn server_form() -> ServerWanted {
    ServerWanted::Form(json!({
        "type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "title": "Size"},
            "mail": {"type": "string", "format": "email", "maxLength": 40, "pattern": "@"},
            "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "sure": {"type": "boolean", "default": true},
        },
    }))
}

#[test]
fn a_servers_form_is_shown_as_it_is_and_its_values_are_the_answers() {
    let mut form = wish(server_form(), 5, (true, false));
    let request = shown(&form);
    assert_eq!((&request["mode"], &request["message"]), (&json!("form"), &json!("shop: Which?")));
    let schema = &request["requestedSchema"];
    let properties = &schema["properties"];
    assert_eq!(schema["required"], json!(["size"]));
    let size = json!({"type": "integer", "minimum": 1, "maximum": 9, "title": "Size"});
    assert_eq!(properties["size"], size);
    let mail = json!({"type": "string", "format": "email", "maxLength": 40, "pattern": "@"});
    assert_eq!(properties["mail"], mail);
    assert_eq!(properties["color"]["oneOf"][1], json!({"const": "g", "title": "green"}));
    assert_eq!(properties["sure"]["default"], true);
    let content = json!({"size": 7, "mail": "a@b.c", "tags": ["a", "b"], "sure": false, "more": 1});
    let answers = [vec!["7"], vec!["a@b.c"], vec![], vec!["a", "b"], vec!["false"]];
    let answers = answers.map(|given| given.into_iter().map(str::to_owned).collect()).to_vec();
    let accepted = take(&mut form, &json!({"action": "accept", "content": content}));
    assert_eq!(accepted, Progress::Answered(answers));
}

#[test]
fn declining_and_closing_a_servers_wish_differ() {
    let page = || ServerWanted::Page { id: "1".to_owned(), url: "https://a.b/c".to_owned() };
    for mut wanted in [wish(server_form(), 5, (true, true)), wish(page(), 1, (true, true))] {
        assert_eq!(take(&mut wanted, &json!({"action": "decline"})), Progress::Dismissed);
        assert_eq!(take(&mut wanted, &json!({"action": "cancel"})), Progress::Closed);
        assert_eq!(take(&mut wanted, &json!({"action": "later"})), Progress::Closed);
    }
    let mut agreed = wish(page(), 1, (false, true));
    let request = shown(&agreed);
    assert_eq!((&request["mode"], &request["url"]), (&json!("url"), &json!("https://a.b/c")));
    let answers = vec![vec!["Yes".to_owned()]];
    assert_eq!(take(&mut agreed, &json!({"action": "accept"})), Progress::Answered(answers));
}

#[test]
fn a_page_never_becomes_a_form_and_an_unknown_kind_of_form_becomes_questions() {
    let page = ServerWanted::Page { id: "1".to_owned(), url: "https://a.b/c".to_owned() };
    assert!(shown(&wish(page.clone(), 1, (true, false))).get("options").is_some());
    let mut refused = wish(page, 1, (true, true));
    let failure = ErrorBody { code: -32601, message: "no".to_owned(), data: None };
    assert_eq!(refused.apply_reply(Err(&failure)), Progress::Continue);
    assert!(shown(&refused).get("options").is_some());
    let odd = ServerWanted::Form(json!({"type": "object", "properties": {"a": {"type": "object"}}}));
    let odd = shown(&wish(odd, 1, (true, true)));
    assert!(odd["requestedSchema"]["properties"].get("question_1").is_some(), "{odd}");
}

fn take(dialog: &mut Dialog, result: &Value) -> Progress {
    dialog.apply_reply(Ok(Some(&result.to_string())))
}

fn fill_in(question: Question, content: Value) -> Vec<String> {
    let mut dialog = dialog(vec![question], true);
    match take(&mut dialog, &json!({"action": "accept", "content": content})) {
        Progress::Answered(mut answers) => answers.remove(0),
        other => panic!("{other:?}"),
    }
}

fn choose(dialog: &mut Dialog, option: &str) -> Progress {
    take(dialog, &json!({"outcome": {"outcome": "selected", "optionId": option}}))
}

fn shown(dialog: &Dialog) -> Value {
    match dialog.show(&SessionId::from_trusted("ses_1")) {
        QuestionMessage::Form(form) => serde_json::to_value(form).unwrap(),
        QuestionMessage::Choice(choice) => serde_json::to_value(choice).unwrap(),
    }
}

#[test]
fn a_form_is_read_with_suspicion() {
    let one = || question(&["A", "B"], false, true);
    let closed = || question(&["A", "B"], false, false);
    let many = || question(&["A", "B"], true, true);
    let closed_many = || question(&["A", "B"], true, false);
    let cases: &[(Question, Value, &[&str])] = &[
        (one(), json!({"question_1": "A"}), &["A"]),
        (one(), json!({"question_1": "A", "question_1_other": "mine"}), &["mine"]),
        (one(), json!({"question_1": "  ", "question_1_other": " "}), &[]),
        (one(), json!({"question_2": "A"}), &[]),
        (one(), json!({"question_1": null, "question_1_other": null}), &[]),
        (one(), json!({"question_1": ["A"]}), &["A"]),
        (many(), json!({"question_1": "A"}), &["A"]),
        (closed_many(), json!({"question_1": []}), &[]),
        (closed(), json!({"question_1": "B", "question_1_other": "mine"}), &["B"]),
        (many(), json!({"question_1": ["A", "B"], "question_1_other": "mine"}), &["A", "B", "mine"]),
        (question(&[], false, true), json!({"question_1": "words"}), &["words"]),
    ];
    for (question, content, wanted) in cases {
        assert_eq!(fill_in(question.clone(), content.clone()), *wanted, "{content}");
    }
}

#[test]
fn a_form_that_holds_what_it_did_not_offer_is_asked_again_as_choices() {
    for (takes_custom, is_multiple, content) in [
        (true, false, json!({"question_1": "bogus"})),
        (true, false, json!({"question_1": "bogus", "question_1_other": "mine"})),
        (true, false, json!({"question_1": ["A", "B"]})),
        (true, false, json!({"question_1": 7})),
        (true, false, json!({"question_1": "A", "question_1_other": {}})),
        (true, true, json!({"question_1": ["A", null, 3]})),
        (false, true, json!({"question_1": ["C", "B"]})),
        (false, false, json!({"question_1": "C"})),
        (false, false, json!({})),
    ] {
        let mut form = dialog(vec![question(&["A", "B"], is_multiple, takes_custom)], true);
        assert_eq!(
            take(&mut form, &json!({"action": "accept", "content": content})),
            Progress::Continue,
            "{content}"
        );
        assert!(shown(&form).get("options").is_some(), "{content}");
    }
}

#[test]
fn only_accepting_answers() {
    for result in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({}),
        json!([]),
        json!({"action": "accept", "content": 1}),
    ] {
        assert_eq!(
            take(&mut dialog(vec![question(&["A"], false, true)], true), &result),
            Progress::Dismissed
        );
    }
    let mut choices = dialog(vec![question(&["A"], false, true)], false);
    for option in ["dismiss", "answer_0", "answer_2", "answer_x", "answer_99999999999999999999", ""] {
        assert_eq!(choose(&mut choices, option), Progress::Dismissed, "{option}");
    }
    assert_eq!(take(&mut choices, &json!({"outcome": {"outcome": "cancelled"}})), Progress::Dismissed);
    assert_eq!(choices.apply_reply(Ok(None)), Progress::Dismissed);
}

#[test]
fn choices_gather_the_answers_of_one_question_after_another() {
    let mut choices =
        dialog(vec![question(&["A", "B"], false, true), question(&["C", "D", "E"], true, true)], false);
    assert_eq!(choose(&mut choices, "answer_2"), Progress::Continue);
    for option in ["answer_3", "answer_1", "answer_2", "answer_2"] {
        assert_eq!(choose(&mut choices, option), Progress::Continue);
    }
    let answers = vec![vec!["B".to_owned()], vec!["C".to_owned(), "E".to_owned()]];
    assert_eq!(choose(&mut choices, "done"), Progress::Answered(answers));
}

#[test]
fn a_form_that_is_not_understood_becomes_choices_and_any_other_failure_a_dismissal() {
    let failure = |code: i32| ErrorBody { code, message: "no".to_owned(), data: None };
    for (code, wanted) in
        [(-32601, Progress::Continue), (-32602, Progress::Continue), (-32603, Progress::Dismissed)]
    {
        let mut form = dialog(vec![question(&["A"], false, true)], true);
        assert!(shown(&form).get("requestedSchema").is_some());
        assert_eq!(form.apply_reply(Err(&failure(code))), wanted, "{code}");
        assert_eq!(shown(&form).get("options").is_some(), wanted == Progress::Continue);
        assert_eq!(choices_failing(&failure(code)), Progress::Dismissed);
    }
}

fn choices_failing(failure: &ErrorBody) -> Progress {
    dialog(vec![question(&["A"], false, true)], false).apply_reply(Err(failure))
}

#[test]
fn fields_keep_the_order_of_the_questions() {
    let form = shown(&dialog(vec![question(&["A"], false, false); 11], true));
    let mut names: Vec<&String> = form["requestedSchema"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 11);
    assert_eq!((names[0].as_str(), names[10].as_str()), ("question_01", "question_11"));
    names.sort();
    assert_eq!(form["message"], "11 questions");
}
