//! The model that answers: the one that was chosen or named, or the reason why it cannot be had, and never
//! another one.

use windlass_core::{config::faults::CREDENTIALS, library::Agent};
use windlass_protocol::opencode::model_ref::ModelRef;
use windlass_provider::{
    Model, Wire,
    unusable::{Lack, NamedBy, Reason, Unusable},
};

use super::{loaded::Loaded, model_names};
use crate::{EngineError, EngineErrorKind};

const OPENAI_MODEL: &str = "OPENAI_MODEL";

impl From<Unusable> for EngineError {
    fn from(unusable: Unusable) -> Self {
        let kind = if unusable.is_fixed_by_login() {
            EngineErrorKind::AuthRequired
        } else {
            EngineErrorKind::ModelUnusable
        };
        Self::new(kind, unusable.to_string())
    }
}

impl Loaded {
    /// Returns the model that answers a prompt of an agent's.
    ///
    /// Where none was chosen for it, everything that the configuration says of models has to be usable: a title is
    /// part of the user's request.
    pub fn answering(&self, agent: &Agent, chosen: Option<&ModelRef>) -> Result<Model, Unusable> {
        let model = self.model_for(agent, chosen);
        if chosen.is_none() && model.as_ref().map_or_else(Unusable::is_unconfigured, |_| true) {
            self.small_model(model.as_ref().unwrap_or(self.demo()))?;
        }
        model
    }

    /// Returns the model for an agent: the chosen one, the agent's own, the default.
    pub fn model_for(&self, agent: &Agent, chosen: Option<&ModelRef>) -> Result<Model, Unusable> {
        if let Some(chosen) = chosen {
            return self.checked_model(chosen);
        }
        match self.named(&format!("agent.{}.model", agent.name), agent.model.as_ref()) {
            Some(own) => own,
            None => self.default_model(),
        }
    }

    /// Returns the model that answers when neither a user nor an agent says which: the configured one, that of
    /// `OPENAI_MODEL`, the one used last, the first provider's best.
    pub fn default_model(&self) -> Result<Model, Unusable> {
        if let Some(configured) = self.named("model", self.config.model.as_ref()) {
            return configured;
        }
        if let Some(problem) = &self.config.lost_provider {
            let reason = Reason::LostProvider(problem.clone());
            return Err(self.unusable(NamedBy::Nothing, None, reason));
        }
        let of_variable = self.config.environment.get(OPENAI_MODEL).map(|id| ModelRef {
            provider_id: "openai".to_owned(),
            model_id: id.to_owned(),
            variant: None,
        });
        // Other programs read the variable too: without a key or a server it is not meant for us.
        if let Some(model) = of_variable.and_then(|reference| self.catalog.get(&reference).ok()) {
            return Ok(model);
        }
        // It may have been used in another directory, with other providers than this one.
        if let Some(last) = self.last_used.as_ref().and_then(|last| self.catalog.get(last).ok()) {
            return Ok(last);
        }
        self.catalog.best().map_err(|reason| self.unusable(NamedBy::Nothing, None, reason))
    }

    /// Returns true if the user names the model for titles.
    pub fn names_small_model(&self) -> bool {
        let of_agent = self.agent("title").and_then(|agent| agent.model.as_ref());
        of_agent.or(self.config.small_model.as_ref()).is_some()
    }

    /// Returns the model for titles: the agent `title`'s own, `small_model`, a small one of the main model's
    /// provider.
    pub fn small_model(&self, main: &Model) -> Result<Model, Unusable> {
        let of_agent = self.agent("title").and_then(|agent| agent.model.as_ref());
        let named = self.named("agent.title.model", of_agent);
        let named = named.or_else(|| self.named("small_model", self.config.small_model.as_ref()));
        named.unwrap_or_else(|| Ok(self.catalog.small_model(main).clone()))
    }

    /// Returns the model that answers the next prompt of a user with these choices: the demo where nothing is
    /// configured.
    pub fn answers_next(&self, agent: Option<&str>, model: Option<&ModelRef>) -> Result<Model, Unusable> {
        let agent = self.agent(self.agent_name(agent)).unwrap_or_else(|| self.default_agent());
        match self.answering(agent, model) {
            Err(unusable) if unusable.is_unconfigured() => Ok(self.demo().clone()),
            chosen => chosen,
        }
    }

