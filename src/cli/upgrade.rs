//! `windlass upgrade`: another release, by the way that this one was installed.

use std::{
    ffi::OsStr,
    fs,
    io::{self, IsTerminal},
    path::Path,
    process::ExitCode,
};

use clap::Args;
use reqwest::{Client, Url};
use sha2::{Digest, Sha256};
use windlass_base::process::{child_table, pager};
use windlass_core::config::Environment;

use super::{output, runtime, trust::has_terminal};

mod way;

use way::Way;

/// The address of releases, where the build was given one.
const RELEASES: Option<&str> = option_env!("WINDLASS_RELEASES");
/// The variable that names another one.
const VARIABLE: &str = "WINDLASS_RELEASES";
/// Bytes of a list of checksums, and of the installer.
const MAX_BYTES: usize = 1 << 20;
const INSTALLER: &str = "install.sh";

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// The version, else the newest.
    version: Option<String>,
    /// Only say which versions are here and there, and how windlass was installed.
    #[arg(long)]
    check: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

pub fn run(environment: Environment, args: UpgradeArgs) -> ExitCode {
    if child_table::is_child() {
        return output::fail("A session runs this command: upgrade in a terminal of your own.");
    }
    runtime::block_on(async move {
        match upgrade(&environment, args).await {
            Ok(words) => output::print_answer(&words),
            Err(reason) => output::fail(&reason),
        }
    })
}

async fn upgrade(environment: &Environment, args: UpgradeArgs) -> Result<String, String> {
    let program = std::env::current_exe().and_then(fs::canonicalize);
    let program = program.map_err(|error| format!("The program's own file is not found: {error}."))?;
    let way = way::of(&program, |path| path.exists());
    let here = env!("CARGO_PKG_VERSION");
    let releases = releases(environment)?;
    let wanted = match args.version {
        Some(version) => checked(version.trim_start_matches('v'))?,
        None => newest(&releases).await?,
    };
    let told = format!("windlass {here}, {}; release: {wanted}.", way.words());
    if args.check {
        return Ok(told);
    }
    if wanted == here {
        return Ok(format!("{told} Nothing is to be done."));
    }
    output::note(&told);
    match way.command(&wanted) {
        Some(command) if way.is_for_others() => {
            Ok(format!("It is upgraded by its package manager: {}", command.join(" ")))
        }
        Some(command) => {
            agree(&format!("Run `{}`?", command.join(" ")), args.yes)?;
            carry_out(&command).await?;
            Ok(format!("windlass {wanted} is installed."))
        }
        None => {
            let Way::File { directory } = &way else {
                return Err("It was built from sources: `git pull`, then `make install`.".to_owned());
            };
            agree(&format!("Put windlass {wanted} in its place?"), args.yes)?;
            replace(&releases, &wanted, directory).await?;
            Ok(String::new())
        }
    }
}

/// Returns the address below which releases are, without a slash at its end.
fn releases(environment: &Environment) -> Result<Url, String> {
    let own = environment.get(VARIABLE).filter(|it| !it.is_empty());
    let text = own.or(RELEASES).ok_or_else(|| {
        format!("This build knows no address of releases; {VARIABLE} names one, or upgrade by the way it was installed.")
    })?;
    let url = Url::parse(text.trim_end_matches('/')).map_err(|error| format!("`{text}`: {error}."))?;
    let is_here = url.host_str().is_some_and(|host| ["127.0.0.1", "localhost"].contains(&host));
    match url.scheme() {
        "https" | "file" => Ok(url),
        "http" if is_here => Ok(url),
        _other => Err(format!("Releases are fetched by https alone, not from {text}.")),
    }
}

/// Returns a version as releases are named; other texts would lead to other places.
fn checked(version: &str) -> Result<String, String> {
    let is_version = version.starts_with(|it: char| it.is_ascii_digit())
        && version.chars().all(|it| it.is_ascii_alphanumeric() || ".-+".contains(it))
        && !version.contains("..");
    if is_version {
        Ok(version.to_owned())
    } else {
        Err(format!("`{}` is no version, such as 0.1.0.", output::plain(version)))
    }
}

/// Asks which release is the newest.
async fn newest(releases: &Url) -> Result<String, String> {
    // A forge has its newest release at an address of its own.
    let latest = match releases.as_str().strip_suffix("/releases/download") {
        Some(project) => format!("{project}/releases/latest/download"),
        None => format!("{releases}/latest"),
    };
    let text = fetch(&format!("{latest}/VERSION")).await?;
    checked(String::from_utf8_lossy(&text).trim())
}

async fn fetch(address: &str) -> Result<Vec<u8>, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{address} cannot be fetched: {reason}.");
    let url = Url::parse(address).map_err(|error| failed(&error))?;
    if let (true, Ok(path)) = (url.scheme() == "file", url.to_file_path()) {
        return fs::read(path).map_err(|error| failed(&error));
    }
    // Fails if another part of the process has installed one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().https_only(url.scheme() == "https").build();
    let answer = async {
        let mut answer = client?.get(url).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_BYTES {
                break;
            }
        }
        Ok::<_, reqwest::Error>(bytes)
    };
    let bytes = answer.await.map_err(|error| failed(&error.without_url()))?;
    if bytes.len() > MAX_BYTES { Err(failed(&"it is too large")) } else { Ok(bytes) }
}

/// Asks on the terminal. A command of a model has none, so that it cannot say yes.
fn agree(question: &str, is_agreed: bool) -> Result<(), String> {
    if is_agreed {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !has_terminal() {
        return Err(format!("Nothing is changed. {question} `--yes` does it, or run this in a terminal."));
    }
    let _ = output::print(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let is_read = io::stdin().read_line(&mut answer).is_ok();
    let is_yes = is_read && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if is_yes { Ok(()) } else { Err("Nothing is changed.".to_owned()) }
}

async fn carry_out(command: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let shown = command.join(" ");
    match pager::run(program, &arguments).await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}.")),
        Err(error) => Err(format!("`{shown}` cannot be run: {error}.")),
    }
}

/// Runs the installer of a release, once it has the checksum of that release.
async fn replace(releases: &Url, version: &str, directory: &Path) -> Result<(), String> {
    let place = format!("{releases}/v{version}");
    let sums = fetch(&format!("{place}/SHA256SUMS")).await?;
    let sums = String::from_utf8_lossy(&sums).into_owned();
    let wanted = sums.lines().find_map(|line| line.split_once("  ").filter(|(_, name)| *name == INSTALLER));
    let (wanted, _) =
        wanted.ok_or_else(|| format!("The release {version} does not say the checksum of {INSTALLER}."))?;
    let installer = fetch(&format!("{place}/{INSTALLER}")).await?;
    let found: String = Sha256::digest(&installer).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != wanted {
        return Err(format!(
            "{INSTALLER} does not have the checksum of release {version}; nothing is changed."
        ));
    }
    let temporary = tempfile::tempdir().map_err(|error| format!("No temporary directory: {error}."))?;
    let file = temporary.path().join(INSTALLER);
    fs::write(&file, installer).map_err(|error| format!("{}: {error}.", file.display()))?;
    let words =
        ["sh", &file.display().to_string(), "--version", version, "--dir", &directory.display().to_string()]
            .map(str::to_owned);
    carry_out(&words).await
}

#[cfg(test)]
mod tests;
