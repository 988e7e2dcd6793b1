//! Which models can be asked: built-in rows and configuration, filtered to what has a key (facts: OpenCode §7.2).

mod rows;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    config::{AuthEntry, ModelConfig, ModelCost, ModelLimit, ProviderConfig},
    message::ModelRef,
};

use self::rows::{ROWS, Row};
use super::{Model, Secret, Timeouts, Wire, auth::Credentials};
use crate::{
    base::text::distance,
    config::{Config, Environment, Warning},
};

const OPENAI_URL: &str = "https://api.openai.com/v1";
const ANTHROPIC_URL: &str = "https://api.anthropic.com/v1";

/// The models that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    /// Those of the configuration in its order, then the other built-in ones, the demo last.
    pub providers: Vec<ProviderEntry>,
    demo: Model,
}

/// A provider that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderEntry {
    pub id: String,
    pub name: String,
    /// The best first.
    pub models: Vec<Model>,
}

impl Catalog {
    /// Every model that can be asked, by provider.
    pub fn models(&self) -> impl Iterator<Item = &Model> {
        self.providers.iter().flat_map(|provider| &provider.models)
    }

    /// The model by name; the variant does not matter.
    pub fn find(&self, model_ref: &ModelRef) -> Option<&Model> {
        let provider = self.providers.iter().find(|provider| provider.id == model_ref.provider_id)?;
        provider.models.iter().find(|model| model.id == model_ref.model_id)
    }

    /// What to ask when nothing is said: the configured model, the one used last, the first provider's best.
    ///
    /// [`resolve`] has warned of a configured model that does not exist.
    pub fn default_model(&self, config: &Config, last_used: Option<&ModelRef>) -> &Model {
        let wanted = config.model.iter().chain(last_used);
        let mut known = wanted.filter_map(|model_ref| self.find(model_ref));
        let best = || self.providers.first().and_then(|provider| provider.models.first());
        known.next().or_else(best).unwrap_or(&self.demo)
    }

    /// A cheap model for titles: the configured one, else the small family of the main model's provider.
    pub fn small_model<'a>(&'a self, config: &Config, main: &'a Model) -> &'a Model {
        const FAMILIES: [(&str, &str); 3] = [("gemini", "flash"), ("gpt", "nano"), ("claude", "haiku")];
        let is_small = |model: &&Model| {
            FAMILIES.iter().any(|(family, size)| model.id.contains(family) && model.id.contains(size))
        };
        let configured = config.small_model.as_ref().and_then(|model_ref| self.find(model_ref));
        let provider = || self.providers.iter().find(|provider| provider.id == main.provider_id);
        configured.or_else(|| provider()?.models.iter().find(is_small)).unwrap_or(main)
    }

    /// Up to three names that look like a wrong one.
    pub fn suggest(&self, model_ref: &ModelRef) -> Vec<String> {
        let wanted = model_ref.to_string().to_lowercase();
        let wanted_model = model_ref.model_id.to_lowercase();
        let mut ranked: Vec<(usize, String)> = self
            .providers
            .iter()
            .flat_map(|provider| &provider.models)
            .filter(|model| model.wire != Wire::Demo)
            .filter_map(|model| {
                let name = model.reference().to_string();
                let id = model.id.to_lowercase();
                if id.contains(&wanted_model) || wanted_model.contains(&id) {
                    return Some((id.len().abs_diff(wanted_model.len()).min(2), name));
                }
                let distance = distance(&wanted, &name.to_lowercase());
                (distance <= wanted.chars().count() / 3).then_some((distance, name))
            })
            .collect();
        ranked.sort();
        ranked.truncate(3);
        ranked.into_iter().map(|(_, name)| name).collect()
    }
}

