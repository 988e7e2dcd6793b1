//! Reasons that a named or default model cannot be used, and the remedies.

use std::fmt;

use windlass_protocol::opencode::model_ref::ModelRef;

/// A model that cannot be used. Shown as one sentence that names the setting, the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unusable {
    pub named_by: NamedBy,
    /// The model; absent if none is named, or if the name cannot be parsed.
    pub model: Option<Box<ModelRef>>,
    pub reason: Box<Reason>,
    /// Place and problem of the file that the reason follows from.
    pub fault: Option<Box<str>>,
}

/// The place where a model is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedBy {
    /// The user or client chose it for this prompt or session.
    Choice,
    /// A key of the configuration, such as `agent.build.model`, with file and line where they are known.
    Setting {
        key: String,
        place: Option<String>,
    },
    Variable(&'static str),
    /// No place: the default is the first provider's best model.
    Nothing,
}

/// The reason that a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// No model is named, no provider is configured and no key exists.
    NothingConfigured,
    UnknownProvider {
        provider: String,
        model: String,
        /// Up to three models that resemble the named one.
        similar: Vec<String>,
    },
    Provider {
        provider: String,
        lack: Lack,
    },
    /// The provider's whitelist omits it, or its blacklist or status excludes it.
    Barred {
        provider: String,
        similar: Vec<String>,
    },
    /// The provider has a fixed set of models, and this is none of them.
    UnknownModel {
        provider: String,
        similar: Vec<String>,
    },
    /// The source that may name it cannot be read: place and problem.
    Unread(String),
    /// A provider is left out whole, and it may be the one that is meant: place and problem.
    LostProvider(String),
}

/// A necessity that a provider lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// A key, with the variables that may hold or lead to it.
    Key(Vec<String>),
    /// A key, and its variable is set, but empty.
    EmptyKey(String),
    Address,
    /// A variable that is a part of the address.
    Variable(String),
    /// An npm package that windlass does not know.
    Package(String),
    Models,
    /// `OPENAI_BASE_URL` leads to another server with unknown models.
    ServerModels,
    /// Excluded by `disabled_providers` or `enabled_providers`.
    Switch(&'static str),
}

impl Unusable {
    /// Returns true if a stored key would make the model usable.
    pub fn is_fixed_by_login(&self) -> bool {
        match &*self.reason {
            Reason::NothingConfigured | Reason::Provider { lack: Lack::Key(_) | Lack::EmptyKey(_), .. } => {
                true
            }
            Reason::UnknownProvider { .. }
            | Reason::Provider { .. }
            | Reason::Barred { .. }
            | Reason::UnknownModel { .. }
            | Reason::Unread(_)
            | Reason::LostProvider(_) => false,
        }
    }

    /// Returns true if neither the configuration nor the environment names a model.
    pub fn is_unconfigured(&self) -> bool {
        *self.reason == Reason::NothingConfigured && self.fault.is_none()
    }

