//! Answers to the requests of a language server. Pure.

use serde_json::{Value, json};

/// Maximum number of configuration sections in one request: each may be the whole configuration.
const MAX_ITEMS: usize = 256;

/// Returns the answer to a request; `None` for an unknown method.
pub fn reply(method: &str, params: &Value, root: &str, settings: &Value) -> Option<Value> {
    match method {
        "workspace/configuration" => {
            let items = params.get("items").and_then(Value::as_array).into_iter().flatten();
            Some(items.take(MAX_ITEMS).map(|item| section(settings, item.get("section"))).collect())
        }
        "workspace/workspaceFolders" => Some(json!([{ "name": "workspace", "uri": root }])),
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "window/showMessageRequest"
        | "workspace/diagnostic/refresh" => Some(Value::Null),
        _ => None,
    }
}

/// Returns the section of the settings under a dotted name; all of them without a name.
fn section(settings: &Value, name: Option<&Value>) -> Value {
    let names = name.and_then(Value::as_str).filter(|name| !name.is_empty());
    let found = names.into_iter().flat_map(|it| it.split('.')).try_fold(settings, |it, key| it.get(key));
    found.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MAX_ITEMS, reply};

    #[test]
    fn requests_of_a_server_are_answered() {
        let settings = json!({"python": {"analysis": {"mode": "strict"}}});
        for (method, params, expected) in [
            (
                "workspace/configuration",
                json!({"items": [{"section": "python.analysis"}, {"section": "no.such"}, {}, {"section": ""}]}),
                Some(json!([{"mode": "strict"}, null, settings, settings])),
            ),
            ("workspace/configuration", Value::Null, Some(json!([]))),
            (
                "workspace/configuration",
                json!({"items": vec![json!({"section": "no.such"}); MAX_ITEMS + 1]}),
                Some(json!(vec![Value::Null; MAX_ITEMS])),
            ),
            (
                "workspace/workspaceFolders",
                Value::Null,
                Some(json!([{"name": "workspace", "uri": "file:///p"}])),
            ),
            ("client/registerCapability", json!({"registrations": []}), Some(Value::Null)),
            ("window/workDoneProgress/create", json!({"token": 1}), Some(Value::Null)),
            ("workspace/applyEdit", json!({"edit": {}}), None),
        ] {
            assert_eq!(reply(method, &params, "file:///p", &settings), expected, "{method}");
        }
    }
}
