//! Definitions and instructions that change while the agent runs: agents, commands, skills and their directories.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::{Value, json};

use crate::{
    config_layers::Shell,
    instructions::unprivileged,
    reload::{
        asked_model, builder, options, read_again, replace, told_command, told_commands, watching,
        with_model, write,
    },
    support::{
        agent::{Agent, Answer},
        llm::Reply,
        message::tag,
        scratch::Scratch,
    },
};

/// Returns the system prompt of the next turn.
async fn system(agent: &Agent, session: &str) -> String {
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(session, "go").await;
    agent.llm.last_request().system()
}

#[tokio::test]
async fn a_changed_instruction_file_holds_in_the_next_turn() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Prefer tabs.");
    let agent = Agent::builder().scratch(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    for rule in ["Prefer tabs.", "Prefer spaces."] {
        scratch.write("AGENTS.md", rule);
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert!(agent.llm.last_request().system().contains(rule));
    }
    agent.finish().await;
}

#[tokio::test]
async fn every_layer_is_followed_from_before_it_exists() {
    let scratch = Scratch::new();
    let (root, home, work) = (scratch.root().to_owned(), scratch.home.clone(), scratch.work.clone());
    let cwd = work.join("packages/one");
    fs::create_dir_all(&cwd).unwrap();
    let (named, directory, managed) =
        (root.join("named/it.json"), root.join("own/dir"), root.join("managed"));
    let agent = builder(&scratch)
        .env("OPENCODE_CONFIG", named.to_str().unwrap())
        .env("OPENCODE_CONFIG_DIR", directory.to_str().unwrap())
        .env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap())
        .spawn()
        .await
        .initialized()
        .await;
    let params = json!({"cwd": cwd, "mcpServers": []});
    agent.request("session/new", params).await.unwrap();
    let files = [
        home.join(".config/opencode/config.json"),
        home.join(".config/opencode/opencode.json"),
        home.join(".config/opencode/opencode.jsonc"),
        home.join(".opencode/opencode.json"),
        named,
        work.join("opencode.json"),
        work.join("packages/opencode.jsonc"),
        cwd.join("opencode.json"),
        work.join(".opencode/opencode.json"),
        work.join("packages/.opencode/opencode.jsonc"),
        cwd.join(".opencode/opencode.json"),
        directory.join("opencode.json"),
        managed.join("opencode.json"),
    ];
    for (idx, file) in files.iter().enumerate() {
        let name = format!("from-{idx}");
        write(file, &json!({"command": {(name.clone()): {"template": "Do it."}}}).to_string());
        told_command(&agent, &name).await;
    }
    let directories = [
        home.join(".config/opencode"),
        home.join(".opencode"),
        work.join(".opencode"),
        work.join("packages/.opencode"),
        cwd.join(".opencode"),
        directory,
        managed,
    ];
    for (idx, directory) in directories.iter().enumerate() {
        for (plural, name) in [("commands", format!("md-{idx}")), ("command", format!("deep/md-{idx}"))] {
            let file = directory.join(format!("{plural}/{name}.md"));
            write(&file, "Do it.");
            told_command(&agent, &name).await;
            fs::remove_dir_all(directory.join(plural)).unwrap();
            told_commands(&agent, |names| !names.contains(&name)).await;
        }
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_command_says_what_its_file_says_now() {
    let scratch = Scratch::new();
    let file = scratch.work.join(".opencode/commands/greet.md");
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    write(&file, "Greet $1 in Latin.");
    told_command(&agent, "greet").await;
    read_again(&agent).await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "/greet Bob").await;
    assert_eq!(agent.llm.last_request().last_user(), "Greet Bob in Latin.");
    // Nothing of it that the client shows has changed.
    replace(&file, "Greet $1 in Greek.");
    read_again(&agent).await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "/greet Bob").await;
    assert_eq!(agent.llm.last_request().last_user(), "Greet Bob in Greek.");
    fs::remove_file(&file).unwrap();
    told_commands(&agent, |names| !names.contains(&"greet".to_owned())).await;
    let turn = agent.prompt(&session, "/greet Bob").await;
    assert!(turn.text().starts_with("There is no command `/greet`"), "{}", turn.text());
    agent.finish().await;
}

