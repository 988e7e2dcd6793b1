//! Rules about the source that a program can check.

mod circles;
mod functions;
mod owners;
mod seams;
mod waits;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Modules of `crates/core` that front ends may import: paths and the environment enter through `config`, events
/// through `bus`.
const FRONT_END_IMPORTS: &[&str] = &["bus", "config"];

const MAX_LINES: usize = 700;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every file with this extension below a directory of the repository, with its text.
fn files(directory: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![root().join(directory)];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if !["target", "node_modules", ".venv", ".git"].iter().any(|skipped| name == *skipped) {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

fn rust_files() -> Vec<(PathBuf, String)> {
    ["src", "crates", "tests"].into_iter().flat_map(|directory| files(directory, "rs")).collect()
}

fn report(problems: Vec<String>) {
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the sources of all crates, without the end-to-end tests.
fn sources() -> Vec<(PathBuf, String)> {
    ["src", "crates"].into_iter().flat_map(|directory| files(directory, "rs")).collect()
}

/// Returns the folders of sources of all crates.
fn crates() -> Vec<String> {
    let names = std::fs::read_dir(root().join("crates")).unwrap().flatten();
    let mut found: Vec<String> =
        names.map(|entry| format!("crates/{}/src", entry.file_name().to_str().unwrap())).collect();
    found.push("src".to_owned());
    found.sort();
    found
}

/// Returns the modules that the root of a crate names.
fn modules(folder: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(folder).join("lib.rs")).unwrap();
    let named = text.lines().filter_map(|line| {
        line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?.strip_suffix(';')
    });
    named.filter(|name| *name != "tests").map(str::to_owned).collect()
}

/// Returns the code of a file without comments and string literals, so that neither counts as an import.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '/' if rest.peek() == Some(&'/') => {
                for skipped in rest.by_ref() {
                    if skipped == '\n' {
                        code.push('\n');
                        break;
                    }
                }
            }
            '"' => {
                let mut is_escaped = false;
                for skipped in rest.by_ref() {
                    match skipped {
                        '"' if !is_escaped => break,
                        '\\' => is_escaped = !is_escaped,
                        _ => is_escaped = false,
                    }
                }
            }
            _ => code.push(char),
        }
    }
    code
}

