//! The configuration as clients see and change it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use windlass_base::blocking::blocking;
use windlass_core::{
    config::{
        Config, layers,
        patch::{self, PatchError},
    },
    library::commands::{Body, Command, Source},
};
use windlass_protocol::opencode::{permission::Rule, provider::UsableProviders};
use windlass_provider::catalog::{
    keys::{self as key_sources, Found, KeySource},
    listing::{self, EncodedListing},
};

use crate::{EngineError, EngineErrorKind, EngineState, Loaded, Workspace, Workspaces};

/// User name where neither the configuration nor the system has one.
const NOBODY: &str = "user";

impl Workspaces<'_> {
    /// Returns the merged configuration of a directory, without secrets.
    pub async fn shown_config(self, directory: &Path) -> Map<String, Value> {
        let (engine, directory) = (self.engine.clone(), directory.to_owned());
        let mut shown = blocking(move || {
            let EngineState { environment, paths, hooks, .. } = engine.0.as_ref();
            let mut shown = layers::shown(environment, paths, &directory, hooks);
            if !shown.contains_key("username") {
                let name = environment.get("USER").unwrap_or(NOBODY);
                shown.insert("username".to_owned(), name.into());
            }
            shown
        })
        .await;
        for key in ["command", "mode", "agent"] {
            shown.entry(key).or_insert_with(|| json!({}));
        }
        shown.entry("plugin").or_insert_with(|| json!([]));
        shown
    }

    /// Changes the file that a directory's configuration is read from, and reads it again.
    pub async fn patch_config(
        self,
        workspace: &Arc<Workspace>,
        patch: Map<String, Value>,
    ) -> Result<Map<String, Value>, EngineError> {
        let directory = workspace.directory().to_owned();
        self.change_config(move |state| patch::project_file(&state.environment, &directory), patch).await?;
        self.read_again(workspace).await?;
        Ok(self.shown_config(workspace.directory()).await)
    }

    /// Returns the plugins that the project's file names, or the user's.
    pub async fn written_plugins(self, directory: &Path, is_global: bool) -> Result<Vec<Value>, EngineError> {
        let written = self.written_setting(directory, "plugin", is_global).await?;
        Ok(written.and_then(|list| list.as_array().cloned()).unwrap_or_default())
    }

    /// Returns a setting as the project's file has it, or the user's.
    pub async fn written_setting(
        self,
        directory: &Path,
        key: &'static str,
        is_global: bool,
    ) -> Result<Option<Value>, EngineError> {
        let (engine, directory) = (self.engine.clone(), directory.to_owned());
        let read =
            blocking(move || patch::written(&config_file(&engine.0, &directory, is_global), key)).await;
        read.map_err(|error| EngineError::new(EngineErrorKind::InvalidInput, error.to_string()))
    }

    /// Changes the project's file, or the user's.
    pub async fn write_config(
        self,
        directory: &Path,
        patch: Map<String, Value>,
        is_global: bool,
    ) -> Result<(), EngineError> {
        let directory = directory.to_owned();
        self.change_config(move |state| config_file(state, &directory, is_global), patch).await
    }

    /// Changes the user's file of the configuration, and reads every directory's again.
    pub async fn patch_user_config(
        self,
        patch: Map<String, Value>,
    ) -> Result<Map<String, Value>, EngineError> {
        self.change_config(|state| patch::user_file(&state.paths), patch).await?;
        let workspaces: Vec<_> =
            windlass_base::lock::lock(&self.engine.0.workspaces).values().cloned().collect();
        for workspace in workspaces {
            self.read_again(&workspace).await?;
        }
        Ok(self.shown_user_config().await)
    }

    /// Returns the configuration outside of any project, without secrets.
    pub async fn shown_user_config(self) -> Map<String, Value> {
        let home = self.engine.0.environment.home.clone();
        self.shown_config(&home).await
    }

    async fn change_config(
        self,
        file: impl FnOnce(&EngineState) -> std::path::PathBuf + Send + 'static,
        patch: Map<String, Value>,
    ) -> Result<(), EngineError> {
        let engine = self.engine.clone();
        let changed = blocking(move || patch::change(&file(&engine.0), patch)).await;
        changed.map_err(|error| {
            let kind = match &error {
                PatchError::Invalid(_) => EngineErrorKind::InvalidInput,
                PatchError::File { .. } => EngineErrorKind::Internal,
            };
            EngineError::new(kind, error.to_string())
        })
    }
}

fn config_file(state: &EngineState, directory: &Path, is_global: bool) -> PathBuf {
    if is_global {
        patch::user_file(&state.paths)
    } else {
        patch::project_file(&state.environment, directory)
    }
}

