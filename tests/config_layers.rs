//! Sources of configuration beside project files: markdown, an organisation's, an administrator's; and the command.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    cli::{Machine, ended},
    support::{
        agent::{Agent, Answer, binary},
        llm::Reply,
        scratch::Scratch,
        web::{Page, Web},
    },
};

#[tokio::test]
async fn an_agent_as_a_file_is_what_the_model_is_asked_as() {
    let scratch = Scratch::new();
    scratch.write(
        ".opencode/agent/team/poet.md",
        "---\ndescription: Writes: in rhyme\nmode: primary\ntemperature: 0.25\npermission:\n  edit: deny\n---\n\nSpeak in rhyme.\n",
    );
    scratch.write("opencode.json", json!({"default_agent": "team/poet"}).to_string());
    let takes = json!({"provider": {"mock": {"models": {"mock": {"temperature": true}}}}});
    let agent = Agent::builder().scratch(&scratch).config(takes).spawn().await.initialized().await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "team/poet");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(answer["sessionId"].as_str().unwrap(), "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().contains("Speak in rhyme."));
    assert_eq!(request.body["temperature"], 0.25);
    assert!(!request.tools().contains(&"edit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_broken_definition_is_named_to_the_line_and_the_others_serve() {
    let scratch = Scratch::new();
    scratch.write(".opencode/agents/good.md", "---\nmode: primary\n---\nGood.");
    scratch.write(".opencode/agents/bad.md", "---\nmode: primary\ndescription: \"open\n---\nBad.");
    scratch.write(".opencode/agnets/lost.md", "Lost.");
    let agent = Agent::builder().scratch(&scratch).spawn().await.initialized().await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    let modes = answer["modes"]["availableModes"].to_string();
    assert!(modes.contains("good") && !modes.contains("bad"), "{modes}");
    agent.wait_stderr("agents/bad.md:3:").await;
    agent.wait_stderr("agnets: is not read; did you mean `agents`?").await;
    agent.finish().await;
}

#[tokio::test]
async fn what_the_administrator_denies_nobody_allows() {
    let scratch = Scratch::new();
    let managed = scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    std::fs::write(managed.join("opencode.jsonc"), r#"{"permission": {"bash": {"touch *": "deny"}}}"#)
        .unwrap();
    let own = json!({"permission": {"bash": "allow"}, "agent": {"build": {"permission": {"bash": "allow"}}}});
    scratch.write("opencode.json", own.to_string());
    let agent = Agent::builder()
        .scratch(&scratch)
        .env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap())
        .env("OPENCODE_PERMISSION", r#"{"bash": {"touch *": "allow"}}"#)
        .answering(Answer::AllowOnce)
        .spawn()
        .await
        .initialized()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "echo > other"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(!scratch.exists("made") && scratch.exists("other"));
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn what_was_always_allowed_answers_an_administrators_question_and_never_a_denial() {
    let scratch = Scratch::new();
    let managed = scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    let own = json!({"agent": {"build": {"permission": {"bash": "allow"}, "tools": {"bash": true}}}});
    scratch.write("opencode.json", own.to_string());
    let run = async |rules: Value, command: &str| {
        std::fs::write(managed.join("opencode.json"), rules.to_string()).unwrap();
        let agent = Agent::builder()
            .scratch(&scratch)
            .env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap())
            .answering(Answer::AllowAlways)
            .spawn()
            .await
            .initialized()
            .await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({ "command": command })));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let n_asked = agent.n_asked();
        agent.finish().await;
        n_asked
    };
    let asks = json!({"permission": {"bash": "ask"}});
    assert_eq!(run(asks.clone(), "touch one").await, 1, "the agent's own rule does not answer for the user");
    assert_eq!(run(asks, "touch two").await, 0, "the user has answered");
    let denies = json!({"permission": {"bash": {"touch *": "deny"}}});
    assert_eq!(run(denies, "touch three").await, 0);
    let no_writing = json!({"tools": {"bash": false}});
    assert_eq!(run(no_writing, "touch four").await, 0);
    let made = ["one", "two", "three", "four"].map(|name| scratch.exists(name));
    assert_eq!(made, [true, true, false, false]);
}

/// Returns the credentials of a scratch organisation.
fn credentials(web: &Web) -> String {
    let entry = json!({"type": "wellknown", "key": "CORP_TOKEN", "token": "secret"});
    json!({ (web.url("/")): entry }).to_string()
}

#[tokio::test]
async fn an_organisations_configuration_comes_behind_the_session_and_holds_for_the_next_turn() {
    let web = Web::start().await;
    let remote = json!({"url": web.url("/more"), "headers": {"Authorization": "Bearer {env:CORP_TOKEN}"}});
    let first = json!({"config": {"permission": {"bash": "deny"}, "username": "{file:/etc/passwd}"}, "remote_config": remote});
    web.page("/.well-known/opencode", Page::new("application/json", first.to_string()));
    web.page("/more", Page::new("application/json", json!({"permission": {"webfetch": "deny"}}).to_string()));
    let scratch = Scratch::new();
    let start = || {
        Agent::builder()
            .scratch(&scratch)
            .env("OPENCODE_AUTH_CONTENT", &credentials(&web))
            .env("WINDLASS_LOG", "info")
    };
    let agent = start().spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.wait_stderr("configuration changed and was read again").await;
    agent.wait_stderr("{file:/etc/passwd} is not read for a remote configuration").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let tools = agent.llm.last_request().tools();
    assert!(!tools.contains(&"bash".to_owned()) && !tools.contains(&"webfetch".to_owned()), "{tools:?}");
    let asked = web.asked();
    assert_eq!(asked[1].headers["authorization"], "Bearer secret");
    agent.finish().await;

    // The kept configuration applies at once in the next process, and a server that hangs delays no session.
    let silent = Web::start().await;
    silent.page("/.well-known/opencode", Page::hanging());
    let agent = start().spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(!agent.llm.last_request().tools().contains(&"bash".to_owned()));
    agent.finish().await;
    let agent = Agent::builder()
        .env("OPENCODE_AUTH_CONTENT", &credentials(&silent))
        .spawn()
        .await
        .initialized()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().tools().contains(&"bash".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn an_organisation_that_cannot_be_believed_is_told_and_left_out() {
    let web = Web::start().await;
    let remote = json!({"remote_config": {"url": "http://config.example/"}});
    web.page("/.well-known/opencode", Page::new("application/json", remote.to_string()));
    let agent =
        Agent::builder().env("OPENCODE_AUTH_CONTENT", &credentials(&web)).spawn().await.initialized().await;
    agent.new_session().await;
    agent.wait_stderr("http://config.example/: it is neither https nor this machine").await;
    agent.finish().await;
}

#[tokio::test]
async fn an_administrators_rules_are_printed_beside_the_users() {
    let scratch = Scratch::new();
    let managed = scratch.root().join("managed");
    write(&managed.join("opencode.json"), r#"{"permission": {"bash": "ask", "edit": "allow"}}"#);
    let own = "{\"permission\": {\"bash\": {\"*\": \"allow\", \"rm *\": \"deny\"},\n\"edit\": \"deny\"},\n\
               \"agent\": {\"build\": {\"permission\": {\"bash\": \"allow\"}}}}";
    scratch.write("opencode.json", own);
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("WINDLASS_MANAGED_CONFIG".to_owned(), managed.display().to_string()));
    let (printed, _, code) = shell.run(&["config"]).await;
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(code, Some(0));
    let own = json!({"bash": {"*": "allow", "rm *": "deny"}, "edit": "deny"});
    assert_eq!(printed["permission"], own);
    assert_eq!(printed["agent"]["build"]["permission"], json!({"bash": "allow"}));
    assert_eq!(printed["administrator"], json!({"permission": {"bash": "ask", "edit": "allow"}}));
    let (printed, _, _) = shell.run(&["config", "--sources"]).await;
    let (by_user, by_administrator) = (scratch.path("opencode.json"), managed.join("opencode.json"));
    let by_administrator = by_administrator.canonicalize().unwrap().display().to_string();
    for told in [
        format!("permission.bash.* = \"allow\"\n    {by_user}:1:26\n"),
        format!("permission.edit = \"deny\"\n    {by_user}:2:1\n"),
        format!("agent.build.permission.bash = \"allow\"\n    {by_user}:3:36\n"),
        format!("administrator.permission.bash = \"ask\"\n    {by_administrator}:1:17\n"),
    ] {
        assert!(printed.contains(&told), "no {told}in {printed}");
    }
    let (viewed, errors, _) = shell.run(&["debug", "agent", "general", "--json"]).await;
    let viewed: Value = serde_json::from_str(&viewed).unwrap_or_else(|_| panic!("{errors}"));
    let managed = json!([
        {"permission": "bash", "pattern": "*", "action": "ask"},
        {"permission": "edit", "pattern": "*", "action": "allow"},
    ]);
    assert_eq!(viewed["neverLooserThan"], json!([{"origin": "administrator", "rules": managed}]));
}

/// A shell without a terminal, in a directory.
pub struct Shell {
    pub home: PathBuf,
    pub directory: PathBuf,
    pub variables: Vec<(String, String)>,
}

impl Shell {
    pub fn new(scratch: &Scratch) -> Self {
        Self { home: scratch.home.clone(), directory: scratch.work.clone(), variables: Vec::new() }
    }

    pub async fn run(&self, arguments: &[&str]) -> (String, String, Option<i32>) {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .env("WINDLASS_TRUST", "1")
            .env("HOME", &self.home);
        command.envs(self.variables.clone());
        let Output { stdout, stderr, status } = command.output().await.unwrap();
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code())
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn the_command_prints_what_holds_and_who_said_it() {
    let scratch = Scratch::new();
    write(
        &scratch.home.join(".config/opencode/opencode.json"),
        "{\"model\": \"a/b\",\n \"share\": \"manual\"}",
    );
    let options = json!({"options": {"apiKey": "k3y", "headers": {"X": "h3"}}});
    scratch.write("opencode.json", json!({"model": "c/d", "provider": {"p": options}}).to_string());
    let shell = Shell::new(&scratch);
    let (printed, _, code) = shell.run(&["config"]).await;
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let stars = "********";
    let masked = json!({"options": {"apiKey": stars, "headers": {"X": stars}}});
    assert_eq!(printed, json!({"model": "c/d", "share": "manual", "provider": {"p": masked}}));
    assert_eq!(code, Some(0));
    let (printed, _, _) = shell.run(&["config", "--show-secrets"]).await;
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap()["provider"]["p"], options);
    let (printed, _, _) = shell.run(&["config", "--sources"]).await;
    let (home, work) = (scratch.home.display(), scratch.work.display());
    let global = format!("{home}/.config/opencode/opencode.json");
    let expected = format!(
        "model = \"c/d\"\n    {work}/opencode.json:1:2\n    over {global}:1:2: \"a/b\"\n\
         share = \"manual\"\n    {global}:2:2\n\
         provider.p.options.apiKey = \"********\"\n    {work}/opencode.json:1:44\n\
         provider.p.options.headers.X = \"********\"\n    {work}/opencode.json:1:70\n"
    );
    assert_eq!(printed, expected);
}

#[tokio::test]
async fn the_check_names_every_place_and_fails_only_for_what_is_ignored() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", "{\n  \"theme\": \"dark\",\n  \"autoshare\": true\n}");
    let mut shell = Shell::new(&scratch);
    let (printed, _, code) = shell.run(&["config", "check"]).await;
    assert!(printed.contains("opencode.json:2:3: theme: "), "{printed}");
    assert!(printed.contains("opencode.json:3:3: autoshare: is deprecated"), "{printed}");
    assert_eq!(code, Some(0));

    scratch.write("opencode.json", "{\n  \"modle\": \"a/b\",\n  \"share\": \"loud\"\n}");
    scratch.write(".opencode/command/x.md", "---\nsubtask: maybe\n---\nGo.");
    let (printed, errors, code) = shell.run(&["config", "check"]).await;
    let work = scratch.work.display();
    let lines: Vec<&str> =
        printed.lines().filter(|line| line.starts_with('/') && !line.ends_with("(note)")).collect();
    assert_eq!(
        lines[0],
        format!("{work}/opencode.json:2:3: modle: is not a known key and is ignored; did you mean `model`?")
    );
    assert!(
        lines[1].starts_with(&format!("{work}/opencode.json:3:3: share: `loud` cannot be used; expected")),
        "{printed}"
    );
    assert!(
        lines[2].starts_with(&format!("{work}/.opencode/command/x.md:2:1: command.x.subtask: ")),
        "{printed}"
    );
    assert_eq!((errors.as_str(), code), ("3 problems found.\n", Some(1)));

    shell.variables.push(("OPENCODE_DISABLE_PROJECT_CONFIG".to_owned(), "1".to_owned()));
    let (printed, _, code) = shell.run(&["config", "check"]).await;
    assert!(
        printed.contains("opencode.json: is not read, because OPENCODE_DISABLE_PROJECT_CONFIG is set (note)"),
        "{printed}"
    );
    assert!(printed.contains("opencode.json:2:3: modle: "), "{printed}");
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn the_schema_is_printed_whole() {
    let scratch = Scratch::new();
    let (printed, _, code) = Shell::new(&scratch).run(&["config", "schema"]).await;
    let schema: Value = serde_json::from_str(&printed).unwrap();
    assert!(schema["properties"]["compaction"].is_object());
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn what_the_command_prints_steers_no_terminal() {
    let scratch = Scratch::new();
    let value =
        json!({"agent": {"a": {"prompt": "x\u{202e}y\u{9b}", "k\u{1b}[2J\nz": 1}}, "username": "u\u{200b}"});
    scratch.write("opencode.json", value.to_string());
    scratch.write(".opencode/command/nl\nname.md", "Go.");
    let shell = Shell::new(&scratch);
    for arguments in [&["config"][..], &["config", "--sources"], &["config", "check"]] {
        let (printed, errors, _) = shell.run(arguments).await;
        let hidden = |it: char| matches!(it, '\u{1b}' | '\u{202e}' | '\u{9b}' | '\u{200b}');
        assert!(!printed.contains(hidden) && !errors.contains(hidden), "{arguments:?} {printed:?}");
        assert!(printed.lines().all(|line| !line.starts_with("name")), "{printed}");
        // Escaped, it is the same value still.
        if arguments.len() == 1 {
            let printed: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(printed["username"], "u\u{200b}");
        }
    }
}

#[tokio::test]
async fn what_is_put_into_an_address_is_not_shown() {
    let machine = Machine::new().await;
    machine.scratch.write("token", "hunter22");
    let config = json!({"mcp": {
        "far": {"type": "remote", "url": "https://far.example/{file:token}/mcp"},
        "near": {"type": "remote", "url": "https://near.example/{env:SHORT}x/mcp"},
    }});
    machine.scratch.write("opencode.json", config.to_string());
    for arguments in [&["config"][..], &["config", "--sources"]] {
        let child = machine.command(arguments).env("SHORT", "s3cr").spawn().unwrap();
        let shown = ended(child).await.stdout;
        assert!(shown.contains("https://far.example/********/mcp"), "{shown}");
        assert!(!shown.contains("hunter22") && !shown.contains("s3cr"), "{shown}");
    }
    machine.finish().await;
}
