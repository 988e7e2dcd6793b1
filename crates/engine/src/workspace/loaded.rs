//! The configuration of a workspace as its files said when they were read last, and the choices that it gives a user.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use windlass_base::{
    log,
    watch::{self, Target},
};
use windlass_core::{
    config::{
        Config, Environment, Hook, Warning, faults::CREDENTIALS, layers, paths::Paths, reader, sources,
    },
    library::{
        self, Agent,
        skills::{self, Skill},
    },
};
use windlass_protocol::opencode::{model_ref::ModelRef, permission::Action};
use windlass_provider::{
    Model, auth,
    catalog::{self, Catalog},
    demo,
};
use windlass_services::{
    mcp,
    plugin::plan::{self, Plan},
};

use super::{lint, model_names, state_file};
use crate::{
    EngineError, EngineErrorKind, mention,
    plugins::{self, providers::Extend},
    prompt_part::PromptPart,
};

/// Something a user may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// An agent's, as the user wrote it.
    pub color: Option<String>,
}

/// A slash command that a user may type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandChoice {
    pub name: String,
    pub description: String,
    /// Words to type behind the name, if they make a difference.
    pub hint: Option<String>,
}

impl CommandChoice {
    pub(crate) fn of(command: &library::commands::Command) -> Self {
        let (name, description) = (command.name.clone(), command.description.clone());
        Self { name, description, hint: command.hint() }
    }
}

/// Contents of the files at their last reading. A turn keeps the one that it began with.
#[derive(PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// Default agent first, then by name; never empty.
    pub agents: Vec<Agent>,
    pub skills: Vec<Skill>,
    pub commands: BTreeMap<String, library::commands::Command>,
    pub catalog: Catalog,
    /// The model that a user chose last in any session.
    pub last_used: Option<ModelRef>,
    /// Directories of a marketplace's agents, there or not.
    pub market: Vec<PathBuf>,
    /// Plugins and tool files.
    pub plan: Plan,
    /// File and line of the keys that name models which cannot be had.
    pub(crate) model_places: BTreeMap<String, String>,
    /// Ignored settings, for the user to see.
    pub warnings: Vec<Warning>,
    /// Settings that take effect but may have been meant otherwise, beside the configuration's own notes.
    pub notes: Vec<Warning>,
}

impl Loaded {
    /// Reads everything; an entry that is broken and was not before stays as it was. Plugins change the configuration
    /// and then its providers. Does blocking file reads.
    pub(crate) fn read(
        environment: &Environment,
        paths: &Paths,
        (hooks, extend): (&[Hook], Option<&Extend>),
        directory: &Path,
        use_stored_keys: bool,
        before: Option<&Loaded>,
    ) -> Self {
        let before = before.map(|before| &before.config);
        let (mut config, layers) = layers::load(environment, paths, directory, hooks, before);
        let mut warnings = std::mem::take(&mut config.warnings);
        let credentials = if use_stored_keys {
            let (credentials, faults) = auth::load(paths, environment);
            for auth::Fault { provider, warning } in faults {
                let path = std::iter::once(CREDENTIALS.to_owned()).chain(provider).collect();
                config.faults.add(path, &warning);
                warnings.push(warning);
            }
            credentials
        } else {
            auth::Credentials::default()
        };
        let (skills, found) = skills::scan(&config);
        warnings.extend(found.warnings);
        let mut notes = found.notes;
        let (agents, more) = library::agents(&config, &skills);
        warnings.extend(more);
        let (commands, more) = library::commands::commands(&config, &skills);
        warnings.extend(more);
        let of_plugins = extend.map(|extend| extend(&mut config, &credentials)).unwrap_or_default();
        let (catalog, more) = catalog::resolve_with(&config, &credentials, &of_plugins);
        warnings.extend(more);
        warnings.extend(lint::warnings(&config, &agents, &catalog));
        notes.extend(lint::unlisted_models(&config, &agents, &catalog));
        let model_places = model_names::places(&config, &agents, &catalog, &layers);
        // No reader of a warning can correct a plugin's configuration.
        warnings.retain(|warning| {
            let is_plugins = sources::is_of_hook(warning, &layers, plugins::HOOK);
            if is_plugins {
                tracing::info!("{warning}");
            }
            !is_plugins
        });
        sources::locate(&mut warnings, &layers);
        sources::locate(&mut notes, &layers);
        let market = reader::market_directories(&config.environment, &layers);
        let plan = Plan::read(&config, &layers);
        warnings.extend(plan.problems.iter().map(|(file, reason)| Warning {
            source: file.display().to_string(),
            line: None,
            column: None,
            message: reason.clone(),
        }));
        let last_used = state_file::last_used_model(paths).unwrap_or_else(|warning| {
            warnings.push(warning);
            None
        });
        Self {
            config,
            agents,
            skills,
            commands,
            catalog,
            last_used,
            model_places,
            market,
            plan,
            warnings,
            notes,
        }
    }

    /// Returns the MCP servers that are switched on.
    pub(crate) fn servers(&self) -> Vec<mcp::ServerSpec> {
        mcp::specs(&self.config, &self.config.mcp, |_| false)
    }

    /// Returns the paths that were read, or would have been had they existed.
    pub(crate) fn sources(&self) -> Vec<Target> {
        let keys = [self.config.paths.auth(), self.config.paths.opencode_auth()];
        let files = self.config.watched.iter().cloned().chain(keys).map(Target::File);
        let market = self.market.iter().cloned().map(library::definitions);
        let scripts = plan::directories(&self.config).map(|root| Target::Tree { root, depth: 2 });
        let plugins = self.plan.files().map(Target::File);
        files.chain(library::sources(&self.config)).chain(market).chain(scripts).chain(plugins).collect()
    }

