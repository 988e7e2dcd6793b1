//! The projects that were worked in: repositories, each by its root commit, and everything outside of them.

use std::path::{Path, PathBuf};

use windlass_base::{blocking::blocking, clock};
use windlass_core::storage::projects::StoredProject;
use windlass_engine::{
    Engine, EngineError, Workspace, git,
    project::{GLOBAL, root_commit},
};
use windlass_protocol::opencode::{
    event::EventPayload,
    project::{Project, ProjectTime, ProjectUpdate, Vcs},
    service::{ServiceEvent, ServiceNews},
};

use super::roots::{FilesError, Roots};

/// The projects of an engine.
#[derive(Clone, Copy)]
pub struct Projects<'a>(pub(super) &'a Engine);

impl<'a> Projects<'a> {
    pub fn of(engine: &'a Engine) -> Self {
        Self(engine)
    }

    /// Returns the project of a workspace. Waits for git where the project is not known yet.
    pub async fn project(self, workspace: &Workspace) -> Result<Project, EngineError> {
        let roots = Roots::of(workspace);
        let worktree = roots.worktree.display().to_string();
        if !roots.is_git() {
            return Ok(self.global_project());
        }
        let known = self.0.storage().project_of(worktree.clone()).await?;
        let id = match known {
            Some(id) => id,
            None => {
                let Some(id) = root_commit(workspace.git(), &roots.worktree, &self.0.paths().cache()).await
                else {
                    // Without commits it has no name of its own.
                    return Ok(Project { worktree, vcs: Some(Vcs::Git), ..self.global_project() });
                };
                self.0.storage().set_project(worktree.clone(), id.clone()).await?;
                id
            }
        };
        let stored = self.0.storage().projects().await?.into_iter().find(|it| it.worktree == worktree);
        let stored = stored.unwrap_or_else(|| StoredProject {
            worktree,
            id,
            settings: ProjectUpdate::default(),
            time: None,
        });
        Ok(self.shown_project(stored).await)
    }

    /// Returns the projects that were worked in, each with its first worktree; one without sessions too.
    pub async fn projects(self) -> Result<Vec<Project>, EngineError> {
        let own = self.worktree_root();
        let mut projects: Vec<Project> = Vec::new();
        for stored in self.0.storage().projects().await? {
            let is_own = Path::new(&stored.worktree).starts_with(&own);
            if !is_own && !projects.iter().any(|it| it.id == stored.id) {
                projects.push(self.shown_project(stored).await);
            }
        }
        Ok(projects)
    }

    /// Changes the settings of a project. `None` if there is no such project.
    pub async fn update_project(
        self,
        id: &str,
        update: ProjectUpdate,
    ) -> Result<Option<Project>, EngineError> {
        let stored = self.0.storage().projects().await?;
        let Some(stored) = stored.into_iter().find(|it| it.id == id) else { return Ok(None) };
        let before = stored.settings.clone();
        let settings = ProjectUpdate {
            name: update.name.or(before.name),
            icon: update.icon.or(before.icon),
            commands: update.commands.or(before.commands),
        };
        self.0.storage().set_project_settings(id.to_owned(), settings.clone()).await?;
        let project = self.shown_project(StoredProject { settings, ..stored }).await;
        let news = ServiceNews::ProjectUpdated(project.clone());
        self.0.bus().publish(EventPayload::Service(ServiceEvent { directory: None, news }));
        Ok(Some(project))
    }

    /// Returns the worktrees of a project: its own, and those that were made for tasks.
    pub async fn project_directories(self, id: &str) -> Result<Vec<String>, EngineError> {
        let own = self.worktree_root();
        // An id that no project has may be a path.
        let stored: Vec<_> =
            self.0.storage().projects().await?.into_iter().filter(|it| it.id == id).collect();
        if stored.is_empty() {
            return Ok(Vec::new());
        }
        let stored = stored.into_iter();
        let mut directories: Vec<String> =
            stored.map(|it| it.worktree).filter(|it| !Path::new(it).starts_with(&own)).collect();
        directories.extend(self.sandboxes(id).await);
        directories.dedup();
        Ok(directories)
    }

    /// Makes a repository of a directory that is in none, and reads its configuration again from there.
    pub async fn init_git(self, workspace: &Workspace) -> Result<Project, FilesError> {
        let directory = workspace.directory().to_owned();
        if !Roots::of(workspace).is_git() {
            git::init(workspace.git(), &directory).await?;
            self.0.sessions().close_directory(&directory).await;
        }
        let failed = |error: EngineError| FilesError::Failed(error.message);
        let workspace = self.0.workspaces().workspace(&directory).await.map_err(failed)?;
        self.project(&workspace).await.map_err(failed)
    }

    /// Returns the directory of the worktrees that are made for tasks.
    fn worktree_root(self) -> PathBuf {
        self.0.paths().worktrees()
    }

    /// Returns the worktrees of a project that were made for tasks.
    async fn sandboxes(self, id: &str) -> Vec<String> {
        let directory = self.worktree_root().join(id);
        let mut found: Vec<String> = blocking(move || {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path()).filter(|path| path.join(".git").exists());
            paths.map(|path| path.display().to_string()).collect()
        })
        .await;
        found.sort_unstable();
        found
    }

    fn global_project(self) -> Project {
        let now = clock::now_ms();
        Project {
            id: GLOBAL.to_owned(),
            worktree: "/".to_owned(),
            vcs: None,
            name: None,
            icon: None,
            commands: None,
            time: ProjectTime { created: now, updated: now, initialized: None },
            sandboxes: Vec::new(),
        }
    }

    async fn shown_project(self, stored: StoredProject) -> Project {
        let now = clock::now_ms();
        Project {
            sandboxes: self.sandboxes(&stored.id).await,
            id: stored.id,
            worktree: stored.worktree,
            vcs: Some(Vcs::Git),
            name: stored.settings.name,
            icon: stored.settings.icon,
            commands: stored.settings.commands,
            time: stored.time.unwrap_or(ProjectTime { created: now, updated: now, initialized: None }),
        }
    }
}

#[cfg(test)]
mod tests;
