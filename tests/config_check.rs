//! Output of `windlass config`, `config check` and their kin: every mistake with its place, and no secret.

use serde_json::json;

use crate::{
    config_layers::Shell,
    support::{
        agent::{Agent, binary},
        llm::Reply,
        scratch::Scratch,
        skip::skipped,
        web::{Page, Web},
    },
};

/// Returns the findings of the check in a project file, without the file's directory, and the exit code.
async fn checked(scratch: &Scratch) -> (Vec<String>, Option<i32>) {
    let (printed, errors, code) = Shell::new(scratch).run(&["config", "check"]).await;
    let work = format!("{}/", scratch.work.canonicalize().unwrap().display());
    // Below each finding is the line of its file, with the number of the line or a caret.
    let is_finding = |line: &&str| !line.starts_with(|first: char| first == ' ' || first.is_ascii_digit());
    let lines: Vec<String> = printed.lines().filter(is_finding).map(|line| line.replace(&work, "")).collect();
    let n_warnings =
        lines.iter().filter(|line| !line.ends_with("(note)") && *line != "No problems found.").count();
    let counted = match n_warnings {
        0 => String::new(),
        1 => "1 problem found.\n".to_owned(),
        n => format!("{n} problems found.\n"),
    };
    assert_eq!(errors, counted);
    // The other command counts the same.
    let (_, errors, _) = Shell::new(scratch).run(&["config"]).await;
    let pointed = counted.replace('\n', " `windlass config check` says what.\n");
    assert_eq!(errors, pointed);
    (lines, code)
}

#[tokio::test]
async fn a_key_that_is_there_twice_is_told_with_both_lines() {
    let scratch = Scratch::new();
    scratch.write(
        "opencode.json",
        "{\n  \"permission\": {\"bash\": \"deny\"},\n  \"model\": \"mock/mock\",\n  \"permission\": {\"edit\": \"ask\"}\n}\n",
    );
    let agent = Agent::builder().scratch(&scratch).spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    // The last one counts, as in OpenCode.
    assert!(agent.llm.last_request().tools().contains(&"bash".to_owned()));
    let told = "opencode.json:4:3: permission: duplicate key, on line 2 and on line 4; the first is ignored";
    agent.wait_stderr(told).await;
    assert!(agent.lines().iter().any(|line| line.from_agent && line.message.to_string().contains(told)));
    agent.finish().await;
    let (printed, _, code) = Shell::new(&scratch).run(&["config", "check"]).await;
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines.iter().any(|line| line.ends_with(told)), "{lines:?}");
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn permissions_that_nothing_asks_for_are_told_where_they_look_like_others() {
    let scratch = Scratch::new();
    let text = r#"{
  "mcp": {"bas": {"type": "local", "command": ["true"], "enabled": false}},
  "permission": {
    "write": "deny",
    "edti": "deny",
    "bas_h": "deny",
    "test": "ask",
    "my_*": "ask",
    "lsp": "ask",
    "external_directory": "ask"
  },
  "agent": {"build": {"permission": {"Bash": "deny"}}}
}"#;
    scratch.write("opencode.json", text);
    let (lines, code) = checked(&scratch).await;
    let expected = [
        "opencode.json:4:5: permission.write: is read as `edit`, which the tool `write` asks for (note)",
        "opencode.json:5:5: permission.edti: has no effect: nothing asks for `edti`; did you mean `edit`?",
        "opencode.json:12:38: agent.build.permission.Bash: is read as `bash` (note)",
    ];
    assert_eq!((lines, code), (expected.map(str::to_owned).to_vec(), Some(1)));
}

#[tokio::test]
async fn rules_of_the_environment_that_cannot_be_read_let_everything_ask() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", r#"{"permission": {"bash": "deny"}}"#);
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("OPENCODE_PERMISSION".to_owned(), r#"{"edit": "deny""#.to_owned()));
    let (printed, _, code) = shell.run(&["config", "check"]).await;
    assert!(
        printed.starts_with("OPENCODE_PERMISSION:1:")
            && printed.contains("everything that is allowed asks until"),
        "{printed}"
    );
    assert_eq!(code, Some(1));
    let (shown, _, _) = shell.run(&["debug", "agent", "build"]).await;
    let (own, managed) = shown.split_once("Administrator's rules (the stricter counts)").unwrap();
    assert!(own.contains("deny  bash *") && managed.contains("ask   * *"), "{shown}");
}

