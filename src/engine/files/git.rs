//! Runs git on the user's repository, without its hooks and without changing its index where it is only asked.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    path::Path,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::base::process::{self, Spawn};

/// Time limit for one command.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a command's output.
const MAX_OUTPUT: u64 = 32 << 20;
const MAX_ERROR: u64 = 4_000;

/// Settings that hold over the user's: hooks and the file system's monitor are not run while a repository is looked at.
/// Its filters are, because without them every filtered file would seem changed.
const SETTINGS: [&str; 6] =
    ["-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "core.hooksPath=/dev/null"];

/// The reason for which git did not do what it was asked, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GitError(pub String);

/// Runs a command in a directory and returns what it prints.
pub async fn run(directory: &Path, args: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
    with_variables(directory, args, input, &[]).await
}

/// Runs a command and returns its output as one line of text.
pub async fn line(directory: &Path, args: &[&str]) -> Result<String, GitError> {
    let printed = run(directory, args, &[]).await?;
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}

/// Like [`run`], with more variables.
pub async fn with_variables(
    directory: &Path,
    args: &[&str],
    input: &[u8],
    variables: &[(&str, &str)],
) -> Result<Vec<u8>, GitError> {
    let args: Vec<OsString> = SETTINGS.iter().chain(args).map(OsString::from).collect();
    let mut environment: BTreeMap<String, String> =
        [("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let failed = |error: io::Error| GitError(format!("git cannot be run: {error}"));
    let spawn = Spawn {
        program: OsStr::new("git"),
        args: &args,
        directory,
        environment: &environment,
        without: &["GIT_DIR".to_owned(), "GIT_WORK_TREE".to_owned()],
        stdin: !input.is_empty(),
        is_parent: true,
    };
    let mut child = process::spawn(&spawn).map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that ends early says why.
            let _ = stdin.write_all(input).await;
        }
    };
    let (mut printed, mut said) = (Vec::new(), Vec::new());
    let read = async {
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT).read_to_end(&mut printed).await?;
        }
        Ok::<(), io::Error>(())
    };
    let listen = async {
        if let Some(mut stderr) = stderr {
            (&mut stderr).take(MAX_ERROR).read_to_end(&mut said).await?;
            tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
        }
        Ok::<(), io::Error>(())
    };
    let whole = async {
        let ((), read, listen) = tokio::join!(feed, read, listen);
        read.and(listen)?;
        child.wait().await
    };
    let status = match timeout(LIMIT, whole).await {
        Ok(status) => status.map_err(failed)?,
        Err(_) => return Err(GitError(format!("git did not end within {} s", LIMIT.as_secs()))),
    };
    if printed.len() as u64 == MAX_OUTPUT {
        return Err(GitError(format!("git printed more than {} MiB", MAX_OUTPUT >> 20)));
    }
    if status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("git gives no reason");
    Err(GitError(line.trim().trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()))
}