#[tokio::test]
async fn skills_are_followed_wherever_they_may_be() {
    let scratch = Scratch::new();
    let (home, work) = (scratch.home.clone(), scratch.work.clone());
    let further = scratch.root().join("further/skills");
    scratch.write("opencode.json", json!({"skills": {"paths": [further]}}).to_string());
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    let skill = |name: &str, about: &str| format!("---\nname: {name}\ndescription: {about}\n---\nDo it.\n");
    let places = [
        home.join(".claude/skills"),
        home.join(".agents/skills"),
        work.join(".claude/skills"),
        work.join(".agents/skills"),
        home.join(".config/opencode/skills"),
        work.join(".opencode/skill"),
        further,
    ];
    for (idx, place) in places.iter().enumerate() {
        let name = format!("skill-{idx}");
        let file = place.join(&name).join("SKILL.md");
        for about in ["Makes tea.", "Makes coffee."] {
            write(&file, &skill(&name, about));
            read_again(&agent).await;
            agent.llm.reply(Reply::text("ok"));
            agent.prompt(&session, "go").await;
            let system = agent.llm.last_request().system();
            assert!(system.contains(&name) && system.contains(about), "{name}: {system}");
        }
        fs::remove_dir_all(place.join(&name)).unwrap();
        read_again(&agent).await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert!(!agent.llm.last_request().system().contains(&name), "{name}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_agents_file_that_breaks_leaves_the_agent_as_it_was() {
    let scratch = Scratch::new();
    let file = scratch.work.join(".opencode/agents/poet.md");
    let poet = |prompt: &str| format!("---\nmode: primary\npermission:\n  bash: deny\n---\n{prompt}\n");
    let agent = watching(builder(&scratch).answering(Answer::AllowOnce)).await;
    let session = agent.new_session().await;
    write(&file, &poet("Speak in rhyme."));
    assert!(options(&agent, "mode").await.0.contains(&"poet".to_owned()));
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "poet"})).await.unwrap();
    assert_eq!(agent.wait_update("current_mode_update").await["currentModeId"], "poet");

    replace(&file, "---\nmode: [primary\n---\nSpeak in prose.\n");
    let notice = agent.wait_update("notice").await;
    let told = notice["description"].as_str().unwrap();
    assert!(told.contains("poet.md:") && told.ends_with("what it said before still holds"), "{told}");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().contains("Speak in rhyme."));
    assert!(!request.tools().contains(&"bash".to_owned()));

    replace(&file, &poet("Speak in prose."));
    assert_eq!(agent.wait_update("notice").await["severity"], "info");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().system().contains("Speak in prose."));
    let updates = agent.updates(&session);
    let modes: Vec<&Value> = updates.iter().filter(|update| tag(update) == "current_mode_update").collect();
    assert_eq!(modes.len(), 1, "{modes:?}");

    fs::remove_dir_all(scratch.work.join(".opencode")).unwrap();
    assert_eq!(agent.wait_update("current_mode_update").await["currentModeId"], "build");
    agent.finish().await;
}

