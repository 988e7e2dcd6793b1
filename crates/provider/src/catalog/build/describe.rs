//! Describes providers with all that they offer, whether they can be used or not.

use serde_json::{Map, Value};
use windlass_core::config::Config;
use windlass_protocol::opencode::config::{ModelConfig, ProviderConfig};

use super::{Known, base, key_variables, model, offered_models, own_server};

/// A provider as a person sees it, whether it can be used or not.
pub(in crate::catalog) struct Described {
    pub name: String,
    pub env: Vec<String>,
    /// Options of the configuration, without the key.
    pub options: Map<String, Value>,
    pub models: Vec<DescribedModel>,
}

/// A model as a person sees it.
pub(in crate::catalog) struct DescribedModel {
    pub id: String,
    pub config: ModelConfig,
    pub npm: String,
    pub url: String,
    pub variants: Vec<(String, Map<String, Value>)>,
}

/// Describes a provider with all that it offers.
pub(in crate::catalog) fn describe(known: &Known<'_>, config: &Config) -> Described {
    let unconfigured = ProviderConfig::default();
    let provider_config = config.providers.get(known.id).unwrap_or(&unconfigured);
    let base = base(known, config, &config.environment, provider_config);
    let has_own_server = own_server(&config.environment).is_some() && known.id == "openai";
    let (offered, _) = offered_models(known, config, has_own_server, false, None);
    let models = offered.into_iter().map(|(id, offered)| {
        let made = model(&base, &id, &offered).ok();
        let npm = offered.config.provider.as_ref().and_then(|own| own.npm.clone());
        DescribedModel {
            npm: npm.unwrap_or_else(|| base.npm.to_owned()),
            url: made.as_ref().map_or_else(String::new, |made| made.base_url.clone()),
            variants: made.map_or_else(Vec::new, |made| made.variants),
            config: offered.config,
            id,
        }
    });
    let mut options = Map::new();
    if let Some(url) = &base.configured_url {
        options.insert("baseURL".to_owned(), url.clone().into());
    }
    Described {
        models: models.collect(),
        env: key_variables(known.id, known.listed, provider_config),
        name: base.name,
        options,
    }
}