/// Works out what can be asked. No network.
///
/// A model of the configuration without limits has limits of 0, which means unknown.
pub fn resolve(config: &Config, credentials: &Credentials) -> (Catalog, Vec<Warning>) {
    let mut warnings = Vec::new();
    let written = config.raw.get("provider").and_then(Value::as_object);
    let mut ids: Vec<&str> = written.into_iter().flatten().map(|(id, _)| id.as_str()).collect();
    for id in config.providers.keys().map(String::as_str).chain(["anthropic", "openai"]) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let is_enabled = |id: &str| {
        let is_listed =
            config.enabled_providers.as_ref().is_none_or(|enabled| enabled.iter().any(|it| it == id));
        is_listed && !config.disabled_providers.iter().any(|disabled| disabled == id)
    };
    let mut providers: Vec<ProviderEntry> = ids
        .into_iter()
        .filter(|id| is_enabled(id))
        .filter_map(|id| provider(id, config, credentials, &mut warnings))
        .collect();
    let demo = demo();
    providers.push(ProviderEntry {
        id: demo.provider_id.clone(),
        name: demo.provider_name.clone(),
        models: vec![demo.clone()],
    });
    let catalog = Catalog { providers, demo };
    let named = [("model", &config.model), ("small_model", &config.small_model)];
    for (key, model_ref) in named.into_iter().filter_map(|(key, wanted)| Some((key, wanted.as_ref()?))) {
        if catalog.find(model_ref).is_none() {
            let suggestions = catalog.suggest(model_ref);
            let hint = match suggestions.as_slice() {
                [] => String::new(),
                names => format!("; did you mean {}?", names.join(", ")),
            };
            warnings.push(warning(key, format!("{model_ref} is not available{hint}")));
        }
    }
    (catalog, warnings)
}

/// A provider with everything its models share.
struct Base<'a> {
    id: &'a str,
    name: String,
    npm: &'a str,
    /// Of the configuration, over every model's own.
    configured_url: Option<String>,
    /// Of the provider, under a model's own.
    provider_url: Option<String>,
    api_key: Option<Secret>,
    headers: Vec<(String, String)>,
    timeouts: Timeouts,
}

fn provider(
    id: &str,
    config: &Config,
    credentials: &Credentials,
    warnings: &mut Vec<Warning>,
) -> Option<ProviderEntry> {
    let environment = &config.environment;
    let unconfigured = ProviderConfig::default();
    let configured = config.providers.get(id);
    let provider_config = configured.unwrap_or(&unconfigured);
    let source = format!("provider.{id}");
    let row = ROWS.iter().find(|row| row.id == id);
    let fill = |text: &String| fill_variables(text, environment);
    let options = &provider_config.options;
    let own_server =
        environment.get("OPENAI_BASE_URL").filter(|url| id == "openai" && trim(url) != OPENAI_URL);
    let base = Base {
        id,
        name: provider_config.name.clone().unwrap_or_else(|| row.map_or(id, |row| row.name).to_owned()),
        npm: provider_config.npm.as_deref().or(row.map(|row| row.npm)).unwrap_or("@ai-sdk/openai-compatible"),
        configured_url: options.base_url.as_ref().map(fill).filter(|url| !url.is_empty()),
        provider_url: provider_config.api.as_ref().map(fill).or(own_server.map(str::to_owned)),
        api_key: api_key(id, provider_config, row, environment, credentials),
        headers: options.headers.clone().into_iter().collect(),
        timeouts: timeouts(provider_config),
    };

    // What a key of the vendor cannot reach is not listed; a server of one's own may need no key.
    let is_at_vendor = base.configured_url.is_none()
        && base.provider_url.is_none()
        && matches!(base.npm, "@ai-sdk/openai" | "@ai-sdk/anthropic");
    if is_at_vendor && base.api_key.is_none() {
        if configured.is_some() {
            let variable = row.map(|row| format!("set {}, ", row.env)).unwrap_or_default();
            let message = format!("has no key: {variable}log in, or set options.apiKey");
            warnings.push(warning(&source, message));
        }
        return None;
    }

    let mut models: BTreeMap<String, ModelConfig> = BTreeMap::new();
    // Another server behind the same variable does not have the vendor's models.
    if let Some(row) = row.filter(|_| own_server.is_none()) {
        models.extend(row.models.iter().map(|model| (model.id.to_owned(), model.config())));
    }
    if let Some(model) = environment.get("OPENAI_MODEL").filter(|_| id == "openai") {
        models.entry(model.to_owned()).or_default();
    }
    for (model_id, over) in &provider_config.models {
        let under = models.remove(model_id).unwrap_or_default();
        models.insert(model_id.clone(), overlay(under, over));
    }
    let shows_alpha = environment.is_on("OPENCODE_ENABLE_EXPERIMENTAL_MODELS");
    models.retain(|model_id, model| {
        let is_listed = provider_config.whitelist.as_ref().is_none_or(|list| list.contains(model_id));
        let is_barred = provider_config.blacklist.as_ref().is_some_and(|list| list.contains(model_id));
        let is_hidden = match model.status.as_deref() {
            Some("alpha") => !shows_alpha,
            Some("deprecated") => true,
            Some(_) | None => false,
        };
        is_listed && !is_barred && !is_hidden
    });
    if models.is_empty() {
        let message = match own_server {
            Some(_) => "OPENAI_BASE_URL is set, but no model: set OPENAI_MODEL or provider.openai.models",
            None => "has no models: list them under `models`",
        };
        warnings.push(warning(&source, message.to_owned()));
        return None;
    }
    let mut models: Vec<Model> =
        models.iter().filter_map(|(model_id, config)| model(&base, model_id, config, warnings)).collect();
    models.sort_by(|one, other| rank(&other.id).cmp(&rank(&one.id)));
    (!models.is_empty()).then(|| ProviderEntry { id: id.to_owned(), name: base.name.clone(), models })
}

