//! Describes providers with all that they offer, whether they can be used or not.

use serde_json::{Map, Value};
use windlass_protocol::opencode::config::ModelConfig;

use super::{Known, Offered, Stated, base, key_variables, model, offered_models, own_server, packages};

/// A provider as a person sees it, whether it can be used or not.
pub(in crate::catalog) struct Described {
    pub name: String,
    pub env: Vec<String>,
    /// Options of the configuration, without the key.
    pub options: Map<String, Value>,
    pub models: Vec<DescribedModel>,
    /// True if an address has parts that are looked up in the environment.
    pub takes_variables: bool,
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
pub(in crate::catalog) fn describe(known: &Known<'_>, stated: &Stated<'_>) -> Described {
    let base = base(known, stated);
    let has_own_server = own_server(stated.environment).is_some() && known.id == "openai";
    let (offered, _) = offered_models(known, stated, has_own_server, false, None);
    let has_variable = |url: Option<&str>| url.is_some_and(|url| url.contains("${"));
    let of_package = |npm: &str| packages::find(npm).and_then(|package| package.url);
    let of_model = |it: &Offered| {
        let own = it.config.provider.as_ref();
        let npm = own.and_then(|own| own.npm.as_deref()).unwrap_or(base.npm);
        has_variable(own.and_then(|own| own.api.as_deref())) || has_variable(of_package(npm))
    };
    let takes_variables =
        has_variable(base.vendor_url) || has_variable(of_package(base.npm)) || offered.values().any(of_model);
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
        env: key_variables(known.id, known.listed, stated.provider),
        name: base.name,
        options,
        takes_variables,
    }
}