#[tokio::test]
async fn agents_are_followed_wherever_they_may_be() {
    let scratch = Scratch::new();
    let (home, work, market) = (scratch.home.clone(), scratch.work.clone(), scratch.root().join("market"));
    scratch.write("opencode.json", json!({"windlass": {"agents": {"paths": ["../market"]}}}).to_string());
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let poet = |prompt: &str| format!("---\nmode: primary\n---\n{prompt}\n");
    let places = [
        home.join(".config/opencode/agents"),
        home.join(".opencode/agent"),
        work.join(".opencode/agents"),
        market,
    ];
    for (idx, place) in places.iter().enumerate() {
        // None of the directories exists yet; then one has a file already; then a file is deeper.
        for name in [format!("poet-{idx}"), format!("bard-{idx}"), format!("deep/er/poet-{idx}")] {
            let file = place.join(format!("{name}.md"));
            write(&file, &poet("Speak in rhyme."));
            let (modes, _) = options(&agent, "mode").await;
            assert!(modes.contains(&name), "{name} is not among {modes:?}");
            agent.request("session/set_mode", json!({"sessionId": session, "modeId": name})).await.unwrap();
            options(&agent, "mode").await;
            assert!(system(&agent, &session).await.contains("Speak in rhyme."), "{name}");
            replace(&file, "---\nmode: primary\nname: Renamed\n---\nSpeak in prose.\n");
            options(&agent, "mode").await;
            assert!(system(&agent, &session).await.contains("Speak in prose."), "{name}");
            fs::remove_file(&file).unwrap();
            let (modes, current) = options(&agent, "mode").await;
            assert!(!modes.contains(&name) && current == "build", "{name} is among {modes:?}");
        }
        fs::remove_dir_all(place).unwrap();
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_named_file_that_is_renamed_over_removed_and_made_again_is_followed() {
    let scratch = Scratch::new();
    let named = scratch.root().join("named/it.json");
    write(&named, &with_model("other"));
    let agent = builder(&scratch).env("OPENCODE_CONFIG", named.to_str().unwrap());
    let agent = agent.config(json!({"model": null})).spawn().await.initialized().await;
    agent.new_session().await;
    for _ in 0..2 {
        replace(&named, &with_model("mock"));
        assert_eq!(options(&agent, "model").await.1, "mock/mock");
        replace(&named, &with_model("other"));
        assert_eq!(options(&agent, "model").await.1, "mock/other");
        replace(&named, &with_model("mock"));
        assert_eq!(options(&agent, "model").await.1, "mock/mock");
        fs::remove_dir_all(named.parent().unwrap()).unwrap();
        // The file might have named a model, so no other one takes its place.
        assert_eq!(options(&agent, "model").await.1, "none");
        fs::create_dir(named.parent().unwrap()).unwrap();
    }
    agent.finish().await;
}

#[tokio::test]
async fn instruction_files_that_come_and_go_are_in_the_next_turns() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"instructions": ["docs/*.md", "~/rules/*.md"]}).to_string());
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let files = [
        scratch.work.join("AGENTS.md"),
        scratch.home.join(".config/opencode/AGENTS.md"),
        scratch.work.join("docs/one.md"),
        scratch.work.join("docs/two.md"),
        scratch.home.join("rules/own.md"),
    ];
    for (idx, file) in files.iter().enumerate() {
        let block = format!("Instructions from: {}\nRule {idx}.", file.display());
        assert!(!system(&agent, &session).await.contains(&block));
        write(file, &format!("Rule {idx}."));
        assert!(system(&agent, &session).await.contains(&block), "{}", file.display());
    }
    for (idx, file) in files.iter().enumerate() {
        fs::remove_file(file).unwrap();
        assert!(!system(&agent, &session).await.contains(&format!("Rule {idx}.")), "{}", file.display());
    }
    agent.finish().await;
}

#[tokio::test]
async fn directories_of_skills_that_are_named_later_or_by_a_short_path_are_followed() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", json!({"skills": {"paths": ["own/skills", "~/shared"]}}).to_string());
    read_again(&agent).await;
    for place in [scratch.work.join("own/skills"), scratch.home.join("shared")] {
        for name in ["tea", "coffee"] {
            let file = place.join(name).join("SKILL.md");
            write(&file, &format!("---\nname: {name}\ndescription: Makes {name}.\n---\nDo it.\n"));
            told_command(&agent, name).await;
            read_again(&agent).await;
            assert!(system(&agent, &session).await.contains(&format!("Makes {name}.")));
        }
        fs::remove_dir_all(&place).unwrap();
        told_commands(&agent, |names| !names.iter().any(|name| name == "tea" || name == "coffee")).await;
        read_again(&agent).await;
    }
    agent.finish().await;
}