#[tokio::test]
async fn what_decodes_and_cannot_work_is_told() {
    let scratch = Scratch::new();
    let text = r##"{
  "shell": "/no/such/shell",
  "provider": {"mock": {"options": {"baseURL": "http://127.0.0.1:1", "apiKey": "k"}, "models": {"m": {"variants": {"high": {}}}}}},
  "model": "mock/m",
  "agent": {
    "a": {
      "model": "mock/m",
      "variant": "hihg",
      "top_p": 1.5,
      "temperature": -1,
      "color": "reddish",
      "steps": 0
    },
    "b": {"color": "#FF0000", "temperature": 0, "top_p": 1, "steps": 1, "model": "mock/m#high"}
  },
  "command": {
    "empty": {"description": "Says nothing"},
    "lost": {"template": "x", "agent": "nobody"},
    "bad": {"template": "x", "model": "mok/m"},
    "wrong": {"template": "x", "model": "mock"},
    "good": {"template": "x", "agent": "b", "model": "mock/m", "variant": "high"}
  },
  "skills": {
    "paths": [
      "nowhere"
    ],
    "urls": ["skills.example", "https://"]
  },
  "windlass": {"agents": {"urls": [
    "http://user:pw@agents.example/list",
    "https://"
  ]}}
}"##;
    scratch.write("opencode.json", text);
    let (lines, code) = checked(&scratch).await;
    let expected = [
        "opencode.json:2:3: shell: there is no program /no/such/shell, so `bash` and shell commands of templates fail",
        "opencode.json:8:7: agent.a.variant: mock/m has no variant `hihg`, so it is ignored; there is high",
        "opencode.json:9:7: agent.a.top_p: 1.5 is ignored; expected a number from 0 to 1",
        "opencode.json:10:7: agent.a.temperature: -1 is ignored; expected a number from 0 to 2",
        "opencode.json:11:7: agent.a.color: \"reddish\" is ignored; expected \"#RRGGBB\" or a name of OpenCode's such as \"accent\"",
        "opencode.json:12:7: agent.a.steps: 0 is ignored; expected a whole number of at least 1",
        "opencode.json:17:5: command.empty: is left out: it has no `template`, which is what it says to the model",
        "opencode.json:18:31: command.lost.agent: there is no agent `nobody`, so the command cannot be called",
        "opencode.json:19:30: command.bad.model: the command cannot be used, because its model mok/m is not available: there is no provider `mok` (did you mean mock/m?); add it to opencode.json by `\"provider\": {\"mok\": {\"npm\": \"@ai-sdk/openai-compatible\", \"options\": {\"baseURL\": \"https://…/v1\"}, \"models\": {\"m\": {}}}}`",
        "opencode.json:20:32: command.wrong.model: \"mock\" is not a model; write \"provider/model\"",
        "opencode.json:25:7: skills.paths.0: nowhere is not a directory",
        "opencode.json:27:14: skills.urls.0: skills.example is not a URL; write `https://…`; it is left out",
        "opencode.json:27:32: skills.urls.1: https:// is not a URL with a host; it is left out",
        "opencode.json:30:5: windlass.agents.urls.0: http://user:********@agents.example/list is neither https nor this machine; it is left out",
        "opencode.json:31:5: windlass.agents.urls.1: https:// is not a URL with a host; it is left out",
    ];
    assert_eq!(lines, expected);
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn a_language_server_that_nothing_could_start_is_told() {
    let scratch = Scratch::new();
    scratch.write(
        "opencode.json",
        "{\"lsp\": {\n  \"rust\": {\"initialization\": {}},\n  \"mine\": {\"command\": [\"x\"]},\n  \"none\": {\"extensions\": [\".n\"]},\n  \"off\": {\"disabled\": true}\n}}\n",
    );
    let (lines, code) = checked(&scratch).await;
    let told = |line: u32, name: &str, key: &str| {
        let why = "and windlass knows no server of this name, so it is never started";
        format!("opencode.json:{line}:3: lsp.{name}: has no `{key}`, {why}")
    };
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with(&told(3, "mine", "extensions")), "{lines:?}");
    assert!(lines[1].ends_with(&told(4, "none", "command")), "{lines:?}");
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn instructions_of_everything_are_cut_with_a_note_and_nothing_is_wrong() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"instructions": ["**"]}).to_string());
    scratch.write(".gitignore", "/target/\n");
    for idx in 0..120 {
        scratch.write(&format!("src/{idx:03}.rs"), "fn main() {}\n");
        scratch.write(&format!("target/{idx}.o"), [0_u8; 4]);
    }
    scratch.write("logo.png", b"\x89PNG\0");
    let (lines, code) = checked(&scratch).await;
    assert_eq!(code, Some(0), "{lines:?}");
    let cut: Vec<&String> = lines.iter().filter(|line| line.contains("left out")).collect();
    assert_eq!(cut.len(), 2, "{lines:?}");
    let told = "opencode.json:1:18: instructions: ** names files that are no texts (1, such as logo.png); \
                they are left out (note)";
    assert_eq!(cut[0], told);
    assert!(cut[1].contains("there are more than 100 (note)"), "{}", cut[1]);
}

