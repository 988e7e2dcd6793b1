//! The plugins' part in providers: options that they set once a login is stored, and models that they list.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value};
use windlass_core::config::Config;
use windlass_protocol::opencode::{
    config::{AuthEntry, ModelConfig, ModelCost, ModelLimit, ModelProvider},
    provider::{Provider, ProviderModel},
};
use windlass_provider::{
    Secret,
    auth::Credentials,
    catalog::{self, listing},
    http::fetch::{Fetch, FetchError, FetchRequest, FetchResponse},
    plugin_options::PluginOptions,
};
use windlass_services::plugin::{fetch::Unsent, host::Host, offer::LoadedLogin};

use crate::Engine;

/// The change of a configuration's providers, and the options of those with a stored login.
pub(crate) type Extend = dyn Fn(&mut Config, &Credentials) -> BTreeMap<String, PluginOptions> + Send + Sync;

/// Returns the plugins' part in providers, if they have one. It must be made on the runtime and used on another
/// thread.
pub(crate) fn extension(engine: &Engine, host: Arc<Host>) -> Option<Box<Extend>> {
    let offer = host.offer();
    if offer.models.is_empty() && !offer.logins.iter().any(|login| login.has_loader) {
        return None;
    }
    let (engine, runtime) = (engine.clone(), tokio::runtime::Handle::current());
    let extend = move |config: &mut Config, credentials: &Credentials| {
        let loaders = offer.logins.iter().filter(|login| login.has_loader).map(|login| &login.provider);
        let loaders: Vec<&String> = loaders.filter(|id| credentials.contains_key(*id)).collect();
        if loaders.is_empty() && offer.models.is_empty() {
            return BTreeMap::new();
        }
        let mut keyed = credentials.clone();
        for id in &loaders {
            keyed.insert((*id).clone(), AuthEntry::key("key"));
        }
        let (catalog, _) = catalog::resolve(config, &keyed);
        let shown = listing::usable(config, &catalog).providers;
        let info = |id: &str| shown.iter().find(|provider| provider.id == id);
        let mut options = BTreeMap::new();
        for id in loaders {
            let kind = credentials.get(id).map(kind).unwrap_or_default();
            match runtime.block_on(host.load_login(id, kind, &to_value(&info(id)))) {
                Ok(loaded) if loaded != LoadedLogin::default() => {
                    for (model, changed) in &loaded.costs {
                        let entry = config.providers.entry(id.clone()).or_default();
                        entry.models.entry(model.clone()).or_default().cost = Some(cost(changed));
                    }
                    options.insert(id.clone(), self::options(&engine, &config.directory, id, loaded));
                }
                Ok(_) => {}
                Err(reason) => {
                    let login = offer.logins.iter().find(|login| login.provider == *id);
                    let plugin = login.map(|login| login.plugin.as_str()).unwrap_or_default();
                    host.tell(format!("The plugin {plugin} cannot use the login at {id}: {reason}"));
                }
            }
        }
        for id in &offer.models {
            let Some(info) = info(id) else { continue };
            match runtime.block_on(host.models(id, &to_value(&info), &to_value(&credentials.get(id)))) {
                Ok(Value::Object(models)) => list(config, info, &models),
                Ok(_) => {}
                Err(reason) => tracing::warn!("a plugin does not list the models of {id}: {reason}"),
            }
        }
        options
    };
    Some(Box::new(extend))
}

fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn kind(entry: &AuthEntry) -> &'static str {
    match entry {
        AuthEntry::Api { .. } => "api",
        AuthEntry::Oauth { .. } => "oauth",
        AuthEntry::Wellknown { .. } => "wellknown",
    }
}

fn options(engine: &Engine, directory: &Path, id: &str, loaded: LoadedLogin) -> PluginOptions {
    let LoadedLogin { api_key, base_url, headers, fetches, costs: _ } = loaded;
    PluginOptions {
        api_key: api_key.map(Secret),
        base_url,
        headers: headers.unwrap_or_default(),
        fetch: fetches.then(|| fetch(engine, directory, id)),
    }
}

