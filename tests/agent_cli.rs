//! `windlass agent` and `windlass debug agent`: agents listed, shown and made from the command line.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    mcp::until_offered,
    support::{
        agent::{Agent, Answer},
        llm::{Gate, Reply},
    },
};

fn agents() -> Value {
    json!({
        "poet": {"mode": "primary", "prompt": "Speak in rhyme.", "description": "Rhymes.", "steps": 3,
                 "temperature": 0.4, "top_p": 0.5, "seed": 7, "permission": {"bash": {"*": "deny", "ls *": "allow"}}},
        "worker": {"mode": "subagent", "description": "Works."},
        "general": {"disable": true},
    })
}

async fn machine() -> Machine {
    Machine::new().await.with("agent", agents())
}

/// Returns the scripted answer of the model for an agent.
fn written(identifier: &str) -> String {
    let text = json!({
        "identifier": identifier,
        "whenToUse": "Use this agent when \"logs\" are long.",
        "systemPrompt": "You read logs.\n\nBe brief.",
    });
    format!("```json\n{text:#}\n```")
}

const CREATE: [&str; 8] =
    ["agent", "create", "--description", "read logs", "--path", ".opencode", "--mode", "subagent"];

#[tokio::test]
async fn agents_are_listed_with_their_rules_in_order() {
    let machine = machine().await;
    let list = machine.run(&["agent", "list"]).await;
    assert_eq!(list.code, Some(0), "{list:?}");
    let heads: Vec<&str> = list.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        heads,
        [
            "build (primary, native)",
            "compaction (primary, native, hidden)",
            "explore (subagent, native)",
            "plan (primary, native)",
            "summary (primary, native, hidden)",
            "title (primary, native, hidden)",
            "poet (primary)",
            "worker (subagent)",
        ]
    );
    let poet: Vec<&str> = list
        .stdout
        .lines()
        .skip_while(|line| *line != "poet (primary)")
        .take_while(|line| *line != "worker (subagent)")
        .collect();
    assert_eq!(poet[1..3], ["  Rhymes.", "  allow * *"]);
    let place = |wanted: &str| poet.iter().position(|line| line.trim() == wanted);
    assert!(place("deny  bash *").is_some() && place("deny  bash *") < place("allow bash ls *"), "{poet:?}");

    let list = machine.run(&["agent", "list", "--format", "json"]).await;
    let agents: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    let poet = agents.iter().find(|agent| agent["name"] == "poet").unwrap();
    assert_eq!(
        json!([poet["mode"], poet["native"], poet["steps"], poet["topP"], poet["prompt"]]),
        json!(["primary", false, 3, 0.5, "Speak in rhyme."])
    );
    assert_eq!(poet["permission"][0], json!({"permission": "*", "pattern": "*", "action": "allow"}));
    machine.finish().await;
}

