//! Keys typed at a tool's questions.

use serde_json::{Value, json};

use super::{
    super::{Answer, Step, keyboard::Key},
    QuestionDialog,
};

fn question(question: &str, labels: &[&str], rest: Value) -> Value {
    let options: Vec<Value> = labels.iter().map(|label| json!({"label": label, "description": ""})).collect();
    let mut value = json!({"question": question, "header": "h", "options": options});
    value.as_object_mut().expect("object").extend(rest.as_object().expect("rest").clone());
    value
}

fn dialog(questions: Value) -> (QuestionDialog, String) {
    QuestionDialog::new(serde_json::from_value(questions).expect("questions"), 100)
}

/// Types keys, `\r` for Enter, `\x1b` for Escape; the answers, or `None` where they were dismissed.
fn answers(questions: Value, keys: &str) -> Option<Vec<Vec<String>>> {
    let (mut dialog, _) = dialog(questions);
    for char in keys.chars() {
        let key = match char {
            '\r' => Key::Enter,
            '\u{1b}' => Key::Escape,
            char => Key::Char(char),
        };
        if let Step::Done(_, Answer::Question(answers)) = dialog.keys(&[key]) {
            return answers;
        }
    }
    panic!("the keys end nothing");
}

#[test]
fn a_number_chooses() {
    let ask = || json!([question("Which?", &["Red", "Blue"], json!({}))]);
    assert_eq!(
        dialog(ask()).1,
        "? Which?\n  1  Red\n  2  Blue\n[1-2] choose  [o] own words  [Esc] dismiss › "
    );
    assert_eq!(answers(ask(), "2"), Some(vec![vec!["Blue".to_owned()]]));
    assert_eq!(answers(ask(), "9x01"), Some(vec![vec!["Red".to_owned()]]));
    assert_eq!(answers(ask(), "\u{1b}"), None);
    assert_eq!(answers(ask(), "ogreen\r"), Some(vec![vec!["green".to_owned()]]));
}

#[test]
fn a_long_list_takes_two_digits() {
    let labels: Vec<String> = (1..=12).map(|n| format!("option {n}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let ask = || json!([question("Which?", &labels, json!({"custom": false}))]);
    assert_eq!(answers(ask(), "12"), Some(vec![vec!["option 12".to_owned()]]));
    assert_eq!(answers(ask(), "1\r"), Some(vec![vec!["option 1".to_owned()]]));
    assert_eq!(answers(ask(), "o2"), Some(vec![vec!["option 2".to_owned()]]), "only the options are answers");
}

#[test]
fn several_may_be_chosen_and_taken_back() {
    let ask = || json!([question("Which?", &["A", "B", "C"], json!({"multiple": true}))]);
    assert_eq!(answers(ask(), "312\r"), Some(vec![vec!["A".to_owned(), "B".to_owned(), "C".to_owned()]]));
    assert_eq!(answers(ask(), "131\r"), Some(vec![vec!["C".to_owned()]]));
    assert_eq!(answers(ask(), "\r"), Some(vec![vec![]]));
    assert_eq!(answers(ask(), "1omore\r"), Some(vec![vec!["A".to_owned(), "more".to_owned()]]));
}

#[test]
fn questions_are_asked_one_after_another() {
    let ask = json!([question("First?", &["A", "B"], json!({})), question("Then?", &[], json!({}))]);
    let (mut dialog, text) = dialog(ask.clone());
    assert!(text.starts_with("? First? (1 of 2)\n"), "{text}");
    assert_eq!(dialog.keys(&[Key::Char('1')]), Step::More("A\n? Then? (2 of 2)\nYour words: ".to_owned()));
    assert_eq!(answers(ask.clone(), "2sure\r"), Some(vec![vec!["B".to_owned()], vec!["sure".to_owned()]]));
    assert_eq!(answers(ask, "2\r"), Some(vec![vec!["B".to_owned()], vec![]]));
}
