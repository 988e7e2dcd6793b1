//! Checks that every place where a hook may stand is one function with one caller, and is documented.

/// The files of the seams, below `crates/`, and their functions.
const SEAMS: &[(&str, &str)] = &[
    ("engine/src/turn/calls.rs", "before_tool"),
    ("engine/src/turn/calls.rs", "after_tool"),
    ("engine/src/turn/prompt.rs", "assemble"),
    ("engine/src/turn/model_request.rs", "system_prompt"),
    ("engine/src/turn/model_request.rs", "chat_params"),
    ("engine/src/asking/asks.rs", "before_question"),
    ("services/src/tool/bash.rs", "shell_environment"),
];

#[test]
fn every_seam_is_a_function_with_one_caller() {
    let document = std::fs::read_to_string(super::root().join("ARCHITECTURE.md")).unwrap();
    let mut problems = Vec::new();
    for (file, name) in SEAMS {
        let text = std::fs::read_to_string(super::root().join("crates").join(file)).unwrap();
        let is_private = text.lines().any(|line| {
            let line = line.trim_start();
            line.starts_with(&format!("fn {name}")) || line.starts_with(&format!("async fn {name}"))
        });
        if !is_private {
            problems.push(format!("crates/{file}: no private function `{name}`"));
        }
        // Only its own file can call it.
        let n_callers = n_calls(name, &super::code(&text));
        if n_callers != 1 {
            problems.push(format!("crates/{file}: `{name}` has {n_callers} callers"));
        }
        if !document.contains(&format!("`{name}`")) {
            problems.push(format!("ARCHITECTURE.md: no `{name}`"));
        }
    }
    super::report(problems);
}

fn n_calls(name: &str, code: &str) -> usize {
    let call = format!("{name}(");
    let is_call = |at: usize| {
        let before = &code[..at];
        !before.ends_with("fn ") && !before.ends_with(|char: char| char.is_alphanumeric() || char == '_')
    };
    code.match_indices(&call).filter(|(at, _)| is_call(*at)).count()
}

#[test]
fn calls_are_told_from_definitions_and_longer_names() {
    assert_eq!(n_calls("ask", "fn ask() { task(); self.ask(1); ask() }"), 2);
}
