//! `windlass doctor`: every line fine, doubtful or wrong, with its remedy.

use serde_json::{Value, json};

use crate::{
    cli::{Machine, ended},
    config_layers::Shell,
    support::{
        scratch::Scratch,
        terminal::Terminal,
        web::{Page, Web},
    },
};

/// Returns the findings of a topic, each as its health and text.
fn topic(report: &Value, topic: &str) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().unwrap().iter().filter(|it| it["topic"] == topic);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    findings.map(|it| (text(&it["health"]), text(&it["text"]))).collect()
}

#[tokio::test]
async fn a_machine_on_which_everything_works_is_fine() {
    let machine = Machine::new().await;
    assert_eq!(machine.run(&["session", "list"]).await.code, Some(0));
    let shown = machine.run(&["doctor"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_eq!(shown.stderr, "");
    assert!(shown.stdout.contains("OPENCODE_CONFIG_CONTENT"), "{}", shown.stdout);
    assert!(!shown.stdout.contains('\u{1b}'), "{}", shown.stdout);
    let shown = machine.run(&["doctor", "--format", "json"]).await;
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(topic(&report, "store")[0].0, "ok");
    assert!(topic(&report, "store")[0].1.contains("windlass.db"), "{report:#}");
    let model = &topic(&report, "model")[0];
    assert!(model.0 == "ok" && model.1.contains("`model` in OPENCODE_CONFIG_CONTENT"), "{model:?}");
    let sandbox = &topic(&report, "sandbox")[0];
    assert!(sandbox.0 == "ok" && sandbox.1.starts_with("level "), "{sandbox:?}");
    assert!(sandbox.1.ends_with("; commands of build run without one"), "{sandbox:?}");
    assert!(topic(&report, "programs").iter().any(|(_, text)| text.starts_with("git version")), "{report:#}");
}

#[tokio::test]
async fn a_shell_that_runs_no_command_is_wrong() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", r#"{"shell": "/bin/false"}"#);
    let (printed, _, code) = Shell::new(&scratch).run(&["doctor", "--format", "json"]).await;
    let report: Value = serde_json::from_str(&printed).unwrap();
    let found = topic(&report, "programs");
    assert!(
        found.contains(&("wrong".to_owned(), "the shell /bin/false runs no command".to_owned())),
        "{report:#}"
    );
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn what_is_wrong_has_a_remedy_and_ends_with_one() {
    let scratch = Scratch::new();
    let text = json!({
        "shell": "/no/such/shell",
        "model": "acme/large",
        "provider": {"acme": {
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "hunter22hunter22"}, "models": {"large": {}},
        }},
        "mcp": {"ghost": {"type": "local", "command": ["no-such-program"]}},
        "lsp": {"mine": {"command": ["no-such-server"], "extensions": [".m"]}},
        "theem": "x",
    });
    scratch.write("opencode.json", format!("{text:#}"));
    let data = scratch.home.join(".local/share/windlass");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(
        data.join("windlass.db"),
        "this is no database, whatever its name says, and it is long enough",
    )
    .unwrap();
    std::fs::write(data.join("auth.json"), r#"{"acme": {"type": "api", "key": "hunter22hunter22"}}"#)
        .unwrap();
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("PATH".to_owned(), String::new()));
    let (printed, errors, code) = shell.run(&["doctor", "--online", "--format", "json"]).await;
    assert_eq!(code, Some(1), "{errors}");
    assert_eq!(errors, "");
    assert!(!printed.contains("hunter22"), "{printed}");
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(report["health"], "wrong");
    for finding in report["findings"].as_array().unwrap() {
        assert_eq!(finding["remedy"].is_string(), finding["health"] != "ok", "{finding}");
    }
    let find = |name: &str, text: &str| {
        let found = topic(&report, name).into_iter().find(|(_, it)| it.contains(text));
        found.unwrap_or_else(|| panic!("{name} never says {text}: {report:#}")).0
    };
    assert_eq!(find("configuration", "there is no program /no/such/shell"), "wrong");
    assert_eq!(find("keys", "acme: a key in"), "ok");
    assert_eq!(find("keys", "auth.json, below another one"), "ok");
    assert_eq!(find("model", "acme/large is chosen"), "ok");
    assert_eq!(find("network", "nothing listens there"), "wrong");
    assert_eq!(find("mcp", "ghost could not be started"), "wrong");
    assert_eq!(find("language servers", "there is no program no-such-server"), "warning");
    assert_eq!(find("programs", "git does not answer"), "warning");
    assert_eq!(find("store", "is damaged"), "wrong");
    let (printed, _, code) = shell.run(&["doctor"]).await;
    assert_eq!(code, Some(1));
    assert!(printed.trim_end().ends_with("problems found."), "{printed}");
    let (_, _, code) = shell.run(&["doctor", "--cwd", "nowhere"]).await;
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn doctor_says_what_it_has_looked_at() {
    let mut machine = Machine::new().await;
    machine.config["provider"]["mock"]["options"].as_object_mut().unwrap().remove("apiKey");
    let home = machine.scratch.path("a.txt/home");
    let mut command = machine.command(&["doctor", "--format", "json"]);
    let shown = ended(command.env("WINDLASS_HOME", home).spawn().unwrap()).await;
    assert_eq!(shown.code, Some(1), "{shown:?}");
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    let told = |name: &str| topic(&report, name).remove(0);
    let (health, store) = told("store");
    assert!(health == "wrong" && store.contains("cannot be created") && store.contains("a.txt"), "{store}");
    let (health, keys) = told("keys");
    assert!(health == "ok" && keys.contains("mock/mock needs none"), "{keys}");
    let (health, model) = told("model");
    assert!(health == "ok" && model.contains("is not asked, `--online` asks it"), "{model}");
    machine.finish().await;
}

#[tokio::test]
async fn files_are_told_in_order_and_a_broken_one_is_never_fine() {
    let machine = Machine::new().await;
    let global = machine.scratch.home.join(".config/opencode/opencode.json");
    std::fs::create_dir_all(global.parent().unwrap()).unwrap();
    std::fs::write(&global, "{\n  \"theem\": 1,\n  \"modle\": 2\n}").unwrap();
    machine.scratch.write("opencode.json", "{ \"model\": ");
    let shown = machine.run(&["doctor", "--format", "json"]).await;
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    let told = topic(&report, "configuration");
    let expected = [
        ("wrong", format!("{}:2:3: theem", global.display())),
        ("wrong", format!("{}:3:3: modle", global.display())),
        ("wrong", format!("{}:1:12: is not valid JSON", machine.scratch.path("opencode.json"))),
        ("ok", "OPENCODE_CONFIG_CONTENT".to_owned()),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((health, text), (expected, start)) in told.iter().zip(&expected) {
        assert!(health == expected && text.starts_with(start.as_str()), "{start}: {told:?}");
    }
    let checked = machine.run(&["config", "check"]).await;
    let places: Vec<&str> =
        checked.stdout.lines().filter(|line| line.starts_with('/') && !line.ends_with("(note)")).collect();
    let is_there = |(line, (_, start)): (&&str, &(&str, String))| line.starts_with(start.as_str());
    assert!(places.len() == 3 && places.iter().zip(&expected).all(is_there), "{places:?}");
}

#[tokio::test]
async fn a_provider_is_asked_only_when_it_may_be() {
    let web = Web::start().await;
    let asked = async |online: bool, status: u16| {
        let scratch = Scratch::new();
        web.page(&format!("/{status}/models"), Page::status(status));
        let provider = json!({"options": {"baseURL": web.url(&format!("/{status}")), "apiKey": "hunter22hunter22"}, "models": {"m": {}}});
        scratch.write("opencode.json", json!({"model": "p/m", "provider": {"p": provider}}).to_string());
        let arguments: &[&str] = if online {
            &["doctor", "--online", "--format", "json"]
        } else {
            &["doctor", "--format", "json"]
        };
        let (printed, _, _) = Shell::new(&scratch).run(arguments).await;
        topic(&serde_json::from_str(&printed).unwrap(), "network")
    };
    assert_eq!(asked(false, 200).await, []);
    assert_eq!(web.asked().len(), 0);
    assert_eq!(asked(true, 200).await[0].0, "ok");
    assert_eq!(asked(true, 404).await[0].0, "ok");
    assert_eq!(asked(true, 401).await[0].0, "wrong");
    assert_eq!(asked(true, 503).await[0].0, "wrong");
}

#[tokio::test]
async fn findings_are_broken_between_words_in_a_terminal() {
    let machine = Machine::new().await.with("small_model", "nonesuch/x".into());
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(60, 60);
    let mut terminal = builder.arguments(&["doctor"]).start();
    let screen = terminal.ends_with(1).await;
    let lines = screen.lines();
    let wrong = lines.iter().position(|line| line.starts_with("  wrong    ")).unwrap();
    assert!(lines[wrong].trim_end().ends_with("small_model:"), "{screen}");
    assert!(lines[wrong + 1].starts_with("           nonesuch/x cannot be used"), "{screen}");
    assert!(lines.iter().any(|line| line.starts_with("           → ")), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn plugins_are_shown_with_the_memory_and_the_start_of_their_process() {
    let machine = Machine::new().await;
    machine
        .scratch
        .write(".opencode/plugin/p.js", "export const P = async () => ({ event: async () => {} })");
    machine.scratch.write(".opencode/plugin/wrong.js", "export const P = 1");
    let shown = machine.run(&["doctor", "--format", "json"]).await;
    assert_eq!(shown.code, Some(1), "{shown:?}");
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    let plugins = topic(&report, "plugins");
    assert!(
        plugins[0].0 == "ok" && plugins[0].1.contains("p.js: 1 hooks, 0 tools, loaded in "),
        "{plugins:?}"
    );
    assert!(plugins[1].0 == "wrong" && plugins[1].1.ends_with("is not a function"), "{plugins:?}");
    let (health, process) = &plugins[2];
    let words: Vec<&str> = process.split(' ').collect();
    let [_, _, "runs", "them", "with", memory, "MiB,", "started", "in", start, "ms"] = words[..] else {
        panic!("{process}");
    };
    assert!(health == "ok" && memory.parse::<u64>().unwrap() > 0 && start.parse::<u64>().unwrap() > 0);
}
