//! The whole catalog: every provider with its models, the usable ones first, and no key.

use std::path::Path;

use windlass_core::config::{Config, Environment, layers, paths::Paths};
use windlass_protocol::opencode::provider::AllProviders;

use super::*;
use crate::{auth::Credentials, catalog::resolve};

/// Resolves a configuration and the catalog behind it, with variables.
fn resolved(home: &Path, json: &str, variables: &[(&str, &str)]) -> (Config, Catalog) {
    std::fs::write(home.join("opencode.json"), json).unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment = Environment { trusts_projects: true, home: home.to_owned(), variables };
    let paths = Paths::new(&environment);
    let (config, _) = layers::load(&environment, &paths, home, &[], None);
    let (catalog, _) = resolve(&config, &Credentials::default());
    (config, catalog)
}

const CONFIGURED: &str = r#"{"provider": {"own": {"options": {"baseURL": "http://localhost:1", "apiKey": "secret"},
    "models": {"m": {"name": "Mine", "limit": {"context": 10, "output": 5}}}}}}"#;

#[test]
fn every_provider_is_listed_and_the_usable_ones_are_named() {
    let home = tempfile::tempdir().unwrap();
    let (config, catalog) = resolved(home.path(), CONFIGURED, &[("ANTHROPIC_API_KEY", "k")]);
    let json = EncodedListing::unpack(&encode(&config, &catalog).unwrap().packed).unwrap();
    let all: AllProviders = serde_json::from_slice(&json).unwrap();
    assert_eq!(all.connected.first().map(String::as_str), Some("own"));
    assert!(all.connected.contains(&"anthropic".to_owned()));
    assert!(all.all.len() > 100, "{}", all.all.len());
    let own = &all.all[0];
    assert_eq!((own.id.as_str(), own.models["m"].name.as_str()), ("own", "Mine"));
    assert_eq!(own.models["m"].api.url, "http://localhost:1");
    assert_eq!(all.default["own"], "m");
    let sonnet = all.all.iter().find(|it| it.id == "anthropic").unwrap();
    assert!(sonnet.models.values().any(|model| !model.variants.is_empty()));
    assert!(!String::from_utf8(json).unwrap().contains("secret"));
    let usable = usable(&config, &catalog);
    let ids: Vec<&str> = usable.providers.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, all.connected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn prepared_entries_say_what_would_be_made_of_the_configuration() {
    let home = tempfile::tempdir().unwrap();
    let variables: [&[(&str, &str)]; 5] = [
        &[],
        &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_MODEL", "mine")],
        &[("OPENAI_BASE_URL", "http://localhost:2")],
        &[
            ("GOOGLE_VERTEX_PROJECT", "p"),
            ("GOOGLE_VERTEX_LOCATION", "eu"),
            ("AZURE_RESOURCE_NAME", "r"),
            ("CLOUDFLARE_ACCOUNT_ID", "c"),
            ("AWS_REGION", "eu-central-1"),
        ],
        &[("OPENCODE_ENABLE_EXPERIMENTAL_MODELS", "1")],
    ];
    let configured = r#"{"disabled_providers": ["groq"], "windlass": {"wire": {"deepinfra": "anthropic"}},
        "provider": {"mistral": {"name": "Mine", "blacklist": ["open-mixtral-8x7b"]}}}"#;
    for json in ["{}", CONFIGURED, configured] {
        for variables in variables {
            let (config, catalog) = resolved(home.path(), json, variables);
            let encoded = encode(&config, &catalog).unwrap();
            let text = EncodedListing::unpack(&encoded.packed).unwrap();
            assert_eq!((encoded.n_bytes, encoded.checksum), (text.len() as u64, crc32fast::hash(&text)));
            let shown: AllProviders = serde_json::from_slice(&text).unwrap();
            let table = load(&config);
            let listing =
                Listing { config: &config, catalog: &catalog, listed: table.providers(), table: &table };
            let all: Vec<Provider> = listing.all().into_iter().map(|id| listing.provider(id)).collect();
            let best = |it: &Provider| Some((it.id.clone(), listing.best(&it.id, shown::newest(it))?));
            assert_eq!(shown.default, all.iter().filter_map(best).collect(), "{json} {variables:?}");
            for (one, other) in shown.all.iter().zip(&all) {
                assert_eq!(one, other, "{json} {variables:?}");
            }
            assert_eq!(shown.all.len(), all.len());
        }
    }
}