/// Returns the modules that code names behind this, also inside a braced list.
fn named_behind(prefix: &str, code: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (start, found) in code.match_indices(prefix) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|char| char.is_alphanumeric() || char == '_') {
            continue;
        }
        let rest = &code[start + found.len()..];
        match rest.strip_prefix('{') {
            None => modules.push(identifier(rest)),
            Some(list) => {
                let mut depth = 0;
                let mut is_start = true;
                for (at, char) in list.char_indices() {
                    match char {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => is_start = true,
                        char if is_start && (char.is_alphabetic() || char == '_') => {
                            modules.push(identifier(&list[at..]));
                            is_start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    modules
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect()
}

#[test]
fn front_ends_reach_the_floors_below_through_the_engine() {
    let mut problems = Vec::new();
    for (path, text) in files("src", "rs") {
        // Tests of a module may look anywhere.
        if path.ends_with("tests.rs") {
            continue;
        }
        let named = named_behind("windlass_core::", &code(&text));
        for import in named.into_iter().filter(|it| !FRONT_END_IMPORTS.contains(&it.as_str())) {
            problems.push(format!("{}: a front end must not import `{import}`", path.display()));
        }
    }
    report(problems);
}

#[test]
fn imports_are_found_in_every_form() {
    let text = "use crate::{config::Config, base::{self, ids}, bus}; // crate::engine\nlet x = crate::tool::run(\"crate::acp\"); other_crate::no::x();";
    assert_eq!(named_behind("crate::", &code(text)), ["config", "base", "bus", "tool"]);
}

#[test]
fn every_file_says_what_it_answers() {
    let problems = rust_files().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    report(problems.map(|(path, _)| format!("{}: does not begin with `//! `", path.display())).collect());
}

#[test]
fn files_stay_small_and_clean() {
    let mut problems = Vec::new();
    let mut all = rust_files();
    for (directory, extension) in
        [("src", "txt"), ("crates", "txt"), ("tests", "py"), ("tests", "mjs"), (".", "md"), (".", "toml")]
    {
        all.extend(files(directory, extension));
    }
    for (path, text) in all {
        let path = path.display();
        let n_lines = text.lines().count();
        if n_lines > MAX_LINES {
            problems.push(format!("{path}: {n_lines} lines, more than {MAX_LINES}"));
        }
        if !text.is_empty() && !text.ends_with('\n') {
            problems.push(format!("{path}: no newline at the end"));
        }
        for (idx, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                problems.push(format!("{path}:{}: space at the end of the line", idx + 1));
            }
        }
    }
    report(problems);
}

/// A comment that names its thing needs none of these words, or nearly none.
#[test]
fn comments_name_the_thing_they_are_about() {
    const RIDDLES: [&str; 4] = ["what", "who", "whoever", "whatever"];
    const MAX_RIDDLES: usize = 50;
    let is_riddle = |line: &str| {
        line.trim_start().starts_with("//")
            && line
                .split(|char: char| !char.is_alphanumeric())
                .any(|word| RIDDLES.iter().any(|riddle| word.eq_ignore_ascii_case(riddle)))
    };
    let mut found = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().enumerate().filter(|(_, line)| is_riddle(line));
        found.extend(lines.map(|(idx, line)| format!("{}:{}: {}", path.display(), idx + 1, line.trim())));
    }
    assert!(found.len() <= MAX_RIDDLES, "more than {MAX_RIDDLES}:\n{}", found.join("\n"));
}

#[test]
fn modules_have_no_mod_rs() {
    let problems = rust_files().into_iter().filter(|(path, _)| path.ends_with("mod.rs"));
    report(problems.map(|(path, _)| format!("{}: use `foo.rs` beside `foo/`", path.display())).collect());
}

#[test]
fn no_test_is_switched_off() {
    let mut problems = Vec::new();
    for (path, text) in rust_files() {
        for (idx, line) in text.lines().enumerate() {
            // Split, so that this file does not find itself.
            if line.trim_start().starts_with(concat!("#[", "ignore"))
                || line.contains(concat!("#[should", "_panic"))
            {
                problems.push(format!("{}:{}: {}", path.display(), idx + 1, line.trim()));
            }
        }
    }
    report(problems);
}

#[test]
fn only_the_writer_touches_stdout() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        if path.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        let code = code(&text);
        for banned in ["println!", "print!", "eprintln!", "eprint!", "dbg!"] {
            let is_used = code.match_indices(banned).any(|(start, _)| {
                !code[..start].chars().next_back().is_some_and(|char| char.is_alphanumeric() || char == '_')
            });
            if is_used {
                problems.push(format!("{}: {banned}", path.display()));
            }
        }
        // Below the front ends nothing may hold stdout at all.
        let is_front_end = path.starts_with("src/acp")
            || path.starts_with("src/cli")
            || ["src/acp.rs", "src/cli.rs", "src/main.rs"].iter().any(|front| path.ends_with(front));
        if !is_front_end && (code.contains("stdout()") || code.contains("io::stdin()")) {
            problems.push(format!("{}: stdin and stdout belong to the front ends", path.display()));
        }
    }
    report(problems);
}

#[test]
fn the_binary_is_thin() {
    let text = std::fs::read_to_string(root().join("src/main.rs")).unwrap();
    assert!(text.lines().count() <= 60, "src/main.rs has {} lines", text.lines().count());
}

