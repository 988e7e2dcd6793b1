//! Configured and known formatters, and where they are found.

use std::{path::Path, time::Instant};

use serde_json::{Value, json};
use windlass_core::config::Config;

use super::{FormatterState, configured, matching, states};
use crate::tool::fake::Project;

fn config(project: &Project, formatter: Value) -> Config {
    let mut config = project.config.clone();
    config.settings.formatter = serde_json::from_value(formatter).expect("a setting");
    config
}

#[test]
fn settings_change_known_formatters_and_add_others() {
    let project = Project::new();
    for off in [json!(null), json!(false)] {
        assert!(configured(&config(&project, off)).is_empty());
    }
    let names = |config: &Config, file: &str| -> Vec<String> {
        matching(config, Path::new(file)).into_iter().map(|formatter| formatter.name).collect()
    };
    let all = config(&project, json!(true));
    assert_eq!(names(&all, "/p/a.py"), ["ruff", "uv"]);
    assert_eq!(names(&all, "/p/a.html.erb"), ["htmlbeautifier"]);
    assert!(names(&all, "/p/.py").is_empty() && names(&all, "/p/Makefile").is_empty());
    let some = json!({
        "ruff": {"disabled": true},
        "uv": {"environment": {"A": "b"}},
        "mine": {"command": ["mine", "$FILE"], "extensions": ["py"]},
        "nothing": {"extensions": [".py"]},
    });
    let some = config(&project, some);
    assert_eq!(names(&some, "/p/a.py"), ["uv", "mine"]);
    assert_eq!(matching(&some, Path::new("/p/a.py"))[0].environment["A"], "b");
}

#[test]
fn a_project_asks_for_a_formatter_from_its_root_down() {
    let project = Project::new();
    let mut config = config(&project, json!({"shfmt": {"disabled": true}}));
    let state = |config: &Config| -> FormatterState {
        states(config).into_iter().find(|state| state.name == "biome").expect("it is known")
    };
    let program = project.write("node_modules/.bin/biome", "");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("made a program");
    config.worktree = config.directory.clone();
    let below = config.directory.join("packages/one");
    std::fs::create_dir_all(&below).expect("created");
    config.directory = below;
    assert!(!state(&config).is_enabled);
    project.write("biome.json", "{}");
    assert!(state(&config).is_enabled);
}

#[tokio::test]
async fn a_formatter_that_takes_too_long_is_ended_and_the_change_stays() {
    let mut project = Project::new();
    let slow = json!({"slow": {"command": ["sh", "-c", "sleep 600; echo late > \"$0\"", "$FILE"], "extensions": [".txt"]}});
    project.config = config(&project, slow);
    let start = Instant::now();
    let output = project.output("write", json!({"filePath": "a.txt", "content": "text\n"})).await;
    assert_eq!(
        (output.output.as_str(), project.content("a.txt").as_str()),
        ("Wrote file successfully.", "text\n")
    );
    assert!(start.elapsed() >= super::LIMIT && start.elapsed() < super::LIMIT * 8);
    let warned = project.host.warned.lock().expect("not poisoned").clone();
    let expected = "The formatter slow failed: it was not done after 1.5 seconds. `formatter.slow.disabled` set to \
                    true does without it.";
    assert_eq!(warned, [expected]);
}

#[tokio::test]
async fn a_known_formatter_without_its_program_or_its_project_is_left_out() {
    let mut project = Project::new();
    project.config = config(&project, json!(true));
    project.config.environment.variables.insert("PATH".to_owned(), "/nowhere".to_owned());
    project.write("package.json", r#"{"prettier": {}}"#);
    let output = project.output("write", json!({"filePath": "page.md", "content": "as  is\n"})).await;
    assert_eq!(
        (output.output.as_str(), project.content("page.md").as_str()),
        ("Wrote file successfully.", "as  is\n")
    );
    assert!(project.host.warned.lock().expect("not poisoned").is_empty());
}
