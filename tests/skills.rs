//! Skills: their description for the model, their loading, and their sources.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use crate::{
    instructions::unprivileged,
    support::{
        agent::{Agent, Answer, binary},
        llm::{Reply, request::Request},
        message::text,
        scratch::Scratch,
    },
};

const BEES: &str = "---\nname: bees\ndescription: Keeping bees\n---\nUse smoke.\n";

/// Returns the tool's description.
fn described(request: &Request) -> String {
    let tools = request.body["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["function"]["name"] == "skill");
    tool.map(|tool| tool["function"]["description"].as_str().unwrap().to_owned()).unwrap_or_default()
}

async fn with_bees(config: Value) -> Agent {
    let agent = Agent::start_with(config).await;
    agent.scratch.write(".opencode/skill/bees/SKILL.md", BEES);
    agent.scratch.write(".opencode/skill/bees/scripts/smoke.sh", "echo smoke");
    agent
}

#[tokio::test]
async fn the_model_is_told_of_the_skills_and_loads_one() {
    let agent = with_bees(json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "skill", json!({"name": "bees"})));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    let request = &agent.llm.requests()[0];
    let directory = agent.scratch.path(".opencode/skill/bees");
    let listed = format!(
        "  <skill>\n    <name>bees</name>\n    <description>Keeping bees</description>\n    \
         <location>{directory}/SKILL.md</location>\n  </skill>\n"
    );
    assert!(request.system().contains(&listed), "{}", request.system());
    assert!(described(request).contains("- bees: Keeping bees"), "{}", described(request));
    let loaded = agent.llm.last_request().tool_result("call_1");
    let wanted = format!(
        "<skill_content name=\"bees\">\n# Skill: bees\n\nUse smoke.\n\nBase directory for this skill: {directory}\n"
    );
    assert!(loaded.starts_with(&wanted), "{loaded}");
    assert!(
        loaded.contains(&format!("<skill_files>\n<file>{directory}/scripts/smoke.sh</file>\n</skill_files>"))
    );
    assert!(loaded.ends_with("</skill_content>"), "{loaded}");
    let call = turn.tool("call_1");
    assert_eq!((&call["title"], &call["status"]), (&json!("Loaded skill: bees"), &json!("completed")));
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_skill_is_answered_with_those_there_are() {
    let agent = with_bees(json!({"permission": {"skill": {"bees": "deny"}}})).await;
    agent.scratch.write(".opencode/skill/ants/SKILL.md", BEES.replace("bees", "ants"));
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "skill", json!({"name": "wasps"})).and_call(
        "call_2",
        "skill",
        json!({"name": "bees"}),
    ));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    let wanted = "Skill \"wasps\" not found. Available skills: ants, customize-windlass";
    assert_eq!(request.tool_result("call_1"), wanted);
    assert!(request.tool_result("call_2").contains("prevents you from using"));
    assert!(!request.system().contains("<name>bees</name>") && !described(&request).contains("bees"));
    agent.finish().await;
}

