//! The whole catalog with the configuration over it, for programs that let a person choose.

use std::{
    collections::BTreeMap,
    num::NonZero,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde::Serialize;
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use windlass_core::config::Config;
use windlass_protocol::opencode::{
    config::ModelConfig,
    provider::{
        CacheCost, Media, ModelApi, ModelCapabilities, Provider, ProviderModel, ProviderSource, ShownCost,
        ShownLimit, UsableProviders,
    },
};

use super::{
    Catalog,
    build::{self, describe},
    in_order, source,
    table::{Listed, Table},
};

/// Threads that describe the providers.
const MAX_THREADS: usize = 8;

/// Returns the usable providers.
pub fn usable(config: &Config, catalog: &Catalog) -> UsableProviders {
    let table = table(config);
    let listed = table.providers();
    let ids = ids(config, catalog, &listed, true);
    let providers = ids.into_iter().map(|id| provider(config, catalog, &table, &listed, id));
    let providers: Vec<Provider> = providers.collect();
    let default = providers.iter().filter_map(|it| Some((it.id.clone(), best(it, catalog)?))).collect();
    UsableProviders { default, providers }
}

/// Returns every known provider as OpenCode's list of all in JSON; the usable ones first. Takes a while: there are thousands of
/// models.
pub fn encode_all(config: &Config, catalog: &Catalog) -> serde_json::Result<Vec<u8>> {
    /// An `AllProviders`, encoded provider by provider.
    #[derive(Serialize)]
    struct Encoded<'a> {
        all: Vec<Box<RawValue>>,
        default: BTreeMap<&'a str, String>,
        connected: Vec<&'a str>,
    }
    let table = table(config);
    let listed = table.providers();
    let ids = ids(config, catalog, &listed, false);
    let encoded = in_threads(&ids, |id| {
        let provider = provider(config, catalog, &table, &listed, id);
        Ok::<_, serde_json::Error>((to_raw_value(&provider)?, best(&provider, catalog)))
    });
    let (mut all, mut default) = (Vec::new(), BTreeMap::new());
    for (id, encoded) in ids.iter().zip(encoded) {
        let (provider, best) = encoded?;
        all.push(provider);
        default.extend(best.map(|best| (*id, best)));
    }
    let connected = catalog.providers.iter().map(|provider| provider.id.as_str()).collect();
    serde_json::to_vec(&Encoded { all, default, connected })
}

/// Does independent work on each of some items, and returns the results in their order.
fn in_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let idx = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(idx) else { return done };
            done.push((idx, work(item)));
        }
    };
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let mut done = thread::scope(|scope| {
        // Where there are no more threads, this one does the work alone.
        let helpers = (1..n_threads).map(|_| thread::Builder::new().spawn_scoped(scope, run));
        let helpers: Vec<_> = helpers.filter_map(Result::ok).collect();
        let mut done = run();
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(idx, _)| *idx);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Reads the catalog that holds.
fn table(config: &Config) -> Table {
    // Its problems were told when the models were resolved.
    source::load(&config.environment, &config.paths, &mut Vec::new())
}

/// Returns the ids of the providers to show.
fn ids<'a>(
    config: &'a Config,
    catalog: &'a Catalog,
    listed: &'a [Listed],
    only_usable: bool,
) -> Vec<&'a str> {
    let usable: Vec<&str> = catalog.providers.iter().map(|provider| provider.id.as_str()).collect();
    let others = in_order(config, listed).into_iter().filter(|id| !only_usable && !usable.contains(id));
    let is_switched_off = |id: &str| {
        config.disabled_providers.iter().any(|disabled| disabled == id)
            || config.enabled_providers.as_ref().is_some_and(|enabled| !enabled.iter().any(|it| it == id))
    };
    usable.iter().copied().chain(others.filter(|id| !is_switched_off(id))).collect()
}

fn provider(config: &Config, catalog: &Catalog, table: &Table, listed: &[Listed], id: &str) -> Provider {
    if id == catalog.demo().provider_id {
        return demo(catalog);
    }
    let found = listed.binary_search_by(|listed| listed.id.as_str().cmp(id)).ok();
    let known = build::Known { id, listed: found.map(|at| &listed[at]), table, options: None };
    let described = describe::describe(&known, config);
    let has_variable = described.env.iter().any(|name| config.environment.get(name).is_some());
    let source = if config.providers.contains_key(id) {
        ProviderSource::Config
    } else if catalog.providers.iter().all(|usable| usable.id != id) {
        ProviderSource::Custom
    } else if has_variable {
        ProviderSource::Env
    } else {
        ProviderSource::Api
    };
    let models = described.models.into_iter().map(|described| (described.id.clone(), model(id, described)));
    Provider {
        models: models.collect(),
        id: id.to_owned(),
        name: described.name,
        source,
        env: described.env,
        options: described.options,
    }
}

/// Returns the best model of a provider: the one that would be used, else the newest.
fn best(provider: &Provider, catalog: &Catalog) -> Option<String> {
    let usable = catalog.providers.iter().find(|it| it.id == provider.id);
    let first = usable.and_then(|it| it.models.first()).map(|model| model.id.clone());
    let newest = || {
        let newest = provider
            .models
            .values()
            .max_by(|one, other| (&one.release_date, &other.id).cmp(&(&other.release_date, &one.id)));
        newest.map(|model| model.id.clone())
    };
    first.or_else(newest)
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
