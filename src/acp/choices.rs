//! Checks the choices of a session's client among its options. Pure.

use jsonrpsee::types::ErrorObjectOwned;
use windlass_engine::Loaded;
use windlass_protocol::{opencode::model_ref::ModelRef, rpc::code};
use windlass_protocol_acp::decode::{InitialOption, OptionValue};

use super::{chosen::Chosen, error::error, options};

/// Checks an agent.
pub fn agent(loaded: &Loaded, mode: &str) -> Result<String, ErrorObjectOwned> {
    let choices = loaded.agent_choices();
    if choices.iter().any(|choice| choice.id == mode) {
        return Ok(mode.to_owned());
    }
    let names: Vec<&str> = choices.iter().map(|choice| choice.id.as_str()).collect();
    Err(invalid(&format!("unknown mode `{mode}`; there are {}", names.join(", "))))
}

/// Checks a model.
pub fn model(loaded: &Loaded, chosen: &Chosen, model: &str) -> Result<ModelRef, ErrorObjectOwned> {
    let unnamed = || invalid(&format!("unknown model `{model}`; a model is named `provider/model`"));
    let reference = ModelRef::parse(model).ok_or_else(unnamed)?;
    let found = loaded.checked_model(&reference).map_err(|unusable| {
        let kind = if unusable.is_fixed_by_login() { code::AUTH_REQUIRED } else { code::INVALID_PARAMS };
        error(kind, &unusable.to_string())
    })?;
    // A level that the user chose holds for every model that has it.
    let before = chosen.model.as_ref().and_then(|model| model.variant.clone());
    let variant = before.filter(|before| found.variant(before).is_some());
    Ok(ModelRef { variant, ..reference })
}

/// Checks how long the model is to think; returns the model with that.
pub fn thought_level(loaded: &Loaded, chosen: &Chosen, level: &str) -> Result<ModelRef, ErrorObjectOwned> {
    let (agent, model) = (chosen.agent.as_deref(), chosen.model.as_ref());
    let (names, _) = loaded.variants(agent, model);
    let current = loaded.current_model(agent, model);
    let variant = (level != options::DEFAULT_LEVEL).then(|| level.to_owned());
    let is_known = variant.as_ref().is_none_or(|variant| names.contains(variant));
    let (Ok(current), true, false) = (current, is_known, names.is_empty()) else {
        let there = if names.is_empty() {
            "the model has none".to_owned()
        } else {
            format!("there are {}, {}", options::DEFAULT_LEVEL, names.join(", "))
        };
        return Err(invalid(&format!("unknown thought level `{level}`; {there}")));
    };
    Ok(ModelRef { variant, ..current.reference() })
}

/// Returns the choices with those that a client makes ahead, one after another; unknown ones are left out (facts: ACP §2).
pub fn ahead(loaded: &Loaded, before: &Chosen, wanted: &[InitialOption], has_switches: bool) -> Chosen {
    let mut chosen = before.clone();
    for InitialOption { config_id, value } in wanted {
        let refusal = match (config_id.as_str(), value) {
            (options::MODE, OptionValue::Choice(value)) => {
                agent(loaded, value).map(|agent| chosen.agent = Some(agent)).err()
            }
            (options::MODEL, OptionValue::Choice(value)) => {
                model(loaded, &chosen, value).map(|model| chosen.model = Some(model)).err()
            }
            (options::THOUGHT_LEVEL, OptionValue::Choice(value)) => {
                thought_level(loaded, &chosen, value).map(|model| chosen.model = Some(model)).err()
            }
            (options::ACCEPT_EDITS, OptionValue::Switch(is_on)) if has_switches => {
                chosen.accepts_edits = *is_on;
                None
            }
            _ => Some(invalid(&format!("no such option or value: `{config_id}`"))),
        };
        if let Some(refusal) = refusal {
            tracing::warn!("an option that a client set ahead is ignored: {}", refusal.message());
        }
    }
    chosen
}

fn invalid(reason: &str) -> ErrorObjectOwned {
    error(code::INVALID_PARAMS, reason)
}
