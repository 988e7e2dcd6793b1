//! The usable models: catalog and configuration, filtered to providers with a key (facts: OpenCode §7.2).

mod build;
mod defaults;
mod dialect;
pub mod keys;
pub mod listing;
mod packages;
mod plans;
mod rank;
mod rows;
pub mod served;
pub mod source;
mod table;

use std::collections::{BTreeMap, HashSet};

use serde_json::Map;
use windlass_base::text::distance;
use windlass_core::config::{Config, Environment, Warning};
use windlass_protocol::opencode::{
    config::{ModelCost, ModelLimit},
    model_ref::ModelRef,
};

use self::{
    rows::{PREFERRED, SHARED},
    table::Listed,
};
use super::{
    Auth, Model, Quirks, Sampling, Timeouts, Wire,
    auth::Credentials,
    demo,
    plugin_options::PluginOptions,
    unusable::{Lack, Reason},
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
    /// True if the server is asked for its models.
    is_asked: bool,
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

    /// Returns the providers to offer a person: the usable ones, then well-known others.
    pub fn well_known(&self) -> Vec<String> {
        let known = self.known();
        let is_offered = |id: &&String| !self.lacking.contains_key(*id) || PREFERRED.contains(&id.as_str());
        known.iter().filter(is_offered).cloned().collect()
    }

    /// Returns any model of a usable provider.
    pub fn any_of(&self, provider: &str) -> Option<&Model> {
        let provider = self.provider(provider)?;
        provider.models.first().or(provider.unlisted.as_ref())
    }

    /// Returns a model of each provider with a server that is asked for its models.
    pub fn asked(&self) -> impl Iterator<Item = &Model> {
        let asked = self.providers.iter().filter(|provider| provider.is_asked);
        asked.filter_map(|provider| provider.unlisted.as_ref())
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

    /// Returns a cheap model for titles if none is configured: the small family of the main model's provider (facts:
    /// provider requests §6).
    pub fn small_model<'a>(&'a self, main: &'a Model) -> &'a Model {
        const FAMILIES: [(&str, &str); 3] = [("gemini", "flash"), ("gpt", "nano"), ("claude", "haiku")];
        let id = main.provider_id.as_str();
        let families = match id {
            // The models depend on the deployments of the account.
            "azure" | "azure-cognitive-services" => &[],
            _ if id.starts_with("opencode") => &FAMILIES[1..2],
            "github-copilot" => &[("gpt", "nano"), ("gpt", "mini")],
            _ => &FAMILIES[..],
        };
        let Some(provider) = self.provider(id) else { return main };
        let found = families.iter().find_map(|(family, size)| {
            let is_of = |model: &&Model| model.id.contains(family) && model.id.contains(size);
            // Of Amazon's profiles, the one of all regions is there for every account.
            let is_global = |model: &&Model| model.id.starts_with("global.") && is_of(model);
            provider.models.iter().find(is_global).or_else(|| provider.models.iter().find(is_of))
        });
        found.unwrap_or(main)
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
    resolve_with(config, credentials, &BTreeMap::new())
}

/// Like [`resolve`], with the options that plugins set for providers.
pub fn resolve_with(
    config: &Config,
    credentials: &Credentials,
    of_plugins: &BTreeMap<String, PluginOptions>,
) -> (Catalog, Vec<Warning>) {
    let mut warnings = Vec::new();
    let table = source::load(&config.environment, &config.paths, &mut warnings);
    let listed = table.providers();
    let ids = in_order(config, &listed);
    let find =
        |id: &str| listed.binary_search_by(|listed| listed.id.as_str().cmp(id)).ok().map(|at| &listed[at]);
    let make = |id: &str, warnings: &mut Vec<Warning>| {
        let known = build::Known { id, listed: find(id), table: &table, options: of_plugins.get(id) };
        build::provider(&known, config, credentials, warnings)
    };
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
            let is_usable = || make(id, &mut Vec::new()).is_ok();
            if switched_off.is_none() && is_usable() {
                switched_off = Some(Reason::Provider { provider: id.to_owned(), lack: lack.clone() });
            }
            lacking.insert(id.to_owned(), lack);
            continue;
        }
        match make(id, &mut warnings) {
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
        is_asked: false,
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

/// Returns all providers in order of precedence: those of the configuration in its order, then the catalog's.
fn in_order<'a>(config: &'a Config, listed: &'a [Listed]) -> Vec<&'a str> {
    let written = config.written.providers.iter().map(String::as_str);
    let configured = written.chain(config.providers.keys().map(String::as_str));
    let others = listed.iter().map(|listed| listed.id.as_str());
    let (shared, others): (Vec<&str>, Vec<&str>) = others.partition(|id| SHARED.contains(id));
    let mut ids: Vec<&str> = Vec::with_capacity(listed.len());
    let mut seen = HashSet::new();
    for id in configured.chain(PREFERRED).chain(others).chain(shared) {
        if seen.insert(id) {
            ids.push(id);
        }
    }
    ids
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
    environment.get("OPENAI_BASE_URL").filter(|url| build::trim(url) != OPENAI_URL)
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
        is_foreign: false,
        api_key: None,
        has_login: false,
        key_variable: None,
        exchange: None,
        auth: Auth::Bearer,
        aws: None,
        quirks: Quirks::default(),
        headers: Vec::new(),
        fetch: None,
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
