//! The usable models, and the default one.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use windlass_protocol::opencode::{config::AuthEntry, message::ModelRef};

use super::{Catalog, resolve};
use crate::{
    config::{Config, Environment, fixture::load, paths::Paths},
    provider::{Auth, Model, Quirks, Sampling, Secret, Timeouts, Wire, auth::Credentials},
};

fn config(text: &Value, variables: &[(&str, &str)]) -> Config {
    let content = ("OPENCODE_CONFIG_CONTENT".to_owned(), text.to_string());
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let home = Path::new("/nowhere").to_owned();
    let environment = Environment { variables: variables.chain([content]).collect(), home };
    load(&environment, &Paths::new(&environment), Path::new("/nowhere/project"))
}

fn catalog(text: &Value, variables: &[(&str, &str)]) -> Catalog {
    resolve(&config(text, variables), &Credentials::new()).0
}

fn names(catalog: &Catalog) -> Vec<String> {
    let models = catalog.providers.iter().flat_map(|provider| &provider.models);
    models.map(|model| model.reference().to_string()).collect()
}

#[track_caller]
fn check(text: Value, variables: &[(&str, &str)], expected: &[&str], expected_warnings: &[&str]) {
    let (catalog, warnings) = resolve(&config(&text, variables), &Credentials::new());
    assert_eq!(names(&catalog), [expected, &["windlass/demo"]].concat(), "{text}");
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, expected_warnings, "{text}");
}

fn model(text: &Value, variables: &[(&str, &str)], name: &str) -> Model {
    catalog(text, variables).find(&ModelRef::parse(name).unwrap()).unwrap().clone()
}

#[test]
fn providers_with_a_key_are_listed_and_the_demo_is_last() {
    let claude = [
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-sonnet-4-20250514",
        "anthropic/claude-opus-4-5",
        "anthropic/claude-haiku-4-5",
    ];
    let gpt = [
        "openai/gpt-5.2",
        "openai/gpt-5.1",
        "openai/gpt-5-nano",
        "openai/gpt-5-mini",
        "openai/gpt-5",
        "openai/gpt-4o-mini",
        "openai/gpt-4o",
        "openai/gpt-4.1",
    ];
    let both = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
    let all = [&claude[..], &gpt].concat();
    check(json!({}), &[], &[], &[]);
    check(json!({}), &both, &all, &[]);
    check(json!({"provider": {"openai": {"options": {"apiKey": "k"}}}}), &[], &gpt, &[]);
    check(json!({"disabled_providers": ["openai"]}), &both, &claude, &[]);
    check(json!({"enabled_providers": ["openai"]}), &both, &gpt, &[]);
    check(json!({"enabled_providers": []}), &both, &[], &[]);
    check(
        json!({"provider": {"openai": {}, "anthropic": {"whitelist": ["claude-haiku-4-5"]}}}),
        &both,
        &[&gpt[..], &claude[3..]].concat(),
        &[],
    );
    check(
        json!({"provider": {"anthropic": {"blacklist": ["claude-opus-4-5"], "models": {
            "claude-haiku-4-5": {"status": "deprecated"}, "new": {"status": "alpha"}
        }}}}),
        &both[..1],
        &claude[..2],
        &[],
    );
    check(
        json!({"provider": {"openai": {"name": "x"}}}),
        &[],
        &[],
        &["provider.openai: has no key: set OPENAI_API_KEY, log in, or set options.apiKey"],
    );
}

#[test]
fn models_that_are_not_ready_are_listed_on_request() {
    let models = json!({"new": {"status": "alpha"}, "old": {"status": "deprecated"}, "fine": {}});
    let options = json!({"baseURL": "http://127.0.0.1:1", "apiKey": "k"});
    let text = json!({"provider": {"own": {"options": options, "models": models}}});
    let listed = |value: &str| {
        let names = names(&catalog(&text, &[("OPENCODE_ENABLE_EXPERIMENTAL_MODELS", value)]));
        names.into_iter().filter(|name| name.starts_with("own/")).collect::<Vec<_>>()
    };
    assert_eq!(listed("0"), ["own/fine"]);
    let mut all = listed("1");
    all.sort();
    assert_eq!(all, ["own/fine", "own/new"]);
}

