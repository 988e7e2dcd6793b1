//! A prompt that is written in the person's own editor.

use std::io::Write;

use windlass_base::{process::pager, text};
use windlass_core::config::Environment;

/// Opens the text in the editor of `VISUAL` or `EDITOR`, and returns it as it is when the editor ends. The terminal must
/// have no other user until then.
///
/// # Errors
///
/// A sentence, if no editor could be started or it ended with a failure.
pub async fn edit(environment: &Environment, text: &str) -> Result<String, String> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| environment.get(name));
    let editor = named.filter(|editor| !editor.trim().is_empty()).unwrap_or("vi");
    let failed = |reason: String| format!("The editor `{editor}` of $VISUAL or $EDITOR failed: {reason}.");
    let file = tempfile::Builder::new().prefix("windlass-prompt-").suffix(".md").tempfile();
    let mut file = file.map_err(|error| failed(error.to_string()))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
    written.map_err(|error| failed(error.to_string()))?;
    // Its options may stand behind its name.
    let line = format!("{editor} \"$1\"");
    let args = ["-c".as_ref(), line.as_ref(), "sh".as_ref(), file.path().as_os_str()];
    let ended = pager::run("sh", &args).await.map_err(|error| failed(error.to_string()))?;
    if !ended.success() {
        return Err(failed(ended.to_string()));
    }
    // An editor may have put another file in its place.
    let bytes = std::fs::read(file.path()).map_err(|error| failed(error.to_string()))?;
    let written =
        String::from_utf8(bytes).map_err(|_| failed("it wrote a file that is no text".to_owned()))?;
    Ok(text::readable(written.trim_end()).into_owned())
}
