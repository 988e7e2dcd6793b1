//! Puts a session's questions before the person at a client that shows forms.

use rmcp::{
    Peer, RoleServer,
    model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ServerRequest},
};
use serde_json::{Map, Value, json};

use super::tools::{Choice, Labels};

/// Returns true if the client shows forms.
pub fn is_shown(peer: &Peer<RoleServer>) -> bool {
    let capability = peer.peer_info().and_then(|info| info.capabilities.elicitation.clone());
    capability.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// Asks the person; `None` where there is no answer: the caller is told of the question then.
pub async fn ask(peer: &Peer<RoleServer>, question: &Value) -> Option<Option<Choice>> {
    let (message, properties) = form(question)?;
    let names: Vec<String> = properties.keys().cloned().collect();
    let schema = json!({"type": "object", "properties": properties, "required": names});
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: serde_json::from_value(schema).ok()?,
    };
    let answered = peer.send_request(ServerRequest::ElicitRequest(ElicitRequest::new(params))).await.ok()?;
    let ClientResult::ElicitResult(answered) = answered else { return None };
    let is_permission = question["kind"] == "permission";
    match answered.action {
        ElicitationAction::Accept => {
            let content = answered.content.unwrap_or_default();
            let given = |name: &String| content[name].as_str().map(str::to_owned);
            let given: Option<Vec<String>> = names.iter().map(given).collect();
            let mut given = given?;
            Some(Some(if is_permission {
                Choice::One(given.swap_remove(0))
            } else {
                Choice::Each(given.into_iter().map(Labels::One).collect())
            }))
        }
        ElicitationAction::Decline if is_permission => Some(Some(Choice::One("reject".to_owned()))),
        ElicitationAction::Decline => Some(None),
        // Closed, or a word that is not known.
        _ => None,
    }
}

/// Returns the words and the fields of a form for a question; `None` for one that no form can hold.
fn form(question: &Value) -> Option<(String, Map<String, Value>)> {
    if question["kind"] == "permission" {
        let patterns: Vec<&str> = question["patterns"].as_array()?.iter().filter_map(Value::as_str).collect();
        let permission = question["permission"].as_str()?;
        let message = format!("May the agent do this? {permission}: {}", patterns.join(", "));
        let answer = json!({"type": "string", "title": "Answer", "enum": question["options"]});
        return Some((message, Map::from_iter([("answer".to_owned(), answer)])));
    }
    let questions = question["questions"].as_array()?;
    let mut fields = Map::new();
    for (idx, asked) in questions.iter().enumerate() {
        // Forms have no field for several of many.
        if asked["multiple"] == true {
            return None;
        }
        let labels: Vec<&Value> =
            asked["options"].as_array().into_iter().flatten().map(|option| &option["label"]).collect();
        let mut field = json!({"type": "string", "title": asked["header"], "description": asked["question"]});
        if asked["custom"] == false {
            field["enum"] = json!(labels);
        } else {
            let offered: Vec<&str> = labels.iter().filter_map(|label| label.as_str()).collect();
            let words = asked["question"].as_str().unwrap_or_default();
            field["description"] = format!("{words} ({}, or your own words)", offered.join(", ")).into();
        }
        fields.insert(format!("answer_{}", idx + 1), field);
    }
    Some(("The agent asks.".to_owned(), fields))
}
