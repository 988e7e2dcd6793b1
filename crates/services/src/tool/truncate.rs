//! Cuts the output of a tool for the model, and keeps the whole of it in a file.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value};
use windlass_base::{ids, private_file, text};
use windlass_core::config::ToolOutputLimits;
use windlass_protocol::opencode::tool_metadata::{Counts, encode};

use super::{ToolCx, ToolError, ToolOutput, blocking, path::display};

/// Minimum time that a saved output stays readable (facts: OpenCode §5).
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Time for which an output of any size stays.
const IN_USE: Duration = Duration::from_secs(60 * 60);
/// Bytes of all saved outputs.
pub const MAX_SAVED: u64 = 1 << 30;
const HINT: &str = "Search it with the grep tool, or view parts of it with the read tool's offset and limit.";
const HINT_WITH_TASK: &str = "To keep this conversation short, have a subagent (such as explore) go through that file with the task tool and report what matters. Or search it with the grep tool, or view parts of it with the read tool's offset and limit; do not read all of it.";

/// Cuts the output to the configured size unless the tool already did (`metadata.truncated`).
pub async fn apply(cx: &ToolCx<'_>, mut tool_output: ToolOutput) -> Result<ToolOutput, ToolError> {
    if tool_output.metadata.contains_key("truncated") {
        return Ok(tool_output);
    }
    let limits = cx.config.tool_output;
    let head = head(&tool_output.output, limits);
    if head.len() == tool_output.output.len() {
        tool_output.metadata.insert("truncated".to_owned(), Value::Bool(false));
        return Ok(tool_output);
    }
    let removed = &tool_output.output[head.len()..];
    let is_cut_by_lines = head.lines().count() >= limits.max_lines;
    let note = if is_cut_by_lines {
        format!("...{} lines truncated...", removed.trim_start_matches('\n').lines().count())
    } else {
        format!("...{} bytes truncated...", removed.len())
    };
    let head = head.to_owned();
    let full = std::mem::take(&mut tool_output.output);
    let directory = cx.config.paths.tool_output();
    let saved = blocking(move || Ok(save(&directory, full.as_bytes()))).await?;
    tool_output.metadata.insert("truncated".to_owned(), Value::Bool(true));
    let hint = match saved {
        Ok(path) => {
            tool_output.metadata.insert("outputPath".to_owned(), Value::String(display(&path)));
            let hint = if is_task_allowed(cx) { HINT_WITH_TASK } else { HINT };
            format!(
                "The tool call succeeded but the output was truncated. Full output saved to: {}\n{hint}",
                path.display()
            )
        }
        Err(error) => {
            tracing::warn!(%error, "cannot save a tool's output");
            format!(
                "The tool call succeeded but the output was truncated. The full output could not be saved: {error}\nAsk for less at a time to see the rest."
            )
        }
    };
    tool_output.output = format!("{head}\n\n{note}\n\n{hint}");
    Ok(tool_output)
}

/// Adds the truncation mark to the metadata of a tool that cuts its list itself, unless the text is still too
/// long.
pub(crate) fn marked(cx: &ToolCx<'_>, found: Counts, is_truncated: bool, output: &str) -> Map<String, Value> {
    let is_whole = output.len() <= cx.config.tool_output.max_bytes;
    encode(&Counts { truncated: is_whole.then_some(is_truncated), ..found })
}

fn is_task_allowed(cx: &ToolCx<'_>) -> bool {
    !cx.host.policy().hides("task")
}

/// Removes the outputs that were not written to for [`KEPT`], and the oldest of the others while all are larger than
/// `max_bytes`. Blocks.
pub fn clean(directory: &Path, now: SystemTime, max_bytes: u64) {
    let saved = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(b"tool_");
        is_ours.then_some((metadata.modified().ok()?, metadata.len(), entry.path()))
    };
    // The directory does not exist before the first long output.
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut outputs: Vec<(SystemTime, u64, PathBuf)> = entries.filter_map(saved).collect();
    outputs.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
    let mut n_bytes = 0;
    for (modified, size, path) in outputs {
        n_bytes += size;
        let is_old = now.duration_since(modified).is_ok_and(|age| age > KEPT);
        // A call of this moment may still be writing its output.
        let is_new = now.duration_since(modified).is_ok_and(|age| age < IN_USE);
        if (is_old || n_bytes > max_bytes && !is_new)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(%error, path = %path.display(), "an old tool output cannot be removed");
        }
    }
}

/// Returns the longest beginning of whole lines within the limits, or a part of the first line if even that is
/// too long.
pub(crate) fn head(output: &str, limits: ToolOutputLimits) -> &str {
    let mut end = 0;
    for line in output.split_inclusive('\n').take(limits.max_lines) {
        if end + line.len() > limits.max_bytes {
            break;
        }
        end += line.len();
    }
    if end == output.len() {
        return output;
    }
    match end {
        0 => text::head(output, limits.max_bytes),
        _ => output[..end].trim_end_matches('\n'),
    }
}

/// Returns the longest end of whole lines within the limits, or the end of the last line if even that is too
/// long.
pub(crate) fn tail(output: &str, limits: ToolOutputLimits) -> &str {
    let mut start = output.len();
    for line in output.split_inclusive('\n').rev().take(limits.max_lines) {
        if output.len() - start + line.len() > limits.max_bytes {
            break;
        }
        start -= line.len();
    }
    if start == output.len() { text::tail(output, limits.max_bytes) } else { &output[start..] }
}

/// Makes a new, private file for a full output.
pub(crate) fn create(directory: &Path) -> io::Result<(PathBuf, fs::File)> {
    private_file::create(directory, &ids::tool_output())
}

fn save(directory: &Path, output: &[u8]) -> io::Result<PathBuf> {
    let (path, mut file) = create(directory)?;
    match file.write_all(output) {
        Ok(()) => Ok(path),
        Err(error) => {
            // A file that is named nowhere must not take up space.
            let _ = fs::remove_file(&path);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
