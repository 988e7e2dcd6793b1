//! The plugins of a directory for people: the features of each, and the reason for leaving one out.

use std::{path::Path, time::Duration};

use serde_json::Value;
use windlass_core::config::merge::plugin_name;
use windlass_services::plugin::{
    host::Host,
    packages,
    plan::{self, Planned, Source},
};

use crate::{EngineError, EngineErrorKind, Finding, Loaded, Plugins, Workspace};

/// Time that plugins are waited for.
const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// The ways out of failures.
const CORRECT_ENTRY: &str = "correct it, or take it out of `plugin`; `windlass plugin list` shows all";
const CORRECT_FILE: &str = "correct the file, or remove it; `windlass plugin list` shows all";
const INSTALL: &str =
    "`windlass plugin update` installs it, as the next session does; else take it out of `plugin`";
const INSTALL_IMPORTS: &str =
    "name it among the `dependencies` of the `package.json` beside the directory; a session installs those";
const START_HOST: &str = "make the host of plugins run; without it no plugin and no tool file is loaded";
const SUPERSEDED: &str = "its logins come with windlass; run `windlass auth login`";

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
    /// The way out.
    pub remedy: Option<&'static str>,
    /// The reason why it is not needed.
    pub superseded: Option<&'static str>,
}

impl Plugins<'_> {
    /// Starts the plugins of a directory and returns the outcome of each; the tools of files stand under their files.
    pub async fn reports(self, directory: &Path) -> Result<Vec<PluginReport>, EngineError> {
        let workspace = self.engine.workspaces().workspace(directory).await?;
        let reports = self.reports_of(&workspace).await;
        workspace.close().await;
        self.end(directory).await;
        Ok(reports)
    }

    async fn reports_of(self, workspace: &Workspace) -> Vec<PluginReport> {
        let loaded = workspace.loaded();
        let mut reports = match self.host(workspace.directory()) {
            Some(host) => reports_of_host(&loaded, &host).await,
            None => Vec::new(),
        };
        reports.extend(loaded.plan.superseded.iter().map(|spec| PluginReport {
            name: plugin_name(&Value::from(spec.as_str())).to_owned(),
            superseded: Some(SUPERSEDED),
            ..PluginReport::default()
        }));
        // A program is started by its calls alone.
        reports.extend(loaded.plan.manifests.iter().map(|manifest| PluginReport {
            name: manifest.file.display().to_string(),
            tools: vec![manifest.name.clone()],
            ..PluginReport::default()
        }));
        reports.extend(loaded.plan.problems.iter().map(|(file, reason)| PluginReport {
            name: file.display().to_string(),
            error: Some(reason.clone()),
            remedy: Some(CORRECT_FILE),
            ..PluginReport::default()
        }));
        reports
    }

    /// Installs a package of a plugin, again where it is installed.
    pub async fn install(self, directory: &Path, spec: &str) -> Result<(), EngineError> {
        if plan::is_superseded(spec) {
            let reason = format!("{spec} is not needed: {SUPERSEDED}");
            return Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
        }
        let loaded = self.engine.workspaces().inspect_files(directory).await?;
        let installed = packages::install(&loaded.config, spec).await;
        installed.map_err(|reason| EngineError::new(EngineErrorKind::InvalidInput, reason))
    }

    /// Returns the packages among the plugins of a directory, as they are written.
    pub async fn packages(self, directory: &Path) -> Result<Vec<String>, EngineError> {
        let loaded = self.engine.workspaces().inspect_files(directory).await?;
        let plugins = loaded.plan.plugins.iter().filter(|it| matches!(it.source, Source::Package(_)));
        Ok(plugins.map(|it| it.spec.clone()).collect())
    }

    /// Returns the findings of `doctor` about the plugins of a directory: nothing where there are none.
    pub(crate) async fn findings(self, workspace: &Workspace) -> Vec<Finding> {
        const TOPIC: &str = "plugins";
        let host = self.host(workspace.directory());
        let (mut findings, mut told) = (Vec::new(), Vec::new());
        for report in self.reports_of(workspace).await {
            findings.push(match report.error {
                Some(error) => {
                    told.push(error.clone());
                    let remedy = report.remedy.unwrap_or(CORRECT_ENTRY);
                    Finding::wrong(TOPIC, format!("{}: {error}", report.name), remedy)
                }
                None if report.superseded.is_some() => {
                    let reason = report.superseded.unwrap_or_default();
                    Finding::ok(TOPIC, format!("{}: left out: {reason}", report.name))
                }
                None => {
                    let counts = format!("{} hooks, {} tools", report.hooks.len(), report.tools.len());
                    Finding::ok(TOPIC, format!("{}: {counts}, loaded in {} ms", report.name, report.load_ms))
                }
            });
        }
        // Such as a failure in a hook that is called at the beginning.
        for notice in self.notices(workspace.directory()) {
            if !told.iter().any(|error| notice.contains(error.as_str())) {
                findings.push(Finding::wrong(
                    TOPIC,
                    notice,
                    "the log has more; `windlass plugin list` shows all",
                ));
            }
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

/// Returns true for the words of Node and of Bun about a package that is not there.
fn lacks_import(error: &str) -> bool {
    error.contains("Cannot find package") || error.contains("Cannot find module")
}

async fn reports_of_host(loaded: &Loaded, host: &Host) -> Vec<PluginReport> {
    // One that ends it is left out behind a few starts.
    host.decided(LIMIT).await;
    let (offer, down) = (host.offer(), host.down());
    let left_out = |name: &str| {
        host.leaves_out(name).then(|| ("it ended the host of plugins again and again".to_owned(), None))
    };
    let not_run = || down.clone().map(|reason| (reason, Some(START_HOST)));
    let report = |planned: &Planned| {
        let known = offer.plugins.iter().find(|it| it.name == planned.name());
        let directory = host.installed().packages.get(&planned.spec);
        let is_missing = matches!(planned.source, Source::Package(_)) && directory.is_none();
        let failure = match known {
            Some(known) => known.error.clone().map(|error| {
                let remedy = lacks_import(&error).then_some(INSTALL_IMPORTS);
                (error, remedy)
            }),
            None if is_missing => Some((format!("{} is not installed", planned.spec), Some(INSTALL))),
            None => left_out(planned.name()).or_else(not_run),
        };
        let (error, remedy) = failure.unzip();
        let known = known.cloned().unwrap_or_default();
        PluginReport {
            name: planned.name().to_owned(),
            version: directory.and_then(|it| packages::version(it)),
            hooks: known.hooks,
            tools: known.tools,
            load_ms: known.ms,
            error,
            remedy: remedy.flatten(),
            superseded: None,
        }
    };
    let mut reports: Vec<PluginReport> = loaded.plan.plugins.iter().map(report).collect();
    for file in &loaded.plan.tools {
        let name = file.display().to_string();
        let tools = offer.tools.iter().filter(|tool| tool.plugin == name).map(|tool| tool.id.clone());
        let known = offer.plugins.iter().find(|it| it.name == name);
        let failed = known.and_then(|it| it.error.clone()).map(|error| {
            let remedy = if lacks_import(&error) { INSTALL_IMPORTS } else { CORRECT_FILE };
            (error, Some(remedy))
        });
        let failed = failed.or_else(|| left_out(&name)).or_else(not_run);
        let (error, remedy) = failed.unzip();
        let load_ms = known.map(|it| it.ms).unwrap_or_default();
        let (tools, remedy) = (tools.collect(), remedy.flatten());
        reports.push(PluginReport { name, tools, load_ms, error, remedy, ..PluginReport::default() });
    }
    reports
}
