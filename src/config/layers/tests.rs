//! Which source wins.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Layer, files, load, parse, worktree};
use crate::config::{Config, Environment, paths::Paths};

#[derive(Deserialize)]
struct Case {
    /// Where `.git` is.
    repository: Option<String>,
    directory: String,
    variables: BTreeMap<String, String>,
}

/// Resolves a directory of `fixtures/config`: `home`, projects and `case.json`. `<root>` is where it lies.
/// Run with `INSTA_UPDATE=always` to write the expected files anew, then read them.
fn check(name: &str) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/config");
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    copy(&fixtures.join(name), &root);
    let root_text = root.display().to_string();
    let case = fs::read_to_string(root.join("case.json")).unwrap().replace("<root>", &root_text);
    let case: Case = serde_json::from_str(&case).unwrap();
    if let Some(repository) = &case.repository {
        fs::create_dir(root.join(repository).join(".git")).unwrap();
    }
    let environment = Environment { variables: case.variables, home: root.join("home") };
    let config = load(&environment, &Paths::new(&environment), &root.join(&case.directory));
    let text = serde_json::to_string_pretty(&summary(&config)).unwrap().replace(&root_text, "<root>");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(&fixtures);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn summary(config: &Config) -> Value {
    let rule = |rule: &windlass_protocol::opencode::permission::Rule| {
        format!("{} {} {:?}", rule.permission, rule.pattern, rule.action)
    };
    let instruction = |instruction: &crate::config::Instruction| {
        format!("{} in {}", instruction.pattern, instruction.base.display())
    };
    let provider = |config: &windlass_protocol::opencode::config::ProviderConfig| {
        json!({
            "name": config.name,
            "apiKey": config.options.api_key,
            "baseURL": config.options.base_url,
            "models": config.models.keys().collect::<Vec<_>>(),
        })
    };
    json!({
        "worktree": config.worktree,
        "model": config.model,
        "small_model": config.small_model,
        "default_agent": config.default_agent,
        "shell": config.shell,
        "permission": config.permission.iter().map(rule).collect::<Vec<_>>(),
        "agents": config.agents,
        "providers": config.providers.iter().map(|(id, it)| (id, provider(it))).collect::<BTreeMap<_, _>>(),
        "disabled_providers": config.disabled_providers,
        "enabled_providers": config.enabled_providers,
        "mcp": config.mcp,
        "instructions": config.instructions.iter().map(instruction).collect::<Vec<_>>(),
        "tool_output": [config.tool_output.max_lines, config.tool_output.max_bytes],
        "raw_permission": config.raw.get("permission"),
        "raw_keys": config.raw.keys().collect::<Vec<_>>(),
        "warnings": config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn later_sources_win() {
    check("precedence");
}

#[test]
fn what_is_broken_is_told_and_the_rest_is_used() {
    check("broken");
}

#[test]
fn deprecated_forms_are_lowered() {
    check("deprecated");
}

fn layer(text: &str) -> (Layer, Vec<String>) {
    let mut warnings = Vec::new();
    let variables = BTreeMap::from([("LONG".to_owned(), "0123456789\n0123456789".to_owned())]);
    let environment = Environment { variables, home: PathBuf::from("/nowhere") };
    let layer =
        parse(&environment, "f".to_owned(), PathBuf::from("/nowhere"), text.to_owned(), &mut warnings);
    (layer, warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn a_layer_knows_where_its_values_stand() {
    let (layer, warnings) =
        layer("\u{feff}{\n  \"a/b\": {\"c\": \"{env:LONG}\", \"d\": [1, 2]},\n  \"é\": 1, \"x\": 2\n}");
    assert_eq!(warnings, Vec::<String>::new());
    let positions = [&["a/b"][..], &["a/b", "c"], &["a/b", "d", "1"], &["é"], &["x"], &["y"]]
        .map(|path| layer.position(path));
    assert_eq!(positions, [Some((2, 3)), Some((2, 11)), Some((2, 39)), Some((3, 3)), Some((3, 11)), None]);
}

#[test]
fn a_file_that_names_itself_is_read_once() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("opencode.json");
    let text = r#"{"username": "{file:opencode.json}"}"#;
    fs::write(&file, text).unwrap();
    let mut warnings = Vec::new();
    let base = temporary.path().to_owned();
    let layer = parse(&Environment::default(), "f".to_owned(), base, text.to_owned(), &mut warnings);
    assert_eq!((layer.value["username"].as_str(), warnings.len()), (Some(text), 0));
}

#[test]
fn the_worktree_is_the_nearest_directory_with_git() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    fs::create_dir_all(root.join("outer/.git")).unwrap();
    fs::create_dir_all(root.join("outer/linked/deep")).unwrap();
    fs::write(root.join("outer/linked/.git"), "gitdir: elsewhere").unwrap();
    assert_eq!(worktree(&root.join("outer/linked/deep")), root.join("outer/linked"));
    assert_eq!(worktree(&root.join("outer")), root.join("outer"));
    assert_eq!(worktree(Path::new("/nowhere/at/all")), Path::new("/"));
}

#[test]
fn project_files_are_skipped_on_request_and_no_file_is_read_twice() {
    let listed = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let environment = Environment { variables, home: PathBuf::from("/h") };
        let paths = Paths::new(&environment);
        files(&environment, &paths, Path::new("/h/p"), Path::new("/h"))
            .into_iter()
            .map(|file| file.file.display().to_string().replace("opencode.json", "*"))
            .collect::<Vec<_>>()
    };
    let global = ["/h/.config/opencode/config.json", "/h/.config/opencode/*", "/h/.config/opencode/*c"];
    let home = ["/h/.opencode/*", "/h/.opencode/*c"];
    let project = ["/h/*", "/h/*c", "/h/p/*", "/h/p/*c", "/h/p/.opencode/*", "/h/p/.opencode/*c"];
    assert_eq!(listed(&[]), [&global[..], &home, &project].concat());
    let without = listed(&[("OPENCODE_DISABLE_PROJECT_CONFIG", "1"), ("OPENCODE_CONFIG", "x.json")]);
    assert_eq!(without, [&global[..], &home, &["/h/p/x.json"]].concat());
}
