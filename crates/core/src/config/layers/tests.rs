//! Precedence of sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::{
    Config, Environment, Findings, Instruction,
    decode::{ProjectContext, resolve},
    fixture::load,
    layer::{self, Kind, Layer},
    paths::Paths,
    project_files::ProjectFiles,
    reader::read,
    sources,
    worktree::worktree,
};

#[derive(Deserialize)]
struct Case {
    /// Directory of `.git`.
    repository: Option<String>,
    directory: String,
    variables: BTreeMap<String, String>,
}

/// Resolves a directory of `fixtures/config`: `home`, projects and `case.json`. `<root>` is its directory. Run
/// with `INSTA_UPDATE=always` to write the expected files anew, then read them.
fn check(name: &str) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/config");
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    copy(&fixtures.join(name), &root);
    let root_text = root.display().to_string();
    let case = fs::read_to_string(root.join("case.json")).unwrap().replace("<root>", &root_text);
    let case: Case = serde_json::from_str(&case).unwrap();
    if let Some(repository) = &case.repository {
        fs::create_dir(root.join(repository).join(".git")).unwrap();
    }
    let environment =
        Environment { trusts_projects: true, variables: case.variables, home: root.join("home") };
    let directory = root.join(&case.directory);
    let mut paths = Paths::new(&environment);
    // The machine's own administrator has no say here.
    paths.managed.retain(|managed| managed.starts_with(&root));
    let project_files = Arc::new(ProjectFiles::find(&environment, &paths, &directory));
    let read = read(&environment, &paths, &directory, &project_files);
    let context = ProjectContext { paths: &paths, directory: &directory, project_files: &project_files };
    let (config, layers) = resolve(&context, read, &[]);
    let sources = sources::render(&sources::leaves(&config.raw, &layers), Some(&BTreeSet::new()));
    let summary = serde_json::to_string_pretty(&summary(&config, &root)).unwrap();
    let text = format!("{summary}\n\n{sources}").replace(&root_text, "<root>");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(&fixtures);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn summary(config: &Config, root: &Path) -> Value {
    let rule = |rule: &windlass_protocol::opencode::permission::Rule| {
        format!("{} {} {:?}", rule.permission, rule.pattern, rule.action)
    };
    let instruction =
        |instruction: &Instruction| format!("{} in {}", instruction.pattern, instruction.base.display());
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
        "agents": without_defaults(serde_json::to_value(&config.agents).unwrap()),
        "providers": config.providers.iter().map(|(id, it)| (id, provider(it))).collect::<BTreeMap<_, _>>(),
        "disabled_providers": config.disabled_providers,
        "enabled_providers": config.enabled_providers,
        "mcp": without_defaults(serde_json::to_value(&config.mcp).unwrap()),
        "instructions": config.instructions.iter().map(instruction).collect::<Vec<_>>(),
        "tool_output": [config.tool_output.max_lines, config.tool_output.max_bytes],
        "commands": config.commands,
        "skills": config.skills,
        "managed": config.managed.general.iter().map(rule).collect::<Vec<_>>(),
        "directories": config.directories.iter().filter(|it| it.starts_with(root)).collect::<Vec<_>>(),
        "settings": without_defaults(serde_json::to_value(&config.settings).unwrap()),
        "raw_permission": config.raw.get("permission"),
        "raw_keys": config.raw.keys().collect::<Vec<_>>(),
        "warnings": config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": config.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Leaves out the values that no source set.
fn without_defaults(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let object = object.into_iter().map(|(key, value)| (key, without_defaults(value)));
            let is_set = |value: &Value| !value.is_null() && *value != json!({}) && *value != json!([]);
            Value::Object(object.filter(|(_, value)| is_set(value)).collect())
        }
        other => other,
    }
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

#[test]
fn every_layer_stands_where_it_should() {
    check("every_layer");
}

#[test]
fn every_key_is_understood() {
    check("every_key");
}

#[test]
fn older_and_newer_forms_are_lowered_and_typing_errors_recognised() {
    check("other_forms");
}