#[tokio::test]
async fn without_skills_to_load_there_is_no_tool() {
    let agent = with_bees(json!({"permission": {"skill": "deny"}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(!request.tools().contains(&"skill".to_owned()));
    assert!(!request.system().contains("<available_skills>"));
    agent.finish().await;
}

#[tokio::test]
async fn a_skill_is_asked_for_by_its_name() {
    for (answer, is_loaded) in [(Answer::AllowOnce, true), (Answer::RejectOnce, false)] {
        let agent = with_bees(json!({"permission": {"skill": "ask"}})).await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "skill", json!({"name": "bees"})));
        if is_loaded {
            agent.llm.reply(Reply::text("done"));
        }
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert_eq!(ask.call()["toolCallId"], "call_1");
        assert!(ask.call().to_string().contains("bees"), "{}", ask.call());
        agent.answer(&ask, answer);
        let turn = prompt.turn().await;
        let status = if is_loaded { "completed" } else { "failed" };
        assert_eq!(turn.tool("call_1")["status"], status);
        agent.finish().await;
    }
}

#[tokio::test]
async fn always_allows_that_skill_alone() {
    let agent = with_bees(json!({"permission": {"skill": "ask"}})).await;
    agent.scratch.write(".opencode/skill/ants/SKILL.md", BEES.replace("bees", "ants"));
    let session = agent.new_session().await;
    let mut n_asked = 0;
    for (id, name, is_asked) in
        [("call_1", "bees", true), ("call_2", "bees", false), ("call_3", "ants", true)]
    {
        agent.llm.reply(Reply::call(id, "skill", json!({"name": name})));
        agent.llm.reply(Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        if is_asked {
            let ask = agent.permission().await;
            agent.answer(&ask, Answer::AllowAlways);
            n_asked += 1;
        }
        assert_eq!(prompt.turn().await.tool(id)["status"], "completed");
        assert_eq!(agent.n_asked(), n_asked);
    }
    agent.finish().await;
}

#[tokio::test]
async fn files_of_a_skill_outside_the_project_are_read_unasked() {
    let agent = Agent::start().await;
    let directory = agent.scratch.home.join(".claude/skills/bees");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("SKILL.md"), BEES).unwrap();
    std::fs::write(directory.join("more.md"), "smoke gently").unwrap();
    let session = agent.new_session().await;
    let file = directory.join("more.md");
    agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": file})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("smoke gently"));
    agent.finish().await;
}

#[tokio::test]
async fn a_skill_is_a_command_too() {
    let agent = with_bees(json!({})).await;
    agent.scratch.write(
        ".opencode/skill/ants/SKILL.md",
        "---\nname: ants\ndescription: Ants\n---\nWatch the $1 of !`echo ants`.\n",
    );
    let session = agent.new_session().await;
    let update = agent.wait_update("available_commands_update").await;
    let listed = update["availableCommands"].as_array().unwrap().clone();
    assert!(listed.contains(&json!({"name": "bees", "description": "Keeping bees"})), "{update}");
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/bees in winter").await;
    let directory = agent.scratch.path(".opencode/skill/bees");
    assert_eq!(
        agent.llm.last_request().last_user(),
        format!("Use smoke.\n\nPaths in this text start from {directory}\n\nin winter")
    );
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/ants ways").await;
    assert!(agent.llm.last_request().last_user().starts_with("Watch the ways of !`echo ants`."));
    agent.finish().await;
}

#[tokio::test]
async fn a_skill_that_a_rule_denies_is_no_command() {
    let agent = with_bees(json!({"permission": {"skill": {"bees": "deny"}}})).await;
    let session = agent.new_session().await;
    let update = agent.wait_update("available_commands_update").await;
    assert!(!update.to_string().contains("bees"), "{update}");
    let turn = agent.prompt(&session, "/bees").await;
    assert!(turn.text().contains("a permission rule denies it"), "{}", turn.text());
    assert!(agent.llm.requests().is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn a_skill_called_as_a_command_runs_and_attaches_nothing() {
    let agent = with_bees(json!({})).await;
    let text = "---\nname: wasps\ndescription: Wasps\n---\nSee !`touch pwned` and @a.txt.\n";
    agent.scratch.write(".claude/skills/wasps/SKILL.md", text);
    let text = "---\nname: bee sting\ndescription: Stings\n---\nCool $1 with $2: !`touch pwned`.\n";
    agent.scratch.write(".claude/skills/sting/SKILL.md", text);
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/wasps").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.starts_with("See !`touch pwned` and @a.txt.\n\nPaths in this text"), "{said}");
    assert!(!said.contains("one") && !agent.scratch.work.join("pwned").exists());
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/bee sting arm \"ice; touch pwned\"").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.starts_with("Cool arm with ice; touch pwned: !`touch pwned`."), "{said}");
    assert!(!agent.scratch.work.join("pwned").exists());
    agent.finish().await;
}

#[tokio::test]
async fn the_built_in_skill_is_called_like_any_other() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/customize-windlass allow npm test").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.contains("opencode.json") && said.ends_with("\n\nallow npm test"), "{said}");
    assert!(!said.contains("/customize-windlass"), "{said}");
    agent.finish().await;

    let denied = json!({"permission": {"skill": {"customize-windlass": "deny"}}});
    let agent = Agent::start_with(denied).await;
    let session = agent.new_session().await;
    let told = agent.prompt(&session, "/customize-windlass").await.text();
    assert!(
        told.contains("The skill customize-windlass was not loaded: a permission rule denies it."),
        "{told}"
    );
    assert!(agent.llm.requests().is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn a_broken_skill_is_a_warning_and_the_others_work() {
    let agent = with_bees(json!({})).await;
    agent.scratch.write(".opencode/skill/broken/SKILL.md", "---\nname: [\n---\n");
    agent.scratch.write(".opencode/skill/up/SKILL.md", "---\nname: \"a\\nb\"\ndescription: x\n---\n");
    let session = agent.new_session().await;
    let status = agent.prompt(&session, "/status").await.text();
    for wanted in ["broken/SKILL.md:", "up/SKILL.md:2:1: the skill is ignored: its name must be one line"] {
        assert!(status.contains(wanted), "{status}");
    }
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().system().contains("<name>bees</name>"));
    agent.finish().await;
}

#[tokio::test]
async fn a_load_replays_a_loaded_skill() {
    let agent = with_bees(json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "skill", json!({"name": "customize-opencode"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("# Skill: customize-windlass"));
    assert_eq!(text(&agent.load(&session).await, "agent_message_chunk"), "done");
    agent.finish().await;
}

#[tokio::test]
async fn the_built_in_skill_names_commands_and_keys_that_there_are() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "skill", json!({"name": "customize-windlass"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let manual = agent.llm.last_request().tool_result("call_1");
    let quoted: Vec<&str> = manual.split('`').skip(1).step_by(2).collect();
    let commands: Vec<&str> = quoted.iter().filter_map(|it| it.strip_prefix("windlass ")).collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let words = command.split(' ').filter(|word| !word.chars().all(char::is_uppercase));
        let output = std::process::Command::new(binary()).args(words).arg("--help").output().unwrap();
        assert!(output.status.success(), "windlass {command}: {output:?}");
    }
    let schema = std::process::Command::new(binary()).args(["config", "schema"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    for key in ["model", "small_model", "default_agent", "provider", "permission", "instructions", "agent"] {
        assert!(
            quoted.iter().any(|it| it.starts_with(key)) && schema["properties"].get(key).is_some(),
            "{key}"
        );
    }
    agent.finish().await;
}

#[tokio::test]
async fn directories_of_skills_that_may_not_be_read_are_told() {
    let scratch = Scratch::new();
    let closed = [
        scratch.work.join(".opencode/skill/k"),
        scratch.home.join(".claude/skills"),
        scratch.work.join("named"),
    ];
    let set_mode = |mode: u32| {
        for directory in &closed {
            fs::create_dir_all(directory).unwrap();
            fs::set_permissions(directory, PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    set_mode(0o000);
    scratch.write(".opencode/skill/bees/SKILL.md", BEES);
    let Some(builder) = unprivileged(&scratch) else { return set_mode(0o755) };
    let agent = builder.config(json!({"skills": {"paths": ["named"]}})).start().await;
    let session = agent.new_session().await;
    let status = agent.prompt(&session, "/status").await.text();
    let cannot = "cannot be read, so skills in it are left out: Permission denied";
    for wanted in [
        format!("{}: {cannot}", closed[0].display()),
        format!("{}: {cannot}", closed[1].display()),
        format!("skills.paths.0: {} cannot be read: Permission denied", closed[2].display()),
    ] {
        assert_eq!(status.matches(&wanted).count(), 1, "{wanted} in {status}");
    }
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().system().contains("<name>bees</name>"));
    // Each is read as soon as it may be.
    let skill = closed[0].join("SKILL.md");
    set_mode(0o755);
    fs::write(&skill, BEES.replace("bees", "ants")).unwrap();
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().system().contains("<name>ants</name>"));
    agent.finish().await;
}