#[tokio::test]
async fn what_is_only_worth_a_word_is_a_note_and_no_mistake() {
    let scratch = Scratch::new();
    let text = r#"{
  "instructions": ["gone/*.md", "there.md", "https://a.example/x"],
  "mcp": {"a": {"type": "remote", "url": "https://a.example", "enabled": false, "oauth": {"clientId": "i"}},
          "b": {"type": "remote", "url": "https://a.example", "enabled": false, "oauth": false}},
  "provider": {"anthropic": {"id": "q", "options": {"apiKey": "k"}}},
  "experimental": {
    "hook": {"session_completed": [{"command": ["x"]}]},
    "chatMaxRetries": 3
  }
}"#;
    scratch.write("opencode.json", text);
    scratch.write("there.md", "There.");
    scratch.write(".claude/skills/x/SKILL.md", "---\nname: x\ndescription: One\n---\n");
    scratch.write(".opencode/skill/x/SKILL.md", "---\nname: x\ndescription: Two\n---\n");
    let (lines, code) = checked(&scratch).await;
    let work = scratch.work.canonicalize().unwrap();
    let replaced = format!(
        ".claude/skills/x/SKILL.md: the skill `x` is replaced by the one in {}/.opencode/skill/x/SKILL.md (note)",
        work.display()
    );
    let expected = [
        "opencode.json:2:20: instructions: gone/*.md names no file here (note)",
        "opencode.json:5:30: provider.anthropic.id: is understood, but nothing acts on it yet (note)",
        "opencode.json:7:5: experimental.hook: is understood, but nothing acts on it yet (note)",
        "opencode.json:8:5: experimental.chatMaxRetries: is understood, but nothing acts on it yet (note)",
        &replaced.replace(&format!("{}/", work.display()), ""),
    ];
    assert_eq!(lines, expected);
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn no_command_prints_a_secret() {
    let scratch = Scratch::new();
    let secret = "s3cr3t";
    let config = json!({
        "instructions": [format!("https://u:{secret}@127.0.0.1:1/rules.md?token={secret}")],
        "provider": {"p": {"options": {"apiKey": secret, "baseURL": format!("http://u:{secret}@127.0.0.1:1/?api_key={secret}")}, "models": {"m": {}}}},
        "mcp": {
            "a": {"type": "local", "enabled": false, "command": ["x", "--token", secret, format!("--api-key={secret}")]},
            "b": {"type": "local", "enabled": false, "command": ["x"], "environment": {"KEY": [secret]}},
            "c": {"type": "remote", "enabled": false, "url": format!("https://a.example/?key={secret}"), "headers": {"X": {"y": secret}}},
            "d": {"type": "local", "enabled": false, "command": format!("x --token {secret}")},
        },
        "agent": {"spy": {"options": {"apiKey": secret, "token": secret, "secret": secret}, "api_key": secret}},
        "windlass": {"agents": {"urls": [format!("http://u:{secret}@a.example/")]}},
        "plugin": [["p", {"token": secret}, 3]],
    });
    scratch.write("opencode.json", format!("{config:#}"));
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("WINDLASS_LOG".to_owned(), "debug".to_owned()));
    let commands: [(&[&str], i32, bool); 9] = [
        (&["config"], 0, true),
        (&["config", "--sources"], 0, true),
        (&["config", "check"], 1, true),
        (&["config", "--refresh"], 0, true),
        (&["agent", "list"], 0, false),
        (&["agent", "list", "--json"], 0, true),
        (&["debug", "agent", "spy"], 0, true),
        (&["debug", "agent", "spy", "--json"], 0, true),
        (&["models", "--verbose"], 0, false),
    ];
    for (arguments, expected, has_masks) in commands {
        let (printed, errors, code) = shell.run(arguments).await;
        assert_eq!(code, Some(expected), "{arguments:?}: {errors}");
        assert_eq!(printed.contains("****"), has_masks, "{arguments:?}: {printed}");
        assert!(!printed.contains(secret), "{arguments:?}: {printed}");
        assert!(!errors.contains(secret), "{arguments:?}: {errors}");
    }
    let (printed, _, _) = shell.run(&["config", "check"]).await;
    // Problems are named with their places all the same.
    let line = |text: &str| format!("{config:#}").lines().position(|line| line.contains(text)).unwrap() + 1;
    for (key, path) in [("\"KEY\"", "mcp.b.environment.KEY"), ("\"X\"", "mcp.c.headers.X")] {
        let told = format!("opencode.json:{}:9: {path}: ", line(key));
        assert!(printed.contains(&told), "{told}: {printed}");
    }
    let (printed, _, _) = shell.run(&["config", "--show-secrets"]).await;
    assert!(printed.contains(secret), "{printed}");
}