#[tokio::test]
async fn debug_shows_what_a_turn_then_sends() {
    let machine = machine().await;
    machine.scratch.write("AGENTS.md", "Prefer tabs.");
    let shown = machine.run(&["debug", "agent", "poet", "--json"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let view: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(view["request"], json!({"seed": 7, "top_p": 0.5, "max_output_tokens": 8192, "steps": 3}));
    assert_eq!(view["instructions"][0]["source"], machine.scratch.path("AGENTS.md"));

    machine.llm.reply(Reply::text("ok"));
    let run = machine.run(&["run", "--agent", "poet", "go"]).await;
    assert_eq!(run.code, Some(0), "{run:?}");
    let request = machine.llm.last_request();
    let names: Vec<&str> =
        view["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, request.tools());
    assert_eq!(view["model"], format!("mock/{}", request.body["model"].as_str().unwrap()));
    for text in view["system"].as_array().unwrap() {
        assert!(request.system().contains(text.as_str().unwrap()), "{text} is not in {}", request.system());
    }

    let text = machine.run(&["debug", "agent", "poet"]).await.stdout;
    for wanted in [
        "poet (primary)",
        "model: mock/mock",
        "seed: 7",
        "deny  bash *",
        "  read: ",
        "Speak in rhyme.",
        "Prefer tabs.",
    ] {
        assert!(text.contains(wanted), "no `{wanted}` in {text}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn keys_in_what_agents_say_are_masked() {
    let machine = machine().await;
    let key = "ghp_0123456789abcdefghij0123456789";
    let text = format!(
        "---\ndescription: Uses {key} often.\npermission:\n  bash:\n    \"x {key}\": deny\n---\nLog in with {key} first.\n"
    );
    machine.scratch.write(".opencode/agent/keyed.md", text);
    for args in [
        &["agent", "list"][..],
        &["agent", "list", "--json"],
        &["debug", "agent", "keyed"],
        &["debug", "agent", "keyed", "--json"],
    ] {
        let shown = machine.run(args).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(!shown.stdout.contains(key), "{args:?}: {}", shown.stdout);
        assert!(shown.stdout.contains("Uses ******** often."), "{args:?}: {}", shown.stdout);
        assert!(shown.stdout.contains("x ********"), "{args:?}: {}", shown.stdout);
        let is_prompt_shown = args != ["agent", "list"];
        assert_eq!(shown.stdout.contains("Log in with ******** first."), is_prompt_shown, "{args:?}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn debug_shows_a_subagent_as_its_parent_would_start_it() {
    let machine = machine().await;
    let shown = machine.run(&["debug", "agent", "worker", "--json", "-m", "mock/other"]).await;
    let view: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(view["model"], "mock/other");
    let tools = view["tools"].to_string();
    assert!(!tools.contains("\"task\"") && !tools.contains("\"todowrite\""), "{tools}");
    for (arguments, reason) in [
        (&["debug", "agent", "nobody"][..], "Agent not found: \"nobody\". Available agents: build,"),
        (&["debug", "agent", "worker", "-m", "mok/other"], "did you mean mock/other?"),
        (&["debug", "agent", "worker", "-m", "other"], "is not a model name: write `provider/model`"),
    ] {
        let refused = machine.run(arguments).await;
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    machine.finish().await;
}

#[tokio::test]
async fn an_agent_is_made_from_flags_alone() {
    let machine = machine().await;
    // The agent is asked for without tools, as a title is.
    machine.llm.title(Reply::text(&written("Log Reader")));
    let made = machine.run(&[&CREATE[..], &["--tools", "read,grep", "-m", "mock/other"]].concat()).await;
    assert_eq!(
        (made.code, made.stdout.trim()),
        (Some(0), machine.scratch.path(".opencode/agent/log-reader.md").as_str())
    );
    let text = machine.scratch.read(".opencode/agent/log-reader.md");
    let start = "---\ndescription: \"Use this agent when \\\"logs\\\" are long.\"\nmode: subagent\npermission:\n  \"*\": deny\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("\n  grep: allow\n") && text.contains("\n    \"*.env\": ask\n"), "{text}");
    assert!(text.ends_with("\n---\n\nYou read logs.\n\nBe brief.\n"), "{text}");
    let request = &machine.llm.title_requests()[0];
    assert_eq!(request.body["model"], "other");
    let asked = request.last_user();
    assert!(asked.contains("read logs") && asked.contains("poet, "), "{asked}");
    machine.finish().await;
}

#[tokio::test]
async fn a_file_that_is_there_is_not_written_over() {
    let machine = machine().await;
    machine.scratch.write(".opencode/agents/log-reader.md", "mine");
    machine.scratch.write(".opencode/agent/team/own.md", "mine");
    machine.llm.title(Reply::text(&written("log-reader")));
    // The file is an agent, so its name is taken.
    let made = machine.run(&CREATE).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(machine.scratch.read(".opencode/agent/log-reader-2.md").contains("You read logs."));
    assert_eq!(machine.scratch.read(".opencode/agents/log-reader.md"), "mine");
    let list = machine.run(&["agent", "list"]).await;
    assert!(list.stdout.contains("\nlog-reader-2 (subagent)\n"), "{}", list.stdout);
    // A name of the user's is looked at before a model is asked.
    let refused = machine.run(&[&CREATE[..], &["--name", "team/own"]].concat()).await;
    assert!(refused.stderr.contains("team/own.md exists"), "{}", refused.stderr);
    assert_eq!(machine.llm.title_requests().len(), 1);
    machine.llm.title(Reply::text(&written("log-reader")));
    let made = machine.run(&[&CREATE[..], &["--name", "team/logs"]].concat()).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(machine.scratch.read(".opencode/agent/team/logs.md").contains("You read logs."));
    assert_eq!(machine.scratch.read(".opencode/agent/team/own.md"), "mine");
    machine.finish().await;
}

#[tokio::test]
async fn a_useless_answer_is_asked_about_again_and_then_an_error() {
    let machine = machine().await;
    machine.llm.title(Reply::text("What would you like it to do?"));
    machine.llm.reply(Reply::text("{\"identifier\": \"logs\"}"));
    machine.llm.reply(Reply::text(&written("logs")));
    let made = machine.run(&CREATE).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let asked = machine.llm.last_request().last_user();
    assert!(asked.contains("missing field `whenToUse`"), "{asked}");

    machine.llm.title(Reply::text("no"));
    machine.llm.reply(Reply::text("no"));
    machine.llm.reply(Reply::text("no"));
    let failed = machine.run(&CREATE).await;
    assert_eq!(failed.code, Some(1));
    let reason =
        "The agent was not created: mock/mock gave no usable agent in 3 answers: it holds no JSON object";
    assert!(failed.stderr.contains(reason), "{}", failed.stderr);

    machine.llm.title(Reply::status(401));
    let failed = machine.run(&CREATE).await;
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("The agent was not created: "), "{}", failed.stderr);
    machine.finish().await;
}

#[tokio::test]
async fn a_call_that_lacks_something_says_what_and_asks_no_model() {
    let machine = machine().await;
    for (arguments, reason) in [
        (&["agent", "create"][..], "these are needed: --description, --path or --global, --mode."),
        (&["agent", "create", "--global", "--description", "x"], "these are needed: --mode."),
        (&[&CREATE[..], &["--tools", "fly"]].concat(), "Unknown permission `fly`"),
        (&[&CREATE[..], &["--name", "../x"]].concat(), "`../x` cannot be an agent's name"),
        (&[&CREATE[..], &["-m", "other"]].concat(), "is not a model name: write `provider/model`"),
    ] {
        let refused = machine.run(arguments).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(reason), "no `{reason}` in {}", refused.stderr);
    }
    assert_eq!(machine.llm.title_requests().len(), 0);
    let machine = machine.with("provider", json!({}));
    let refused = machine.run(&CREATE).await;
    assert!(
        refused.stderr.contains("names mock/mock, which cannot be used: there is no provider `mock`"),
        "{}",
        refused.stderr
    );
    machine.finish().await;
}

#[tokio::test]
async fn a_signal_ends_the_making_and_leaves_no_file() {
    let machine = machine().await;
    let gate = Gate::new();
    machine.llm.title(Reply::hang(&gate));
    let child = machine.start(&CREATE);
    gate.reached().await;
    let ended = machine.interrupt(child).await;
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(!machine.scratch.exists(".opencode"));
    machine.finish().await;
}

#[tokio::test]
async fn an_agent_has_the_tools_that_were_chosen_and_no_server_adds_to_them() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let server =
        json!({"type": "local", "command": ["python3", server, "good"], "environment": {"SHOP": "open"}});
    let config = json!({"mcp": {"shop": server}, "permission": {"bash": {"*": "ask", "rm *": "deny"}}});
    let machine = Machine::new().await.with("permission", config["permission"].clone());
    for (name, tools) in [("reader", "read"), ("runner", "read,bash"), ("talker", "none")] {
        machine.llm.title(Reply::text(&written(name)));
        let flags = ["agent", "create", "--description", "x", "--path", ".opencode", "--mode", "all"];
        let made = machine.run(&[&flags[..], &["--name", name, "--tools", tools]].concat()).await;
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let builder = Agent::builder().scratch(&machine.scratch).llm(&machine.llm).config(config);
    let agent = builder.answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    until_offered(&agent, &session, "shop_price").await;
    let mode = async |name: &str| {
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": name})).await.unwrap();
    };
    for (name, wanted) in [("reader", &["read"][..]), ("runner", &["bash", "read"]), ("talker", &[])] {
        mode(name).await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().tools(), wanted, "{name}");
    }
    // A call that asks under other agents asks under these too.
    machine.scratch.write(".env", "KEY=1");
    let outside = machine.scratch.home.join("x");
    let calls = [
        ("reader", "read", json!({"filePath": machine.scratch.path(".env")})),
        ("reader", "read", json!({"filePath": outside})),
        ("runner", "bash", json!({"command": "touch made"})),
    ];
    for (n_before, (name, tool, arguments)) in calls.into_iter().enumerate() {
        mode(name).await;
        agent.llm.reply(Reply::call("call_1", tool, arguments));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.n_asked(), n_before + 1, "{name} {tool}");
    }
    agent.finish().await;
    machine.finish().await;
}

/// Returns the names of tools that `debug agent` shows.
async fn shown_tools(machine: &Machine, name: &str) -> Vec<String> {
    let shown = machine.run(&["debug", "agent", name, "--json"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let view: Value = serde_json::from_str(&shown.stdout).unwrap();
    let tools = view["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn debug_shows_the_tools_and_prompt_that_each_built_in_agent_is_sent_in_an_editor() {
    let machine = Machine::new().await;
    machine.scratch.write(".opencode/skills/tea/SKILL.md", "---\nname: tea\ndescription: Tea.\n---\nDo it.");
    let builder = Agent::builder().scratch(&machine.scratch).llm(&machine.llm);
    let agent = builder.start().await;
    let session = agent.new_session().await;
    for (name, own) in [("build", "plan_enter"), ("plan", "plan_exit")] {
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": name})).await.unwrap();
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        let sent = agent.llm.last_request().tools();
        assert_eq!(shown_tools(&machine, name).await, sent, "{name}");
        for tool in ["question", "skill", "task", own] {
            assert!(sent.contains(&tool.to_owned()), "{tool} is not among {sent:?}");
        }
    }
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "build"})).await.unwrap();
    for name in ["general", "explore"] {
        let task = json!({"description": "look", "prompt": format!("CHILD {name}"), "subagent_type": name});
        agent.llm.reply(Reply::call("call_1", "task", task));
        agent.llm.reply_to(&format!("CHILD {name}"), Reply::text("found"));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let requests = agent.llm.requests();
        let child = requests.iter().rfind(|it| it.last_user().contains(&format!("CHILD {name}"))).unwrap();
        assert_eq!(shown_tools(&machine, name).await, child.tools(), "{name}");
    }
    agent.llm.reply(Reply::text("the summary"));
    agent.prompt(&session, "/compact").await;
    let title = agent.llm.title_requests().remove(0);
    for (name, sent) in [("title", title), ("compaction", agent.llm.last_request())] {
        let shown = machine.run(&["debug", "agent", name, "--json"]).await;
        let view: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!((&view["tools"], sent.tools().len()), (&json!([]), 0), "{name}");
        assert_eq!(view["system"], json!([sent.system()]), "{name}");
    }
    assert_eq!(shown_tools(&machine, "summary").await, Vec::<String>::new());

    // `windlass run` has no user to ask, so it lacks the tools that ask, and the output says so.
    let text = machine.run(&["debug", "agent", "build"]).await.stdout;
    let marked =
        text.lines().filter(|line| line.ends_with("(not in `windlass run`, which has no user to ask)"));
    let marked: Vec<&str> = marked.map(|line| line.trim().split(':').next().unwrap()).collect();
    assert_eq!(marked, ["plan_enter", "question"]);
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "go"]).await;
    let sent = machine.llm.last_request().tools();
    let without: Vec<String> = shown_tools(&machine, "build").await;
    let without: Vec<String> = without.into_iter().filter(|it| !marked.contains(&it.as_str())).collect();
    assert_eq!(sent, without);
    agent.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn an_agent_of_every_project_has_the_rules_that_hold_in_every_project() {
    let machine = Machine::new().await;
    let global = machine.scratch.home.join(".config/opencode");
    std::fs::create_dir_all(&global).unwrap();
    std::fs::write(global.join("opencode.json"), json!({"permission": {"bash": "ask"}}).to_string()).unwrap();
    machine.scratch.write("opencode.json", json!({"permission": {"bash": "allow"}}).to_string());
    for (place, wanted) in [(&["--global"][..], "ask"), (&["--path", ".opencode"], "allow")] {
        machine.llm.title(Reply::text(&written("runner")));
        let flags = ["agent", "create", "--description", "x", "--mode", "all", "--tools", "bash"];
        let made = machine.run(&[&flags[..], place].concat()).await;
        let text = std::fs::read_to_string(made.stdout.trim()).unwrap();
        assert!(text.contains(&format!("\n  bash: {wanted}\n")), "{place:?}: {text}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn an_agent_that_nothing_reads_or_that_takes_a_built_in_ones_place_is_told() {
    let machine = machine().await;
    let nowhere = "Nothing reads agents in ";
    let built_in = "This file replaces the built-in agent `build`.";
    for (path, name, told) in [
        ("docs", "reader", &[nowhere][..]),
        (".opencode", "build", &[built_in]),
        ("new/../sub/.opencode", "reader", &[]),
        ("other", "build", &[built_in, nowhere]),
    ] {
        machine.scratch.write("new/x", "");
        machine.llm.title(Reply::text(&written(name)));
        let flags =
            ["agent", "create", "--description", "x", "--mode", "all", "--name", name, "--path", path];
        let made = machine.run(&flags).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        for message in [nowhere, built_in] {
            assert_eq!(made.stderr.contains(message), told.contains(&message), "{path} {made:?}");
        }
    }
    machine.finish().await;
}

#[tokio::test]
async fn what_is_listed_is_listed_as_json_too_in_a_named_directory_and_by_the_older_spellings() {
    let machine = Machine::new().await;
    for command in [
        &["worktree", "list"][..],
        &["permission", "list"],
        &["auth", "list"],
        &["models"],
        &["agent", "list"],
        &["session", "list"],
        &["mcp", "list"],
        &["lsp", "list"],
        &["plugin", "list"],
        &["debug", "agent", "build"],
        &["debug", "sandbox", "build"],
    ] {
        let listed = machine.run(&[command, &["--format", "json"]].concat()).await;
        let parsed = serde_json::from_str::<Value>(&listed.stdout);
        assert!(parsed.is_ok_and(|it| it.is_array() || it.is_object()), "{command:?}: {listed:?}");
        let older = machine.run(&[command, &["--json"]].concat()).await;
        assert_eq!(older.stdout, listed.stdout, "{command:?}");
    }
    let work = machine.scratch.work.display().to_string();
    for option in ["--dir", "--cwd"] {
        let shown = machine.run(&["config", option, &work]).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
    }
    machine.finish().await;
}
