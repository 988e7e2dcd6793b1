//! Modes and configuration options of a session, in both generations of the protocol (facts: ACP §1.4.10). Pure.

use serde::Serialize;
use windlass_engine::{Choice, Loaded};
use windlass_protocol_acp::{
    decode::ClientCapabilities,
    schema::{
        ConfigOptionUpdate, CurrentModeUpdate, Meta, SessionConfigOption, SessionConfigOptionCategory,
        SessionConfigSelectOption, SessionMode, SessionModeState, SessionUpdate,
    },
};

use super::chosen::Chosen;

/// Id of the option that chooses the agent.
pub const MODE: &str = "mode";
/// Id of the option that chooses the model.
pub const MODEL: &str = "model";
/// Id of the option that chooses how long the model thinks.
pub const THOUGHT_LEVEL: &str = "thought_level";
/// The value of the option above for a model that is left to itself.
pub const DEFAULT_LEVEL: &str = "default";
/// Id of the switch by which edits are made without a question, in this session and as long as it is open.
pub const ACCEPT_EDITS: &str = "accept_edits";
/// The model's value where none is known.
const NO_MODEL: &str = "none";

/// Returns the agent that answers the next prompt.
pub fn current_agent<'a>(loaded: &'a Loaded, chosen: &Chosen) -> &'a str {
    loaded.agent_name(chosen.agent.as_deref())
}

/// Returns the session's model as an option; one that cannot be used stays chosen, and its name says so.
fn current_model(loaded: &Loaded, chosen: &Chosen) -> Choice {
    let (id, name) = match loaded.current_model(chosen.agent.as_deref(), chosen.model.as_ref()) {
        Ok(model) => (model.reference().to_string(), format!("{}/{}", model.provider_name, model.name)),
        Err(unusable) => {
            let named = unusable.model.map_or(NO_MODEL.to_owned(), |model| model.to_string());
            let name = format!("{named} (cannot be used)");
            (named, name)
        }
    };
    Choice { id, name, description: None, color: None }
}

/// Returns true if the demo answers the next prompt.
pub fn is_demo(loaded: &Loaded, chosen: &Chosen) -> bool {
    let answers = loaded.answers_next(chosen.agent.as_deref(), chosen.model.as_ref());
    answers.is_ok_and(|model| loaded.is_demo(&model.reference()))
}

/// Returns the primary agents as modes.
pub fn modes(loaded: &Loaded, chosen: &Chosen) -> SessionModeState {
    let modes = loaded.agent_choices().into_iter();
    let modes = modes.map(|choice| {
        let color = choice.color.map(|color| Meta::from_iter([("windlass/color".to_owned(), color.into())]));
        SessionMode::new(choice.id, choice.name).description(choice.description).meta(color)
    });
    SessionModeState::new(current_agent(loaded, chosen).to_owned(), modes.collect())
}

/// Returns the complete list of options with their current values.
pub fn config_options(
    loaded: &Loaded,
    chosen: &Chosen,
    client: &ClientCapabilities,
) -> Vec<SessionConfigOption> {
    let (model, models) = models_to_choose(loaded, chosen);
    let mode = current_agent(loaded, chosen).to_owned();
    let mut options = vec![
        SessionConfigOption::select(MODEL, "Model", model, select_options(models))
            .category(SessionConfigOptionCategory::Model),
        SessionConfigOption::select(MODE, "Session Mode", mode, select_options(loaded.agent_choices()))
            .category(SessionConfigOptionCategory::Mode),
    ];
    options.extend(thought_level(loaded, chosen));
    if client.switches {
        let accept_edits = SessionConfigOption::boolean(ACCEPT_EDITS, "Accept edits", chosen.accepts_edits);
        let description = "Changes files without asking wherever the rules would ask. Denials hold.";
        options.push(accept_edits.description(description.to_owned()));
    }
    options
}

/// The models as the older `session/set_model` has them, which the published types no longer have.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Models {
    current_model_id: String,
    available_models: Vec<AvailableModel>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AvailableModel {
    model_id: String,
    name: String,
}

/// Returns the models that the older `session/set_model` can choose.
pub fn models(loaded: &Loaded, chosen: &Chosen) -> Models {
    let (current, models) = models_to_choose(loaded, chosen);
    let models = models.into_iter().map(|Choice { id, name, .. }| AvailableModel { model_id: id, name });
    Models { current_model_id: current, available_models: models.collect() }
}

/// Returns the id of the session's model, and every model that can be chosen.
fn models_to_choose(loaded: &Loaded, chosen: &Chosen) -> (String, Vec<Choice>) {
    let current = current_model(loaded, chosen);
    let mut models = loaded.model_choices();
    if !models.iter().any(|choice| choice.id == current.id) {
        models.insert(0, current.clone());
    }
    (current.id, models)
}

/// Returns the option that chooses how long the model thinks, for a model that can be told.
fn thought_level(loaded: &Loaded, chosen: &Chosen) -> Option<SessionConfigOption> {
    let (names, current) = loaded.variants(chosen.agent.as_deref(), chosen.model.as_ref());
    if names.is_empty() {
        return None;
    }
    let levels = [DEFAULT_LEVEL.to_owned()].into_iter().chain(names);
    let options: Vec<_> =
        levels.map(|name| SessionConfigSelectOption::new(name.clone(), capitalized(&name))).collect();
    let current = current.unwrap_or_else(|| DEFAULT_LEVEL.to_owned());
    let option = SessionConfigOption::select(THOUGHT_LEVEL, "Thought Level", current, options);
    Some(option.category(SessionConfigOptionCategory::ThoughtLevel))
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns the updates that tell a client about another agent.
pub fn mode_updates(loaded: &Loaded, chosen: &Chosen, client: &ClientCapabilities) -> [SessionUpdate; 2] {
    let mode = CurrentModeUpdate::new(current_agent(loaded, chosen).to_owned());
    let options = ConfigOptionUpdate::new(config_options(loaded, chosen, client));
    [SessionUpdate::CurrentModeUpdate(mode), SessionUpdate::ConfigOptionUpdate(options)]
}

fn select_options(choices: Vec<Choice>) -> Vec<SessionConfigSelectOption> {
    let options = choices.into_iter();
    options
        .map(|choice| SessionConfigSelectOption::new(choice.id, choice.name).description(choice.description))
        .collect()
}
