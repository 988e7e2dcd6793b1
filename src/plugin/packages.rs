//! Packages of plugins: installed once into a cache, without running their scripts, and used from there.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::{
    plan::{Plan, Source},
    runtime::{self, Kind, Runtime},
};
use crate::{
    base::{
        ids,
        process::{self, Spawn},
        program, text,
    },
    config::{Config, merge::plugin_name},
};

/// Bytes of an installer's output that an error is read from.
const MAX_OUTPUT: u64 = 64 << 10;
/// Bytes of that which an error shows.
const MAX_SHOWN: usize = 300;

/// Returns the directories of a plan's packages that are installed, by their entries. Does blocking reads.
pub fn installed(cache: &Path, plan: &Plan) -> BTreeMap<String, PathBuf> {
    let found = plan.plugins.iter().filter_map(|planned| match &planned.source {
        Source::Package(name) => {
            let directory = root(cache, &planned.spec).join("node_modules").join(name);
            directory.join("package.json").is_file().then(|| (planned.spec.clone(), directory))
        }
        Source::Path(_) => None,
    });
    found.collect()
}

/// Returns the entries of a plan's packages that are not installed. Does blocking reads.
pub fn missing(cache: &Path, plan: &Plan) -> Vec<String> {
    let installed = installed(cache, plan);
    let packages = plan.plugins.iter().filter(|it| matches!(it.source, Source::Package(_)));
    packages.map(|it| it.spec.clone()).filter(|spec| !installed.contains_key(spec)).collect()
}

/// Returns the version of an installed package. Does a blocking read.
pub fn version(directory: &Path) -> Option<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(directory.join("package.json")).ok()?).ok()?;
    Some(manifest.get("version")?.as_str()?.to_owned())
}

/// Installs a package, in the place of an older installation of the same entry.
pub async fn install(config: &Config, spec: &str) -> Result<(), String> {
    let cache = config.paths.cache();
    let wanted = versioned(spec);
    let unfinished = cache.join(format!("packages/.{}", ids::random(8)));
    fs::create_dir_all(&unfinished).map_err(|error| error.to_string())?;
    fs::write(unfinished.join("package.json"), "{}\n").map_err(|error| error.to_string())?;
    let installed = run(config, &unfinished, &wanted).await;
    let place = root(&cache, spec);
    let moved = installed.and_then(|()| {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(|error| error.to_string())?;
        }
        let old = cache.join(format!("packages/.{}", ids::random(8)));
        // It may not be there.
        let _ = fs::rename(&place, &old);
        let moved = fs::rename(&unfinished, &place).map_err(|error| error.to_string());
        let _ = fs::remove_dir_all(&old);
        moved
    });
    if moved.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    moved.map_err(|reason| format!("Failed to install plugin {wanted}: {reason}"))
}

/// Returns the entry with a version or tag.
fn versioned(spec: &str) -> String {
    let name = plugin_name(&Value::from(spec)).to_owned();
    if name == spec { format!("{spec}@latest") } else { spec.to_owned() }
}

/// Returns the directory of an entry's installation.
fn root(cache: &Path, spec: &str) -> PathBuf {
    cache.join("packages").join(versioned(spec).replace("..", "_"))
}

async fn run(config: &Config, directory: &Path, spec: &str) -> Result<(), String> {
    let (program, args) = installer(config, spec)?;
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

/// Returns the program that installs a package into the directory that it is run in, and its arguments.
fn installer(config: &Config, spec: &str) -> Result<(PathBuf, Vec<OsString>), String> {
    let npm = program::find(config.environment.get("PATH"), &config.directory, Path::new("npm"));
    let (program, args): (PathBuf, &[&str]) = match (runtime::find(config), npm) {
        (Ok(Runtime { kind: Kind::Bun, program }), _) => (program, &["add", "--ignore-scripts", "--no-save"]),
        (_, Some(npm)) => {
            (npm, &["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        }
        (Ok(_) | Err(_), None) => {
            return Err("there is no Bun and no npm to install it; install one".to_owned());
        }
    };
    Ok((program, args.iter().map(OsString::from).chain([spec.into()]).collect()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{root, versioned};

    #[test]
    fn an_entry_without_a_version_means_the_latest() {
        assert_eq!(versioned("name"), "name@latest");
        assert_eq!(versioned("@scope/name"), "@scope/name@latest");
        assert_eq!(versioned("@scope/name@1.2"), "@scope/name@1.2");
        assert_eq!(versioned("alias@npm:name@1.0.0"), "alias@npm:name@1.0.0");
    }

    #[test]
    fn an_installation_stays_below_the_cache() {
        assert_eq!(root(Path::new("/c"), "../../x"), Path::new("/c/packages/_/_/x@latest"));
    }
}
