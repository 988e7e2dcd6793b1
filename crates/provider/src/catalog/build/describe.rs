//! Describes providers with all that they offer, whether they can be used or not.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use windlass_core::config::Environment;
use windlass_protocol::opencode::config::ModelConfig;

use super::{
    Known, Stated, address::of_vendor, base, key_variables, model, offered_models, own_server, packages,
};

/// A provider as a person sees it, whether it can be used or not.
pub(in crate::catalog) struct Described {
    pub name: String,
    pub env: Vec<String>,
    /// Options of the configuration, without the key.
    pub options: Map<String, Value>,
    pub models: Vec<DescribedModel>,
    /// Addresses with parts that are looked up in the environment.
    pub templates: BTreeSet<String>,
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
    let of_package = |npm: &str| packages::find(npm).and_then(|package| package.url);
    let of_models = offered.values().flat_map(|it| {
        let own = it.config.provider.as_ref();
        let npm = own.and_then(|own| own.npm.as_deref()).unwrap_or(base.npm);
        [own.and_then(|own| own.api.as_deref()), of_package(npm)]
    });
    let addresses = [base.vendor_url, of_package(base.npm)].into_iter().chain(of_models).flatten();
    let templates = addresses.filter(|url| url.contains("${")).map(str::to_owned).collect();
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
        templates,
    }
}

/// Returns true if these addresses of a provider are as they are where no variable is set.
pub(in crate::catalog) fn is_without_variables(
    known: &Known<'_>,
    stated: &Stated<'_>,
    templates: &[&str],
) -> bool {
    let nothing = Environment::default();
    let (own, other) = (base(known, stated), base(known, &Stated { environment: &nothing, ..*stated }));
    let is_same = |template: &&str| of_vendor(template, &own).ok() == of_vendor(template, &other).ok();
    templates.iter().all(is_same)
}
