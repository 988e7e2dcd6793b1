//! The conversations of the responses and Gemini wires, in the form of chat completions.

use serde_json::{Value, json};

/// Returns the messages of a request.
pub(super) fn messages(body: &Value) -> Vec<Value> {
    if let Some(items) = body["input"].as_array() {
        return items.iter().filter_map(item).collect();
    }
    if let Some(contents) = body["contents"].as_array() {
        return gemini(contents);
    }
    body["messages"].as_array().cloned().unwrap_or_default()
}

/// Returns the offered tools.
pub(super) fn tools(body: &Value) -> Vec<Value> {
    let declared = body.pointer("/tools/0/functionDeclarations");
    declared.unwrap_or(&body["tools"]).as_array().cloned().unwrap_or_default()
}

fn item(item: &Value) -> Option<Value> {
    assert!(item.get("id").is_none(), "nothing is stored at the provider: {item}");
    Some(match item["type"].as_str() {
        Some("reasoning") => {
            assert!(item["encrypted_content"].is_string(), "{item}");
            return None;
        }
        Some("function_call") => json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]},
        }]}),
        Some("function_call_output") => {
            json!({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        }
        _ => item.clone(),
    })
}

/// Results belong to calls by their order, and both take the name of the call's position.
fn gemini(contents: &[Value]) -> Vec<Value> {
    let mut messages = Vec::new();
    let (mut n_calls, mut n_results) = (0, 0);
    for content in contents {
        let role = if content["role"] == "model" { "assistant" } else { "user" };
        let mut texts = Vec::new();
        for part in content["parts"].as_array().expect("a content has parts") {
            if let Some(call) = part.get("functionCall") {
                n_calls += 1;
                let arguments = call["args"].to_string();
                messages.push(json!({"role": role, "content": null, "tool_calls": [{
                    "id": format!("call_{n_calls}"),
                    "function": {"name": call["name"], "arguments": arguments},
                }]}));
            } else if let Some(result) = part.get("functionResponse") {
                n_results += 1;
                messages.push(json!({
                    "role": "tool", "tool_call_id": format!("call_{n_results}"),
                    "content": result["response"]["content"],
                }));
            } else {
                texts.push(part.clone());
            }
        }
        if !texts.is_empty() {
            messages.push(json!({"role": role, "content": texts}));
        }
    }
    assert_eq!(n_calls, n_results, "each call has one result: {contents:?}");
    messages
}