impl Loaded {
    /// Returns the usable providers with their models. Takes a moment: the models are read from the catalog.
    pub async fn usable_providers(self: &Arc<Self>) -> UsableProviders {
        let loaded = self.clone();
        blocking(move || listing::usable(&loaded.config, &loaded.catalog)).await
    }

    /// Returns every known provider with its models. Does blocking reads.
    ///
    /// # Errors
    ///
    /// If the entries of the catalog cannot be made.
    pub fn encode_providers(&self) -> io::Result<EncodedListing> {
        listing::encode(&self.config, &self.catalog)
    }

    /// Returns where keys and logins were found, without themselves: as the newer clients' connections, by provider.
    pub async fn connections(self: &Arc<Self>) -> Vec<(String, Value)> {
        let loaded = self.clone();
        let found = blocking(move || {
            let Config { environment, paths, .. } = &loaded.config;
            key_sources::find(&loaded.config, environment, paths)
        });
        let connection = |Found { provider, kind, source, .. }: Found| {
            let shown = match source {
                KeySource::Variable(name) => json!({"type": "env", "name": name}),
                KeySource::File(_) => json!({"type": "credential", "id": provider, "label": kind}),
                KeySource::Configuration => {
                    json!({"type": "credential", "id": provider, "label": "configuration"})
                }
            };
            (provider, shown)
        };
        found.await.into_iter().map(connection).collect()
    }

    /// Returns the agents as clients see them.
    pub fn shown_agents(&self) -> Vec<Value> {
        let shown = self.agents.iter().map(|agent| {
            let rules: Vec<Rule> = agent.policy.layers().iter().flat_map(|it| it.rules.to_vec()).collect();
            let mut shown = json!({
                "name": agent.name,
                "mode": agent.mode,
                "native": agent.native,
                "hidden": agent.hidden,
                "permission": rules,
                "options": agent.options,
            });
            let model = agent.model.as_ref();
            let more = [
                ("description", agent.description.clone().map(Value::from)),
                ("prompt", agent.prompt.as_deref().map(Value::from)),
                ("temperature", agent.temperature.map(Value::from)),
                ("topP", agent.top_p.map(Value::from)),
                ("color", agent.color.clone().map(Value::from)),
                ("variant", agent.variant.clone().map(Value::from)),
                ("steps", agent.steps.map(Value::from)),
                ("model", model.map(|it| json!({"providerID": it.provider_id, "modelID": it.model_id}))),
            ];
            for (key, value) in more {
                if let (Value::Object(shown), Some(value)) = (&mut shown, value) {
                    shown.insert(key.to_owned(), value);
                }
            }
            shown
        });
        shown.collect()
    }

    /// Returns the commands as clients see them.
    pub fn shown_commands(&self, of_servers: &[Command]) -> Vec<Value> {
        let of_servers = of_servers.iter().filter(|command| !self.commands.contains_key(&command.name));
        let shown = self.commands.values().chain(of_servers).map(|command| {
            let source = match command.source {
                Source::Builtin | Source::Config => "command",
                Source::Skill => "skill",
                Source::Server => "mcp",
            };
            let template = match &command.body {
                Body::Template(template) => template.to_string(),
                Body::Skill(_) | Body::ServerPrompt(_) | Body::Builtin(_) | Body::Compact => String::new(),
            };
            let mut shown = json!({
                "name": command.name,
                "description": command.description,
                "source": source,
                "template": template,
                "hints": command.hint().into_iter().collect::<Vec<_>>(),
            });
            let more = [
                ("agent", command.agent.clone().map(Value::from)),
                ("model", command.model.clone().map(Value::from)),
                ("subtask", command.subtask.map(Value::from)),
            ];
            for (key, value) in more {
                if let (Value::Object(shown), Some(value)) = (&mut shown, value) {
                    shown.insert(key.to_owned(), value);
                }
            }
            shown
        });
        shown.collect()
    }

    /// Returns the skills as clients see them, with their texts.
    pub async fn shown_skills(self: &Arc<Self>) -> Vec<Value> {
        let loaded = self.clone();
        blocking(move || {
            let shown = loaded.skills.iter().map(|skill| {
                let body = skill.load(&loaded.config.project_files).map(|content| content.body).unwrap_or_default();
                let location = skill.location.as_ref().map_or("<built-in>".into(), |it| it.display().to_string());
                json!({"name": skill.name, "description": skill.description, "location": location, "content": body})
            });
            shown.collect()
        })
        .await
    }
}