#[test]
fn a_server_of_ones_own_needs_an_address_and_models() {
    let url = "http://127.0.0.1:1/v1";
    check(json!({"provider": {"p": {"options": {"baseURL": url}, "models": {"m": {}}}}}), &[], &["p/m"], &[]);
    check(json!({"provider": {"p": {"api": url, "models": {"m": {}}}}}), &[], &["p/m"], &[]);
    check(
        json!({
            "provider": {"p": {"npm": "@else/sdk", "api": url, "models": {"m": {}}}},
            "windlass": {"wire": {"p": "responses"}},
        }),
        &[],
        &["p/m"],
        &[],
    );
    check(
        json!({"provider": {"p": {"npm": "@else/sdk", "models": {"m": {}, "n": {}}}}}),
        &[],
        &[],
        &["provider.p: npm package @else/sdk is not known; name its protocol under `windlass.wire`"],
    );
    check(
        json!({"provider": {"p": {"models": {"m": {}, "n": {}}}}}),
        &[],
        &[],
        &["provider.p: has no address: set options.baseURL"],
    );
    check(
        json!({"provider": {"p": {"api": url}}}),
        &[],
        &[],
        &["provider.p: has no models: list them under `models`"],
    );
    let own = [("OPENAI_BASE_URL", url)];
    check(json!({"provider": {"openai": {"models": {"m": {}}}}}), &own, &["openai/m"], &[]);
    check(json!({}), &[own[0], ("OPENAI_MODEL", "x/y")], &["openai/x/y"], &[]);
    check(json!({}), &own, &[], &[]);
}

#[test]
fn a_model_takes_everything_from_its_configuration() {
    let text = json!({"provider": {"p": {
        "name": "P",
        "env": ["P_KEY"],
        "options": {
            "baseURL": "http://${HOST}/v1//", "headers": {"A": "1", "B": "1"},
            "timeout": 1000, "headerTimeout": 2000, "chunkTimeout": 3000,
        },
        "models": {
            "m": {
                "id": "vendor-m", "name": "M", "limit": {"context": 1000, "output": 10},
                "cost": {"input": 1.5, "output": 2.0}, "modalities": {"input": ["text", "image", "pdf"]},
                "temperature": true, "tool_call": false, "options": {"effort": "low"},
                "headers": {"b": "2"}, "provider": {"npm": "@ai-sdk/anthropic"},
            },
            "plain": {"attachment": true},
        },
    }}});
    let variables = [("HOST", "h"), ("P_KEY", "secret")];
    let full = model(&text, &variables, "p/m");
    let second = Duration::from_secs(1);
    let expected = Model {
        provider_id: "p".to_owned(),
        provider_name: "P".to_owned(),
        id: "m".to_owned(),
        api_id: "vendor-m".to_owned(),
        name: "M".to_owned(),
        wire: Wire::Anthropic,
        base_url: "http://h/v1".to_owned(),
        api_key: Some(Secret("secret".to_owned())),
        auth: Auth::Header("x-api-key"),
        quirks: Quirks::default(),
        headers: vec![("A".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())],
        limit: serde_json::from_value(json!({"context": 1000, "output": 10})).unwrap(),
        cost: serde_json::from_value(json!({"input": 1.5, "output": 2.0})).unwrap(),
        takes_images: true,
        takes_pdf: true,
        takes_tools: false,
        takes_temperature: true,
        reasons: false,
        sampling: Sampling::default(),
        options: json!({"effort": "low"}).as_object().unwrap().clone(),
        variants: Vec::new(),
        timeouts: Timeouts { headers: 2 * second, chunk: 3 * second, total: Some(second) },
    };
    assert_eq!(full, expected);
    let plain = model(&text, &variables, "p/plain");
    assert_eq!(
        (plain.wire, plain.api_id.as_str(), plain.limit.context, plain.takes_images, plain.takes_tools),
        (Wire::OpenAiChat, "plain", 0, true, true)
    );
}