/// OpenCode's parameter names and which of them are required, which models have learnt; `description` of `bash` is of
/// an earlier version and still accepted.
const TOOLS: &[(&str, &[&str], &[&str])] = &[
    ("apply_patch", &["patchText"], &["patchText"]),
    ("bash", &["command", "description", "timeout", "workdir", "background"], &["command"]),
    ("batch", &["tool_calls"], &["tool_calls"]),
    ("codesearch", &["query", "tokensNum"], &["query"]),
    ("edit", &["filePath", "oldString", "newString", "replaceAll"], &["filePath", "oldString", "newString"]),
    ("glob", &["pattern", "path"], &["pattern"]),
    ("grep", &["pattern", "path", "include"], &["pattern"]),
    ("list_mcp_resource_templates", &["server"], &[]),
    ("list_mcp_resources", &["server"], &[]),
    (
        "lsp",
        &["operation", "filePath", "line", "character", "query"],
        &["operation", "filePath", "line", "character"],
    ),
    ("multiedit", &["filePath", "edits"], &["filePath", "edits"]),
    ("patch", &["patchText"], &["patchText"]),
    ("question", &["questions"], &["questions"]),
    ("read", &["filePath", "offset", "limit"], &["filePath"]),
    ("read_mcp_resource", &["server", "uri"], &["server", "uri"]),
    ("skill", &["name"], &["name"]),
    (
        "task",
        &["description", "prompt", "subagent_type", "task_id", "command", "background"],
        &["description", "prompt", "subagent_type"],
    ),
    ("todowrite", &["todos"], &["todos"]),
    ("webfetch", &["url", "format", "timeout"], &["url"]),
    ("websearch", &["query", "numResults", "livecrawl", "type", "contextMaxCharacters"], &["query"]),
    ("write", &["content", "filePath"], &["content", "filePath"]),
];

#[test]
fn every_tool_has_a_text_and_opencodes_parameters() {
    let mut problems = Vec::new();
    for tool in windlass_services::tool::BUILTIN {
        let name = &*tool.name;
        let text = root().join(format!("crates/services/src/tool/{name}.txt"));
        let written = std::fs::read_to_string(&text).unwrap_or_default();
        if written.trim().is_empty() || tool.text.trim() != written.trim() {
            problems.push(format!("{name}: the model must read {}", text.display()));
        }
        let schema = tool.schema();
        if schema["type"] != "object" {
            problems.push(format!("{name}: the schema is no object: {schema}"));
        }
    }
    for (name, parameters, required) in TOOLS {
        let Some(tool) = windlass_services::tool::BUILTIN.iter().find(|tool| tool.name == *name) else {
            problems.push(format!("{name}: no such tool"));
            continue;
        };
        let schema = tool.schema();
        let mut found: Vec<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut wanted = parameters.to_vec();
        found.sort_unstable();
        wanted.sort_unstable();
        if found != wanted {
            problems.push(format!("{name}: parameters are {found:?}, OpenCode's are {wanted:?}"));
        }
        let mut found: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut wanted = required.to_vec();
        found.sort_unstable();
        wanted.sort_unstable();
        if found != wanted {
            problems.push(format!("{name}: required are {found:?}, OpenCode's are {wanted:?}"));
        }
    }
    for name in ["invalid", "list", "plan_enter", "plan_exit", "todoread"] {
        if !windlass_services::tool::BUILTIN.iter().any(|tool| tool.name == name) {
            problems.push(format!("{name}: no such tool"));
        }
    }
    report(problems);
}

#[test]
fn the_architecture_document_names_every_module() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let is_missing = |module: &String| !document.contains(&format!("`{module}`"));
    // Of the other crates the document names the whole.
    let named = ["src", "crates/core/src", "crates/services/src"].into_iter().flat_map(modules);
    let folders = crates().into_iter().filter_map(|it| Some(it.strip_suffix("/src")?.to_owned()));
    let missing = named.chain(folders).filter(is_missing);
    report(missing.map(|it| format!("ARCHITECTURE.md: no `{it}`")).collect());
}

#[test]
fn every_test_file_is_part_of_the_binary() {
    let main = std::fs::read_to_string(root().join("tests/main.rs")).unwrap();
    let mut problems = Vec::new();
    for (path, _) in files("tests", "rs") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.iter().count() == 2 && name != "main" && !main.contains(&format!("mod {name};")) {
            problems.push(format!("{}: not in tests/main.rs", path.display()));
        }
    }
    report(problems);
}

