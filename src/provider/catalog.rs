//! The usable models: built-in rows and configuration, filtered to providers with a key (facts: OpenCode §7.2).

pub mod keys;
mod packages;
mod rows;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    config::{AuthEntry, ModelConfig, ModelCost, ModelLimit, ProviderConfig},
    message::ModelRef,
};

use self::rows::{ROWS, Row};
use super::{
    Auth, Model, Quirks, Sampling, Secret, Timeouts, Wire,
    auth::Credentials,
    demo,
    unusable::{Lack, Reason},
};
use crate::{
    base::text::distance,
    config::{Config, Environment, Warning},
};

const OPENAI_URL: &str = "https://api.openai.com/v1";

/// The usable models, and the reasons that others are unusable.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    /// Providers of the configuration in its order, then the other built-in ones, the demo last.
    pub providers: Vec<ProviderEntry>,
    /// Known providers that cannot be used.
    lacking: BTreeMap<String, Lack>,
    /// The model to use if no place names one.
    best: Result<ModelRef, Reason>,
    demo: Model,
}

/// A usable provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderEntry {
    pub id: String,
    pub name: String,
    /// The provider's models, the best first; empty if only explicitly named models can be used.
    pub models: Vec<Model>,
    /// The template for models that are not in `models`, without ids; absent if the configuration lists all
    /// models.
    unlisted: Option<Model>,
    /// Models that the configuration excludes.
    barred: Vec<String>,
}

impl Catalog {
    /// Returns every known, usable model, by provider.
    pub fn models(&self) -> impl Iterator<Item = &Model> {
        self.providers.iter().flat_map(|provider| &provider.models)
    }

    /// Returns the built-in demo.
    pub fn demo(&self) -> &Model {
        &self.demo
    }

    /// Returns a known model by name; ignores the variant.
    pub fn find(&self, model_ref: &ModelRef) -> Option<&Model> {
        let provider = self.provider(&model_ref.provider_id)?;
        provider.models.iter().find(|model| model.id == model_ref.model_id)
    }

    /// Returns a model by name. An unknown id is passed on to its provider, which may know it.
    pub fn get(&self, model_ref: &ModelRef) -> Result<Model, Reason> {
        let ModelRef { provider_id, model_id, .. } = model_ref;
        let similar = || self.suggest(model_ref);
        let Some(provider) = self.provider(provider_id) else {
            return Err(match self.lacking.get(provider_id) {
                Some(lack) => Reason::Provider { provider: provider_id.clone(), lack: lack.clone() },
                None => Reason::UnknownProvider {
                    provider: provider_id.clone(),
                    model: model_id.clone(),
                    similar: similar(),
                },
            });
        };
        if let Some(model) = provider.models.iter().find(|model| model.id == *model_id) {
            return Ok(model.clone());
        }
        match &provider.unlisted {
            Some(unlisted) if !provider.barred.contains(model_id) => Ok(Model {
                id: model_id.clone(),
                api_id: model_id.clone(),
                name: model_id.clone(),
                ..unlisted.clone()
            }),
            None if *provider_id == self.demo.provider_id => Err(Reason::UnknownModel {
                provider: provider_id.clone(),
                similar: vec![self.demo.reference().to_string()],
            }),
            Some(_) | None => Err(Reason::Barred { provider: provider_id.clone(), similar: similar() }),
        }
    }

    /// Returns the providers that accept a key, the usable ones first.
    pub fn known(&self) -> Vec<String> {
        let usable = self.providers.iter().map(|provider| &provider.id);
        usable.filter(|id| **id != self.demo.provider_id).chain(self.lacking.keys()).cloned().collect()
    }

    /// Returns any model of a usable provider.
    pub fn any_of(&self, provider: &str) -> Option<&Model> {
        let provider = self.provider(provider)?;
        provider.models.first().or(provider.unlisted.as_ref())
    }

    fn provider(&self, id: &str) -> Option<&ProviderEntry> {
        self.providers.iter().find(|provider| provider.id == id)
    }

    /// Returns the model to use if no place names one: the best of the first provider.
    ///
    /// The first configured provider counts even if it cannot be used, because the user did not mean another
    /// one.
    pub fn best(&self) -> Result<Model, Reason> {
        self.best.as_ref().map_err(Clone::clone).and_then(|best| self.get(best))
    }

