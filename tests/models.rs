//! The model that answers: the one that was named, or none, and a sentence that gives the reason and the way out.

use serde_json::{Value, json};

use crate::{
    cli::{Machine, ended},
    support::{
        agent::Agent,
        llm::{Llm, Reply, Wire, provider_config},
        message::content_text,
        scratch::Scratch,
    },
};

/// A name of a model that is not available, and the error about it.
struct Case {
    name: &'static str,
    config: Value,
    environment: &'static [(&'static str, &'static str)],
    says: &'static str,
    is_mended_by_login: bool,
}

/// Returns a configuration with the scripted model, which would answer if another than the named one were
/// asked.
fn with_mock(llm: &Llm, more: Value) -> Value {
    let mut config = provider_config(llm, Wire::OpenAi);
    for (key, value) in more.as_object().unwrap() {
        match (config.get_mut(key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => there.extend(more.clone()),
            (_, value) => config[key] = value.clone(),
        }
    }
    config
}

fn cases() -> Vec<Case> {
    let mut cases = cases_of_a_named_model();
    cases.extend(cases_without_a_model());
    cases
}

/// Returns the cases in which the configuration names the model.
fn cases_of_a_named_model() -> Vec<Case> {
    vec![
        Case {
            is_mended_by_login: true,
            ..case(
                "the configured model has no key",
                json!({"model": "anthropic/claude-sonnet-4-5"}),
                "names anthropic/claude-sonnet-4-5, which cannot be used: there is no key for anthropic; set \
                 ANTHROPIC_API_KEY, or run `windlass auth login --provider anthropic`.",
            )
        },
        Case {
            is_mended_by_login: true,
            ..case(
                "the agent's own model has no key",
                json!({"agent": {"build": {"model": "openai/gpt-5"}}}),
                "`agent.build.model` in ",
            )
        },
        Case {
            is_mended_by_login: true,
            ..case(
                "the small model has no key",
                json!({"small_model": "openai/gpt-5-nano"}),
                "`small_model` in ",
            )
        },
        case("the small model is not known", json!({"small_model": "nonesuch/x"}), "`small_model` in "),
        case(
            "the provider is not known",
            json!({"model": "nobody/nothing"}),
            "there is no provider `nobody`; add it to opencode.json by `\"provider\": {\"nobody\": {\"npm\": ",
        ),
        case(
            "the provider is switched off",
            json!({"disabled_providers": ["mock"]}),
            "`disabled_providers` switches mock off",
        ),
        case(
            "the provider's whitelist leaves the model out",
            json!({"model": "narrow/m", "provider": {"narrow": {
                "api": "http://127.0.0.1:1", "whitelist": ["n"], "models": {"n": {}},
            }}}),
            "the whitelist, blacklist or status under `provider.narrow` leaves it out",
        ),
        Case {
            is_mended_by_login: true,
            environment: &[("DEEPSEEK_API_KEY", "")],
            ..case(
                "the variable of the key is set, but empty",
                json!({"model": "deepseek/deepseek-v4-pro"}),
                "deepseek/deepseek-v4-pro, which cannot be used: DEEPSEEK_API_KEY is set, but empty, so there is no \
                 key for deepseek; put the key there, or run `windlass auth login --provider deepseek`.",
            )
        },
        case("the model's name is none", json!({"model": "sonnet"}), "\"sonnet\" is not a model"),
    ]
}

/// Returns the cases in which the first provider's model is taken.
fn cases_without_a_model() -> Vec<Case> {
    let no_model = |provider: Value| json!({"model": null, "provider": provider});
    vec![
        case(
            "the first provider has no address",
            no_model(json!({"mock": null, "bare": {"models": {"m": {}}}})),
            "`provider.bare` has no address; set `options.baseURL` there",
        ),
        case(
            "the first provider has no models",
            no_model(json!({"mock": null, "bare": {"api": "http://127.0.0.1:1"}})),
            "`provider.bare` has no models; list them under `models` there",
        ),
        case(
            "the first provider's package is not known",
            no_model(json!({"mock": null, "bare": {"npm": "@else/sdk", "models": {"m": {}}}})),
            "the npm package @else/sdk of `provider.bare` is not known; set `windlass.wire.bare`",
        ),
        Case {
            is_mended_by_login: true,
            ..case(
                "the first provider has no key",
                no_model(json!({"mock": null, "openai": {"name": "Ours"}})),
                "there is no key for openai; set OPENAI_API_KEY",
            )
        },
        Case {
            environment: &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")],
            ..case(
                "another server is named without a model",
                no_model(json!({"mock": null, "openai": {}})),
                "OPENAI_BASE_URL is set, but no model; set OPENAI_MODEL",
            )
        },
    ]
}

fn case(name: &'static str, config: Value, says: &'static str) -> Case {
    Case { name, config, environment: &[], says, is_mended_by_login: false }
}

#[tokio::test]
async fn run_ends_with_the_reason_before_anything_is_asked() {
    for Case { name, config, environment, says, .. } in cases() {
        let mut machine = Machine::new().await;
        machine.config = with_mock(&machine.llm, config);
        let mut command = machine.command(&["run", "run touch OOPS"]);
        command.envs(environment.iter().copied());
        let ended = ended(command.spawn().unwrap()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{name}: {ended:?}");
        assert!(ended.stderr.contains(says), "{name}: {}", ended.stderr);
        assert!(machine.llm.requests().is_empty() && machine.llm.title_requests().is_empty(), "{name}");
        assert!(!machine.scratch.work.join("OOPS").exists(), "{name}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn over_acp_a_prompt_is_refused_until_a_model_is_chosen() {
    for Case { name, config, environment, says, is_mended_by_login } in cases() {
        let llm = Llm::start().await;
        let mut config = with_mock(&llm, config);
        // A model that the client chooses has to exist.
        let chosen = provider_config(&llm, Wire::OpenAi)["provider"]["mock"].clone();
        config["provider"]["chosen"] = chosen;
        let builder = Agent::builder().llm(&llm).without_provider().config(config);
        let builder = environment.iter().fold(builder, |builder, (name, value)| builder.env(name, value));
        let agent = builder.start().await;
        let session = agent.new_session().await;
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "run touch OOPS"}]});
        let error = agent.request("session/prompt", prompt).await.unwrap_err();
        assert!(error.message.contains(says), "{name}: {}", error.message);
        assert_eq!(error.code == -32000, is_mended_by_login, "{name}: {error:?}");
        assert!(llm.requests().is_empty() && llm.title_requests().is_empty(), "{name}");
        let choice = json!({"sessionId": session, "configId": "model", "value": "chosen/mock"});
        agent.request("session/set_config_option", choice).await.unwrap();
        llm.reply(Reply::text("chosen"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "chosen", "{name}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_small_model_that_cannot_be_used_is_not_the_current_model() {
    let small = json!({"small_model": "nonesuch/x"});
    // A setting that is broken is no reason to fall back to the demo either.
    let without_model = json!({"small_model": "nonesuch/x", "model": null, "provider": {"mock": null}});
    for (config, current) in [(small, "mock/mock"), (without_model, "none")] {
        let llm = Llm::start().await;
        let builder = Agent::builder().llm(&llm).without_provider().config(with_mock(&llm, config));
        let agent = builder.start().await;
        let opened = agent.request("session/new", agent.session_params()).await.unwrap();
        let model =
            opened["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "model").unwrap();
        assert_eq!(model["currentValue"], current);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_may_have_named_the_model() {
    let mut machine = Machine::new().await;
    machine.config = with_mock(&machine.llm, json!({"model": null}));
    machine.scratch.write("opencode.json", "{\n  \"model\": \"mock/other\",\n  \"agent\": {");
    let ended = machine.run(&["run", "run touch OOPS"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let told = "No model was asked, because `model` may be set there. Correct it";
    let place = format!("{}:3:12: is not valid JSON", machine.scratch.work.join("opencode.json").display());
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with(&place) && last.contains(told), "{}", ended.stderr);
    // The stronger name wins, be it of an option or of a stronger source.
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "-m", "mock/mock", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ok\n"), "{ended:?}");
    machine.config["model"] = "mock/mock".into();
    machine.config["small_model"] = "mock/mock".into();
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ok\n"), "{ended:?}");
    machine.finish().await;
}

/// Checks that a run fails, that standard error begins with the fault of a file and its place, and that it then says
/// everything in `says`.
fn check_fault_comes_first(ended: &crate::cli::Ended, place: &str, says: &[&str]) {
    assert!(ended.code != Some(0) && ended.stdout.is_empty(), "{place}: {ended:?}");
    assert!(ended.stderr.starts_with(place), "{place}: {}", ended.stderr);
    for said in says {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn the_fault_of_a_file_comes_before_the_failure_that_follows_from_it() {
    for (config, says) in [
        (json!({"provider": []}), &["provider: ", "may be meant. Correct it, or choose a model"][..]),
        (json!({"provider": "x"}), &["provider: ", "may be meant. Correct it, or choose a model"]),
        (
            json!({"provider": {"local": "x"}}),
            &["provider.local", "the provider that is left out there may be meant"],
        ),
        (
            json!({"model": "local/m", "provider": {"local": "x"}}),
            &[
                "provider.local",
                "Therefore there is no provider `local`",
                "no model was asked. Correct it, or",
            ],
        ),
        (
            json!({"model": "local/m", "provider": {"local": {"options": {"baseURL": 5}, "models": {"m": {}}}}}),
            &[
                "provider.local.options.baseURL",
                "Therefore `provider.local` has no address",
                "Correct it, or",
            ],
        ),
        (
            json!({"provider": {"local": {"options": {"baseUrl": "http://127.0.0.1:1"}, "models": {"m": {}}}}}),
            &["provider.local.options.baseUrl", "Therefore `provider.local` has no address"],
        ),
        (
            json!({"model": "local/m", "provder": {"local": {}}}),
            &["provder: is not a known key", "Therefore there is no provider `local`"],
        ),
    ] {
        let machine = Machine { config: json!({}), ..Machine::new().await };
        machine.scratch.write("opencode.json", config.to_string());
        let file = machine.scratch.work.join("opencode.json");
        let ended = machine.run(&["run", "go"]).await;
        check_fault_comes_first(&ended, &format!("{}:1:", file.display()), says);
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_provider_that_is_left_out_is_no_matter_where_another_is_named() {
    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", json!({"provider": {"local": "x"}}).to_string());
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ok\n"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn broken_credentials_come_before_the_key_that_is_missing() {
    let config = json!({"model": "anthropic/claude-sonnet-4-5"});
    let says =
        ["Therefore there is no key for anthropic", "Correct it, or set ANTHROPIC_API_KEY, or run `windlass"];
    for name in ["windlass", "opencode"] {
        for (text, fault) in
            [("{", "is not a JSON object"), (r#"{"anthropic": {"type": "api"}}"#, "the entry")]
        {
            let machine = Machine { config: config.clone(), ..Machine::new().await };
            let file = machine.scratch.home.join(".local/share").join(name).join("auth.json");
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            let ended = machine.run(&["run", "go"]).await;
            check_fault_comes_first(&ended, &file.display().to_string(), &[fault, says[0], says[1]]);
            machine.finish().await;
        }
    }
    let machine = Machine { config, ..Machine::new().await };
    let mut command = machine.command(&["run", "go"]);
    command.env("OPENCODE_AUTH_CONTENT", "{bad");
    let ended = ended(command.spawn().unwrap()).await;
    check_fault_comes_first(&ended, "OPENCODE_AUTH_CONTENT:1:", &says);
    machine.finish().await;
}

#[tokio::test]
async fn a_broken_file_of_an_agent_or_command_comes_before_its_name() {
    let machine = Machine::new().await;
    for (kind, arguments) in
        [("agent", &["run", "--agent", "rev", "go"]), ("command", &["run", "--command", "rev", "go"])]
    {
        let file = format!(".opencode/{kind}/rev.md");
        machine.scratch.write(&file, "---\ndescription: [\n---\nReview.\n");
        let ended = machine.run(arguments).await;
        let place = machine.scratch.work.join(&file).display().to_string();
        check_fault_comes_first(&ended, &place, &["Therefore: "]);
    }
    machine.finish().await;
}

#[tokio::test]
async fn rules_of_a_variable_that_cannot_be_read_name_no_model() {
    let machine = Machine { config: json!({}), ..Machine::new().await };
    let named = with_mock(&machine.llm, json!({}));
    machine.scratch.write("opencode.json", named.to_string());
    machine.llm.reply(Reply::text("ok"));
    let mut command = machine.command(&["run", "go"]);
    command.env("OPENCODE_PERMISSION", "{bad");
    let ended = ended(command.spawn().unwrap()).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ok\n"), "{ended:?}");
    assert!(ended.stderr.contains("OPENCODE_PERMISSION:1:"), "{}", ended.stderr);
    machine.finish().await;
}

#[tokio::test]
async fn a_file_that_is_named_and_not_there_may_have_named_the_model() {
    let mut machine = Machine::new().await;
    machine.config = with_mock(&machine.llm, json!({"model": null}));
    let mut command = machine.command(&["run", "go"]);
    command.env("OPENCODE_CONFIG", "nowhere.json");
    let ended = ended(command.spawn().unwrap()).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("nowhere.json: cannot be read"), "{}", ended.stderr);
    machine.finish().await;
}

#[tokio::test]
async fn an_agents_file_that_cannot_be_read_may_have_named_its_model() {
    let machine = Machine::new().await;
    machine.scratch.write(".opencode/agent/build.md", "---\nmodel: [\n---\nBuild.\n");
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("No model was asked, because `agent.build.model` may be set there"),
        "{}",
        ended.stderr
    );
    machine.finish().await;
}

#[tokio::test]
async fn with_nothing_configured_run_says_how_to_get_a_model() {
    let machine = Machine { config: json!({}), ..Machine::new().await };
    std::fs::create_dir(machine.scratch.work.join("build")).unwrap();
    let ended = machine.run(&["run", "run rm -rf build and then rebuild the project"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("No model is configured: set ANTHROPIC_API_KEY"), "{}", ended.stderr);
    assert!(machine.scratch.work.join("build").exists());
    machine.finish().await;
}

#[tokio::test]
async fn an_id_that_the_catalog_does_not_know_goes_through_with_a_note() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "-m", "mock/brand-new", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ok\n"), "{ended:?}");
    let note = "mock/brand-new is not in the catalog; its limits and prices are unknown";
    assert_eq!(ended.stderr.matches(note).count(), 1, "{}", ended.stderr);
    assert_eq!(machine.llm.last_request().body["model"], "brand-new");
    machine.finish().await;
}

#[tokio::test]
async fn a_client_may_choose_an_id_that_the_catalog_does_not_know() {
    let agent = Agent::builder().start().await;
    let session = agent.new_session().await;
    let choice = json!({"sessionId": session, "configId": "model", "value": "mock/brand-new"});
    let options = agent.request("session/set_config_option", choice).await.unwrap();
    let model = options["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "model").unwrap();
    assert_eq!(model["currentValue"], "mock/brand-new");
    let offered = model["options"].as_array().unwrap();
    assert!(offered.iter().any(|it| it["value"] == "mock/brand-new"), "{offered:?}");
    agent.llm.reply(Reply::text("ok"));
    let turn = agent.prompt(&session, "go").await;
    assert!(turn.thoughts().contains("mock/brand-new is not in the catalog"), "{}", turn.thoughts());
    assert_eq!(agent.llm.last_request().body["model"], "brand-new");
    agent.finish().await;
}

#[tokio::test]
async fn a_session_whose_model_went_away_is_not_answered_by_another() {
    let mut machine = Machine::new().await;
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "-m", "mock/other", "go"]).await;
    let mut config = machine.config.clone();
    config["provider"]["new"] = config["provider"]["mock"].take();
    config["provider"].as_object_mut().unwrap().remove("mock");
    config["model"] = "new/mock".into();
    machine.config = config;
    let ended = machine.run(&["run", "--continue", "go on"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("The model mock/other cannot be used: there is no provider `mock`"),
        "{ended:?}"
    );
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "--continue", "-m", "new/other", "go on"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_remembered_model_of_another_directory_is_passed_over() {
    let mut machine = Machine::new().await;
    machine.config = with_mock(&machine.llm, json!({"model": null}));
    let data = machine.scratch.home.join(".local/share/windlass");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("state.json"), r#"{"model": "gone/m"}"#).unwrap();
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ok\n"), "{ended:?}");
    machine.config = json!({});
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.starts_with("No model is configured: set ANTHROPIC_API_KEY"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn without_a_usable_small_model_the_title_is_the_prompts_first_line() {
    let machine = Machine::new().await.with("small_model", "nobody/m".into());
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "-m", "mock/mock", "Fix the rope"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("The title is the first line of the prompt. `small_model` in"),
        "{ended:?}"
    );
    assert!(machine.llm.title_requests().is_empty());
    let list = machine.run(&["session", "list", "--format", "json"]).await;
    assert!(list.stdout.contains("Fix the rope"), "{list:?}");
    machine.finish().await;
}

#[tokio::test]
async fn the_daemons_own_commands_answer_without_a_model() {
    let config = json!({"model": "anthropic/claude-sonnet-4-5"});
    let agent = Agent::builder().without_provider().config(config).start().await;
    let session = agent.new_session().await;
    for command in ["/status", "/models"] {
        let said = agent.prompt(&session, command).await.text();
        assert!(said.contains("there is no key for anthropic"), "{command}: {said}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn the_demo_answers_where_it_is_chosen_and_runs_its_exact_forms_alone() {
    let machine = Machine::new().await;
    let demo = |words: &'static str| ["run", "-m", "windlass/demo", words];
    let ended = machine.run(&demo("run touch OOPS")).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("built-in demo model"), "{ended:?}");
    machine.run(&demo("See:\n/demo run touch OOPS")).await;
    let piped = machine.pipe(&["run", "-m", "windlass/demo"], "/demo run touch OOPS\n").await;
    assert!(piped.stdout.contains("built-in demo model"), "{piped:?}");
    machine.pipe(&demo("/demo run touch OOPS"), "and this").await;
    assert!(!machine.scratch.work.join("OOPS").exists());
    let ended = machine.run(&demo("/demo run touch MEANT")).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(machine.scratch.work.join("MEANT").exists());
    assert!(machine.llm.requests().is_empty() && machine.llm.title_requests().is_empty());
    machine.finish().await;
}

#[tokio::test]
async fn the_demos_command_is_offered_while_it_answers() {
    let agent = Agent::builder().without_provider().start().await;
    let session = agent.new_session().await;
    let commands = |update: &Value| {
        let commands = update["availableCommands"].as_array().unwrap().iter();
        commands.filter(|it| it["name"] == "demo").map(|it| it["input"]["hint"].clone()).collect::<Vec<_>>()
    };
    let hint = json!("tour | read FILE | edit FILE | run COMMAND | plan");
    assert_eq!(commands(&agent.wait_update("available_commands_update").await), [hint]);
    let turn = agent.prompt(&session, "/demo run echo made").await;
    let call = turn.tool(turn.all("tool_call")[0]["toolCallId"].as_str().unwrap());
    assert!(content_text(&call).contains("made"), "{call}");
    agent.finish().await;

    let agent = Agent::builder().start().await;
    let session = agent.new_session().await;
    assert_eq!(commands(&agent.wait_update("available_commands_update").await), Vec::<Value>::new());
    let choice = json!({"sessionId": session, "configId": "model", "value": "windlass/demo"});
    agent.request("session/set_config_option", choice).await.unwrap();
    assert_eq!(commands(&agent.wait_update("available_commands_update").await).len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_the_demo_stood_by_for_goes_on_with_a_real_model() {
    let scratch = Scratch::new();
    let agent = Agent::builder().scratch(&scratch).without_provider().start().await;
    let session = agent.new_session().await;
    agent.prompt(&session, "hello").await;
    agent.finish().await;
    let agent = Agent::builder().scratch(&scratch).start().await;
    let params = json!({"sessionId": session, "cwd": scratch.work, "mcpServers": []});
    agent.request("session/load", params).await.unwrap();
    agent.llm.reply(Reply::text("real"));
    assert_eq!(agent.prompt(&session, "hello").await.text(), "real");
    agent.finish().await;
}

#[tokio::test]
async fn the_default_is_marked_where_models_are_described() {
    let mut machine = Machine::new().await;
    let marked = |ended: &str| ended.matches("\"default\": true").count();
    let ended = machine.run(&["models", "--verbose"]).await;
    let (before, _) = ended.stdout.split_once("\"default\": true").unwrap();
    assert!(before.lines().rfind(|line| line.starts_with("mock/")).unwrap() == "mock/mock", "{ended:?}");
    assert_eq!(marked(&ended.stdout), 1);
    machine.config["model"] = "anthropic/claude-sonnet-4-5".into();
    let ended = machine.run(&["models", "--verbose"]).await;
    assert_eq!((ended.code, marked(&ended.stdout)), (Some(0), 0));
    assert!(ended.stderr.contains("there is no key for anthropic"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_subagent_whose_model_cannot_be_had_is_refused_and_nobody_answers_for_it() {
    let agents = json!({"explore": {"model": "anthropic/claude-haiku-4-5"}});
    let machine = Machine::new().await.with("agent", agents);
    let task = json!({"description": "Look", "prompt": "look", "subagent_type": "explore"});
    machine.llm.reply(Reply::call("call_1", "task", task));
    machine.llm.reply(Reply::text("done"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{ended:?}");
    // The prompt, and the answer that reads the refusal.
    assert_eq!(machine.llm.requests().len(), 2);
    let read = machine.llm.last_request().body.to_string();
    assert!(read.contains("Subagent failed: `agent.explore.model` in "), "{read}");
    assert!(read.contains("there is no key for anthropic"), "{read}");
    machine.finish().await;
}

#[tokio::test]
async fn a_summary_is_never_written_by_another_model_than_the_one_that_was_named() {
    let config = json!({"agent": {"compaction": {"model": "anthropic/claude-haiku-4-5"}}});
    let agent = Agent::builder().config(config).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("said"));
    agent.prompt(&session, "go").await;
    let n_requests = agent.llm.requests().len();
    let error = agent.send_prompt(&session, "/compact").answer().await.unwrap_err();
    assert!(error.message.contains("`agent.compaction.model` in "), "{error:?}");
    assert_eq!((error.code, agent.llm.requests().len()), (-32000, n_requests), "{error:?}");
    agent.finish().await;
}

#[tokio::test]
async fn over_acp_a_session_opens_below_a_broken_file_and_its_prompt_is_refused() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", "{\n  \"small_model\": \"mock/other\",");
    // The model is named more strongly, the one for titles is not.
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert!(
        error.message.contains("No model was asked, because `small_model` may be set there"),
        "{error:?}"
    );
    assert!(error.message.contains("opencode.json:1:1: "), "{error:?}");
    assert!(agent.llm.requests().is_empty() && agent.llm.title_requests().is_empty());
    let choice = json!({"sessionId": session, "configId": "model", "value": "mock/mock"});
    agent.request("session/set_config_option", choice).await.unwrap();
    agent.llm.reply(Reply::text("chosen"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "chosen");
    agent.finish().await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_read_lets_no_other_answer_in_its_place() {
    let mut machine = Machine::new().await;
    machine.config = with_mock(&machine.llm, json!({"model": null}));
    machine.scratch.write("opencode.json", "{\n  \"provider\": {\"mine\": \"http://127.0.0.1:1\"}\n}");
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("opencode.json:2:16: provider.mine: "), "{}", ended.stderr);
    assert!(machine.llm.requests().is_empty());
    machine.llm.reply(Reply::text("ok"));
    assert_eq!(machine.run(&["run", "-m", "mock/mock", "go"]).await.code, Some(0));
    machine.finish().await;
}

#[tokio::test]
async fn an_image_that_a_model_is_not_known_to_take_is_told_to_the_user() {
    let models = json!({"provider": {"mock": {"models": {"blind": {}}}}, "model": "mock/blind"});
    let agent = Agent::builder().config(models).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "see"}, image]});
    agent.request("session/prompt", prompt).await.unwrap();
    let thoughts: Vec<String> =
        agent.updates(&session).iter().map(|it| it["content"]["text"].to_string()).collect();
    let told = thoughts.join("");
    assert!(
        told.contains("mock/blind is not known to take image input")
            && told.contains("provider.mock.models.blind.modalities"),
        "{told}"
    );
    agent.finish().await;
}
