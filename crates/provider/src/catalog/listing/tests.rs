//! The whole catalog: every provider with its models, the usable ones first, and no key.

use windlass_core::config::{Environment, layers, paths::Paths};
use windlass_protocol::opencode::provider::AllProviders;

use crate::{
    auth::Credentials,
    catalog::{listing, resolve},
};

#[test]
fn every_provider_is_listed_and_the_usable_ones_are_named() {
    let home = tempfile::tempdir().unwrap();
    let json = r#"{"provider": {"own": {"options": {"baseURL": "http://localhost:1", "apiKey": "secret"},
        "models": {"m": {"name": "Mine", "limit": {"context": 10, "output": 5}}}}}}"#;
    std::fs::write(home.path().join("opencode.json"), json).unwrap();
    let environment = Environment {
        trusts_projects: true,
        home: home.path().to_owned(),
        variables: [("ANTHROPIC_API_KEY".to_owned(), "k".to_owned())].into(),
    };
    let paths = Paths::new(&environment);
    let (config, _) = layers::load(&environment, &paths, home.path(), &[], None);
    let (catalog, _) = resolve(&config, &Credentials::default());
    let all: AllProviders = serde_json::from_slice(&listing::encode_all(&config, &catalog).unwrap()).unwrap();
    assert_eq!(all.connected.first().map(String::as_str), Some("own"));
    assert!(all.connected.contains(&"anthropic".to_owned()));
    assert!(all.all.len() > 100, "{}", all.all.len());
    let own = &all.all[0];
    assert_eq!((own.id.as_str(), own.models["m"].name.as_str()), ("own", "Mine"));
    assert_eq!(own.models["m"].api.url, "http://localhost:1");
    assert_eq!(all.default["own"], "m");
    let sonnet = all.all.iter().find(|it| it.id == "anthropic").unwrap();
    assert!(sonnet.models.values().any(|model| !model.variants.is_empty()));
    assert!(!serde_json::to_string(&all).unwrap().contains("secret"));
    let usable = listing::usable(&config, &catalog);
    let ids: Vec<&str> = usable.providers.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, all.connected.iter().map(String::as_str).collect::<Vec<_>>());
}