    /// Returns the way out where a file is at fault.
    fn way_out(&self) -> String {
        match (self.is_fixed_by_login().then(|| self.reason.remedy()).flatten(), &self.named_by) {
            (Some(remedy), _) => format!("Correct it, or {remedy}"),
            (None, NamedBy::Choice) => "Correct it, or choose another model".to_owned(),
            (None, NamedBy::Setting { .. } | NamedBy::Variable(_) | NamedBy::Nothing) => {
                "Correct it, or choose a model with `-m provider/model` or in the client".to_owned()
            }
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &*self.reason;
        // The file comes first: all else follows from it.
        if let Some(fault) = &self.fault {
            let way_out = self.way_out();
            return write!(f, "{fault}. Therefore {}, and no model was asked. {way_out}.", reason.problem());
        }
        if let Reason::NothingConfigured = reason {
            return write!(f, "No model is configured: {reason}.");
        }
        if let Reason::LostProvider(problem) = reason {
            return write!(
                f,
                "{problem}. No model was asked, because the provider that is left out there may be meant. {}.",
                self.way_out()
            );
        }
        if let (NamedBy::Setting { key, .. }, Reason::Unread(problem)) = (&self.named_by, reason) {
            return write!(
                f,
                "{problem}. No model was asked, because `{key}` may be set there. {}.",
                self.way_out()
            );
        }
        let model = self.model.as_ref().map(ToString::to_string);
        match (&self.named_by, model) {
            (NamedBy::Setting { key, place }, model) => {
                let place = place.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
                match model {
                    Some(model) => {
                        write!(f, "`{key}`{place} names {model}, which cannot be used: {reason}.")
                    }
                    None => write!(f, "The model that `{key}` names is not known: {reason}."),
                }
            }
            (NamedBy::Variable(name), Some(model)) => {
                write!(f, "{name} names {model}, which cannot be used: {reason}.")
            }
            (NamedBy::Choice, Some(model)) => write!(f, "The model {model} cannot be used: {reason}."),
            (_, None) | (NamedBy::Nothing, Some(_)) => write!(f, "No model can be used: {reason}."),
        }
    }
}

impl Reason {
    /// Returns the reason as part of a sentence.
    fn problem(&self) -> String {
        match self {
            Reason::NothingConfigured => "no model is configured".to_owned(),
            Reason::UnknownProvider { provider, similar, .. } => {
                format!("there is no provider `{provider}`{}", did_you_mean(similar))
            }
            Reason::Provider { provider, lack } => match lack {
                Lack::Key(_) => format!("there is no key for {provider}"),
                Lack::EmptyKey(variable) => {
                    format!("{variable} is set, but empty, so there is no key for {provider}")
                }
                Lack::Address => format!("`provider.{provider}` has no address"),
                Lack::Variable(name) => format!("the address of {provider} needs {name}"),
                Lack::Package(package) => {
                    format!("the npm package {package} of `provider.{provider}` is not known")
                }
                Lack::Models => format!("`provider.{provider}` has no models"),
                Lack::ServerModels => "OPENAI_BASE_URL is set, but no model".to_owned(),
                Lack::Switch(key) => format!("`{key}` switches {provider} off"),
            },
            Reason::Barred { provider, .. } => {
                format!("the whitelist, blacklist or status under `provider.{provider}` leaves it out")
            }
            Reason::UnknownModel { provider, similar } => {
                format!("{provider} has no such model{}", did_you_mean(similar))
            }
            Reason::Unread(problem) | Reason::LostProvider(problem) => problem.clone(),
        }
    }

    /// Returns the way out as an imperative; `None` where the problem says it.
    fn remedy(&self) -> Option<String> {
        Some(match self {
            Reason::NothingConfigured => {
                "set ANTHROPIC_API_KEY or OPENAI_API_KEY, run `windlass auth login`, or \
                                          describe a `provider` in opencode.json"
                    .to_owned()
            }
            Reason::UnknownProvider { provider, model, .. } => {
                format!("add it to opencode.json by {}", entry(provider, model))
            }
            Reason::Provider { provider, lack } => match lack {
                Lack::Key(variables) => {
                    let set = match &variables[..] {
                        [] => String::new(),
                        names => format!("set {}, or ", names.join(" or ")),
                    };
                    format!("{set}run `windlass auth login --provider {provider}`")
                }
                Lack::EmptyKey(_) => {
                    format!("put the key there, or run `windlass auth login --provider {provider}`")
                }
                Lack::Address => "set `options.baseURL` there".to_owned(),
                Lack::Variable(_) => "set that variable, or `options.baseURL`".to_owned(),
                Lack::Package(_) => format!(
                    "set `windlass.wire.{provider}` to the protocol that it speaks: \"chat\", \"responses\", \
                     \"anthropic\" or \"google\""
                ),
                Lack::Models => {
                    "list them under `models` there, or run `windlass models` while its server runs"
                        .to_owned()
                }
                Lack::ServerModels => "set OPENAI_MODEL, or list `provider.openai.models`".to_owned(),
                Lack::Switch(_) => "change that list".to_owned(),
            },
            Reason::Barred { similar, .. } => format!("change it there{}", did_you_mean(similar)),
            Reason::UnknownModel { .. } | Reason::Unread(_) | Reason::LostProvider(_) => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.remedy()) {
            (Reason::NothingConfigured, Some(remedy)) => f.write_str(&remedy),
            (_, Some(remedy)) => write!(f, "{}; {remedy}", self.problem()),
            (_, None) => f.write_str(&self.problem()),
        }
    }
}

/// Returns the entry in a configuration file that adds a provider.
pub fn entry(provider: &str, model: &str) -> String {
    let provider = serde_json::Value::from(provider);
    let model = serde_json::Value::from(model);
    format!(
        "`\"provider\": {{{provider}: {{\"npm\": \"@ai-sdk/openai-compatible\", \"options\": \
         {{\"baseURL\": \"https://…/v1\"}}, \"models\": {{{model}: {{}}}}}}}}`"
    )
}

/// Returns a question to put behind a sentence; empty if there are no names to offer.
pub fn did_you_mean(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (did you mean {}?)", names.join(", ")) }
}
