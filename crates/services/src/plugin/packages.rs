//! Packages of plugins, and dependencies of their directories: installed without running their scripts, the former once
//! into a cache.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use windlass_base::{
    blocking::blocking,
    ids,
    path::absolute,
    process::{self, Spawn},
    program, text,
};
use windlass_core::config::{Config, merge::plugin_name};

use super::{
    plan::{MANIFEST, Plan, Source},
    runtime::{self, Kind, Runtime},
};

/// The directory of installed packages.
const MODULES: &str = "node_modules";
/// Files by which npm and Bun install the same versions again.
const LOCKS: [&str; 2] = ["package-lock.json", "bun.lock"];
/// npm's arguments. Without a network it would try for more than a minute, while a run waits.
const NPM: [&str; 7] = [
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=500",
];
/// Packages that come with us.
const OURS: [&str; 3] = ["@opencode-ai/plugin", "@opencode-ai/sdk", "zod"];

/// Time that an installation may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of an installer's output that an error is read from.
const MAX_OUTPUT: u64 = 64 << 10;
/// Bytes of that which an error shows.
const MAX_SHOWN: usize = 300;

/// Everything that a plan needs and that is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Directories of packages, by their entries.
    pub packages: BTreeMap<String, PathBuf>,
    /// Directories of plugins and tools with their own dependencies in place.
    pub dependencies: BTreeSet<PathBuf>,
}

/// Something that a plan needs and that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Missing {
    /// A plugin's package, by its entry.
    Package(String),
    /// Dependencies that a directory of plugins and tools names for itself, with their versions.
    Dependencies { directory: PathBuf, wanted: BTreeMap<String, String> },
}

impl Missing {
    /// Returns a sentence for the user while it is installed.
    pub fn progress(&self) -> String {
        match self {
            Self::Package(spec) => {
                format!("The plugin {spec} is being installed; it is loaded once it is there.")
            }
            Self::Dependencies { directory, .. } => format!(
                "The dependencies of {} are being installed; its plugins and tools are loaded again once they are there.",
                directory.display()
            ),
        }
    }

    /// Installs it; an error is a sentence for the user.
    pub async fn install(&self, config: &Config) -> Result<(), String> {
        match self {
            Self::Package(spec) => install(config, spec).await,
            Self::Dependencies { directory, .. } => install_dependencies(config, directory).await,
        }
    }
}

/// Returns everything of a plan that is installed. Does blocking reads.
pub fn installed(cache: &Path, plan: &Plan) -> Installed {
    let packages = plan.plugins.iter().filter_map(|planned| match &planned.source {
        Source::Package(name) => {
            let directory = root(cache, &planned.spec).join(MODULES).join(name);
            directory.join(MANIFEST).is_file().then(|| (planned.spec.clone(), directory))
        }
        Source::Path(_) => None,
    });
    let prepared = directories(plan).filter(|(directory, wanted)| are_there(directory, wanted));
    Installed {
        packages: packages.collect(),
        dependencies: prepared.map(|(directory, _)| directory.to_owned()).collect(),
    }
}

/// Returns everything that a plan needs and that is not installed. Does blocking reads.
pub fn missing(cache: &Path, plan: &Plan) -> Vec<Missing> {
    let installed = installed(cache, plan);
    let packages = plan.plugins.iter().filter(|it| matches!(it.source, Source::Package(_)));
    let packages = packages.filter(|it| !installed.packages.contains_key(&it.spec));
    let unprepared = directories(plan).filter(|(directory, _)| !installed.dependencies.contains(*directory));
    let dependencies = unprepared
        .map(|(directory, wanted)| Missing::Dependencies { directory: directory.to_owned(), wanted });
    packages.map(|it| Missing::Package(it.spec.clone())).chain(dependencies).collect()
}

/// Returns the directories that name dependencies for themselves, with these.
fn directories(plan: &Plan) -> impl Iterator<Item = (&Path, BTreeMap<String, String>)> {
    let named = plan.package_files().filter_map(|file| {
        let manifest: Map<String, Value> = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        Some((file.parent()?, dependencies(&manifest)))
    });
    named.filter(|(_, wanted)| !wanted.is_empty())
}

/// Returns the dependencies that a package names, but for those that come with us.
fn dependencies(manifest: &Map<String, Value>) -> BTreeMap<String, String> {
    let named = manifest.get("dependencies").and_then(Value::as_object).into_iter().flatten();
    let named = named.filter(|(name, _)| !OURS.contains(&name.as_str()));
    named.map(|(name, version)| (name.clone(), version.as_str().unwrap_or_default().to_owned())).collect()
}

