//! Agents of the configuration, as a turn's request to the model and the clients show them.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Reply, request::Request},
    message::mode_ids,
    scratch::Scratch,
};

/// Returns a model that takes a temperature and has two variants, beside the usual ones.
fn able_model() -> Value {
    json!({"provider": {"mock": {"models": {"able": {
        "name": "Able",
        "temperature": true,
        "limit": {"context": 100_000, "output": 4096},
        "options": {"seed": 1, "stop": "model"},
        "variants": {
            "high": {"reasoningEffort": "high", "user": "variant"},
            "low": {"reasoningEffort": "low"},
            "off": {"disabled": true, "reasoningEffort": "none"},
        },
    }}}}})
}

async fn start(config: Value) -> Agent {
    Agent::builder().config(able_model()).config(config).start().await
}

/// Returns a session that the named agent answers.
async fn session_of(agent: &Agent, mode: &str) -> String {
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": mode})).await.unwrap();
    session
}

#[tokio::test]
async fn a_request_shows_everything_its_agent_says() {
    let reviewer = json!({
        "description": "Reviews.", "mode": "primary", "prompt": "You review and nothing else.",
        "model": "mock/able#high", "temperature": 0.2, "top_p": 0.9,
        "options": {"stop": "agent", "user": "agent"}, "logit_bias": {"7": 1},
        "tools": {"webfetch": false, "bash": true},
        "permission": {"edit": "deny", "bash": {"*": "deny", "git *": "allow"}},
    });
    let agent = start(json!({"agent": {"reviewer": reviewer}})).await;
    let session = session_of(&agent, "reviewer").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().starts_with("You review and nothing else."), "{}", request.system());
    let body = &request.body;
    assert_eq!(
        json!([body["model"], body["temperature"], body["top_p"], body["logit_bias"]]),
        json!(["able", 0.2, 0.9, {"7": 1}])
    );
    // The model's options, the agent's over them, the variant's over both.
    assert_eq!(
        json!([body["seed"], body["stop"], body["user"], body["reasoning_effort"]]),
        json!([1, "agent", "variant", "high"])
    );
    let tools = request.tools();
    for (tool, is_offered) in
        [("read", true), ("bash", true), ("edit", false), ("write", false), ("webfetch", false)]
    {
        assert_eq!(tools.contains(&tool.to_owned()), is_offered, "{tool} in {tools:?}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn what_a_model_does_not_take_is_left_out_of_its_request() {
    let plain = json!({"temperature": 0.2, "variant": "high", "model": "mock/other"});
    let agent = start(json!({"agent": {"plain": plain, "off": {"model": "mock/able#off"}}})).await;
    for (mode, model) in [("plain", "other"), ("off", "able")] {
        let session = session_of(&agent, mode).await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        let body = agent.llm.last_request().body;
        assert_eq!(body["model"], model);
        assert_eq!((&body["temperature"], &body["reasoning_effort"]), (&Value::Null, &Value::Null), "{mode}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_agents_variant_holds_for_its_own_model_alone() {
    let deep = json!({"model": "mock/able", "variant": "low"});
    let agent = start(json!({"agent": {"deep": deep}})).await;
    let session = session_of(&agent, "deep").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().body["reasoning_effort"], "low");
    agent.request("session/set_model", json!({"sessionId": session, "modelId": "mock/mock"})).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let body = agent.llm.last_request().body;
    assert_eq!((&body["model"], &body["reasoning_effort"]), (&json!("mock"), &Value::Null));
    agent.finish().await;
}

#[tokio::test]
async fn the_last_of_an_agents_steps_has_no_tools_and_is_told_so() {
    for key in ["steps", "maxSteps"] {
        let agent = start(json!({"agent": {"short": {key: 2}}})).await;
        let session = session_of(&agent, "short").await;
        agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": agent.scratch.path("a.txt")})));
        agent.llm.reply(Reply::text("that is all I could do"));
        let turn = agent.prompt(&session, "go").await;
        assert_eq!(turn.stop, "max_turn_requests");
        let requests = agent.llm.requests();
        assert_eq!(requests.len(), 2);
        assert!(!requests[0].tools().is_empty());
        assert!(!requests[0].last_user().contains("maximum number of steps"));
        assert_eq!(requests[1].tools(), Vec::<String>::new());
        assert!(requests[1].last_user().contains("maximum number of steps"), "{}", requests[1].last_user());
        agent.finish().await;
    }
}

#[tokio::test]
async fn clients_see_the_agents_a_user_may_choose() {
    let config = json!({
        "default_agent": "helper",
        "agent": {
            "helper": {"name": "Helping Hand", "description": "Helps.", "color": "#ff8800"},
            "secret": {"hidden": true},
            "worker": {"mode": "subagent"},
            "gone": {"disable": true, "description": "never seen"},
            "plan": {"disable": true},
            "team/lead": {"mode": "primary"},
        },
        "mode": {"old": {"prompt": "An older spelling."}},
    });
    let agent = start(config).await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    assert_eq!(mode_ids(&answer), ["helper", "build", "old", "team/lead"]);
    assert_eq!(answer["modes"]["currentModeId"], "helper");
    let helper = &answer["modes"]["availableModes"][0];
    assert_eq!(
        json!([helper["name"], helper["description"], helper["_meta"]]),
        json!(["Helping Hand", "Helps.", {"windlass/color": "#ff8800"}])
    );
    let options = answer["configOptions"].as_array().unwrap();
    let mode = options.iter().find(|option| option["id"] == "mode").unwrap();
    let values: Vec<&str> =
        mode["options"].as_array().unwrap().iter().map(|it| it["value"].as_str().unwrap()).collect();
    assert_eq!(
        (values, &mode["currentValue"]),
        (vec!["helper", "build", "old", "team/lead"], &json!("helper"))
    );
    let session = answer["sessionId"].as_str().unwrap();
    for hidden in ["secret", "worker", "gone", "plan", "title"] {
        let refused =
            agent.request("session/set_mode", json!({"sessionId": session, "modeId": hidden})).await;
        assert!(refused.unwrap_err().message.contains(&format!("unknown mode `{hidden}`")));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_works_with_what_its_own_entry_says() {
    let config = json!({"agent": {
        "scout": {
            "mode": "subagent", "description": "Looks far ahead.", "prompt": "You scout.",
            "model": "mock/able", "temperature": 0.7, "permission": {"*": "deny", "read": "allow"},
        },
        "loner": {"mode": "primary", "permission": {"task": {"scout": "deny"}}},
    }});
    let agent = start(config).await;
    let session = agent.new_session().await;
    let task = json!({"description": "look", "prompt": "CHILD", "subagent_type": "scout"});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task));
    agent.llm.reply_to("CHILD", Reply::text("nothing there"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let requests = agent.llm.requests();
    let offered = requests[0].body["tools"].as_array().unwrap().iter();
    let task = offered.map(|tool| &tool["function"]).find(|tool| tool["name"] == "task").unwrap();
    assert!(task["description"].as_str().unwrap().contains("- scout: Looks far ahead."), "{task}");
    let child = requests.iter().find(|request| request.last_user().contains("CHILD")).unwrap();
    assert!(child.system().starts_with("You scout."));
    assert_eq!((&child.body["model"], &child.body["temperature"]), (&json!("able"), &json!(0.7)));
    assert_eq!(child.tools(), ["read"]);

    let session = session_of(&agent, "loner").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "again").await;
    assert!(!agent.llm.last_request().body["tools"].to_string().contains("- scout:"));
    agent.finish().await;
}

#[tokio::test]
async fn an_entry_of_a_built_in_agent_changes_what_it_names() {
    let build = json!({"prompt": "Build it my way.", "temperature": 0.3, "model": "mock/able"});
    let agent = start(json!({"agent": {"build": build}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().starts_with("Build it my way."));
    assert_eq!(request.body["temperature"], 0.3);
    assert!(request.tools().contains(&"edit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_whose_model_cannot_be_had_does_not_answer_with_another() {
    let scratch = Scratch::new();
    let config = json!({"agent": {"build": {"model": "mok/able"}}});
    let agent = Agent::builder().scratch(&scratch).config(able_model()).config(config).start().await;
    let session = agent.new_session().await;
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let error = agent.request("session/prompt", params).await.unwrap_err();
    let wanted = "names mok/able, which cannot be used: there is no provider `mok` (did you mean mock/able?)";
    assert!(
        error.message.starts_with("`agent.build.model` in ") && error.message.contains(wanted),
        "{error:?}"
    );
    assert!(agent.llm.requests().is_empty());
    let choice = json!({"sessionId": session, "configId": "model", "value": "mock/mock"});
    agent.request("session/set_config_option", choice).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().body["model"], "mock");
    agent.finish().await;
}

/// Returns the description of the `task` tool in a request; none when it is not offered.
fn task_tool(request: &Request) -> Option<String> {
    let mut offered = request.body["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    Some(offered.find(|tool| tool["name"] == "task")?["description"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_subagent_that_the_user_names_is_there_whatever_the_rules_say() {
    let config = json!({"permission": {"task": "deny"}, "agent": {"docs/writer": {"mode": "subagent"}}});
    let agent = start(config).await;
    let session = agent.new_session().await;
    let task = json!({"description": "look", "prompt": "CHILD", "subagent_type": "docs/writer"});
    let words = "go, @docs/writer! and mail to me@explore, see `@general`";
    agent.llm.reply_to("go", Reply::call("call_1", "task", task));
    agent.llm.reply_to("CHILD", Reply::text("written"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, words).await;
    assert_eq!(turn.tool("call_1")["status"], "completed");
    let first = &agent.llm.requests()[0];
    let said = first.last_user();
    assert!(said.starts_with(words), "{said}");
    assert!(said.contains("call the task tool with subagent_type \"docs/writer\""), "{said}");
    assert!(
        !said.contains("subagent_type \"general\"") && !said.contains("subagent_type \"explore\""),
        "{said}"
    );
    let offered = task_tool(first).unwrap();
    assert!(offered.contains("- docs/writer:") && !offered.contains("- explore:"), "{offered}");
    // It holds for the message that names it.
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "again").await;
    assert_eq!(task_tool(&agent.llm.last_request()), None);
    agent.finish().await;
}

#[tokio::test]
async fn a_hidden_subagent_is_given_work_and_shown_to_nobody() {
    let hidden = json!({"mode": "subagent", "hidden": true, "description": "Digs.", "prompt": "You dig."});
    let agent = start(json!({"agent": {"digger": hidden, "title": {"mode": "all"}}})).await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    assert!(!mode_ids(&answer).contains(&"digger"));
    let session = answer["sessionId"].as_str().unwrap();
    let task = |name: &str| json!({"description": "d", "prompt": "CHILD", "subagent_type": name});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("digger")));
    agent.llm.reply_to("CHILD", Reply::text("found"));
    agent.llm.reply_to("go", Reply::call("call_2", "task", task("title")));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(session, "go @digger").await;
    let request = agent.llm.last_request();
    let offered = task_tool(&request).unwrap();
    assert!(offered.contains("- digger: Digs.") && !offered.contains("- title"), "{offered}");
    assert!(request.tool_result("call_1").contains("found"));
    assert!(request.tool_result("call_2").contains("Unknown agent type: title"));
    assert!(request.body.to_string().contains("subagent_type \\\"digger\\\""), "{}", request.body);
    agent.finish().await;
}

#[tokio::test]
async fn an_empty_prompt_counts_as_not_given_and_is_told() {
    let text = json!({
        "agent": {
            "blank": {"mode": "primary", "prompt": ""},
            "lost": {"mode": "primary", "prompt": "{env:NOT_SET_ANYWHERE}"},
        },
    });
    let agent = start(text).await;
    let mut systems = Vec::new();
    for mode in ["build", "blank", "lost"] {
        let session = session_of(&agent, mode).await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        systems.push(agent.llm.last_request().system());
    }
    let beginning = |system: &String| system.split("<env>").next().unwrap().to_owned();
    agent.wait_stderr("agent.blank.prompt: is empty and counts as not given").await;
    agent.wait_stderr("agent.lost.prompt: is empty and counts as not given").await;
    assert_eq!(beginning(&systems[0]), beginning(&systems[1]));
    assert_eq!(beginning(&systems[0]), beginning(&systems[2]));
    agent.finish().await;
}

#[tokio::test]
async fn only_the_users_own_words_name_a_subagent() {
    let agent = start(json!({"permission": {"task": "deny"}})).await;
    agent.scratch.write("general", "a file of that name");
    let session = agent.new_session().await;
    let file = json!({"uri": "file:///x.md", "text": "ask @explore for everything"});
    let prompt = json!([
        {"type": "text", "text": "read @general and @build and @nobody"},
        {"type": "resource", "resource": file},
    ]);
    agent.llm.reply(Reply::text("ok"));
    let params = json!({"sessionId": session, "prompt": prompt});
    agent.request("session/prompt", params).await.unwrap();
    let request = agent.llm.last_request();
    assert!(!request.last_user().contains("call the task tool"), "{}", request.last_user());
    assert_eq!(task_tool(&request), None);
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_as_a_markdown_file_is_sent_as_one_of_json_is() {
    let scratch = Scratch::new();
    let file = "---\ndescription: Reviews.\nmode: primary\nmodel: mock/able#high\ntemperature: 0.2\ntop_p: 0.9\n\
                logit_bias: {\"7\": 1}\npermission:\n  edit: deny\n  bash:\n    \"*\": deny\n    git *: allow\n---\n\n\
                You review and nothing else.\n";
    scratch.write(".opencode/agent/team/reviewer.md", file);
    let agent = Agent::builder().scratch(&scratch).config(able_model()).start().await;
    let session = session_of(&agent, "team/reviewer").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().starts_with("You review and nothing else."), "{}", request.system());
    let body = &request.body;
    assert_eq!(
        json!([
            body["model"],
            body["temperature"],
            body["top_p"],
            body["logit_bias"],
            body["reasoning_effort"]
        ]),
        json!(["able", 0.2, 0.9, {"7": 1}, "high"])
    );
    let tools = request.tools();
    assert!(tools.contains(&"bash".to_owned()) && !tools.contains(&"edit".to_owned()), "{tools:?}");
    agent.finish().await;
}

#[tokio::test]
async fn naming_a_subagent_does_not_lift_the_administrators_rules() {
    let scratch = Scratch::new();
    let managed = scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    std::fs::write(managed.join("opencode.json"), r#"{"permission": {"task": {"explore": "deny"}}}"#)
        .unwrap();
    let agent = Agent::builder()
        .scratch(&scratch)
        .env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap())
        .start()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "ask @explore and @general").await;
    let request = agent.llm.last_request();
    let (offered, said) = (task_tool(&request).unwrap(), request.last_user());
    assert!(
        said.contains("subagent_type \"general\"") && !said.contains("subagent_type \"explore\""),
        "{said}"
    );
    assert!(offered.contains("- general:") && !offered.contains("- explore:"), "{offered}");
    agent.finish().await;
}

#[tokio::test]
async fn what_the_user_asks_for_in_general_opens_neither_edits_nor_secrets_to_explore() {
    let agent = start(json!({"permission": {"edit": "ask", "read": "allow"}})).await;
    agent.scratch.write(".env", "TOKEN=x");
    let session = agent.new_session().await;
    let task = json!({"description": "Look", "prompt": "CHILD", "subagent_type": "explore"});
    agent.llm.reply(Reply::call("call_1", "task", task));
    agent.llm.reply(Reply::call("call_2", "read", json!({"filePath": agent.scratch.path(".env")})));
    agent.llm.reply(Reply::text("found"));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert!(ask.call().to_string().contains(".env"), "{}", ask.call());
    agent.answer(&ask, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    let child = &agent.llm.requests()[1];
    assert!(child.last_user().starts_with("CHILD"));
    for tool in ["edit", "write", "multiedit", "patch"] {
        assert!(!child.tools().contains(&tool.to_owned()), "{tool} in {:?}", child.tools());
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_of_claude_code_has_the_tools_of_its_list_and_no_others() {
    let lists = ["Read, Grep, Glob, Bash(git diff:*)", "[Read, Grep, Glob, \"Bash(git diff:*)\"]"];
    let block = "\n  - Read\n  - Grep\n  - Glob\n  - Bash(git diff:*)";
    for list in lists.into_iter().chain([block]) {
        let scratch = Scratch::new();
        let text = format!("---\nname: reviewer\nmode: primary\ntools: {list}\n---\nReview.\n");
        scratch.write(".opencode/agent/reviewer.md", &text);
        scratch.write(".opencode/agent/odd.md", "---\nmode: primary\ntools: 5\n---\nOdd.\n");
        let agent = Agent::builder().scratch(&scratch).start().await;
        let session = session_of(&agent, "reviewer").await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "git log", "description": "log"})));
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        let mut tools = agent.llm.requests()[0].tools();
        tools.sort();
        assert_eq!(tools, ["bash", "glob", "grep", "read"], "{list}");
        let last = agent.llm.last_request();
        assert!(last.tool_result("call_1").contains("prevents"), "{}", last.tool_result("call_1"));
        let answer = agent.request("session/new", agent.session_params()).await.unwrap();
        assert!(!mode_ids(&answer).contains(&"odd"), "{answer}");
        agent.wait_stderr("odd.md:3:1: agent.odd.tools: 5 is not a list of tools").await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_session_of_an_agent_that_is_left_out_goes_on_with_no_other_unasked() {
    let scratch = Scratch::new();
    scratch.write(".opencode/agent/reviewer.md", "---\nmode: primary\ntools: Read\n---\nReview.\n");
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = session_of(&agent, "reviewer").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let successor = agent.successor();
    agent.finish().await;
    scratch.write(".opencode/agent/reviewer.md", "---\nmode: primary\ntools: 5\n---\nReview.\n");
    let agent = successor.start().await;
    agent.load(&session).await;
    let error = agent.send_prompt(&session, "go on").answer().await.unwrap_err();
    assert!(error.message.contains("The agent reviewer of this session is left out"), "{error:?}");
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go on").await;
    agent.finish().await;
}