    /// Returns a cheap model for titles if none is configured: the small family of the main model's provider.
    pub fn small_model<'a>(&'a self, main: &'a Model) -> &'a Model {
        const FAMILIES: [(&str, &str); 3] = [("gemini", "flash"), ("gpt", "nano"), ("claude", "haiku")];
        let is_small = |model: &&Model| {
            FAMILIES.iter().any(|(family, size)| model.id.contains(family) && model.id.contains(size))
        };
        let provider = self.provider(&main.provider_id);
        provider.and_then(|provider| provider.models.iter().find(is_small)).unwrap_or(main)
    }

    /// Returns up to three names that resemble a wrong one.
    pub fn suggest(&self, model_ref: &ModelRef) -> Vec<String> {
        let wanted = model_ref.to_string().to_lowercase();
        let wanted_model = model_ref.model_id.to_lowercase();
        let mut ranked: Vec<(usize, String)> = self
            .models()
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

/// Determines the usable models. No network.
///
/// A model of the configuration without limits has limits of 0, which means unknown.
pub fn resolve(config: &Config, credentials: &Credentials) -> (Catalog, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut ids: Vec<&str> = config.written.providers.iter().map(String::as_str).collect();
    for id in config.providers.keys().map(String::as_str).chain(ROWS.iter().map(|row| row.id)) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let switch = |id: &str| {
        if config.disabled_providers.iter().any(|disabled| disabled == id) {
            return Some(Lack::Switch("disabled_providers"));
        }
        let is_listed =
            config.enabled_providers.as_ref().is_none_or(|enabled| enabled.iter().any(|it| it == id));
        (!is_listed).then_some(Lack::Switch("enabled_providers"))
    };
    let mut providers = Vec::new();
    let mut lacking = BTreeMap::new();
    let mut switched_off = None;
    for &id in &ids {
        if let Some(lack) = switch(id) {
            let is_usable = || provider(id, config, credentials, &mut Vec::new()).is_ok();
            if switched_off.is_none() && is_usable() {
                switched_off = Some(Reason::Provider { provider: id.to_owned(), lack: lack.clone() });
            }
            lacking.insert(id.to_owned(), lack);
            continue;
        }
        match provider(id, config, credentials, &mut warnings) {
            Ok(entry) => providers.push(entry),
            Err(lack) => _ = lacking.insert(id.to_owned(), lack),
        }
    }
    let first = first_model(config, &ids, &providers, &lacking);
    let best = first.unwrap_or_else(|| Err(switched_off.unwrap_or(Reason::NothingConfigured)));
    let demo = demo();
    providers.push(ProviderEntry {
        id: demo.provider_id.clone(),
        name: demo.provider_name.clone(),
        models: vec![demo.clone()],
        unlisted: None,
        barred: Vec::new(),
    });
    let catalog = Catalog { providers, lacking, best, demo };
    let named = [("model", &config.model), ("small_model", &config.small_model)];
    for (key, model_ref) in named.into_iter().filter_map(|(key, wanted)| Some((key, wanted.as_ref()?))) {
        if let Err(reason) = catalog.get(model_ref) {
            warnings.push(warning(key, format!("{model_ref} cannot be used: {reason}")));
        }
    }
    (catalog, warnings)
}

/// Returns the best model of the first provider that the user means; `None` if there is none.
///
/// `ids` are all providers in order of precedence.
fn first_model(
    config: &Config,
    ids: &[&str],
    providers: &[ProviderEntry],
    lacking: &BTreeMap<String, Lack>,
) -> Option<Result<ModelRef, Reason>> {
    let lack_of = |provider: &str, lack: Lack| Reason::Provider { provider: provider.to_owned(), lack };
    for &id in ids {
        let is_own_server = id == "openai" && own_server(&config.environment).is_some();
        let is_meant = config.providers.contains_key(id) || is_own_server;
        let entry = providers.iter().find(|entry| entry.id == id);
        match (entry, lacking.get(id)) {
            (Some(ProviderEntry { models, .. }), _) => match models.first() {
                Some(model) => return Some(Ok(model.reference())),
                None if is_own_server => return Some(Err(lack_of(id, Lack::ServerModels))),
                None => return Some(Err(lack_of(id, Lack::Models))),
            },
            // A provider that a list switches off is not meant.
            (None, Some(Lack::Switch(_)) | None) => {}
            (None, Some(lack)) if is_meant => return Some(Err(lack_of(id, lack.clone()))),
            (None, Some(_)) => {}
        }
    }
    None
}

/// Returns the server in OpenAI's variable if it is another one than OpenAI's.
fn own_server(environment: &Environment) -> Option<&str> {
    environment.get("OPENAI_BASE_URL").filter(|url| trim(url) != OPENAI_URL)
}

/// A provider's properties that its models share.
struct Base<'a> {
    id: &'a str,
    name: String,
    npm: &'a str,
    /// The URL of the configuration, which overrides every model's own.
    configured_url: Option<String>,
    /// The URL of the provider, which a model's own overrides.
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
) -> Result<ProviderEntry, Lack> {
    let environment = &config.environment;
    let unconfigured = ProviderConfig::default();
    let configured = config.providers.get(id);
    let provider_config = configured.unwrap_or(&unconfigured);
    let source = format!("provider.{id}");
    let row = ROWS.iter().find(|row| row.id == id);
    let fill = |text: &String| fill_variables(text, environment);
    let options = &provider_config.options;
    let own_server = own_server(environment).filter(|_| id == "openai");
    let base = Base {
        id,
        name: provider_config.name.clone().unwrap_or_else(|| row.map_or(id, |row| row.name).to_owned()),
        npm: match config.settings.windlass.wire.get(id) {
            Some(wire) => packages::of_wire(*wire),
            // Servers that are put into OpenAI's place speak chat completions.
            None if own_server.is_some() && provider_config.npm.is_none() => "@ai-sdk/openai-compatible",
            None => provider_config
                .npm
                .as_deref()
                .or(row.map(|row| row.npm))
                .unwrap_or("@ai-sdk/openai-compatible"),
        },
        configured_url: options.base_url.as_ref().map(fill).filter(|url| !url.is_empty()),
        provider_url: provider_config.api.as_ref().map(fill).or(own_server.map(str::to_owned)),
        api_key: api_key(id, provider_config, row, environment, credentials),
        headers: options.headers.clone().into_iter().collect(),
        timeouts: timeouts(provider_config),
    };

    // Models that need a key of the vendor are not listed without one; a server of one's own may need no key.
    let is_at_vendor = base.configured_url.is_none()
        && base.provider_url.is_none()
        && matches!(base.npm, "@ai-sdk/openai" | "@ai-sdk/anthropic");
    if is_at_vendor && base.api_key.is_none() {
        if configured.is_some() {
            let variable = row.map(|row| format!("set {}, ", row.env)).unwrap_or_default();
            let message = format!("has no key: {variable}log in, or set options.apiKey");
            warnings.push(warning(&source, message));
        }
        let variable = row.map(|row| row.env).or(provider_config.env.first().map(String::as_str));
        return Err(Lack::Key(variable.map(str::to_owned)));
    }

    let (models, barred) = offered_models(id, config, own_server.is_some());
    // Of a server behind the variable any model can be named, and where none is, its absence is told.
    if models.is_empty() && own_server.is_none() {
        warnings.push(warning(&source, "has no models: list them under `models`".to_owned()));
    }
    let mut made = Vec::new();
    let mut lack = None;
    for (model_id, config) in &models {
        match model(&base, model_id, config) {
            Ok(model) => made.push(model),
            Err(reason) => {
                let message = match &reason {
                    Lack::Package(package) => {
                        format!("npm package {package} is not known; name its protocol under `windlass.wire`")
                    }
                    _ => "has no address: set options.baseURL".to_owned(),
                };
                let warning = warning(&source, message);
                // One warning serves all models of the provider.
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
                lack = lack.or(Some(reason));
            }
        }
    }
    made.sort_by(|one, other| rank(&other.id).cmp(&rank(&one.id)));
    let unlisted = model(&base, "", &ModelConfig::default());
    if made.is_empty()
        && let Some(lack) = lack.or_else(|| unlisted.as_ref().err().cloned())
    {
        return Err(lack);
    }
    let unlisted = unlisted.ok().filter(|_| provider_config.whitelist.is_none());
    if made.is_empty() && unlisted.is_none() {
        return Err(Lack::Models);
    }
    Ok(ProviderEntry { id: id.to_owned(), name: base.name.clone(), models: made, unlisted, barred })
}

/// Returns the models that a provider offers, and the names of those that it does not.
fn offered_models(
    id: &str,
    config: &Config,
    has_own_server: bool,
) -> (BTreeMap<String, ModelConfig>, Vec<String>) {
    let environment = &config.environment;
    let unconfigured = ProviderConfig::default();
    let provider_config = config.providers.get(id).unwrap_or(&unconfigured);
    let row = ROWS.iter().find(|row| row.id == id);
    let mut models: BTreeMap<String, ModelConfig> = BTreeMap::new();
    // Another server under the same variable does not have the vendor's models.
    if let Some(row) = row.filter(|_| !has_own_server) {
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
    let is_offered = |model_id: &String, model: &ModelConfig| {
        let is_listed = provider_config.whitelist.as_ref().is_none_or(|list| list.contains(model_id));
        let is_barred = provider_config.blacklist.as_ref().is_some_and(|list| list.contains(model_id));
        let is_hidden = match model.status.as_deref() {
            Some("alpha") => !shows_alpha,
            Some("deprecated") => true,
            Some(_) | None => false,
        };
        is_listed && !is_barred && !is_hidden
    };
    let mut barred = provider_config.blacklist.clone().unwrap_or_default();
    barred.extend(models.iter().filter(|(id, model)| !is_offered(id, model)).map(|(id, _)| id.clone()));
    models.retain(|model_id, model| is_offered(model_id, model));
    (models, barred)
}

/// Makes a model of a provider, unless the provider lacks a necessity.
fn model(base: &Base<'_>, model_id: &str, config: &ModelConfig) -> Result<Model, Lack> {
    let own = config.provider.clone().unwrap_or_default();
    let npm = own.npm.as_deref().unwrap_or(base.npm);
    let url = base.configured_url.clone().or(own.api).or(base.provider_url.clone());
    let package = packages::find(npm).ok_or_else(|| Lack::Package(npm.to_owned()))?;
    let url = url.or(package.url.map(str::to_owned)).ok_or(Lack::Address)?;
    let takes = |kind: &str| {
        config.modalities.as_ref().map(|modalities| modalities.input.iter().any(|input| input == kind))
    };
    Ok(Model {
        provider_id: base.id.to_owned(),
        provider_name: base.name.clone(),
        id: model_id.to_owned(),
        api_id: config.id.clone().unwrap_or_else(|| model_id.to_owned()),
        name: config.name.clone().unwrap_or_else(|| model_id.to_owned()),
        wire: package.wire,
        base_url: trim(&url).to_owned(),
        api_key: base.api_key.clone(),
        auth: package.auth,
        quirks: package.quirks,
        headers: overlay_headers(&base.headers, &config.headers),
        limit: config.limit.unwrap_or_default(),
        cost: config.cost.clone().unwrap_or_default(),
        takes_images: takes("image").or(config.attachment).unwrap_or(false),
        takes_pdf: takes("pdf").unwrap_or(false),
        takes_tools: config.tool_call.unwrap_or(true),
        takes_temperature: config.temperature.unwrap_or(false),
        reasons: config.reasoning.unwrap_or(false),
        sampling: Sampling::default(),
        options: config.options.clone(),
        variants: variants(&config.variants),
        timeouts: base.timeouts,
    })
}

/// Returns the variants that are not switched off.
fn variants(written: &BTreeMap<String, Map<String, Value>>) -> Vec<(String, Map<String, Value>)> {
    let usable = written.iter().filter_map(|(name, options)| {
        let mut options = options.clone();
        let is_disabled = options.shift_remove("disabled") == Some(Value::Bool(true));
        (!is_disabled).then(|| (name.clone(), options))
    });
    usable.collect()
}

/// Finds the key: in the configuration, then in saved logins, then in the environment.
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
        // `false` means no limit, which is the default as well.
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

/// Merges headers; their names are compared without case.
fn overlay_headers(under: &[(String, String)], over: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let is_replaced = |name: &str| over.keys().any(|upper| upper.eq_ignore_ascii_case(name));
    let kept = under.iter().filter(|(name, _)| !is_replaced(name)).cloned();
    kept.chain(over.iter().map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// Returns OpenCode's order of preference: by family, "latest" first, then the larger name.
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
    let reference = demo::reference();
    Model {
        provider_id: reference.provider_id,
        provider_name: "windlass".to_owned(),
        api_id: reference.model_id.clone(),
        id: reference.model_id,
        name: "Demo (scripted, no provider)".to_owned(),
        wire: Wire::Demo,
        base_url: String::new(),
        api_key: None,
        auth: Auth::Bearer,
        quirks: Quirks::default(),
        headers: Vec::new(),
        limit: ModelLimit { context: 200_000, input: None, output: 32_000 },
        cost: ModelCost::default(),
        takes_images: false,
        takes_pdf: false,
        takes_tools: true,
        takes_temperature: false,
        reasons: false,
        sampling: Sampling::default(),
        options: Map::new(),
        variants: Vec::new(),
        timeouts: Timeouts::DEFAULT,
    }
}

#[cfg(test)]
mod tests;
