//! Providers as a client routes them while the process runs: to addresses and with headers of its own, or off.
//! Nothing of it is stored.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use windlass_base::lock::lock;
use windlass_core::config::Hook;
use windlass_provider::Wire;

use crate::{Engine, EngineError, EngineErrorKind};

/// Headers in which keys are sent.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Stands for a key at an address of a client's that wants none.
const NO_KEY: &str = "none";

/// A client's change of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientProvider {
    Routed { base_url: String, headers: BTreeMap<String, String> },
    Disabled { protocol: Option<&'static str> },
}

/// The providers that clients have changed, by id.
pub(super) type ClientProviders = BTreeMap<String, ClientProvider>;

/// A provider that a client may route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRoute {
    pub id: String,
    /// Its protocol; `None` where it is off and not known.
    pub protocol: Option<&'static str>,
    /// Its address; `None` while it is off.
    pub base_url: Option<String>,
}

impl Engine {
    /// Returns the providers that can be used in a directory, and those that the client has switched off.
    pub async fn provider_routes(&self, directory: &Path) -> Result<Vec<ProviderRoute>, EngineError> {
        let loaded = self.workspaces().read_files(directory).await?;
        let demo = loaded.demo().provider_id.clone();
        let usable = loaded.catalog.providers.iter().filter(|entry| entry.id != demo);
        let mut routes: Vec<ProviderRoute> = usable
            .filter_map(|entry| {
                let model = loaded.catalog.any_of(&entry.id)?;
                let protocol = Some(protocol(&entry.id, model.wire));
                Some(ProviderRoute { id: entry.id.clone(), protocol, base_url: Some(model.base_url.clone()) })
            })
            .collect();
        for (id, changed) in lock(&self.0.client_providers).iter() {
            if let ClientProvider::Disabled { protocol } = changed {
                routes.push(ProviderRoute { id: id.clone(), protocol: *protocol, base_url: None });
            }
        }
        Ok(routes)
    }

    /// Routes a provider that is known in a directory, in place of the route that was set for it before.
    pub async fn route_provider(
        &self,
        directory: &Path,
        id: &str,
        protocol: &str,
        base_url: String,
        headers: BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        let refused = |message: String| Err(EngineError::new(EngineErrorKind::InvalidInput, message));
        if !self.workspaces().read_files(directory).await?.catalog.known().iter().any(|known| known == id) {
            return refused(self.accounts().unknown_provider(directory, id).await?);
        }
        let routes = self.provider_routes(directory).await?;
        let own = routes.iter().find(|route| route.id == id).and_then(|route| route.protocol);
        if let Some(own) = own.filter(|own| *own != protocol) {
            return refused(format!("the provider {id} speaks `{own}`, not `{protocol}`"));
        }
        let wanted = base_url.trim_end_matches('/').to_owned();
        let routed = ClientProvider::Routed { base_url, headers };
        let before = lock(&self.0.client_providers).insert(id.to_owned(), routed);
        self.read_all_again().await;
        let routes = self.provider_routes(directory).await?;
        let is_routed = |route: &ProviderRoute| {
            route.id == id && route.base_url.as_ref().is_some_and(|url| url.trim_end_matches('/') == wanted)
        };
        if routes.iter().any(is_routed) {
            return Ok(());
        }
        match before {
            Some(before) => lock(&self.0.client_providers).insert(id.to_owned(), before),
            None => lock(&self.0.client_providers).remove(id),
        };
        self.read_all_again().await;
        refused(format!("the configuration or a plugin keeps {id} from being routed to {wanted}"))
    }

    /// Switches a provider off; one that is not known is off already.
    pub async fn disable_provider(&self, directory: &Path, id: &str) -> Result<(), EngineError> {
        let routes = self.provider_routes(directory).await?;
        let protocol = routes.iter().find(|route| route.id == id).and_then(|route| route.protocol);
        let disabled = ClientProvider::Disabled { protocol };
        lock(&self.0.client_providers).insert(id.to_owned(), disabled);
        self.read_all_again().await;
        Ok(())
    }

    /// Returns the client's part in every configuration that is read, where it has one.
    pub(super) fn client_hook(&self) -> Option<Hook> {
        let changed = lock(&self.0.client_providers).clone();
        if changed.is_empty() {
            return None;
        }
        let change = move |config: &mut Map<String, Value>| {
            for (id, changed) in &changed {
                change_provider(config, id, changed);
            }
            Ok(())
        };
        Some(Hook { name: "client".to_owned(), change: Arc::new(change), is_held: false })
    }

    async fn read_all_again(&self) {
        let directories: Vec<PathBuf> = lock(&self.0.workspaces).keys().cloned().collect();
        for directory in directories {
            let workspace = lock(&self.0.workspaces).get(&directory).cloned();
            match (self.workspaces().read(&directory).await, workspace) {
                (Ok(reading), Some(workspace)) => self.workspaces().apply_reading(&workspace, reading),
                (Ok(_), None) => {}
                (Err(error), _) => {
                    tracing::warn!(%error, "the configuration of a directory was not read again");
                }
            }
        }
    }
}

/// Returns the protocol of a provider as ACP names it.
fn protocol(id: &str, wire: Wire) -> &'static str {
    match wire {
        _ if id.starts_with("azure") => "azure",
        Wire::OpenAiChat | Wire::OpenAiResponses => "openai",
        Wire::Anthropic => "anthropic",
        Wire::Google if id.contains("vertex") => "vertex",
        Wire::Google => "_google",
        Wire::Bedrock => "bedrock",
        Wire::Demo => "_demo",
    }
}

fn change_provider(config: &mut Map<String, Value>, id: &str, changed: &ClientProvider) {
    match changed {
        ClientProvider::Disabled { .. } => {
            let disabled = config.entry("disabled_providers").or_insert_with(|| json!([]));
            if let Value::Array(disabled) = disabled {
                disabled.push(id.into());
            }
        }
        ClientProvider::Routed { base_url, headers } => {
            let known = config.get("provider").and_then(|it| it[id]["options"]["headers"].as_object());
            // Headers for another address are not for this one; an empty one takes a header away.
            let mut all: BTreeMap<&str, &str> =
                known.into_iter().flatten().map(|(name, _)| (name.as_str(), "")).collect();
            all.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            let mut options = json!({ "baseURL": base_url, "headers": all });
            // The user's own key is for its own address: a client that brings none goes without.
            options["apiKey"] = key(headers).unwrap_or(NO_KEY).into();
            let provider = config.entry("provider").or_insert_with(|| json!({}));
            let provider = &mut provider[id];
            if !provider.is_object() {
                *provider = json!({});
            }
            if !provider["options"].is_object() {
                provider["options"] = json!({});
            }
            if let (Value::Object(before), Value::Object(options)) = (&mut provider["options"], options) {
                before.extend(options);
            }
        }
    }
}

/// Returns the key among the headers.
fn key(headers: &BTreeMap<String, String>) -> Option<&str> {
    let mut keys =
        headers.iter().filter(|(name, _)| KEY_HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    keys.next().map(|(_, value)| value.strip_prefix("Bearer ").unwrap_or(value))
}
