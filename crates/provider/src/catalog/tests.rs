//! The usable models, and the default one.

mod every_row;
mod recorded;

use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

use serde_json::{Map, Value, json};
use windlass_core::config::{Config, Environment, fixture::load, paths::Paths};
use windlass_protocol::opencode::{config::AuthEntry, model_ref::ModelRef};

use super::{Catalog, packages, resolve};
use crate::{Auth, Exchange, Model, Quirk, Quirks, Sampling, Secret, Timeouts, Wire, auth::Credentials};

fn config(text: &Value, variables: &[(&str, &str)]) -> Config {
    let content = ("OPENCODE_CONFIG_CONTENT".to_owned(), text.to_string());
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let home = Path::new("/nowhere").to_owned();
    let environment =
        Environment { trusts_projects: true, variables: variables.chain([content]).collect(), home };
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
    let check = |text: Value, variables: &[(&str, &str)], expected: &[&str]| {
        let (catalog, warnings) = resolve(&config(&text, variables), &Credentials::new());
        let ids: Vec<&str> = catalog.providers.iter().map(|provider| provider.id.as_str()).collect();
        assert_eq!(ids, [expected, &["windlass"]].concat(), "{text}");
        assert_eq!(warnings, []);
    };
    let both = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
    check(json!({}), &[], &[]);
    check(json!({}), &both, &["anthropic", "openai"]);
    check(json!({"provider": {"openai": {"options": {"apiKey": "k"}}}}), &[], &["openai"]);
    check(json!({"disabled_providers": ["openai"]}), &both, &["anthropic"]);
    check(json!({"enabled_providers": ["openai"]}), &both, &["openai"]);
    check(json!({"enabled_providers": []}), &both, &[]);
    check(json!({"provider": {"openai": {}}}), &both, &["openai", "anthropic"]);
    // Any of a provider's names serves, and each provider of a shared name is there.
    check(json!({}), &[("GEMINI_API_KEY", "k")], &["google"]);
    check(
        json!({}),
        &[("ZHIPU_API_KEY", "k")],
        &["zai", "zai-coding-plan", "zhipuai", "zhipuai-coding-plan"],
    );
    // Set but empty is not set; and parts of an address are no keys.
    check(json!({}), &[("DEEPSEEK_API_KEY", "")], &[]);
    check(
        json!({}),
        &[("AWS_SECRET_ACCESS_KEY", "k"), ("AZURE_RESOURCE_NAME", "r"), ("GITHUB_TOKEN", "t")],
        &[],
    );
}