fn model(
    base: &Base<'_>,
    model_id: &str,
    config: &ModelConfig,
    warnings: &mut Vec<Warning>,
) -> Option<Model> {
    let own = config.provider.clone().unwrap_or_default();
    let npm = own.npm.as_deref().unwrap_or(base.npm);
    let url = base.configured_url.clone().or(own.api).or(base.provider_url.clone());
    // Once for all models of the provider.
    let mut warn = |message: String| {
        let warning = warning(&format!("provider.{}", base.id), message);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    };
    let (wire, vendor_url) = match npm {
        "@ai-sdk/anthropic" => (Wire::Anthropic, Some(ANTHROPIC_URL)),
        "@ai-sdk/openai" => (Wire::OpenAiChat, Some(OPENAI_URL)),
        "@ai-sdk/openai-compatible" => (Wire::OpenAiChat, None),
        // Most others speak OpenAI's protocol at their own address.
        _ if url.is_some() => (Wire::OpenAiChat, None),
        other => {
            let message = format!("npm package {other} is not supported; set options.baseURL");
            warn(message);
            return None;
        }
    };
    let Some(url) = url.or(vendor_url.map(str::to_owned)) else {
        warn("has no address: set options.baseURL".to_owned());
        return None;
    };
    let takes = |kind: &str| {
        config.modalities.as_ref().map(|modalities| modalities.input.iter().any(|input| input == kind))
    };
    Some(Model {
        provider_id: base.id.to_owned(),
        provider_name: base.name.clone(),
        id: model_id.to_owned(),
        api_id: config.id.clone().unwrap_or_else(|| model_id.to_owned()),
        name: config.name.clone().unwrap_or_else(|| model_id.to_owned()),
        wire,
        base_url: trim(&url).to_owned(),
        api_key: base.api_key.clone(),
        headers: overlay_headers(&base.headers, &config.headers),
        limit: config.limit.unwrap_or_default(),
        cost: config.cost.unwrap_or_default(),
        takes_images: takes("image").or(config.attachment).unwrap_or(false),
        takes_pdf: takes("pdf").unwrap_or(false),
        takes_tools: config.tool_call.unwrap_or(true),
        takes_temperature: config.temperature.unwrap_or(false),
        options: config.options.clone(),
        variants: variants(&config.variants),
        timeouts: base.timeouts,
    })
}

/// The variants that are not switched off.
fn variants(written: &BTreeMap<String, Map<String, Value>>) -> Vec<(String, Map<String, Value>)> {
    let usable = written.iter().filter_map(|(name, options)| {
        let mut options = options.clone();
        let is_disabled = options.shift_remove("disabled") == Some(Value::Bool(true));
        (!is_disabled).then(|| (name.clone(), options))
    });
    usable.collect()
}