fn are_there(directory: &Path, wanted: &BTreeMap<String, String>) -> bool {
    let modules = directory.join(MODULES);
    wanted.keys().all(|name| modules.join(name).join(MANIFEST).is_file())
}

/// Installs the dependencies that a directory of plugins names for itself, in the place of its `node_modules`.
async fn install_dependencies(config: &Config, directory: &Path) -> Result<(), String> {
    let file = directory.join(MANIFEST);
    let place = directory.to_owned();
    let prepare = move |new: &Path| {
        let mut manifest: Map<String, Value> = serde_json::from_slice(&fs::read(place.join(MANIFEST))?)?;
        // A directory that is named from there is not found from the one where it is installed.
        let named = manifest.get_mut("dependencies").and_then(Value::as_object_mut).into_iter().flatten();
        for (_, version) in named {
            if let Some(path) = version.as_str().and_then(|it| it.strip_prefix("file:")) {
                *version = format!("file:{}", absolute(&place, path).display()).into();
            }
        }
        fs::write(new.join(MANIFEST), serde_json::to_vec(&manifest)?)?;
        for lock in LOCKS {
            // There may be none.
            let _ = fs::copy(place.join(lock), new.join(lock));
        }
        let ignored = fs::OpenOptions::new().write(true).create_new(true).open(place.join(".gitignore"));
        match ignored {
            Ok(mut file) => {
                file.write_all(b"node_modules\npackage-lock.json\nbun.lock\n.gitignore\n.windlass-*\n")
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    };
    let installed = staged(config, directory, prepare, &[], Some(MODULES), &directory.join(MODULES)).await;
    installed.map_err(|reason| format!("Failed to install the dependencies of {}: {reason}", file.display()))
}

/// Returns the version of an installed package. Does a blocking read.
pub fn version(directory: &Path) -> Option<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(directory.join(MANIFEST)).ok()?).ok()?;
    Some(manifest.get("version")?.as_str()?.to_owned())
}

/// Installs a plugin's package, in the place of an older installation of the same entry.
pub async fn install(config: &Config, spec: &str) -> Result<(), String> {
    let wanted = versioned(spec);
    let installed =
        install_into(config, &root(&config.paths.cache(), spec), std::slice::from_ref(&wanted)).await;
    installed.map_err(|reason| format!("Failed to install plugin {wanted}: {reason}"))
}

/// Installs packages into the `node_modules` of a directory of their own, in the place of the old one.
pub async fn install_into(config: &Config, place: &Path, wanted: &[String]) -> Result<(), String> {
    let prepare = |new: &Path| fs::write(new.join(MANIFEST), "{}\n");
    staged(config, &config.paths.cache().join("packages"), prepare, wanted, None, place).await
}

/// Installs into a new directory within another one, which `prepare` fills first, and puts it, or a part of it, in the
/// place of the old one: a process that ends in between leaves that whole.
async fn staged(
    config: &Config,
    within: &Path,
    prepare: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
    wanted: &[String],
    part: Option<&'static str>,
    place: &Path,
) -> Result<(), String> {
    let stage = Stage(within.join(format!(".windlass-{}", ids::random(8))));
    let new = stage.0.join("new");
    let made = new.clone();
    let prepared = blocking(move || fs::create_dir_all(&made).and_then(|()| prepare(&made))).await;
    prepared.map_err(|error| error.to_string())?;
    // Dropped, it ends the installer.
    let installed = tokio::time::timeout(LIMIT, run(config, &new, wanted)).await;
    installed.unwrap_or_else(|_| Err(format!("it did not end within {LIMIT:?}")))?;
    let place = place.to_owned();
    let moved = blocking(move || stage.put(&part.map_or(new.clone(), |part| new.join(part)), &place)).await;
    moved.map_err(|error| error.to_string())
}

/// A directory for an installation that is not finished. Dropped, it is removed.
struct Stage(PathBuf);

