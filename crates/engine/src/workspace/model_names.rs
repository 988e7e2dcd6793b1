//! The models that a configuration names: where it names those that cannot be had, and those that the catalog does not know.

use std::collections::BTreeMap;

use windlass_core::{
    config::{Config, layer::Layer, model::parse_model, sources},
    library::Agent,
};
use windlass_protocol::opencode::model_ref::ModelRef;
use windlass_provider::{catalog::Catalog, unusable::did_you_mean};

/// Returns a note about a model that its provider may know and the catalog does not.
pub fn unlisted(catalog: &Catalog, reference: &ModelRef) -> Option<String> {
    let is_listed = catalog.find(reference).is_some();
    (!is_listed).then(|| {
        let hint = did_you_mean(&catalog.suggest(reference));
        format!("{reference} is not in the catalog; its limits and prices are unknown{hint}.")
    })
}

/// Returns file and line of every key that names a model which cannot be used.
pub fn places(
    config: &Config,
    agents: &[Agent],
    catalog: &Catalog,
    layers: &[Layer],
) -> BTreeMap<String, String> {
    let general = [("model", &config.model), ("small_model", &config.small_model)];
    let general = general.into_iter().filter_map(|(key, model)| Some((vec![key], model.as_ref()?)));
    let own = agents
        .iter()
        .filter_map(|agent| Some((vec!["agent", agent.name.as_str(), "model"], agent.model.as_ref()?)));
    let models: Vec<(&String, ModelRef)> = config
        .commands
        .iter()
        .filter_map(|(name, command)| Some((name, parse_model(command.model.as_deref()?)?)))
        .collect();
    let commands = models.iter().map(|(name, model)| (vec!["command", name.as_str(), "model"], model));
    let unusable = general.chain(own).chain(commands).filter(|(_, model)| catalog.get(model).is_err());
    unusable.filter_map(|(path, _)| Some((path.join("."), sources::place(&path, layers)?))).collect()
}
