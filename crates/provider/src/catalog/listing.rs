//! The whole catalog with the configuration over it, for programs that let a person choose.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_core::config::Config;
use windlass_protocol::opencode::{
    config::ModelConfig,
    provider::{
        AllProviders, CacheCost, Media, ModelApi, ModelCapabilities, Provider, ProviderModel, ProviderSource,
        ShownCost, ShownLimit, UsableProviders,
    },
};

use super::{
    Catalog,
    build::{self, describe},
    in_order, source,
};

/// Returns the usable providers.
pub fn usable(config: &Config, catalog: &Catalog) -> UsableProviders {
    let all = list(config, catalog, true);
    UsableProviders { default: defaults(&all, catalog), providers: all }
}

/// Returns every known provider; the usable ones first. Takes a while: there are thousands of models.
pub fn all(config: &Config, catalog: &Catalog) -> AllProviders {
    let all = list(config, catalog, false);
    let connected = catalog.providers.iter().map(|provider| provider.id.clone()).collect();
    AllProviders { default: defaults(&all, catalog), all, connected }
}

fn list(config: &Config, catalog: &Catalog, only_usable: bool) -> Vec<Provider> {
    // Problems of the catalog were told when the models were resolved.
    let table = source::load(&config.environment, &config.paths, &mut Vec::new());
    let listed = table.providers();
    let usable: Vec<&str> = catalog.providers.iter().map(|provider| provider.id.as_str()).collect();
    let others = in_order(config, &listed).into_iter().filter(|id| !only_usable && !usable.contains(id));
    let is_switched_off = |id: &str| {
        config.disabled_providers.iter().any(|disabled| disabled == id)
            || config.enabled_providers.as_ref().is_some_and(|enabled| !enabled.iter().any(|it| it == id))
    };
    let ids: Vec<&str> = usable.iter().copied().chain(others.filter(|id| !is_switched_off(id))).collect();
    ids.into_iter()
        .map(|id| {
            if id == catalog.demo().provider_id {
                return demo(catalog);
            }
            let found = listed.binary_search_by(|listed| listed.id.as_str().cmp(id)).ok();
            let known =
                build::Known { id, listed: found.map(|at| &listed[at]), table: &table, options: None };
            let described = describe::describe(&known, config);
            let has_variable = described.env.iter().any(|name| config.environment.get(name).is_some());
            let source = if config.providers.contains_key(id) {
                ProviderSource::Config
            } else if !usable.contains(&id) {
                ProviderSource::Custom
            } else if has_variable {
                ProviderSource::Env
            } else {
                ProviderSource::Api
            };
            let models =
                described.models.into_iter().map(|described| (described.id.clone(), model(id, described)));
            Provider {
                models: models.collect(),
                id: id.to_owned(),
                name: described.name,
                source,
                env: described.env,
                options: described.options,
            }
        })
        .collect()
}

/// Returns the best model of each provider: the one that would be used, else the newest.
fn defaults(providers: &[Provider], catalog: &Catalog) -> BTreeMap<String, String> {
    let best = |provider: &Provider| {
        let usable = catalog.providers.iter().find(|it| it.id == provider.id);
        let first = usable.and_then(|it| it.models.first()).map(|model| model.id.clone());
        let newest = || {
            let newest = provider
                .models
                .values()
                .max_by(|one, other| (&one.release_date, &other.id).cmp(&(&other.release_date, &one.id)));
            newest.map(|model| model.id.clone())
        };
        Some((provider.id.clone(), first.or_else(newest)?))
    };
    providers.iter().filter_map(best).collect()
}

fn model(provider: &str, described: describe::DescribedModel) -> ProviderModel {
    let describe::DescribedModel { id, config, npm, url, variants } = described;
    let ModelConfig { cost, limit, modalities, .. } = &config;
    let cost = cost.clone().unwrap_or_default();
    let limit = limit.unwrap_or_default();
    let modalities = modalities.clone().unwrap_or_default();
    let media = |kinds: &[String]| {
        let has = |kind: &str| kinds.iter().any(|it| it == kind);
        Media {
            text: has("text") || kinds.is_empty(),
            audio: has("audio"),
            image: has("image"),
            video: has("video"),
            pdf: has("pdf"),
        }
    };
    ProviderModel {
        api: ModelApi { id: config.id.clone().unwrap_or_else(|| id.clone()), url, npm },
        provider_id: provider.to_owned(),
        name: config.name.clone().unwrap_or_else(|| id.clone()),
        id,
        family: config.family.clone(),
        capabilities: ModelCapabilities {
            temperature: config.temperature.unwrap_or(false),
            reasoning: config.reasoning.unwrap_or(false),
            attachment: config.attachment.unwrap_or(false),
            toolcall: config.tool_call.unwrap_or(true),
            input: media(&modalities.input),
            output: media(&modalities.output),
            interleaved: config.interleaved.clone().unwrap_or(Value::Bool(false)),
        },
        cost: ShownCost {
            input: cost.input,
            output: cost.output,
            cache: CacheCost { read: cost.cache_read, write: cost.cache_write },
        },
        limit: ShownLimit { context: limit.context, input: limit.input, output: limit.output },
        status: config.status.clone().unwrap_or_else(|| "active".to_owned()),
        options: config.options.clone(),
        headers: BTreeMap::new(),
        release_date: config.release_date.clone().unwrap_or_default(),
        variants: variants.into_iter().map(|(name, options)| (name, Value::Object(options))).collect(),
    }
}

fn demo(catalog: &Catalog) -> Provider {
    let demo = catalog.demo();
    let config = ModelConfig { name: Some(demo.name.clone()), limit: Some(demo.limit), ..Default::default() };
    let described = describe::DescribedModel {
        id: demo.id.clone(),
        config,
        npm: String::new(),
        url: String::new(),
        variants: Vec::new(),
    };
    Provider {
        id: demo.provider_id.clone(),
        name: demo.provider_name.clone(),
        source: ProviderSource::Custom,
        env: Vec::new(),
        options: Map::new(),
        models: [(demo.id.clone(), model(&demo.provider_id, described))].into(),
    }
}

#[cfg(test)]
mod tests;