#[test]
fn the_configuration_overrides_built_in_models() {
    let text = json!({"provider": {"anthropic": {
        "options": {"baseURL": "http://proxy/v1/"},
        "models": {"claude-haiku-4-5": {"name": "Small"}},
    }}});
    let small = model(&text, &[], "anthropic/claude-haiku-4-5");
    assert_eq!(
        (small.name.as_str(), small.base_url.as_str(), small.limit.context, small.api_key),
        ("Small", "http://proxy/v1", 200_000, None)
    );
}

#[test]
fn keys_come_from_the_configuration_then_logins_then_the_environment() {
    let entry = AuthEntry::Api { key: "login".to_owned() };
    let credentials = Credentials::from([("openai".to_owned(), entry)]);
    let key = |text: Value, credentials: &Credentials| {
        let (catalog, _) = resolve(&config(&text, &[("OPENAI_API_KEY", "environment")]), credentials);
        catalog.providers[0].models[0].api_key.clone().map(|Secret(key)| key).unwrap_or_default()
    };
    let configured = json!({"provider": {"openai": {"options": {"apiKey": "configured"}}}});
    let empty = json!({"provider": {"openai": {"options": {"apiKey": ""}}}});
    assert_eq!(key(configured, &credentials), "configured");
    assert_eq!(key(empty, &credentials), "login");
    assert_eq!(key(json!({}), &Credentials::new()), "environment");
}

#[test]
fn the_best_is_that_of_the_first_provider_that_is_meant() {
    let key = [("ANTHROPIC_API_KEY", "k")];
    let best = |text: Value, variables: &[(&str, &str)]| match catalog(&text, variables).best() {
        Ok(model) => model.reference().to_string(),
        Err(reason) => reason.to_string(),
    };
    assert_eq!(best(json!({}), &key), "anthropic/claude-sonnet-4-5");
    let local =
        json!({"provider": {"local": {"api": "http://h", "models": {"a": {}, "b-latest": {}, "c": {}}}}});
    assert_eq!(best(local, &key), "local/b-latest");
    let nothing = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, run `windlass auth login`, or describe a `provider` in \
                   opencode.json";
    assert_eq!(best(json!({}), &[]), nothing);
    assert_eq!(best(json!({"disabled_providers": ["openai"]}), &[]), nothing);
    // A provider that is described is meant, not another one.
    assert_eq!(
        best(json!({"provider": {"local": {"models": {"a": {}}}}}), &key),
        "`provider.local` has no address; set `options.baseURL` there"
    );
    assert_eq!(
        best(json!({"provider": {"local": {"npm": "@else/sdk", "models": {"a": {}}}}}), &key),
        "the npm package @else/sdk of `provider.local` is not known; set `windlass.wire.local` to the protocol that it \
         speaks: \"chat\", \"responses\", \"anthropic\" or \"google\""
    );
    assert_eq!(
        best(json!({"provider": {"local": {"api": "http://h"}}}), &key),
        "`provider.local` has no models; list them under `models` there"
    );
    assert_eq!(
        best(json!({"provider": {"openai": {"name": "x"}}}), &key),
        "there is no key for openai; set OPENAI_API_KEY, or run `windlass auth login --provider openai`"
    );
    assert_eq!(
        best(json!({}), &[("OPENAI_BASE_URL", "http://h")]),
        "OPENAI_BASE_URL is set, but no model; set OPENAI_MODEL, or list `provider.openai.models`"
    );
    assert_eq!(
        best(json!({"disabled_providers": ["anthropic"]}), &key),
        "`disabled_providers` switches anthropic off; change that list"
    );
}