fn context(environment: &Environment, base: PathBuf) -> layer::SourceContext<'_> {
    layer::SourceContext { environment, kind: Kind::File, source: "f".to_owned(), base, project_files: None }
}

fn layer(text: &str) -> (Layer, Vec<String>) {
    let mut findings = Findings::default();
    let variables = BTreeMap::from([("LONG".to_owned(), "0123456789\n0123456789".to_owned())]);
    let environment = Environment { trusts_projects: true, variables, home: PathBuf::from("/nowhere") };
    let base = PathBuf::from("/nowhere");
    let layer = layer::parse(context(&environment, base), text, &mut findings);
    (layer, findings.warnings.iter().map(ToString::to_string).collect())
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
    let mut findings = Findings::default();
    let base = temporary.path().to_owned();
    let environment = Environment::default();
    let layer = layer::parse(context(&environment, base), text, &mut findings);
    assert_eq!((layer.value["username"].as_str(), findings), (Some(text), Findings::default()));
}

#[test]
fn the_worktree_is_the_nearest_directory_with_git() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    fs::create_dir_all(root.join("outer/.git")).unwrap();
    fs::create_dir_all(root.join("outer/linked/deep")).unwrap();
    fs::write(root.join("outer/linked/.git"), "gitdir: elsewhere").unwrap();
    assert_eq!(worktree(&Environment::default(), &root.join("outer/linked/deep")), root.join("outer/linked"));
    assert_eq!(worktree(&Environment::default(), &root.join("outer")), root.join("outer"));
    assert_eq!(worktree(&Environment::default(), Path::new("/nowhere/at/all")), Path::new("/"));
}

#[test]
fn a_link_into_a_repository_belongs_to_it() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("repo/.git")).unwrap();
    fs::create_dir_all(root.join("repo/.opencode/agent")).unwrap();
    fs::create_dir_all(root.join("repo/sub")).unwrap();
    fs::write(root.join("repo/opencode.json"), r#"{"username": "root"}"#).unwrap();
    fs::write(root.join("repo/sub/opencode.json"), r#"{"model": "a/sub"}"#).unwrap();
    fs::write(root.join("repo/.opencode/agent/x.md"), "X").unwrap();
    std::os::unix::fs::symlink(root.join("repo/sub"), root.join("link")).unwrap();
    let environment =
        Environment { trusts_projects: true, home: PathBuf::from("/nowhere"), ..Environment::default() };
    let config = load(&environment, &Paths::new(&environment), &root.join("link"));
    assert_eq!(config.worktree, root.join("repo"));
    assert_eq!(config.upwards(), [root.join("repo/sub"), root.join("repo")]);
    assert_eq!(config.settings.username.as_deref(), Some("root"));
    assert_eq!(config.model.map(|model| model.to_string()).as_deref(), Some("a/sub"));
    assert!(config.agents.contains_key("x"));
    // A repository around the link itself counts.
    fs::create_dir(root.join(".git")).unwrap();
    assert_eq!(worktree(&Environment::default(), &root.join("link")), root);
}

#[test]
fn variables_say_what_is_shared() {
    let share = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let environment = Environment { trusts_projects: true, variables, home: PathBuf::from("/nowhere") };
        let paths = Paths { managed: Vec::new(), ..Paths::new(&environment) };
        load(&environment, &paths, Path::new("/nowhere/p")).raw.get("share").cloned()
    };
    let asked = ("OPENCODE_CONFIG_CONTENT", r#"{"share": "auto"}"#);
    assert_eq!(share(&[asked]), Some(json!("auto")));
    assert_eq!(share(&[asked, ("OPENCODE_DISABLE_SHARE", "1")]), Some(json!("disabled")));
    assert_eq!(share(&[asked, ("OPENCODE_DISABLE_SHARE", "false")]), Some(json!("auto")));
    let both = [("OPENCODE_AUTO_SHARE", "1"), ("OPENCODE_DISABLE_SHARE", "1")];
    assert_eq!(share(&both), Some(json!("disabled")));
}

#[test]
fn project_files_are_skipped_on_request() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("h/.git")).unwrap();
    fs::create_dir_all(root.join("h/p")).unwrap();
    let listed = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let environment = Environment { trusts_projects: true, variables, home: root.join("h") };
        let paths = Paths { managed: Vec::new(), ..Paths::new(&environment) };
        let project_files = ProjectFiles::find(&environment, &paths, &root.join("h/p"));
        let watched = read(&environment, &paths, &root.join("h/p"), &project_files).watched;
        let below = |file: &PathBuf| format!("/{}", file.strip_prefix(&root).unwrap().display());
        watched.iter().map(below).collect::<Vec<_>>()
    };
    let global = [
        "/h/.config/opencode/config.json",
        "/h/.config/opencode/opencode.json",
        "/h/.config/opencode/opencode.jsonc",
    ];
    let home = ["/h/.opencode/opencode.json", "/h/.opencode/opencode.jsonc"];
    let project = [
        "/h/opencode.json",
        "/h/opencode.jsonc",
        "/h/p/.opencode/opencode.json",
        "/h/p/.opencode/opencode.jsonc",
        "/h/p/opencode.json",
        "/h/p/opencode.jsonc",
    ];
    assert_eq!(listed(&[]), [&global[..], &home, &project].concat());
    let without = listed(&[("OPENCODE_DISABLE_PROJECT_CONFIG", "1"), ("OPENCODE_CONFIG", "x.json")]);
    assert_eq!(without, [&global[..], &home, &["/h/p/x.json"]].concat());
}