#[tokio::test]
async fn dead_servers_are_asked_at_once_and_named() {
    let web = Web::start().await;
    for path in ["/.well-known/opencode", "/a/index.json", "/b/index.json"] {
        web.page(path, Page::hanging());
    }
    let scratch = Scratch::new();
    let urls = [web.url("/a"), web.url("/b")];
    scratch.write("opencode.json", json!({"windlass": {"agents": {"urls": urls}}}).to_string());
    let mut shell = Shell::new(&scratch);
    let entry = json!({"type": "wellknown", "key": "CORP_TOKEN", "token": "t"});
    shell.variables.push(("OPENCODE_AUTH_CONTENT".to_owned(), json!({ (web.url("")): entry }).to_string()));
    let (_, errors, code) = shell.run(&["config", "--refresh"]).await;
    assert_eq!(web.most_hanging(), 3);
    assert_eq!(code, Some(0));
    let corp = format!(
        "the configuration of {} was not fetched: {}: 127.0.0.1 does not answer within 3 s",
        web.url(""),
        web.url("/.well-known/opencode")
    );
    assert!(errors.contains(&corp), "{errors}");
    for url in urls {
        let told = format!("{url}: its agents cannot be fetched: 127.0.0.1 does not answer within 3 s");
        assert!(errors.contains(&told), "{errors}");
    }
}

#[tokio::test]
async fn a_run_says_what_is_wrong_once() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", "{\"modle\": \"x\"}");
    let mut shell = Shell::new(&scratch);
    shell.directory = scratch.work.clone();
    let (_, errors, code) = shell.run(&["run", "-m", "windlass/demo", "hello"]).await;
    assert_eq!((errors.matches("modle: is not a known key").count(), code), (1, Some(0)), "{errors}");
}

#[tokio::test]
async fn a_half_written_file_of_keys_is_told_with_a_place_that_there_is() {
    let scratch = Scratch::new();
    let file = scratch.home.join(".local/share/opencode/auth.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (text, place) in [("", "1:1"), ("{\"anthropic\": {\n", "2:1")] {
        std::fs::write(&file, text).unwrap();
        let (lines, _) = checked(&scratch).await;
        let told = format!("{}:{place}: is not a JSON object of credentials; it is ignored", file.display());
        assert_eq!(lines, [told]);
    }
}

#[tokio::test]
async fn what_a_server_says_of_an_agent_has_its_place_there() {
    let web = Web::start().await;
    let list = "{\"agents\": [\n  {\"name\": \"judge\",\n   \"systemPrompt\": \"Judge.\"},\n  {\"name\": \"poet\", \"file\": \"poet.md\"}\n]}";
    web.page("/m/index.json", Page::new("application/json", list));
    web.page("/m/poet.md", Page::new("text/markdown", "---\nmode: primary\n---\n\nRhyme.\n"));
    let scratch = Scratch::new();
    let url = web.url("/m");
    scratch.write("opencode.json", json!({"windlass": {"agents": {"urls": [url]}}}).to_string());
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("OPENCODE_PERMISSION".to_owned(), "{\n \"edit\": \"ask\"}".to_owned()));
    let (printed, errors, code) = shell.run(&["config", "--sources", "--refresh"]).await;
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    for said in [
        format!("agent.judge.prompt = \"Judge.\"\n    {url}:3:4\n"),
        format!("agent.poet.mode = \"primary\"\n    {url}, poet.md:2:1\n"),
        format!("agent.poet.prompt = \"Rhyme.\"\n    {url}, poet.md:5:1\n"),
        "permission.edit = \"ask\"\n    OPENCODE_PERMISSION:2:2\n".to_owned(),
    ] {
        assert!(printed.contains(&said), "{said}: {printed}");
    }
}