#[tokio::test]
async fn links_to_directories_are_followed_however_they_come_and_go() {
    let scratch = Scratch::new();
    let (home, work) = (scratch.home.clone(), scratch.work.clone());
    let with_command = |name: &str| json!({"command": {name: {"template": "Do it."}}}).to_string();
    fs::create_dir_all(home.join(".config")).unwrap();
    // Leads nowhere yet.
    symlink(home.join("dot"), home.join(".config/opencode")).unwrap();
    write(&scratch.root().join("shared/command/first.md"), "Do it.");
    symlink("../shared", work.join(".opencode")).unwrap();
    for version in ["v1", "v2"] {
        write(&home.join(version).join("it.json"), &with_command(&format!("json-{version}")));
        write(&home.join(version).join(format!("command/md-{version}.md")), "Do it.");
    }
    symlink("v1", home.join("current")).unwrap();
    symlink(home.join("current/it.json"), work.join("opencode.json")).unwrap();
    symlink(home.join("current"), home.join(".opencode")).unwrap();
    let agent = builder(&scratch).spawn().await.initialized().await;
    agent.new_session().await;
    told_command(&agent, "first").await;

    for name in ["one", "two"] {
        write(&home.join(format!("dot/command/{name}.md")), "Do it.");
        told_command(&agent, name).await;
        fs::remove_dir_all(home.join("dot")).unwrap();
        told_commands(&agent, |names| !names.iter().any(|it| it == name)).await;
        fs::remove_dir_all(scratch.root().join("shared")).unwrap();
        told_commands(&agent, |names| !names.iter().any(|it| it == "first")).await;
        write(&scratch.root().join("shared/command/first.md"), "Do it.");
        told_command(&agent, "first").await;
    }
    for version in ["v2", "v1"] {
        symlink(version, home.join("next")).unwrap();
        fs::rename(home.join("next"), home.join("current")).unwrap();
        let wanted = [format!("json-{version}"), format!("md-{version}")];
        told_commands(&agent, |names| wanted.iter().all(|it| names.contains(it))).await;
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_right_behind_a_change_is_answered_with_it() {
    let scratch = Scratch::new();
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    for idx in 0..3 {
        for model in ["mock", "other"] {
            replace(&scratch.work.join("opencode.json"), &with_model(model));
            assert_eq!(asked_model(&agent, &session).await, model);
        }
        write(&scratch.work.join(format!(".opencode/commands/deep/{idx}/greet.md")), "Greet $1 in Latin.");
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, &format!("/deep/{idx}/greet Bob")).await;
        assert_eq!(agent.llm.last_request().last_user(), "Greet Bob in Latin.");
        fs::remove_dir_all(scratch.work.join(".opencode")).unwrap();
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_tree_of_skills_too_large_to_be_watched_is_read_with_each_turn_and_told() {
    let scratch = Scratch::new();
    let place = scratch.work.join(".opencode/skill");
    let skill = |about: &str| format!("---\nname: tea\ndescription: {about}\n---\nDo it.\n");
    let file = place.join("much/data/tea/deep/SKILL.md");
    write(&file, &skill("Makes tea."));
    for idx in 0..4000 {
        fs::create_dir(place.join(format!("much/data/{idx}"))).unwrap();
    }
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    let notice = agent.wait_update("notice").await;
    let told = format!("{}: holds more than 4000 directories", place.display());
    assert!(notice["description"].as_str().unwrap().starts_with(&told), "{notice}");
    for about in ["Makes coffee.", "Makes water.", "Makes cakes."] {
        fs::write(&file, skill(about)).unwrap();
        assert!(system(&agent, &session).await.contains(about));
    }
    // Directories that are near are watched all the same.
    write(&place.join("near/SKILL.md"), "---\nname: near\ndescription: Near.\n---\nDo it.\n");
    told_command(&agent, "near").await;
    agent.finish().await;
    let (printed, _, code) = Shell::new(&scratch).run(&["config", "check"]).await;
    assert!(printed.contains("holds more than 4000 directories") && code == Some(1), "{printed}");
}

#[tokio::test]
async fn a_file_in_a_directory_that_may_not_be_listed_is_read_with_each_turn() {
    let scratch = Scratch::new();
    let directory = scratch.work.join(".opencode");
    write(&directory.join("opencode.json"), &with_model("mock"));
    let set_mode = |mode: u32| fs::set_permissions(&directory, PermissionsExt::from_mode(mode)).unwrap();
    set_mode(0o311);
    let Some(builder) = unprivileged(&scratch) else { return set_mode(0o755) };
    let agent = builder.config(json!({"model": null})).spawn().await.initialized().await;
    let session = agent.new_session().await;
    for model in ["mock", "other", "mock"] {
        fs::write(directory.join("opencode.json"), with_model(model)).unwrap();
        assert_eq!(asked_model(&agent, &session).await, model);
    }
    set_mode(0o755);
    agent.finish().await;
}
