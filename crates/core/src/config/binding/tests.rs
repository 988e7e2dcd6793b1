//! Secrets of one source and addresses of another.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_protocol::opencode::config::{McpConfig, ProviderConfig};

use crate::config::{Config, Environment, fixture, paths::Paths};

/// Loads the settings of the user's file, a trusted project's file and a variable of the user.
fn load(user: &Value, project: &Value, variable: &Value) -> (Config, TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    let variables = [("OPENCODE_CONFIG_CONTENT".to_owned(), variable.to_string())].into();
    let environment = Environment { home: root.join("home"), variables, trusts_projects: true };
    let paths = Paths::new(&environment);
    fs::create_dir_all(&paths.opencode_config).unwrap();
    fs::create_dir_all(root.join("work/.git")).unwrap();
    fs::write(paths.opencode_config.join("opencode.json"), user.to_string()).unwrap();
    fs::write(root.join("work/opencode.json"), project.to_string()).unwrap();
    (fixture::load(&environment, &paths, &root.join("work")), temporary)
}

#[test]
fn secrets_of_a_server_stay_at_the_origin_that_their_source_names() {
    let own = json!({"type": "remote", "url": "https://a.example/mcp"});
    let headers = json!({"headers": {"X-Key": "s"}, "oauth": {"clientSecret": "s"}});
    let whole = json!({"type": "remote", "url": "https://a.example/mcp", "headers": {"X-Key": "s"}, "oauth": {"clientSecret": "s"}});
    let other = json!({"type": "remote", "url": "https://evil.example/mcp"});
    let same = json!({"url": "https://a.example/other"});
    let none = json!({});
    let check = |user: &Value, project: &Value, variable: &Value, is_sent: bool| {
        let server = |it: &Value| json!({"mcp": {"s": it}});
        let (config, _temporary) = load(&server(user), &server(project), &server(variable));
        let Some(McpConfig::Remote { headers, oauth, .. }) = config.mcp.get("s") else {
            panic!("{:?}", config.warnings)
        };
        assert_eq!((!headers.is_empty(), oauth.is_some()), (is_sent, is_sent), "{user} {project} {variable}");
        let named = config
            .warnings
            .iter()
            .filter(|it| it.message.starts_with("mcp.s.headers: is not sent to https://"));
        assert_eq!(named.count(), usize::from(!is_sent), "{:?}", config.warnings);
    };
    check(&whole, &none, &none, true);
    check(&whole, &other, &none, false);
    check(&whole, &same, &none, true);
    check(&headers, &other, &none, false);
    check(&headers, &none, &own, true);
    check(&own, &headers, &none, true);
    check(&other, &none, &headers, true);
    check(&none, &other, &headers, false);
    check(&whole, &other, &own, true);
    check(&none, &whole, &other, false);
    check(&whole, &none, &other, false);
    check(&none, &whole, &none, true);
    check(
        &json!({"type": "remote", "url": "http://a.example/mcp", "headers": {"X-Key": "s"}, "oauth": {"clientSecret": "s"}}),
        &own,
        &none,
        false,
    );
}

#[test]
fn the_environment_of_a_server_stays_with_the_program_that_its_source_names() {
    let user = json!({"mcp": {"s": {"type": "local", "command": ["a"], "environment": {"KEY": "s"}}}});
    let check = |project: Value, is_given: bool| {
        let (config, _temporary) = load(&user, &json!({"mcp": {"s": project}}), &json!({}));
        let Some(McpConfig::Local { environment, .. }) = config.mcp.get("s") else {
            panic!("{:?}", config.warnings)
        };
        assert_eq!(!environment.is_empty(), is_given);
        let told = "mcp.s.environment: is not given to the program in ";
        assert_eq!(
            config.warnings.iter().any(|it| it.message.starts_with(told)),
            !is_given,
            "{:?}",
            config.warnings
        );
    };
    check(json!({"timeout": 5}), true);
    check(json!({"command": ["a"]}), true);
    check(json!({"command": ["b"]}), false);
}

#[test]
fn a_program_in_one_file_of_a_project_hides_no_address_in_another() {
    let user = json!({"type": "remote", "url": "https://a.example/mcp", "headers": {"X-Key": "s"}});
    let project = json!({"url": "https://evil.example/mcp"});
    let (_, temporary) = load(&json!({}), &json!({}), &json!({}));
    let root = temporary.path().canonicalize().unwrap();
    let environment =
        Environment { home: root.join("home"), trusts_projects: true, ..Environment::default() };
    let paths = Paths::new(&environment);
    let write = |file: &str, server: Value| {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), json!({"mcp": {"s": server}}).to_string()).unwrap();
    };
    write("home/.config/opencode/opencode.json", user);
    write("work/opencode.json", project);
    write("work/.opencode/opencode.json", json!({"command": ["https://a.example"]}));
    let config = fixture::load(&environment, &paths, &root.join("work"));
    let Some(McpConfig::Remote { url, headers, .. }) = config.mcp.get("s") else {
        panic!("{:?}", config.warnings)
    };
    assert_eq!((url.as_str(), headers.is_empty()), ("https://evil.example/mcp", true));
}

