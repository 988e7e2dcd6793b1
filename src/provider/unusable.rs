//! Reasons that a named or default model cannot be used, and the remedies.

use std::fmt;

use windlass_protocol::opencode::message::ModelRef;

/// A model that cannot be used. Shown as one sentence that names the setting, the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unusable {
    pub named_by: NamedBy,
    /// The model; absent if none is named, or if the name cannot be parsed.
    pub model: Option<Box<ModelRef>>,
    pub reason: Box<Reason>,
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
    /// `OPENAI_BASE_URL` leads to another server whose models are unknown.
    ServerModels,
    /// Excluded by `disabled_providers` or `enabled_providers`.
    Switch(&'static str),
}

impl Unusable {
    /// Makes the error for a model that the user or client chose.
    pub fn choice(model: &ModelRef, reason: Reason) -> Self {
        Self { named_by: NamedBy::Choice, model: Some(Box::new(model.clone())), reason: Box::new(reason) }
    }

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
            | Reason::Unread(_) => false,
        }
    }

    /// Returns true if neither the configuration nor the environment names a model.
    pub fn is_unconfigured(&self) -> bool {
        *self.reason == Reason::NothingConfigured
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &*self.reason;
        if let Reason::NothingConfigured = reason {
            return write!(f, "No model is configured: {reason}.");
        }
        if let (NamedBy::Setting { key, .. }, Reason::Unread(problem)) = (&self.named_by, reason) {
            // The file comes first: all else follows from it.
            return write!(
                f,
                "{problem}. No model was asked, because `{key}` may be set there. Correct it, or choose a model with \
                 `-m provider/model` or in the client."
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NothingConfigured => f.write_str(
                "set ANTHROPIC_API_KEY or OPENAI_API_KEY, run `windlass auth login`, or describe a `provider` in \
                 opencode.json",
            ),
            Reason::UnknownProvider { provider, model, similar } => {
                write!(
                    f,
                    "there is no provider `{provider}`{}; add it to opencode.json by {}",
                    did_you_mean(similar),
                    entry(provider, model)
                )
            }
            Reason::Provider { provider, lack } => match lack {
                Lack::Key(variables) => {
                    let set = match &variables[..] {
                        [] => String::new(),
                        names => format!("set {}, or ", names.join(" or ")),
                    };
                    write!(
                        f,
                        "there is no key for {provider}; {set}run `windlass auth login --provider {provider}`"
                    )
                }
                Lack::EmptyKey(variable) => write!(
                    f,
                    "{variable} is set, but empty, so there is no key for {provider}; put the key there, or run \
                     `windlass auth login --provider {provider}`"
                ),
                Lack::Address => {
                    write!(f, "`provider.{provider}` has no address; set `options.baseURL` there")
                }
                Lack::Variable(name) => {
                    write!(f, "the address of {provider} needs {name}; set that variable, or `options.baseURL`")
                }
                Lack::Package(package) => write!(
                    f,
                    "the npm package {package} of `provider.{provider}` is not known; set `windlass.wire.{provider}` \
                     to the protocol that it speaks: \"chat\", \"responses\", \"anthropic\" or \"google\""
                ),
                Lack::Models => {
                    write!(
                        f,
                        "`provider.{provider}` has no models; list them under `models` there, or run `windlass models` while its \
                         server runs"
                    )
                }
                Lack::ServerModels => f.write_str(
                    "OPENAI_BASE_URL is set, but no model; set OPENAI_MODEL, or list `provider.openai.models`",
                ),
                Lack::Switch(key) => write!(f, "`{key}` switches {provider} off; change that list"),
            },
            Reason::Barred { provider, similar } => write!(
                f,
                "the whitelist, blacklist or status under `provider.{provider}` leaves it out; change it there{}",
                did_you_mean(similar)
            ),
            Reason::UnknownModel { provider, similar } => {
                write!(f, "{provider} has no such model{}", did_you_mean(similar))
            }
            Reason::Unread(problem) => f.write_str(problem),
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
