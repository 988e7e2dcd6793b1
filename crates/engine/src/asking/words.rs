//! The words of a question about a permission, for editors and pages the same. Pure.

use std::path::Path;

use serde_json::Value;
use windlass_base::text;
use windlass_protocol::opencode::{
    permission::PermissionRequest,
    tool_metadata::{Todos, decode},
};

use crate::{
    call_title::{call_title, lsp_question},
    tools::is_own_permission,
};

/// Bytes of the subject of an answer for ever.
const MAX_REMEMBERED: usize = 120;
/// Bytes of a server's prompt to the model in a title.
const MAX_PROMPT: usize = 120;

/// The words of a question, in which hidden characters and changes of direction are visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedWords {
    /// The exact subject: the whole command, the file, the address.
    pub title: String,
    /// The subject of an answer for ever; none where there is no such answer.
    pub always: Option<String>,
}

/// Returns the words of a question about a session in the directory `cwd`.
pub fn asked_words(request: &PermissionRequest, cwd: &Path) -> AskedWords {
    AskedWords {
        title: text::visible(&title(request, cwd)).into_owned(),
        always: remembered(request).map(|what| text::visible(&what).into_owned()),
    }
}

fn title(request: &PermissionRequest, cwd: &Path) -> String {
    let metadata = &request.metadata;
    // Tools of MCP servers choose their metadata themselves: none of it may stand for the subject of the question.
    let is_own = is_own_permission(&request.permission);
    let field = |key: &str| metadata.get(key).and_then(Value::as_str).filter(|_| is_own);
    let exact =
        field("command").or(field("changes")).or(field("filepath")).or(field("requested")).or(field("url"));
    let exact = exact.or(field("pattern")).or(field("query"));
    let own_number = |key: &str| metadata.get(key).and_then(Value::as_u64).filter(|_| is_own);
    let patterns = request.patterns.join(", ");
    let title = match (request.permission.as_str(), exact) {
        ("doom_loop", _) => {
            let input = metadata.get("input").unwrap_or(&Value::Null);
            let what = call_title(&patterns, input, cwd).map(|what| format!(": {what}")).unwrap_or_default();
            let times = own_number("times").unwrap_or(3);
            format!("repeat {patterns}, the {} time with the same input{what}", ordinal(times))
        }
        ("task", _) => match field("description") {
            Some(description) => match field("task_id") {
                Some(task_id) => format!("{patterns}: {description} (continues {task_id})"),
                None => format!("{patterns}: {description}"),
            },
            None => patterns,
        },
        ("todowrite", _) if is_own => {
            let todos = decode(metadata).map_or(0, |it: Todos<'_>| it.todos.len());
            format!("replace the todo list by {todos} todo{}", if todos == 1 { "" } else { "s" })
        }
        ("sampling", _) if is_own => {
            let prompt = text::head(field("prompt").unwrap_or_default(), MAX_PROMPT);
            format!("MCP server {patterns} asks the model: {}", text::visible_line(prompt))
        }
        ("external_directory", Some(exact)) => format!("{exact} (outside the project: {patterns})"),
        ("sandbox", Some(exact)) => format!("run outside the sandbox: {exact}"),
        ("network", Some(exact)) => format!("reach {patterns}: {exact}"),
        ("external_directory", None) => format!("outside the project: {patterns}"),
        ("lsp", _) => {
            lsp_question(&Value::Object(metadata.clone())).unwrap_or_else(|| request.permission.clone())
        }
        (_, Some(exact)) => match field("resolved") {
            Some(resolved) => format!("{exact} (leads to {resolved})"),
            None => exact.to_owned(),
        },
        (permission, None) if patterns == "*" || patterns.is_empty() => permission.to_owned(),
        (_, None) => patterns,
    };
    match field("workdir").filter(|_| field("command").is_some()) {
        Some(workdir) => format!("{title} (in {workdir})"),
        None => title,
    }
}

/// Returns a number as `3rd`, `4th`, `21st`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Returns the subject of a remembered answer, in a few words; none if nothing is remembered.
fn remembered(request: &PermissionRequest) -> Option<String> {
    let name = &request.permission;
    match request.always.as_slice() {
        [] => None,
        [any] if any == "*" => Some(format!("every {name}")),
        patterns => {
            let patterns = patterns.join(", ");
            let shown = text::head(&patterns, MAX_REMEMBERED);
            let more = if shown.len() < patterns.len() { "…" } else { "" };
            Some(format!("{name}: {}{more}", shown.replace('\n', " ")))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Questions as every client shows them.

    use serde_json::{Map, json};
    use windlass_protocol::opencode::id::{PermissionId, SessionId};

    use super::*;

    #[test]
    fn a_question_names_the_command_and_what_always_allows() {
        let words = |permission: &str, pattern: &str, always: &[&str], metadata: Value| {
            let request = PermissionRequest {
                id: PermissionId::from_trusted("per_x"),
                session_id: SessionId::from_trusted("ses_x"),
                permission: permission.to_owned(),
                patterns: vec![pattern.to_owned()],
                metadata: metadata.as_object().cloned().unwrap_or_else(Map::new),
                always: always.iter().map(|it| (*it).to_owned()).collect(),
                approved: Vec::new(),
                tool: None,
            };
            let AskedWords { title, always } = asked_words(&request, Path::new("/w"));
            (title, always.unwrap_or_default())
        };
        for (asked, title, always) in [
            (
                words("external_directory", "/etc/*", &["/etc/*"], json!({"command": "cat /etc/passwd"})),
                "cat /etc/passwd (outside the project: /etc/*)",
                "external_directory: /etc/*",
            ),
            (
                words("bash", "rm x", &["rm *"], json!({"command": "rm x \u{202e}gnp.y", "workdir": "/v"})),
                "rm x \\u{202e}gnp.y (in /v)",
                "bash: rm *",
            ),
            (words("edit", "a.txt", &["*"], json!({"filepath": "/w/a.txt"})), "/w/a.txt", "every edit"),
            (
                words("sandbox", "touch x", &[], json!({"command": "touch x"})),
                "run outside the sandbox: touch x",
                "",
            ),
            // A server's own account of its call stands for nothing.
            (words("shop_run", "*", &["*"], json!({"command": "ls"})), "shop_run", "every shop_run"),
        ] {
            assert_eq!(asked, (title.to_owned(), always.to_owned()));
        }
    }
}