/// Returns the function that sends a provider's requests by the plugins that run when they are sent.
fn fetch(engine: &Engine, directory: &Path, id: &str) -> Fetch {
    let (id, directory) = (id.to_owned(), directory.to_owned());
    let name = format!("{id} in {}", directory.display());
    // The engine holds the owner of this function.
    let state = Arc::downgrade(&engine.0);
    let send = move |request: FetchRequest| {
        let (state, id, directory) = (state.clone(), id.clone(), directory.clone());
        let sent = async move {
            let ending = || FetchError::Refused("windlass is ending".to_owned());
            let engine = Engine(state.upgrade().ok_or_else(ending)?);
            let absent = || FetchError::Refused(format!("the plugin for {id} does not run"));
            let host = engine.plugins().host(&directory).ok_or_else(absent)?;
            let FetchRequest { url, headers, body } = request;
            let fetched = host.fetch(&id, &url, &headers, &body).await.map_err(|unsent| match unsent {
                Unsent::Broken(reason) => FetchError::Transport(reason),
                Unsent::Refused(reason) => FetchError::Refused(reason),
            })?;
            let body = stream::unfold(fetched.body, |mut body| async {
                let piece = body.next().await?;
                Some((piece.map(Bytes::from), body))
            });
            Ok(FetchResponse { status: fetched.status, headers: fetched.headers, body: body.boxed() })
        };
        Box::pin(sent) as _
    };
    Fetch { name, send: Arc::new(send) }
}

/// Puts the models that a plugin lists in the place of a provider's.
fn list(config: &mut Config, provider: &Provider, models: &Map<String, Value>) {
    let listed = models.iter().map(|(id, model)| (id.clone(), configured(provider.models.get(id), model)));
    let listed: BTreeMap<String, ModelConfig> = listed.collect();
    let entry = config.providers.entry(provider.id.clone()).or_default();
    entry.whitelist = Some(listed.keys().cloned().collect());
    for (id, mut model) in listed {
        // The user's own settings of a model hold.
        if let Some(own) = entry.models.remove(&id) {
            model.options.extend(own.options);
            model.headers.extend(own.headers);
            model.cost = model.cost.or(own.cost);
        }
        entry.models.insert(id, model);
    }
}

/// Returns a model as a configuration would name it. Plugins leave fields out.
fn configured(known: Option<&ProviderModel>, model: &Value) -> ModelConfig {
    let text = |pointer: &str| model.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let flag = |pointer: &str| model.pointer(pointer).and_then(Value::as_bool);
    let number = |pointer: &str| model.pointer(pointer).and_then(Value::as_u64);
    let map = |pointer: &str| model.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default();
    let headers =
        map("/headers").into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
    // An unchanged value is not the model's own.
    let npm = text("/api/npm").filter(|it| known.is_none_or(|known| known.api.npm != *it));
    let url = text("/api/url").filter(|it| known.is_none_or(|known| known.api.url != *it));
    let (npm, url) = (npm.filter(|it| !it.is_empty()), url.filter(|it| !it.is_empty()));
    ModelConfig {
        id: text("/api/id"),
        name: text("/name"),
        family: text("/family"),
        attachment: flag("/capabilities/attachment"),
        reasoning: flag("/capabilities/reasoning"),
        temperature: flag("/capabilities/temperature"),
        tool_call: flag("/capabilities/toolcall"),
        limit: Some(ModelLimit {
            context: number("/limit/context").unwrap_or_default(),
            input: number("/limit/input"),
            output: number("/limit/output").unwrap_or_default(),
        }),
        // Prices that a plugin leaves as they are keep their tiers, which it is not shown.
        cost: model.get("cost").map(cost).filter(|cost| known.is_none_or(|known| !is_shown_as(cost, known))),
        options: map("/options"),
        headers: headers.collect(),
        status: text("/status"),
        release_date: text("/release_date"),
        provider: (npm.is_some() || url.is_some()).then_some(ModelProvider { npm, api: url }),
        ..ModelConfig::default()
    }
}

/// Returns prices as a configuration would name them.
fn cost(shown: &Value) -> ModelCost {
    let price = |pointer: &str| shown.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    ModelCost {
        input: price("/input"),
        output: price("/output"),
        cache_read: price("/cache/read"),
        cache_write: price("/cache/write"),
        ..ModelCost::default()
    }
}

/// Returns true if plugins see these prices of a model.
fn is_shown_as(cost: &ModelCost, known: &ProviderModel) -> bool {
    let shown = &known.cost;
    [cost.input, cost.output, cost.cache_read, cost.cache_write]
        == [shown.input, shown.output, shown.cache.read, shown.cache.write]
}
