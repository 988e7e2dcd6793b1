//! Turns the files that a user names into parts of a prompt, and reads piped input.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use windlass_base::{lookalike, mime, text};
use windlass_engine::{self as engine, PromptPart};
use windlass_protocol::opencode::part::FilePart;

use super::{super::input, failure::Failure};

/// Bytes that standard input may add to the prompt.
const MAX_INPUT: u64 = 16 * 1024 * 1024;

const WAITS_FOR: &str = "windlass waits for the end of standard input, which becomes a part of the prompt; where there is \
                         nothing to read, add `</dev/null`.";

/// Names the files in a prompt; returns the text of standard input too, unless it is one of them, `-`.
pub async fn given(files: &[PathBuf]) -> Result<(Vec<PromptPart>, String), Failure> {
    let is_input = |file: &PathBuf| file.as_os_str() == "-";
    let others = files.iter().filter(|file| !is_input(file));
    let mut parts = others.map(|file| attach(file)).collect::<Result<Vec<PromptPart>, _>>()?;
    if !files.iter().any(is_input) {
        return Ok((parts, piped().await?));
    }
    if io::stdin().is_terminal() {
        let reason = "`--file -` attaches standard input, which is a terminal here: pipe something into it.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    parts.push(PromptPart::Document { place: "standard input".to_owned(), path: None, text: piped().await? });
    Ok((parts, String::new()))
}

/// Names a file or directory in a prompt.
pub fn attach(file: &Path) -> Result<PromptPart, Failure> {
    let missing = |error: &dyn std::fmt::Display| {
        Failure::Misuse(format!(
            "{} cannot be attached: {}.",
            file.display(),
            text::without_number(&error.to_string())
        ))
    };
    let path = std::path::absolute(file).map_err(|error| missing(&error))?;
    let alike = lookalike::alike(&path);
    let path = match (alike.as_slice(), lookalike::proposal(&alike)) {
        ([only], _) => only.clone(),
        (_, Some(proposal)) => return Err(missing(&format!("there is no such file. {proposal}"))),
        (_, None) => path,
    };
    let metadata = path.metadata().map_err(|error| missing(&error))?;
    let mime = if metadata.is_dir() {
        "application/x-directory"
    } else {
        mime::of_path(&path.to_string_lossy()).unwrap_or("text/plain")
    };
    engine::check_readable(&path).map_err(|error| missing(&error))?;
    let url = reqwest::Url::from_file_path(&path).map_err(|()| missing(&"its path cannot be a URL"))?;
    let filename = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(PromptPart::File(FilePart { mime: mime.to_owned(), filename, url: url.into(), source: None }))
}

/// Reads standard input to its end; gives nothing where it is a terminal.
pub async fn piped() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(String::new());
    }
    let read = input::read_to_end(MAX_INPUT, WAITS_FOR).await;
    let bytes = read.map_err(|error| Failure::Failed(format!("Standard input cannot be read: {error}.")))?;
    if bytes.len() as u64 > MAX_INPUT {
        let reason = format!("Standard input holds more than {} MiB.", MAX_INPUT >> 20);
        return Err(Failure::Misuse(reason));
    }
    // A NUL is no text in any encoding that a model reads.
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        let reason = "Standard input is not UTF-8 text; attach a file of another kind by `--file PATH`.";
        Failure::Misuse(reason.to_owned())
    })
}