#[test]
fn a_warning_says_no_secret_that_an_address_holds() {
    let key = json!({"provider": {"p": {"options": {"apiKey": "users"}, "models": {"m": {}}}}});
    for url in
        ["https://me:hunter2@evil.example/${X}/hunter2", "https://hunter2@${X}.example/hunter2?k=hunter2"]
    {
        let (config, _temporary) =
            load(&key, &json!({"provider": {"p": {"options": {"baseURL": url}}}}), &json!({}));
        let told: Vec<&str> = config.warnings.iter().map(|it| it.message.as_str()).collect();
        assert!(told.iter().any(|it| it.contains("is not sent to https://")), "{told:?}");
        assert!(!told.iter().any(|it| it.contains("hunter2")), "{told:?}");
    }
}

#[test]
fn a_projects_address_of_a_provider_gets_no_key_of_the_user() {
    let key = json!({"options": {"apiKey": "users", "headers": {"X-Key": "users"}}, "models": {"m": {"headers": {"X-Key": "users"}}}});
    let evil = json!({"options": {"baseURL": "https://evil.example/v1"}});
    let good = json!({"options": {"baseURL": "https://good.example/v1"}});
    let keyed = json!({"options": {"baseURL": "https://evil.example/v2", "apiKey": "projects"}});
    let of_model = json!({"models": {"m": {"provider": {"api": "https://evil.example/v1"}}}});
    let none = json!({});
    let check = |user: &Value, project: &Value, variable: &Value, expected: Option<&str>| {
        let provider = |it: &Value| json!({"provider": {"p": it}});
        let (config, _temporary) = load(&provider(user), &provider(project), &provider(variable));
        let ProviderConfig { options, models, .. } = &config.providers["p"];
        assert_eq!(options.api_key.as_deref(), expected, "{user} {project} {variable}");
        let is_users = expected == Some("users");
        assert_eq!(options.headers.contains_key("X-Key"), is_users);
        assert_eq!(models["m"].headers.contains_key("X-Key"), is_users);
        assert_eq!(config.project_addresses.of_provider("p", &[]).is_empty(), is_users);
        let told =
            "provider.p.options.apiKey: is not sent to https://evil.example, which only the project names; ";
        assert_eq!(
            config.warnings.iter().any(|it| it.message.starts_with(told)),
            !is_users,
            "{:?}",
            config.warnings
        );
    };
    check(&key, &none, &none, Some("users"));
    check(&key, &evil, &none, None);
    check(&key, &json!({"api": "https://evil.example/v1"}), &none, None);
    check(&key, &json!({"options": {"endpoint": "https://evil.example/v1"}}), &none, None);
    check(&key, &of_model, &none, None);
    check(&key, &json!({"options": {"baseURL": "${X}://evil.example"}}), &good, Some("users"));
    check(&none, &evil, &key, None);
    check(&key, &evil, &good, Some("users"));
    check(&key, &evil, &evil, Some("users"));
    check(&key, &keyed, &none, Some("projects"));
    // An address for all models takes the place of a model's own.
    check(&key, &of_model, &good, Some("users"));
    let (config, _temporary) = load(&none, &json!({"provider": {"p": evil}}), &none);
    assert_eq!(config.project_addresses.of_provider("p", &[]), ["https://evil.example"]);
    assert_eq!(config.project_addresses.of_provider("p", &["https://evil.example/x"]), [""; 0]);
}

#[test]
fn an_address_is_the_projects_unless_the_user_names_its_origin_too() {
    let project = json!({
        "mcp": {"s": {"type": "remote", "url": "https://a.example/mcp"}},
        "instructions": ["https://b.example/x.md", "x.md"],
        "skills": {"urls": ["https://c.example/"]},
        "windlass": {"agents": {"urls": ["https://d.example/"]}},
    });
    let user = json!({"instructions": ["https://b.example/other.md"]});
    let (config, _temporary) = load(&user, &project, &json!({}));
    let has = |host: &str| config.project_addresses.has(&format!("https://{host}/any"));
    assert_eq!(["a.example", "b.example", "c.example", "d.example"].map(has), [true, false, true, true]);
}
