//! The plugins of a directory for people: what each offers, and why one is left out.

use std::{path::Path, time::Duration};

use crate::{
    engine::{Engine, EngineError, EngineErrorKind, Finding, Loaded, Workspace},
    plugin::{
        host::Host,
        packages,
        plan::{Planned, Source},
    },
};

/// Time that plugins are waited for.
const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// A plugin as people see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginReport {
    pub name: String,
    /// The version of an installed package.
    pub version: Option<String>,
    pub hooks: Vec<String>,
    pub tools: Vec<String>,
    /// Milliseconds that loading took.
    pub load_ms: u64,
    /// The reason why the plugin is left out.
    pub error: Option<String>,
}

impl Engine {
    /// Starts the plugins of a directory and returns what became of each; the tools of files stand under their files.
    pub async fn plugin_reports(&self, directory: &Path) -> Result<Vec<PluginReport>, EngineError> {
        let workspace = self.workspace(directory).await?;
        let reports = self.reports_of(&workspace).await;
        workspace.close().await;
        self.end_plugins(directory).await;
        Ok(reports)
    }

    async fn reports_of(&self, workspace: &Workspace) -> Vec<PluginReport> {
        let loaded = workspace.loaded();
        let mut reports = match self.plugins(workspace.directory()) {
            Some(host) => reports_of_host(&loaded, &host).await,
            None => Vec::new(),
        };
        // A program is started by its calls alone.
        reports.extend(loaded.plan.manifests.iter().map(|manifest| PluginReport {
            name: manifest.file.display().to_string(),
            tools: vec![manifest.name.clone()],
            ..PluginReport::default()
        }));
        reports.extend(loaded.plan.problems.iter().map(|(file, reason)| PluginReport {
            name: file.display().to_string(),
            error: Some(reason.clone()),
            ..PluginReport::default()
        }));
        reports
    }

    /// Installs a package of a plugin, again where it is installed.
    pub async fn install_plugin(&self, directory: &Path, spec: &str) -> Result<(), EngineError> {
        let loaded = self.inspect_files(directory).await?;
        let installed = packages::install(&loaded.config, spec).await;
        installed.map_err(|reason| EngineError::new(EngineErrorKind::InvalidInput, reason))
    }

    /// Returns the packages among the plugins of a directory, as they are written.
    pub async fn plugin_packages(&self, directory: &Path) -> Result<Vec<String>, EngineError> {
        let loaded = self.inspect_files(directory).await?;
        let plugins = loaded.plan.plugins.iter().filter(|it| matches!(it.source, Source::Package(_)));
        Ok(plugins.map(|it| it.spec.clone()).collect())
    }

    /// Returns what `doctor` says of the plugins of a directory: nothing where there are none.
    pub(crate) async fn plugin_findings(&self, workspace: &Workspace) -> Vec<Finding> {
        const TOPIC: &str = "plugins";
        let host = self.plugins(workspace.directory());
        let mut findings = Vec::new();
        for report in self.reports_of(workspace).await {
            findings.push(match report.error {
                Some(error) => {
                    let remedy = "correct it, or take it out of `plugin`; `windlass plugin list` shows all";
                    Finding::wrong(TOPIC, format!("{}: {error}", report.name), remedy)
                }
                None => {
                    let counts = format!("{} hooks, {} tools", report.hooks.len(), report.tools.len());
                    Finding::ok(TOPIC, format!("{}: {counts}, loaded in {} ms", report.name, report.load_ms))
                }
            });
        }
        if let Some(host) = host
            && let Some(memory) = host.memory().await
        {
            let runtime = host.offer().runtime.clone();
            let started = host.started_in().map(|it| format!(", started in {} ms", it.as_millis()));
            let started = started.unwrap_or_default();
            findings
                .push(Finding::ok(TOPIC, format!("{runtime} runs them with {} MiB{started}", memory / MIB)));
        }
        findings
    }
}

async fn reports_of_host(loaded: &Loaded, host: &Host) -> Vec<PluginReport> {
    host.settled(LIMIT).await;
    let (offer, down) = (host.offer(), host.down());
    let report = |planned: &Planned| {
        let known = offer.plugins.iter().find(|it| it.name == planned.name());
        let directory = host.packages().get(&planned.spec);
        let is_missing = matches!(planned.source, Source::Package(_)) && directory.is_none();
        let error = match known {
            Some(known) => known.error.clone(),
            None if is_missing => Some("it is not installed".to_owned()),
            None => down.clone(),
        };
        let known = known.cloned().unwrap_or_default();
        PluginReport {
            name: planned.name().to_owned(),
            version: directory.and_then(|it| packages::version(it)),
            hooks: known.hooks,
            tools: known.tools,
            load_ms: known.ms,
            error,
        }
    };
    let mut reports: Vec<PluginReport> = loaded.plan.plugins.iter().map(report).collect();
    for file in &loaded.plan.tools {
        let name = file.display().to_string();
        let tools = offer.tools.iter().filter(|tool| tool.plugin == name).map(|tool| tool.id.clone());
        let failed = offer.plugins.iter().find(|it| it.name == name).and_then(|it| it.error.clone());
        let (tools, error) = (tools.collect(), failed.or_else(|| down.clone()));
        reports.push(PluginReport { name, tools, error, ..PluginReport::default() });
    }
    reports
}