    /// Adds warnings about trees in which not every change is noticed.
    pub(crate) fn warn_of_overfull(&mut self, trees: &[PathBuf]) {
        self.warnings.extend(trees.iter().map(|tree| Warning {
            source: tree.display().to_string(),
            line: None,
            column: None,
            message: format!(
                "holds more than {} directories; changes in the deepest are noticed with the next turn only",
                watch::MAX_DIRECTORIES
            ),
        }));
    }

    /// Logs the faults that were not known `before`.
    pub(crate) fn log_problems(&self, before: Option<&Self>) {
        for warning in &self.warnings {
            match before {
                None => tracing::warn!(target: log::CONFIGURED, "{warning}"),
                Some(before) if before.warnings.contains(warning) => {}
                Some(_) => tracing::warn!("{warning}"),
            }
        }
        for note in self.config.notes.iter().chain(&self.notes) {
            tracing::debug!("{note}");
        }
    }

    /// Returns an agent by name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the sentence about the file of a missing agent or command, to put before the failure that follows from
    /// it; empty if there is none.
    pub fn before(&self, key: &str, name: &str) -> String {
        let is_missing =
            if key == "agent" { self.agent(name).is_none() } else { !self.commands.contains_key(name) };
        let fault = self.config.faults.about(&[key, name]).filter(|_| is_missing);
        fault.map(|fault| format!("{fault}. Therefore: ")).unwrap_or_default()
    }

    /// Returns an agent that was asked for by name.
    pub fn checked_agent(&self, name: &str) -> Result<&Agent, EngineError> {
        self.agent(name).ok_or_else(|| {
            let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
            let fault = self.before("agent", name);
            let message =
                format!("{fault}Agent not found: \"{name}\". Available agents: {}", names.join(", "));
            EngineError::new(EngineErrorKind::InvalidInput, message)
        })
    }

    /// Returns the agent that answers when none is chosen.
    pub fn default_agent(&self) -> &Agent {
        // The list begins with the default agent: `library::agents` puts `build` there when nothing else is left.
        &self.agents[0]
    }

    /// Returns the subagents and resources that a user's words name by `@`, as parts of the prompt.
    pub fn mentions(&self, words: &str) -> Vec<PromptPart> {
        let names = self.agents.iter().filter(|agent| agent.is_subagent()).map(|agent| agent.name.clone());
        mentions(words, &names.collect::<Vec<_>>())
    }

    /// Returns true for a file with a session's plan.
    pub fn is_plan(&self, file: &Path) -> bool {
        file.parent() == Some(&*library::plans(&self.config))
    }

    /// Returns the agents a user may choose.
    pub fn agent_choices(&self) -> Vec<Choice> {
        let agents = self.agents.iter().filter(|agent| agent.is_primary());
        agents
            .map(|agent| Choice {
                id: agent.name.clone(),
                name: agent.title.clone().unwrap_or_else(|| agent.name.clone()),
                description: agent.description.clone(),
                color: agent.color.clone(),
            })
            .collect()
    }

    /// Returns the commands a user may type, by name.
    pub fn command_choices(&self) -> Vec<CommandChoice> {
        let policy = &self.default_agent().policy;
        let is_denied = |command: &&library::commands::Command| {
            command.source == library::commands::Source::Skill
                && policy.evaluate("skill", &command.name) == Action::Deny
        };
        let commands = self.commands.values().filter(|command| !is_denied(command));
        commands.map(CommandChoice::of).collect()
    }

    /// Returns the demo's own command, unless the configuration has one of this name.
    pub fn demo_command(&self) -> Option<CommandChoice> {
        (!self.commands.contains_key(demo::COMMAND)).then(|| CommandChoice {
            name: demo::COMMAND.to_owned(),
            description: "Have the demo show a tool at work".to_owned(),
            hint: Some(demo::FORMS.to_owned()),
        })
    }

    /// Returns the models a user may choose, by `provider/model`.
    pub fn model_choices(&self) -> Vec<Choice> {
        let models = self.catalog.models().map(|model| Choice {
            id: model.reference().to_string(),
            name: format!("{}/{}", model.provider_name, model.name),
            description: None,
            color: None,
        });
        models.collect()
    }

    /// Returns the name of the agent that answers: the chosen one if it may be chosen, else the default.
    pub fn agent_name<'a>(&'a self, chosen: Option<&str>) -> &'a str {
        let chosen = chosen.and_then(|name| self.agent(name)).filter(|agent| agent.is_primary());
        &chosen.unwrap_or_else(|| self.default_agent()).name
    }

    /// Tokens of a model's context window, where it is known.
    pub fn context_size(&self, reference: &ModelRef) -> Option<u64> {
        let model = self.catalog.find(reference)?;
        (model.limit.context > 0).then_some(model.limit.context)
    }

    /// Returns the variant of a model that answers for an agent: the chosen one, else the agent's own with its
    /// own model.
    ///
    /// `None` when the model has no variant of that name.
    pub fn variant_for(&self, agent: &Agent, model: &Model, chosen: Option<&str>) -> Option<String> {
        let is_own = agent
            .model
            .as_ref()
            .is_none_or(|own| own.provider_id == model.provider_id && own.model_id == model.id);
        let wanted = chosen.or_else(|| agent.variant.as_deref().filter(|_| is_own))?;
        model.variant(wanted).map(|_| wanted.to_owned())
    }
}

/// Returns those of the subagents, and the resources, that a user's words name by `@`, as parts of the prompt.
pub fn mentions(words: &str, subagents: &[String]) -> Vec<PromptPart> {
    let subagents = mention::subagents(words, subagents).into_iter();
    let subagents = subagents.map(|name| PromptPart::Agent { name: name.to_owned() });
    subagents.chain(mention::resources(words).into_iter().map(PromptPart::File)).collect()
}
