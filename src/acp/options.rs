//! Modes and configuration options of a session, in both generations of the protocol (facts: ACP §1.4.10). Pure.

use windlass_protocol::acp::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};

use super::session::FrontSession;
use crate::{engine::Loaded, library::Agent, provider::Model};

/// Id of the option that chooses the agent.
pub const MODE: &str = "mode";
/// Id of the option that chooses the model.
pub const MODEL: &str = "model";

/// The agent that answers the next prompt.
pub fn current_agent<'a>(loaded: &'a Loaded, front: &FrontSession) -> &'a Agent {
    let chosen =
        front.agent.as_deref().and_then(|name| loaded.agent(name)).filter(|agent| agent.is_primary());
    chosen.unwrap_or_else(|| loaded.default_agent())
}

/// The model that answers the next prompt.
pub fn current_model<'a>(loaded: &'a Loaded, front: &FrontSession) -> &'a Model {
    loaded.model_for(current_agent(loaded, front), front.model.as_ref())
}

/// The primary agents as modes.
pub fn modes(loaded: &Loaded, front: &FrontSession) -> SessionModeState {
    let modes = loaded.primary_agents().map(|agent| {
        SessionMode::new(agent.name.clone(), agent.name.clone()).description(agent.description.clone())
    });
    SessionModeState::new(current_agent(loaded, front).name.clone(), modes.collect())
}

/// The complete list of options with their current values.
pub fn config_options(loaded: &Loaded, front: &FrontSession) -> Vec<SessionConfigOption> {
    let models = loaded.catalog.models().map(|model| {
        let name = format!("{}/{}", model.provider_name, model.name);
        SessionConfigSelectOption::new(model.reference().to_string(), name)
    });
    let agents = loaded.primary_agents().map(|agent| {
        SessionConfigSelectOption::new(agent.name.clone(), agent.name.clone())
            .description(agent.description.clone())
    });
    let model = current_model(loaded, front).reference().to_string();
    let mode = current_agent(loaded, front).name.clone();
    vec![
        SessionConfigOption::select(MODEL, "Model", model, models.collect::<Vec<_>>())
            .category(SessionConfigOptionCategory::Model),
        SessionConfigOption::select(MODE, "Session Mode", mode, agents.collect::<Vec<_>>())
            .category(SessionConfigOptionCategory::Mode),
    ]
}