    /// Returns the current model of a session with these choices.
    ///
    /// Unlike `answers_next`, it leaves `small_model` out: a broken one refuses prompts, but it is not the session's
    /// model.
    pub fn current_model(&self, agent: Option<&str>, model: Option<&ModelRef>) -> Result<Model, Unusable> {
        let agent = self.agent(self.agent_name(agent)).unwrap_or_else(|| self.default_agent());
        match self.model_for(agent, model) {
            Err(unusable) if unusable.is_unconfigured() && self.small_model(self.demo()).is_ok() => {
                Ok(self.demo().clone())
            }
            current => current,
        }
    }

    /// Returns the names of the variants of the current model of a session with these choices, and the name of the one
    /// that answers.
    pub fn variants(&self, agent: Option<&str>, model: Option<&ModelRef>) -> (Vec<String>, Option<String>) {
        let Ok(current) = self.current_model(agent, model) else { return (Vec::new(), None) };
        let agent = self.agent(self.agent_name(agent)).unwrap_or_else(|| self.default_agent());
        let chosen = model.and_then(|model| model.variant.as_deref());
        let answers = self.variant_for(agent, &current, chosen);
        (current.variants.into_iter().map(|(name, _)| name).collect(), answers)
    }

    /// Returns a model that was chosen by name.
    pub fn checked_model(&self, reference: &ModelRef) -> Result<Model, Unusable> {
        self.catalog.get(reference).map_err(|reason| self.unusable(NamedBy::Choice, Some(reference), reason))
    }

    /// Returns the model that a key names; `None` when it names none.
    pub(crate) fn named(&self, key: &str, reference: Option<&ModelRef>) -> Option<Result<Model, Unusable>> {
        let unusable = |model: Option<&ModelRef>, reason| {
            let place = self.model_places.get(key).cloned();
            self.unusable(NamedBy::Setting { key: key.to_owned(), place }, model, reason)
        };
        if let Some(problem) = self.config.unread_models.get(key) {
            return Some(Err(unusable(None, Reason::Unread(problem.clone()))));
        }
        let reference = reference?;
        Some(self.catalog.get(reference).map_err(|reason| unusable(Some(reference), reason)))
    }

    /// Makes the error for a model, with the fault of a file that it follows from.
    fn unusable(&self, named_by: NamedBy, model: Option<&ModelRef>, reason: Reason) -> Unusable {
        let fault = self.fault_behind(&reason).map(Box::from);
        Unusable { named_by, model: model.cloned().map(Box::new), reason: Box::new(reason), fault }
    }

    /// Returns place and problem of the fault in a file that a reason follows from.
    fn fault_behind(&self, reason: &Reason) -> Option<&str> {
        let faults = &self.config.faults;
        let below = |provider: &str, keys: &[&[&str]]| {
            keys.iter().find_map(|key| faults.about(&[&["provider", provider], *key].concat()))
        };
        match reason {
            Reason::NothingConfigured => faults.about(&["provider"]).or_else(|| faults.about(&[CREDENTIALS])),
            Reason::UnknownProvider { provider, .. } => faults.about(&["provider", provider]),
            Reason::Provider { provider, lack } => match lack {
                Lack::Key(_) => faults
                    .about(&[CREDENTIALS, provider])
                    .or_else(|| below(provider, &[&["options", "apiKey"]])),
                Lack::EmptyKey(_) => faults.about(&[CREDENTIALS, provider]),
                Lack::Address | Lack::Variable(_) => {
                    below(provider, &[&["options", "baseURL"], &["options", "endpoint"], &["api"]])
                }
                Lack::Package(_) => below(provider, &[&["npm"]]),
                Lack::Models | Lack::ServerModels => below(provider, &[&["models"]]),
                Lack::Switch(_) => None,
            },
            Reason::Barred { provider, .. } => below(provider, &[&["whitelist"], &["blacklist"]]),
            Reason::UnknownModel { .. } | Reason::Unread(_) | Reason::LostProvider(_) => None,
        }
    }

    /// Returns the built-in demo, which answers by itself only where nothing at all is configured and a user is
    /// there to see.
    pub fn demo(&self) -> &Model {
        self.catalog.demo()
    }

    /// Returns true for the built-in demo.
    pub fn is_demo(&self, reference: &ModelRef) -> bool {
        self.catalog.find(reference).is_some_and(|model| model.wire == Wire::Demo)
    }

    /// Returns a note about a model that its provider may know and the catalog does not.
    pub fn unlisted(&self, model: &Model) -> Option<String> {
        model_names::unlisted(&self.catalog, &model.reference())
    }
}