#[test]
fn what_is_named_and_leads_nowhere_is_told() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    fs::create_dir(root.join("there")).unwrap();
    let warnings = |named: &str| {
        let variables = BTreeMap::from([("OPENCODE_CONFIG_DIR".to_owned(), named.to_owned())]);
        let environment = Environment { trusts_projects: true, variables, home: root.join("home") };
        let paths = Paths { managed: Vec::new(), ..Paths::new(&environment) };
        let project_files = ProjectFiles::find(&environment, &paths, root);
        let sources = read(&environment, &paths, root, &project_files);
        sources.findings.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let at = root.display();
    assert_eq!(warnings("there"), Vec::<String>::new());
    assert_eq!(warnings("gone"), [format!("OPENCODE_CONFIG_DIR: {at}/gone is not a directory")]);
    let told = format!("OPENCODE_CONFIG_DIR: {at}/~/there is not a directory; write out what `~` stands for");
    assert_eq!(warnings("~/there"), [told]);
    std::os::unix::fs::symlink("nothing", root.join("opencode.json")).unwrap();
    assert_eq!(warnings("there"), [format!("{at}/opencode.json: is a link to something that is not there")]);
}

#[test]
fn a_merge_key_makes_rules_of_an_agent() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    fs::create_dir_all(root.join(".opencode/agent")).unwrap();
    let text =
        "---\npermission:\n  edit: &d {'*': ask, '*.md': allow}\n  bash:\n    <<: *d\n    '*': deny\n---\nP";
    fs::write(root.join(".opencode/agent/a.md"), text).unwrap();
    let environment =
        Environment { trusts_projects: true, home: root.join("home"), ..Environment::default() };
    let config = super::load(&environment, &Paths::new(&environment), root, &[], None).0;
    let permission = config.agents["a"].permission.clone().unwrap();
    assert_eq!(permission["bash"], json!({"*": "deny", "*.md": "allow"}));
}

#[test]
fn a_file_name_with_a_line_in_it_forges_none() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    fs::create_dir_all(root.join(".opencode/command")).unwrap();
    fs::write(root.join(".opencode/command/nl\nname\u{1b}[2J.md"), "x").unwrap();
    let environment =
        Environment { trusts_projects: true, home: root.join("home"), ..Environment::default() };
    let config = super::load(&environment, &Paths::new(&environment), root, &[], None).0;
    let told: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(told.len() == 1 && told[0].contains(r"nl\u{a}name\u{1b}[2J"), "{told:?}");
    assert!(!told[0].contains(['\n', '\u{1b}']), "{told:?}");
}
