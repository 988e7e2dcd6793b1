//! The floor of some measures: a program in C that answers with fixed text and hands the model's deltas on.

use std::{fs, path::Path, process::Command};

use crate::{Result, model::Model};

pub const NAME: &str = "floor";
/// The measures that it can do.
pub const SCENARIOS: &[&str] = &["start", "stream"];
const SOURCE: &str = include_str!("floor.c");

/// Compiles the program in a directory and returns its command.
pub fn command(directory: &Path, model: &Model) -> Result<Vec<String>> {
    let (source, program) = (directory.join("floor.c"), directory.join("floor"));
    fs::write(&source, SOURCE)?;
    let compiled = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(&source).output()?;
    if !compiled.status.success() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into());
    }
    let words = [program.display().to_string(), model.port().to_string()];
    Ok(words.into_iter().chain([directory.join("log").display().to_string()]).collect())
}