#[test]
fn the_page_about_providers_names_every_package() {
    let page = include_str!("../../../../docs/providers.md");
    let absent = packages::PACKAGES.iter().map(|it| it.npm).filter(|npm| !page.contains(&format!("`{npm}`")));
    assert_eq!(absent.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn lists_choose_among_the_models_of_the_catalog() {
    let narrow = |key: &str, ids: &[&str]| {
        let text = json!({"provider": {"anthropic": {key: ids, "models": {
            "claude-haiku-4-5": {"status": "deprecated"}, "new": {"status": "alpha"}, "own": {},
        }}}});
        names(&catalog(&text, &[("ANTHROPIC_API_KEY", "k")]))
    };
    let listed = narrow("whitelist", &["claude-opus-5", "claude-haiku-4-5", "own"]);
    assert_eq!(listed, ["anthropic/claude-opus-5", "anthropic/own", "windlass/demo"]);
    let others = narrow("blacklist", &["claude-opus-5"]);
    assert!(others.contains(&"anthropic/claude-opus-4-8".to_owned()), "{others:?}");
    for absent in ["claude-opus-5", "claude-haiku-4-5", "new"] {
        assert!(!others.contains(&format!("anthropic/{absent}")), "{absent}");
    }
    check(
        json!({"provider": {"openai": {"name": "x"}}}),
        &[],
        &[],
        &["provider.openai: has no key: set OPENAI_API_KEY, log in, or set options.apiKey"],
    );
}

#[test]
fn the_default_is_a_flagship_that_calls_tools() {
    let best = |variable: &str| {
        let catalog = catalog(&json!({}), &[(variable, "k")]);
        let best = catalog.best().unwrap();
        (best.reference().to_string(), catalog.small_model(&best).id.clone())
    };
    let expected = [
        ("ANTHROPIC_API_KEY", "anthropic/claude-opus-5-5", "claude-haiku-4-5"),
        ("OPENAI_API_KEY", "openai/gpt-6-sol", "gpt-5.4-nano"),
        ("GEMINI_API_KEY", "google/gemini-3.8-flash", "gemini-3.8-flash"),
        ("OPENROUTER_API_KEY", "openrouter/anthropic/claude-opus-5.5", "google/gemini-3.8-flash"),
        ("XAI_API_KEY", "xai/grok-4.7", "grok-4.7"),
        ("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-pro", "deepseek-v4-pro"),
        ("MISTRAL_API_KEY", "mistral/mistral-medium-latest", "mistral-medium-latest"),
        ("MOONSHOT_API_KEY", "moonshotai/kimi-k3", "kimi-k3"),
    ];
    for (variable, model, small) in expected {
        assert_eq!(best(variable), (model.to_owned(), small.to_owned()));
    }
}

/// Returns the wire, the address and the place of the key.
fn place(variables: &[(&str, &str)], name: &str) -> (Wire, String, Auth) {
    let model = catalog(&json!({}), variables).get(&ModelRef::parse(name).unwrap()).unwrap();
    (model.wire, model.base_url, model.auth)
}

const AZURE: [(&str, &str); 2] = [("AZURE_RESOURCE_NAME", "res"), ("AZURE_API_KEY", "k")];
const ZEN: [(&str, &str); 1] = [("OPENCODE_API_KEY", "k")];
const VERTEX: [(&str, &str); 2] = [("GOOGLE_CLOUD_PROJECT", "p"), ("CLOUDSDK_AUTH_ACCESS_TOKEN", "t")];

/// Variables, a model, its wire, its address and the place of its key.
type Variables = &'static [(&'static str, &'static str)];

const PLACES: [(Variables, &str, Wire, &str, Auth); 17] = [
    (
        &[("ANTHROPIC_API_KEY", "k")],
        "anthropic/claude-opus-5",
        Wire::Anthropic,
        "https://api.anthropic.com/v1",
        Auth::Header("x-api-key"),
    ),
    (
        &[("OPENAI_API_KEY", "k")],
        "openai/gpt-6-sol",
        Wire::OpenAiResponses,
        "https://api.openai.com/v1",
        Auth::Bearer,
    ),
    (
        &AZURE,
        "azure/gpt-5.4",
        Wire::OpenAiResponses,
        "https://res.openai.azure.com/openai/v1?api-version=v1",
        Auth::Header("api-key"),
    ),
    (
        &AZURE,
        "azure/claude-opus-5",
        Wire::Anthropic,
        "https://res.services.ai.azure.com/anthropic/v1",
        Auth::Header("x-api-key"),
    ),
    (
        &[("GOOGLE_API_KEY", "k")],
        "google/gemini-2.5-pro",
        Wire::Google,
        "https://generativelanguage.googleapis.com/v1beta",
        Auth::Header("x-goog-api-key"),
    ),
    (
        &VERTEX,
        "google-vertex/gemini-3.8-flash",
        Wire::Google,
        "https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-central1/publishers/google",
        Auth::Bearer,
    ),
    (
        &[("OPENROUTER_API_KEY", "k")],
        "openrouter/z-ai/glm-5.3-prime",
        Wire::OpenAiChat,
        "https://openrouter.ai/api/v1",
        Auth::Bearer,
    ),
    (&[("XAI_API_KEY", "k")], "xai/grok-4.7", Wire::OpenAiResponses, "https://api.x.ai/v1", Auth::Bearer),
    (
        &[("GROQ_API_KEY", "k")],
        "groq/openai/gpt-oss-120b",
        Wire::OpenAiChat,
        "https://api.groq.com/openai/v1",
        Auth::Bearer,
    ),
    (
        &[("DEEPSEEK_API_KEY", "k")],
        "deepseek/deepseek-v4-pro",
        Wire::OpenAiChat,
        "https://api.deepseek.com",
        Auth::Bearer,
    ),
    (
        &[("MINIMAX_API_KEY", "k")],
        "minimax/MiniMax-M3",
        Wire::Anthropic,
        "https://api.minimax.io/anthropic/v1",
        Auth::Header("x-api-key"),
    ),
    (&ZEN, "opencode/gpt-6-sol", Wire::OpenAiResponses, "https://opencode.ai/zen/v1", Auth::Bearer),
    (
        &ZEN,
        "opencode/claude-opus-5-5",
        Wire::Anthropic,
        "https://opencode.ai/zen/v1",
        Auth::Header("x-api-key"),
    ),
    (
        &ZEN,
        "opencode/gemini-3.8-flash",
        Wire::Google,
        "https://opencode.ai/zen/v1",
        Auth::Header("x-goog-api-key"),
    ),
    (
        &[("CLOUDFLARE_ACCOUNT_ID", "acc"), ("CLOUDFLARE_API_KEY", "k")],
        "cloudflare-workers-ai/@cf/zai-org/glm-5.3",
        Wire::OpenAiChat,
        "https://api.cloudflare.com/client/v4/accounts/acc/ai/v1",
        Auth::Bearer,
    ),
    (
        &[("DATABRICKS_HOST", "h.example"), ("DATABRICKS_TOKEN", "k")],
        "databricks/databricks-claude-opus-4-7",
        Wire::OpenAiChat,
        "https://h.example/ai-gateway/mlflow/v1",
        Auth::Bearer,
    ),
    (
        &[("CLOUDFLARE_API_TOKEN", "t"), ("CLOUDFLARE_ACCOUNT_ID", "acc"), ("CLOUDFLARE_GATEWAY_ID", "gw")],
        "cloudflare-ai-gateway/anthropic/claude-opus-5.5",
        Wire::OpenAiChat,
        "https://gateway.ai.cloudflare.com/v1/acc/gw/compat",
        Auth::BearerIn("cf-aig-authorization"),
    ),
];

#[test]
fn each_provider_has_its_address_and_its_place_for_the_key() {
    for (variables, name, wire, url, auth) in PLACES {
        assert_eq!(place(variables, name), (wire, url.to_owned(), auth), "{name}");
    }
    let lack = |variables: &[(&str, &str)], name: &str| {
        catalog(&json!({}), variables).get(&ModelRef::parse(name).unwrap()).unwrap_err().to_string()
    };
    assert_eq!(
        lack(&AZURE[1..], "azure/gpt-5.4"),
        "the address of azure needs AZURE_RESOURCE_NAME; set that variable, or `options.baseURL`"
    );
    assert!(lack(&[("AIHUBMIX_API_KEY", "k")], "aihubmix/x").contains("windlass.wire.aihubmix"));
    assert!(lack(&[], "google/gemini-3.8-flash").contains("set GOOGLE_GENERATIVE_AI_API_KEY"));
}

#[test]
fn copilot_serves_newer_gpts_by_responses() {
    let text = json!({"provider": {"github-copilot": {"options": {"apiKey": "k"}}}});
    let wire = |id: &str| model(&text, &[], &format!("github-copilot/{id}")).wire;
    assert_eq!(wire("gpt-6-sol"), Wire::OpenAiResponses);
    assert_eq!(wire("grok-4.7"), Wire::OpenAiChat);
    assert_eq!(wire("claude-opus-5.5"), Wire::Anthropic);
}

/// Returns the models of one provider as a login finds them.
fn logged_in(provider: &str, instance: Option<&str>, text: &Value) -> Vec<Model> {
    let entry = AuthEntry::Oauth {
        refresh: "r".to_owned(),
        access: "a".to_owned(),
        expires: 0,
        account_id: None,
        enterprise_url: instance.map(str::to_owned),
        extra: Map::new(),
    };
    let credentials = Credentials::from([(provider.to_owned(), entry)]);
    let (catalog, _) = resolve(&config(text, &[]), &credentials);
    let found = catalog.providers.into_iter().find(|it| it.id == provider);
    found.map(|it| it.models).unwrap_or_default()
}

#[test]
fn a_chatgpt_login_has_the_models_and_the_address_of_its_plan() {
    let models = logged_in("openai", None, &json!({}));
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    for id in ["gpt-6-sol", "gpt-5.5", "gpt-5.6-sol", "gpt-5.4", "gpt-5.4-mini", "gpt-5.3-codex-spark"] {
        assert!(ids.contains(&id), "{id} of {ids:?}");
    }
    for id in ["gpt-5.5-pro", "gpt-5.6", "gpt-5.4-pro", "gpt-4.1", "gpt-5", "gpt-6-astra", "gpt-image-2"] {
        assert!(!ids.contains(&id), "{id}");
    }
    let model = models.iter().find(|model| model.id == "gpt-5.5").unwrap();
    assert_eq!(model.base_url, "https://chatgpt.com/backend-api/codex");
    assert_eq!((model.has_login, &model.api_key, model.cost.input), (true, &None, 0.0));
    assert_eq!((model.limit.context, model.limit.output), (400_000, 128_000));
    // A key in the configuration is meant instead, and another server gets no token.
    let keyed = json!({"provider": {"openai": {"options": {"apiKey": "k"}}}});
    assert!(logged_in("openai", None, &keyed).iter().all(|model| !model.has_login));
}

#[test]
fn an_instance_of_ones_own_has_its_own_address() {
    let url = |provider: &str, instance: Option<&str>| {
        let model =
            logged_in(provider, instance, &json!({})).into_iter().find(|it| it.wire == Wire::OpenAiChat);
        model.unwrap().base_url
    };
    assert_eq!(url("github-copilot", None), "https://api.githubcopilot.com");
    assert_eq!(url("github-copilot", Some("https://ghe.example/")), "https://copilot-api.ghe.example");
    let account = url("snowflake-cortex", Some("acc"));
    assert_eq!(account, "https://acc.snowflakecomputing.com/api/v2/cortex/v1");
}

#[test]
fn a_login_that_nothing_is_known_of_is_no_key() {
    assert_eq!(logged_in("anthropic", None, &json!({})), []);
}

#[test]
fn a_file_of_the_users_replaces_the_catalog() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let listed = json!({"acme": {"id": "acme", "name": "Acme", "env": ["ACME_KEY"], "npm": "@ai-sdk/openai-compatible",
        "api": "https://acme.example/v1", "models": {"m": {"name": "M", "reasoning": true, "limit": {"context": 7},
        "interleaved": {"field": "reasoning_content"}, "reasoning_options": [{"type": "effort", "values": ["low"]}]}}}});
    std::fs::write(path, listed.to_string()).unwrap();
    let variables = [("OPENCODE_MODELS_PATH", path), ("ACME_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    let text = json!({"provider": {"acme": {"models": {"m": {"variants": {"odd": {"a": 1}}}}}}});
    assert_eq!(names(&catalog(&text, &variables)), ["acme/m", "windlass/demo"]);
    let acme = model(&text, &variables, "acme/m");
    assert_eq!((acme.limit.context, acme.reasons), (7, true));
    assert_eq!(acme.options["interleaved"]["field"], "reasoning_content");
    let variants = json!([["low", {"reasoningEffort": "low"}], ["odd", {"a": 1}]]);
    assert_eq!(serde_json::to_value(&acme.variants).unwrap(), variants);
    std::fs::write(path, "{").unwrap();
    let (catalog, warnings) = resolve(&config(&json!({}), &variables), &Credentials::new());
    assert!(catalog.find(&ModelRef::parse("anthropic/claude-opus-5").unwrap()).is_some());
    assert!(warnings[0].to_string().contains("cannot be used"), "{warnings:?}");
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
    let gateway = json!({
        "provider": {"p": {"npm": "@else/sdk", "api": url, "models": {"m": {}}, "options": {"region": "eu-west-1"}}},
        "windlass": {"wire": {"p": "bedrock"}},
    });
    let gateway = model(&gateway, &[], "p/m");
    assert_eq!((gateway.wire, gateway.base_url.as_str()), (Wire::Bedrock, url));
    assert_eq!(gateway.aws.map(|account| account.region().to_owned()).as_deref(), Some("eu-west-1"));
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
        is_foreign: false,
        api_key: Some(Secret("secret".to_owned())),
        has_login: false,
        key_variable: Some("P_KEY".into()),
        exchange: None,
        auth: Auth::Header("x-api-key"),
        aws: None,
        quirks: Quirks::of(&[Quirk::EagerInput]),
        headers: vec![("A".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())],
        fetch: None,
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
    let entry = AuthEntry::key("login");
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
fn parts_of_an_address_may_be_stored_with_the_key() {
    for (provider, stored, name, url) in [
        (
            "azure",
            json!({"resourceName": "mine"}),
            "azure/gpt-5.4",
            "https://mine.openai.azure.com/openai/v1?api-version=v1",
        ),
        (
            "cloudflare-workers-ai",
            json!({"accountId": "acc"}),
            "cloudflare-workers-ai/@cf/zai-org/glm-5.3",
            "https://api.cloudflare.com/client/v4/accounts/acc/ai/v1",
        ),
    ] {
        let entry = serde_json::from_value(json!({"type": "api", "key": "k", "metadata": stored})).unwrap();
        let (catalog, _) =
            resolve(&config(&json!({}), &[]), &Credentials::from([(provider.to_owned(), entry)]));
        let model = catalog.find(&ModelRef::parse(name).unwrap()).unwrap();
        assert_eq!((model.base_url.as_str(), model.api_key.is_some()), (url, true));
    }
}

#[test]
fn a_cloud_that_the_user_is_signed_in_at_stands_for_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("az");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = ("PATH", directory.path().to_str().unwrap());
    let resource = ("AZURE_RESOURCE_NAME", "res");
    let way = |variables: &[(&str, &str)], name: &str| model(&json!({}), variables, name).exchange;
    let azure = |scope| Some(Exchange::Azure { program: program.clone(), scope });
    assert_eq!(
        way(&[path, resource], "azure/gpt-5.4"),
        azure("https://cognitiveservices.azure.com/.default")
    );
    assert_eq!(way(&[path, resource, ("AZURE_API_KEY", "k")], "azure/gpt-5.4"), None);
    // Neither the program nor the resource alone means anything.
    for variables in [&[path][..], &[resource]] {
        let catalog = catalog(&json!({}), variables);
        assert!(catalog.get(&ModelRef::parse("azure/gpt-5.4").unwrap()).is_err(), "{variables:?}");
    }
    let entry = json!({"type": "oauth", "refresh": "", "access": "", "expires": 0, "accountId": "theirs"});
    let entry = serde_json::from_value(entry).unwrap();
    let (signed_in, _) =
        resolve(&config(&json!({}), &[path]), &Credentials::from([("azure".to_owned(), entry)]));
    let model = signed_in.find(&ModelRef::parse("azure/gpt-5.4").unwrap()).unwrap();
    assert_eq!(model.base_url, "https://theirs.openai.azure.com/openai/v1?api-version=v1");

    let project = ("GOOGLE_CLOUD_PROJECT", "proj");
    let name = "google-vertex/gemini-3.8-flash";
    let google = |file: Option<&str>, server: &str| {
        Some(Exchange::Google { file: file.map(Into::into), server: server.to_owned() })
    };
    assert_eq!(
        way(&[project, ("GOOGLE_APPLICATION_CREDENTIALS", "/k.json")], name),
        google(Some("/k.json"), "metadata.google.internal")
    );
    assert_eq!(way(&[project, ("GCE_METADATA_HOST", "127.0.0.1:9")], name), google(None, "127.0.0.1:9"));
    assert_eq!(way(&[project, ("CLOUDSDK_AUTH_ACCESS_TOKEN", "t")], name), None);
}

#[test]
fn the_best_is_that_of_the_first_provider_that_is_meant() {
    let key = [("ANTHROPIC_API_KEY", "k")];
    let best = |text: Value, variables: &[(&str, &str)]| match catalog(&text, variables).best() {
        Ok(model) => model.reference().to_string(),
        Err(reason) => reason.to_string(),
    };
    assert_eq!(best(json!({}), &key), "anthropic/claude-opus-5-5");
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
        "`provider.local` has no models; list them under `models` there, or run `windlass models` while its server runs"
    );
    assert_eq!(
        best(json!({"provider": {"openai": {"name": "x"}}}), &key),
        "there is no key for openai; set OPENAI_API_KEY, or run `windlass auth login --provider openai`"
    );
    let name = ModelRef::parse("amazon-bedrock/anthropic.claude-sonnet-4-5").unwrap();
    assert_eq!(
        catalog(&json!({}), &[]).get(&name).unwrap_err().to_string(),
        "there is no key for amazon-bedrock; set AWS_BEARER_TOKEN_BEDROCK or AWS_PROFILE, or run `windlass auth login \
         --provider amazon-bedrock`"
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