/// The administrator's real directory, in a mount namespace of its own, so that no other process sees it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_administrators_file_is_read_from_etc() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"share": "auto", "permission": {"bash": "allow"}}).to_string());
    let script = r#"mount -t tmpfs none /etc && mkdir /etc/opencode && cd "$2" || exit 77
printf '{"share": "disabled",\n "permission": {"bash": "deny"}}' > /etc/opencode/opencode.json
echo begun >&2
exec "$1" config --sources"#;
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command
        .arg(binary())
        .arg(&scratch.work)
        .env_clear()
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &scratch.home)
        .env("PATH", std::env::var("PATH").unwrap());
    let output = match command.output().await {
        Ok(output) if output.stderr.starts_with(b"begun") => output,
        // The system has no namespaces for us, and the directory belongs to the whole machine.
        refused => return skipped(&format!("/etc/opencode cannot be tried here: {refused:?}")),
    };
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let work = scratch.work.display();
    let share = format!(
        "share = \"disabled\"\n    /etc/opencode/opencode.json:1:2\n    over {work}/opencode.json:1:"
    );
    assert!(printed.contains(&share), "{printed}");
    assert!(
        printed.contains("permission.bash = \"deny\"\n    /etc/opencode/opencode.json:2:17\n"),
        "{printed}"
    );
}

#[tokio::test]
async fn programs_tools_and_limits_that_cannot_be_are_told_below_their_lines() {
    let scratch = Scratch::new();
    let text = r#"{
  "tools": {"bassh": false, "write": false, "shop_*": true},
  "tool_output": {"max_lines": 0, "max_bytes": 20000000},
  "mcp": {
    "shop": {"type": "local", "command": ["no-such-program", "--token", "hunter22hunter22"]},
    "here": {"type": "local", "command": ["sh"]},
    "off": {"type": "local", "command": ["no-such-program"], "enabled": false}
  },
  "agent": {"a": {"tools": {"raed": true, "shop_price": true, "doom_loop": true, "unheard": false}}}
}"#;
    scratch.write("opencode.json", text);
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("PATH".to_owned(), "/bin:/usr/bin".to_owned()));
    let (printed, _, code) = shell.run(&["config", "check"]).await;
    let printed = printed.replace(&format!("{}/", scratch.work.display()), "");
    for expected in [
        "opencode.json:2:13: tools.bassh: has no effect: there is no tool `bassh`; did you mean `bash`?\n",
        "2 |   \"tools\": {\"bassh\": false, \"write\": false, \"shop_*\": true},\n  |             ^^^^^^^\n",
        "opencode.json:3:19: tool_output.max_lines: 0 is ignored; expected a whole number from 1 to 1000000\n",
        "tool_output.max_bytes: 20000000 is ignored; expected a whole number from 1 to 10000000\n",
        "mcp.shop.command: there is no program no-such-program, so the server cannot be started; install it or",
        "\"command\": [\"no-such-program\", \"--token\", \"********\"]",
        "agent.a.tools.raed: has no effect: there is no tool `raed`; did you mean `read`?\n",
        "agent.a.tools.unheard: has no effect: there is no tool `unheard`\n",
    ] {
        assert!(printed.contains(expected), "{expected} is not in\n{printed}");
    }
    assert_eq!(code, Some(1));
    let numbers = printed
        .lines()
        .filter_map(|line| line.strip_prefix("opencode.json:")?.split(':').next()?.parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    assert!(numbers.is_sorted() && numbers.len() >= 5, "{numbers:?}");

    let (printed, errors, code) = shell.run(&["config", "check", "--format", "json"]).await;
    assert_eq!((errors.as_str(), code), ("", Some(1)));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    let row = rows.iter().find(|row| row["message"].as_str().unwrap().starts_with("tool_output")).unwrap();
    assert_eq!((&row["kind"], &row["line"], &row["column"]), (&json!("warning"), &json!(3), &json!(19)));
}
