//! Questions to the user, and the model's text of the answers.

use serde_json::{Value, json};
use windlass_protocol::opencode::question::{Question, QuestionOption};

use crate::tool::{ToolError, fake::Project};

fn item(question: &str, labels: &[&str]) -> Value {
    let options: Vec<Value> =
        labels.iter().map(|label| json!({"label": label, "description": "d"})).collect();
    json!({"question": question, "header": "h", "options": options})
}

fn answers(lists: &[&[&str]]) -> Result<Vec<Vec<String>>, ToolError> {
    Ok(lists.iter().map(|list| list.iter().map(|it| (*it).to_owned()).collect()).collect())
}

#[tokio::test]
async fn answers_are_listed_with_their_questions() {
    let mut project = Project::new();
    project.host.answers = answers(&[&["A"], &["x", "own words"], &[]]);
    let mut several = item("Which?", &["x", "y"]);
    several["multiple"] = json!(true);
    let questions = json!([item("A or B?", &["A", "B"]), several, item("And?", &[])]);
    let output = project.output("question", json!({"questions": questions})).await;
    assert_eq!(
        output.output,
        "User has answered your questions: \"A or B?\"=\"A\", \"Which?\"=\"x, own words\", \
         \"And?\"=\"Unanswered\". Go on with these answers."
    );
    assert_eq!(output.title, "Asked 3 questions");
    assert_eq!(output.metadata["answers"], json!([["A"], ["x", "own words"], []]));
}

#[tokio::test]
async fn a_label_is_offered_once_and_an_own_answer_always() {
    let project = Project::new();
    project.output("question", json!({"questions": [item("Q?", &["A", "A", " ", "B"])]})).await;
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: "d".to_owned() };
    let asked = project.host.questions.lock().unwrap().clone();
    let wanted = Question {
        question: "Q?".to_owned(),
        header: "h".to_owned(),
        options: vec![option("A"), option("B")],
        multiple: None,
        custom: None,
    };
    assert!(wanted.takes_custom());
    assert_eq!(asked, [wanted]);
}

#[tokio::test]
async fn a_dismissed_question_says_so() {
    let mut project = Project::new();
    project.host.answers = Err(ToolError::Dismissed);
    let result = project.run("question", json!({"questions": [item("Q?", &["A"])]})).await;
    assert_eq!(result, Err(ToolError::Dismissed));
    assert_eq!(ToolError::Dismissed.to_string(), "The user dismissed this question");
}

#[tokio::test]
async fn missing_and_malformed_questions_are_reported_to_the_model() {
    let project = Project::new();
    assert!(project.error("question", json!({"questions": []})).await.contains("at least one question"));
    let error = project.error("question", json!({"questions": [{"question": "Q?"}]})).await;
    assert!(error.contains("header"), "{error}");
    assert!(project.host.questions.lock().unwrap().is_empty());
}