/// Returns the documents for users and developers, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = files("docs", "md");
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        found.push((PathBuf::from(name), std::fs::read_to_string(root().join(name)).unwrap()));
    }
    found
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = documents();
    // As code hosts name headings.
    let anchors = |text: &str| -> Vec<String> {
        let plain = |heading: &str| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
            kept.collect::<String>().replace(' ', "-")
        };
        let mut is_code = false;
        let headings = text.lines().filter(move |line| {
            is_code ^= line.starts_with("```");
            !is_code && line.starts_with('#')
        });
        headings.map(plain).collect()
    };
    let mut problems = Vec::new();
    for (path, text) in &documents {
        let links = text.match_indices("](").filter_map(|(at, _)| text[at + 2..].split_once(')'));
        for (link, _) in links {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(path),
                file => root().join(path.parent().unwrap()).join(file),
            };
            let is_there = match std::fs::read_to_string(&target) {
                Ok(text) => anchor.is_empty() || anchors(&text).iter().any(|found| found == anchor),
                Err(_) => target.exists() && anchor.is_empty(),
            };
            if !is_there {
                problems.push(format!("{}: {link} leads nowhere", path.display()));
            }
        }
    }
    report(problems);
}

/// Numbers that a citation may have are those of headings, or of rows in the table of one above them.
#[test]
fn citations_of_facts_lead_to_a_section() {
    let page = std::fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let mut subject = "";
    let mut known = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            let Some((before, number)) = heading.split_once('§') else { continue };
            subject = before.trim();
            known.push(format!("{subject} §{}", number.split(' ').next().unwrap()));
        } else if let Some(number) = line.strip_prefix("| §").and_then(|it| it.split(' ').next()) {
            known.push(format!("{subject} §{number}"));
        }
    }
    let mut problems = Vec::new();
    for (path, text) in rust_files() {
        for (at, found) in text.match_indices(concat!("(fac", "ts: ")) {
            let cited = text[at + found.len()..].split(')').next().unwrap();
            let subject = cited.split('§').next().unwrap().trim();
            let numbers = cited.split('§').skip(1).map(|it| it.split([',', ' ']).next().unwrap());
            let missing = numbers.map(|number| format!("{} §{number}", capitalized(subject)));
            let missing = missing.filter(|it| !known.contains(it));
            problems.extend(missing.map(|it| format!("{}: no section {it}", path.display())));
        }
    }
    report(problems);
}

fn capitalized(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn the_documents_name_every_key_and_every_variable() {
    let page = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let documents: String = documents().into_iter().map(|(_, text)| text).collect();
    let mut problems = Vec::new();
    let schema: serde_json::Value = serde_json::from_str(&windlass_core::config::schema::text()).unwrap();
    for key in schema["properties"].as_object().unwrap().keys() {
        let is_named = [format!("`{key}`"), format!("`{key}."), format!("`{key}\": "), format!("\"{key}\"")];
        if !is_named.iter().any(|name| page.contains(name.as_str())) {
            problems.push(format!("docs/configuration.md does not name the key `{key}`"));
        }
    }
    let is_letter = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
    for (path, text) in sources() {
        for start in ["\"OPENCODE_", "\"WINDLASS_"] {
            for (at, _) in text.match_indices(start) {
                let rest = &text[at + 1..];
                let variable = &rest[..rest.find(|char| !is_letter(char)).unwrap_or(rest.len())];
                let is_whole = rest[variable.len()..].starts_with('"');
                let is_known = documents.contains(variable);
                let is_test = path.to_string_lossy().contains("tests");
                if is_whole && !is_known && !is_test {
                    problems.push(format!("{}: no document names {variable}", path.display()));
                }
            }
        }
    }
    problems.sort();
    problems.dedup();
    report(problems);
}

/// The merged JSON of a configuration is for people; code that acts reads a typed field.
#[test]
fn only_the_command_that_shows_it_reads_the_configuration_as_json() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let shows =
            ["crates/core/src/config.rs", "src/cli/config.rs"].iter().any(|file| path.ends_with(file));
        if !shows && code(&text).contains("merged_json(") {
            problems.push(format!("{}: reads the merged JSON of a configuration", path.display()));
        }
    }
    report(problems);
}
