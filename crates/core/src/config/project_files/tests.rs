//! Files of a project that are obeyed and that are not.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use tempfile::TempDir;

use super::ProjectFiles;
use crate::config::{Environment, fixture, paths::Paths, text_file::Unreadable, worktree::worktree};

/// A home beside a repository with a file in a directory.
struct Scene {
    _temporary: TempDir,
    root: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        for directory in ["home", "p/.git", "p/docs", "outside"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let scene = Self { _temporary: temporary, root };
        scene.write("p/docs/AGENTS.md", "inside");
        scene.write("outside/key", "secret");
        scene
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.root.join(name), Permissions::from_mode(mode)).unwrap();
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.root.join(name)).unwrap();
    }

    fn environment(&self) -> Environment {
        let variables = [("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned())].into();
        Environment { variables, home: self.root.join("home"), ..Environment::default() }
    }

    fn project(&self) -> ProjectFiles {
        let environment = self.environment();
        ProjectFiles::find(&environment, &Paths::new(&environment), &self.root.join("p"))
    }

    /// Reads a file; the reason of a refusal without the directory of the scene.
    fn read(&self, name: &str) -> Result<String, String> {
        let root = format!("{}/", self.root.display());
        self.project().read(&self.root.join(name)).map_err(|error| match error {
            Unreadable::Refused(refusal) => {
                let text = format!("{} {}", refusal.path.display(), refusal);
                text.replace(&root, "")
            }
            error => error.to_string(),
        })
    }
}

#[test]
fn a_link_within_the_project_is_followed_and_one_that_leaves_it_is_not() {
    let scene = Scene::new();
    scene.link("p/AGENTS.md", "docs/AGENTS.md");
    scene.link("p/absolute", scene.root.join("p/docs/AGENTS.md"));
    scene.link("p/again", "AGENTS.md");
    scene.link("p/key", "../outside/key");
    scene.link("p/out", "../outside");
    scene.link("p/gone", "../outside/gone");
    for name in ["p/AGENTS.md", "p/absolute", "p/again", "p/docs/../AGENTS.md"] {
        assert_eq!(scene.read(name), Ok("inside".to_owned()), "{name}");
    }
    for name in ["p/key", "p/out/key"] {
        let reason = scene.read(name).unwrap_err();
        let start = format!("{name} is a link that leaves the project, to outside/key, so it is not used");
        assert!(reason.starts_with(&start), "{reason}");
    }
    assert!(scene.project().read(&scene.root.join("p/gone")).unwrap_err().is_missing());
    // Only names within the project are judged.
    assert_eq!(scene.read("outside/key"), Ok("secret".to_owned()));
}

#[test]
fn settings_and_what_is_trusted_may_be_links_to_anywhere() {
    let scene = Scene::new();
    scene.link("p/out", "../outside/key");
    let out = scene.root.join("p/out");
    assert!(scene.project().read(&out).is_err());
    assert_eq!(scene.project().read_settings(&out).unwrap(), "secret");
    let environment = Environment { trusts_projects: true, ..scene.environment() };
    let trusted = ProjectFiles::find(&environment, &Paths::new(&environment), &scene.root.join("p"));
    assert_eq!(trusted.read(&out).unwrap(), "secret");
    scene.mode("outside/key", 0o666);
    assert!(scene.project().read_settings(&out).is_err() && trusted.read(&out).is_err());
}

#[test]
fn a_users_own_file_may_be_a_link_to_anywhere() {
    let scene = Scene::new();
    let environment = scene.environment();
    fs::create_dir_all(scene.root.join("home/.config/opencode")).unwrap();
    scene.link("home/.config/opencode/AGENTS.md", "../../../outside/key");
    let home = environment.home.clone();
    // Also where the home directory is the project.
    let project = ProjectFiles::find(&environment, &Paths::new(&environment), &home);
    assert_eq!(project.read(&home.join(".config/opencode/AGENTS.md")).unwrap(), "secret");
}

#[test]
fn keys_and_records_are_read_by_no_name() {
    let scene = Scene::new();
    for name in ["home/.local/share/windlass/auth.json", "home/.local/share/opencode/auth.json"] {
        scene.write(name, "secret");
        let reason = scene.read(name).unwrap_err();
        assert!(reason.contains("is among the keys and records of windlass or OpenCode"), "{reason}");
    }
    // Skills that were fetched are there.
    scene.write("home/.local/share/windlass/cache/skills/SKILL.md", "text");
    assert_eq!(scene.read("home/.local/share/windlass/cache/skills/SKILL.md"), Ok("text".to_owned()));
}

#[test]
fn what_others_can_write_is_not_there_until_the_user_calls_it_safe() {
    for (changed, mode, reason) in [
        (
            "p/docs/AGENTS.md",
            0o666,
            "can be written by every user, so it is not used; run `chmod go-w p/docs/AGENTS.md`",
        ),
        ("p/docs", 0o777, "can be written by every user, so nothing in it is used; run `chmod go-w p/docs`"),
    ] {
        let scene = Scene::new();
        assert_eq!(scene.read("p/docs/AGENTS.md"), Ok("inside".to_owned()));
        scene.mode(changed, mode);
        let refused = scene.read("p/docs/AGENTS.md").unwrap_err();
        let wanted = format!(
            "{changed} {reason}, or, to use the project as it is, `git config --global --add safe.directory p`"
        );
        assert_eq!(refused.replace(&scene.root.display().to_string(), ""), wanted);
        scene.write("home/.gitconfig", "[safe]\n\tdirectory = ~/../p\n");
        assert_eq!(scene.read("p/docs/AGENTS.md"), Ok("inside".to_owned()));
    }
}

#[test]
fn a_repository_that_others_can_write_is_none() {
    let scene = Scene::new();
    let (environment, directory) = (scene.environment(), scene.root.join("p/docs"));
    assert_eq!(worktree(&environment, &directory), scene.root.join("p"));
    scene.mode("p/.git", 0o777);
    assert_eq!(worktree(&environment, &directory), Path::new("/"));
    let project = ProjectFiles::find(&environment, &Paths::new(&environment), &directory);
    assert_eq!(project.refused.len(), 1, "{:?}", project.refused);
    assert_eq!(project.refused[0].path, scene.root.join("p/.git"));
    scene.write("home/.gitconfig", "[safe]\n\tdirectory = *\n");
    assert_eq!(worktree(&environment, &directory), scene.root.join("p"));
}

#[test]
fn without_a_repository_nothing_above_the_directory_is_read() {
    let scene = Scene::new();
    scene.write("opencode.json", r#"{"model": "planted/model"}"#);
    scene.write(".opencode/agent/planted.md", "Planted.");
    scene.write("outside/opencode.json", r#"{"small_model": "own/model"}"#);
    let environment = scene.environment();
    let config = fixture::load(&environment, &Paths::new(&environment), &scene.root.join("outside"));
    assert_eq!(config.model, None);
    assert_eq!(config.small_model.map(|model| model.to_string()).as_deref(), Some("own/model"));
    assert!(!config.agents.contains_key("planted"));
}

#[test]
fn a_restriction_that_others_can_write_is_not_obeyed_either_and_is_named_once() {
    let scene = Scene::new();
    scene.write("p/opencode.json", r#"{"permission": {"bash": "deny"}}"#);
    for name in ["a", "b", "c"] {
        scene.write(&format!("p/.opencode/agent/{name}.md"), "Prompt.");
    }
    scene.mode("p/opencode.json", 0o666);
    scene.mode("p/.opencode", 0o777);
    let environment = scene.environment();
    let config = fixture::load(&environment, &Paths::new(&environment), &scene.root.join("p"));
    let sources: Vec<&str> = config.warnings.iter().map(|it| it.source.as_str()).collect();
    assert_eq!(
        sources,
        [scene.root.join("p/opencode.json"), scene.root.join("p/.opencode")]
            .map(|it| it.display().to_string())
    );
    assert!(config.permission.is_empty() && config.agents.is_empty(), "{:?}", config.permission);
    assert!(!config.directories.contains(&scene.root.join("p/.opencode")));
}

#[test]
fn a_pipe_is_never_waited_for() {
    let scene = Scene::new();
    mkfifo(&scene.root.join("p/AGENTS.md"), Mode::S_IRWXU).unwrap();
    mkfifo(&scene.root.join("outside/pipe"), Mode::S_IRWXU).unwrap();
    scene.link("p/device", "/dev/zero");
    assert_eq!(scene.read("p/AGENTS.md"), Err("it is not a regular file".to_owned()));
    assert_eq!(scene.read("outside/pipe"), Err("it is not a regular file".to_owned()));
    assert!(scene.read("p/device").unwrap_err().contains("leaves the project"));
}