impl Stage {
    /// Moves the installed packages to their place, and the old ones away. Does blocking writes.
    fn put(&self, installed: &Path, place: &Path) -> io::Result<()> {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        let old = self.0.join("old");
        let had_old = fs::rename(place, &old).is_ok();
        fs::rename(installed, place).inspect_err(|_| {
            if had_old {
                // Else it is lost with the rest.
                let _ = fs::rename(&old, place);
            }
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the entry with a version or tag.
fn versioned(spec: &str) -> String {
    let name = plugin_name(&Value::from(spec)).to_owned();
    if name == spec { format!("{spec}@latest") } else { spec.to_owned() }
}

/// Returns true if an installer takes a text as the name of a package, never as an option.
fn is_package(wanted: &str) -> bool {
    !wanted.is_empty() && !wanted.starts_with('-') && !wanted.contains(char::is_control)
}

/// Returns the directory of an entry's installation.
fn root(cache: &Path, spec: &str) -> PathBuf {
    cache.join("packages").join(versioned(spec).replace("..", "_"))
}

async fn run(config: &Config, directory: &Path, wanted: &[String]) -> Result<(), String> {
    if let Some(option) = wanted.iter().find(|it| !is_package(it)) {
        return Err(format!("`{}` is not the name of a package", text::visible_line(option)));
    }
    let (program, args) = installer(config, wanted)?;
    let mut environment = config.environment.variables.clone();
    environment.insert("BUN_BE_BUN".to_owned(), "1".to_owned());
    let spawn = Spawn {
        program: program.as_os_str(),
        args: &args,
        directory,
        environment: &environment,
        without: &[],
        stdin: false,
        is_parent: true,
    };
    let mut child = process::spawn(&spawn).map_err(|error| error.to_string())?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut said, mut complaint) = (Vec::new(), Vec::new());
    let out = async {
        if let Some(stdout) = stdout {
            // Only an error needs its text.
            let _ = stdout.take(MAX_OUTPUT).read_to_end(&mut said).await;
        }
    };
    let err = async {
        if let Some(stderr) = stderr {
            let _ = stderr.take(MAX_OUTPUT).read_to_end(&mut complaint).await;
        }
    };
    tokio::join!(out, err);
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    let complaint =
        String::from_utf8_lossy(if complaint.is_empty() { &said } else { &complaint }).into_owned();
    let lines = complaint.lines().map(str::trim).filter(|line| line.to_lowercase().contains("err"));
    let reason = lines.collect::<Vec<_>>().join("; ");
    let reason = if reason.is_empty() { status.to_string() } else { reason };
    Err(text::head(&reason, MAX_SHOWN).to_owned())
}

/// Returns the program that installs packages into the directory that it is run in, or those that this names, and its
/// arguments.
fn installer(config: &Config, wanted: &[String]) -> Result<(PathBuf, Vec<OsString>), String> {
    let npm = program::find_outside(config.environment.get("PATH"), Path::new("npm"));
    let (program, args): (PathBuf, &[&str]) = match (runtime::find(config, false), npm) {
        (Ok(Runtime { kind: Kind::Bun, program }), _) if wanted.is_empty() => {
            (program, &["install", "--ignore-scripts"])
        }
        (Ok(Runtime { kind: Kind::Bun, program }), _) => (program, &["add", "--ignore-scripts", "--no-save"]),
        (_, Some(npm)) => (npm, &NPM),
        (Ok(_) | Err(_), None) => {
            return Err("there is no Bun and no npm to install it; install one".to_owned());
        }
    };
    // Names are no options, even with a dash at the beginning; Bun has no such mark.
    let is_npm = args == NPM;
    let end = (is_npm && !wanted.is_empty()).then(|| OsString::from("--"));
    let args = args.iter().map(OsString::from).chain(end).chain(wanted.iter().map(OsString::from));
    Ok((program, args.collect()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_package, root, versioned};

    #[test]
    fn an_entry_without_a_version_means_the_latest() {
        assert_eq!(versioned("name"), "name@latest");
        assert_eq!(versioned("@scope/name"), "@scope/name@latest");
        assert_eq!(versioned("@scope/name@1.2"), "@scope/name@1.2");
        assert_eq!(versioned("alias@npm:name@1.0.0"), "alias@npm:name@1.0.0");
    }

    #[test]
    fn an_option_is_no_package() {
        for name in ["name", "@scope/name@1.2", "alias@npm:name@1.0.0", "name@>=1 <2"] {
            assert!(is_package(name), "{name}");
        }
        for option in ["--prefix=/x@latest", "-g@latest", "", "a\n--global"] {
            assert!(!is_package(option), "{option}");
        }
    }

    #[test]
    fn an_installation_stays_below_the_cache() {
        assert_eq!(root(Path::new("/c"), "../../x"), Path::new("/c/packages/_/_/x@latest"));
    }
}