/// Configuration, then what a login saved, then the environment.
fn api_key(
    id: &str,
    provider_config: &ProviderConfig,
    row: Option<&Row>,
    environment: &Environment,
    credentials: &Credentials,
) -> Option<Secret> {
    let configured = provider_config.options.api_key.clone().filter(|key| !key.is_empty());
    let saved = || match credentials.get(id)? {
        AuthEntry::Api { key } => Some(key.clone()),
        AuthEntry::Oauth { .. } | AuthEntry::Wellknown { .. } => None,
    };
    let variables = provider_config.env.iter().map(String::as_str).chain(row.map(|row| row.env));
    let in_environment = || variables.into_iter().find_map(|name| environment.get(name)).map(str::to_owned);
    configured.or_else(saved).or_else(in_environment).map(Secret)
}

fn timeouts(provider_config: &ProviderConfig) -> Timeouts {
    let options = &provider_config.options;
    let milliseconds = |value: Option<u64>| value.filter(|&value| value > 0).map(Duration::from_millis);
    Timeouts {
        headers: milliseconds(options.header_timeout).unwrap_or(Timeouts::DEFAULT.headers),
        chunk: milliseconds(options.chunk_timeout).unwrap_or(Timeouts::DEFAULT.chunk),
        // `false` is no limit, which is the default as well.
        total: milliseconds(options.timeout.as_ref().and_then(Value::as_u64)),
    }
}

fn overlay(under: ModelConfig, over: &ModelConfig) -> ModelConfig {
    let ModelConfig {
        id,
        name,
        family,
        attachment,
        reasoning,
        temperature,
        tool_call,
        experimental,
        limit,
        cost,
        modalities,
        options,
        headers,
        status,
        release_date,
        interleaved,
        variants,
        provider,
    } = over.clone();
    ModelConfig {
        id: id.or(under.id),
        name: name.or(under.name),
        family: family.or(under.family),
        attachment: attachment.or(under.attachment),
        reasoning: reasoning.or(under.reasoning),
        temperature: temperature.or(under.temperature),
        tool_call: tool_call.or(under.tool_call),
        experimental: experimental.or(under.experimental),
        limit: limit.or(under.limit),
        cost: cost.or(under.cost),
        modalities: modalities.or(under.modalities),
        options: under.options.into_iter().chain(options).collect::<Map<String, Value>>(),
        headers: under.headers.into_iter().chain(headers).collect(),
        status: status.or(under.status),
        release_date: release_date.or(under.release_date),
        interleaved: interleaved.or(under.interleaved),
        variants: under.variants.into_iter().chain(variants).collect(),
        provider: provider.or(under.provider),
    }
}

/// Header names are equal whatever their case.
fn overlay_headers(under: &[(String, String)], over: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let is_replaced = |name: &str| over.keys().any(|upper| upper.eq_ignore_ascii_case(name));
    let kept = under.iter().filter(|(name, _)| !is_replaced(name)).cloned();
    kept.chain(over.iter().map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// OpenCode's order of preference: by family, "latest" first, then the larger name.
fn rank(model_id: &str) -> (Option<usize>, bool, &str) {
    const FAMILIES: [&str; 4] = ["gpt-5", "claude-sonnet-4", "big-pickle", "gemini-3-pro"];
    let family = FAMILIES.iter().position(|family| model_id.contains(family));
    (family, model_id.contains("latest"), model_id)
}

/// Replaces `${NAME}` by the variable, or by nothing.
fn fill_variables(text: &str, environment: &Environment) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        filled.push_str(environment.get(name).unwrap_or_default());
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn trim(url: &str) -> &str {
    url.trim().trim_end_matches('/')
}

fn warning(source: &str, message: String) -> Warning {
    Warning { source: source.to_owned(), line: None, column: None, message }
}

fn demo() -> Model {
    Model {
        provider_id: "windlass".to_owned(),
        provider_name: "windlass".to_owned(),
        id: "demo".to_owned(),
        api_id: "demo".to_owned(),
        name: "Demo (no provider configured)".to_owned(),
        wire: Wire::Demo,
        base_url: String::new(),
        api_key: None,
        headers: Vec::new(),
        limit: ModelLimit { context: 200_000, input: None, output: 32_000 },
        cost: ModelCost::default(),
        takes_images: false,
        takes_pdf: false,
        takes_tools: true,
        takes_temperature: false,
        options: Map::new(),
        variants: Vec::new(),
        timeouts: Timeouts::DEFAULT,
    }
}

#[cfg(test)]
mod tests;