#[test]
fn an_unknown_id_goes_through_to_a_known_provider_unless_the_configuration_leaves_it_out() {
    let get = |text: Value, name: &str| {
        let got = catalog(&text, &[("ANTHROPIC_API_KEY", "k")]).get(&ModelRef::parse(name).unwrap());
        got.map(|model| (model.reference().to_string(), model.base_url, model.limit.context))
    };
    let url = "https://api.anthropic.com/v1".to_owned();
    assert_eq!(get(json!({}), "anthropic/new"), Ok(("anthropic/new".to_owned(), url, 0)));
    let bare = json!({"provider": {"p": {"api": "http://h"}}});
    assert_eq!(get(bare, "p/m"), Ok(("p/m".to_owned(), "http://h".to_owned(), 0)));
    let refused = |text: Value, name: &str| get(text, name).unwrap_err().to_string();
    let own = |key: &str| json!({"provider": {"anthropic": {key: ["claude-opus-4-5"]}}});
    assert!(refused(own("whitelist"), "anthropic/new").contains("whitelist"));
    assert!(refused(own("blacklist"), "anthropic/claude-opus-4-5").contains("blacklist"));
    assert!(get(own("blacklist"), "anthropic/new").is_ok());
    let old = json!({"provider": {"anthropic": {"models": {"old": {"status": "deprecated"}}}}});
    assert!(refused(old, "anthropic/old").contains("status"));
    assert_eq!(
        refused(json!({}), "nobody/m"),
        "there is no provider `nobody`; add it to opencode.json by `\"provider\": {\"nobody\": {\"npm\": \
         \"@ai-sdk/openai-compatible\", \"options\": {\"baseURL\": \"https://…/v1\"}, \"models\": {\"m\": {}}}}`"
    );
    assert!(
        refused(json!({}), "anthropc/claude-opus-4-5").contains("did you mean anthropic/claude-opus-4-5")
    );
    assert!(refused(json!({}), "openai/gpt-5").contains("OPENAI_API_KEY"));
    assert_eq!(
        refused(json!({}), "windlass/dem"),
        "windlass has no such model (did you mean windlass/demo?)"
    );
}

#[test]
fn the_small_model_is_the_providers_small_family() {
    let small = |text: Value, variables: &[(&str, &str)]| {
        let catalog = catalog(&text, variables);
        let main = catalog.best().unwrap_or_else(|_| catalog.demo().clone());
        catalog.small_model(&main).reference().to_string()
    };
    assert_eq!(small(json!({}), &[("ANTHROPIC_API_KEY", "k")]), "anthropic/claude-haiku-4-5");
    assert_eq!(small(json!({}), &[("OPENAI_API_KEY", "k")]), "openai/gpt-5-nano");
    assert_eq!(small(json!({}), &[]), "windlass/demo");
    let local = json!({"provider": {"local": {"api": "http://h", "models": {"a": {}}}}});
    assert_eq!(small(local, &[]), "local/a");
}

#[test]
fn a_wrong_name_is_answered_with_similar_names() {
    let catalog = catalog(&json!({}), &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")]);
    let suggest = |name: &str| catalog.suggest(&ModelRef::parse(name).unwrap());
    assert_eq!(suggest("anthropic/claude-sonet-4-5")[0], "anthropic/claude-sonnet-4-5");
    assert_eq!(suggest("openai/gpt5")[0], "openai/gpt-5");
    assert_eq!(suggest("any/gpt-5").len(), 3);
    assert_eq!(suggest("any/gpt-5")[0], "openai/gpt-5");
    assert_eq!(suggest("x/entirely-different"), Vec::<String>::new());
    check(
        json!({"model": "anthropic/claude-haiku-4.5", "provider": {"anthropic": {"whitelist": ["claude-haiku-4-5"]}}}),
        &[("ANTHROPIC_API_KEY", "k")],
        &["anthropic/claude-haiku-4-5"],
        &["model: anthropic/claude-haiku-4.5 cannot be used: the whitelist, blacklist or status under \
           `provider.anthropic` leaves it out; change it there (did you mean anthropic/claude-haiku-4-5?)"],
    );
}
