//! Reads a file or lists a directory, a window at a time.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use memchr::memchr;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_base::{
    mime,
    pinned::{self, Directory},
};
use windlass_core::{
    config::policy::Policy,
    library::{
        Instructions,
        nested::{self, Nested},
    },
    permission::{self, Ask},
};
use windlass_protocol::opencode::{
    part::FilePart,
    permission::{Action, Rule},
    tool_metadata::{self, AskedPath, Display, DisplayKind, encode},
};

use super::{
    FileStamp, ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking, editor,
    path::{self, Roots, Target, display, one_line},
    walk::StopOnDrop,
};

const DEFAULT_LIMIT: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
const MAX_BYTES: usize = 50 * 1024;
const N_PREVIEW: usize = 20;
const SAMPLE_BYTES: usize = 4096;
/// Maximum size of files that are read to the end only to count lines.
const MAX_COUNTED_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum size of images and PDFs; every provider refuses larger ones.
const MAX_ATTACHED_BYTES: u64 = 20 * 1024 * 1024;

/// The file to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The file or directory: an absolute path, or one relative to the working directory.
    pub file_path: String,
    /// First line (or directory entry) to show, counted from 1.
    pub offset: Option<usize>,
    /// Number of lines (or entries) to show (default 2000).
    pub limit: Option<usize>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("read", input)?;
    if args.file_path.is_empty() {
        return Err(ToolError::Model("filePath is required".to_owned()));
    }
    let target = path::resolve_existing(cx, &args.file_path).await?;
    path::ask_outside(cx, &target).await?;
    cx.host
        .ask(Ask {
            permission: "read".to_owned(),
            patterns: target.patterns.clone(),
            always: vec!["*".to_owned()],
            metadata: encode(&AskedPath {
                filepath: &path::display(&target.path),
                parent_dir: None,
                resolved: target.resolved().as_deref(),
            }),
        })
        .await?;
    path::unmoved(cx, &target).await?;
    // A file that is read may be changed next, and then its server should be there.
    cx.lsp.start(cx.config, &target.real).await;
    let window = Window {
        offset: args.offset.unwrap_or(1).max(1),
        limit: args.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT),
    };
    let stop = StopOnDrop::default();
    let stopped = stop.flag();
    let real = target.real.clone();
    let nested = Nested::new(cx.config);
    let unsaved = tokio::select! {
        buffer = editor::buffer(cx, &target.path, &target.real) => buffer.unsaved(),
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    let reading = blocking(move || {
        // Taken before the text, so that a change in between is noticed later.
        let stamp =
            fs::metadata(&target.real).ok().filter(fs::Metadata::is_file).map(|it| FileStamp::of(&it));
        let tool_output = read(&target, window, unsaved.as_deref(), &stopped)?;
        let stamp = stamp.map(|stamp| match &unsaved {
            Some(text) => stamp.with_content(text.as_bytes()),
            None => with_content(stamp, &target.real),
        });
        let is_text = stamp.is_some() && tool_output.attachments.is_empty();
        let files = if is_text { nested.files(&target.path) } else { Vec::new() };
        Ok((tool_output, stamp, files))
    });
    let (mut tool_output, stamp, files) = tokio::select! {
        read = reading => read?,
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    remind(cx, &mut tool_output, files).await?;
    if let Some(stamp) = stamp {
        cx.host.record_read(&real, stamp);
    }
    Ok(tool_output)
}

/// Adds a hash of the content to the stamp, if the file is unchanged since.
fn with_content(stamp: FileStamp, real: &Path) -> FileStamp {
    if stamp.n_bytes > FileStamp::MAX_HASHED as u64 {
        return stamp;
    }
    let mut content = Vec::new();
    let read =
        pinned::open_file(real).and_then(|file| file.take(stamp.n_bytes + 1).read_to_end(&mut content));
    if read.is_err() {
        return stamp;
    }
    let is_same = fs::metadata(real).is_ok_and(|now| FileStamp::of(&now).is_same(&stamp));
    if is_same { stamp.with_content(&content) } else { stamp }
}

/// Returns true if a file may be shown without a question, also by the path that its links lead to.
pub fn is_free(roots: &Roots, file: &Path, policy: &Policy, answers: &[Rule]) -> bool {
    let target = path::judge(roots, file.to_owned());
    let is_allowed =
        |pattern: &String| permission::resolve("read", pattern, policy, answers) == Action::Allow;
    target.is_inside && target.patterns.iter().all(is_allowed)
}

/// Adds the instruction files for the file that was read, if the model has not seen them.
async fn remind(
    cx: &ToolCx<'_>,
    tool_output: &mut ToolOutput,
    mut files: Vec<PathBuf>,
) -> Result<(), ToolError> {
    if files.is_empty() {
        return Ok(());
    }
    let (roots, policy, answers) = (Roots::new(cx.config), cx.host.policy(), cx.host.answers().await);
    let free = blocking(move || {
        files.retain(|file| is_free(&roots, file, &policy, &answers));
        Ok(files)
    });
    let mut files = free.await?;
    files.retain(|file| cx.host.claim_instructions(file));
    if files.is_empty() {
        return Ok(());
    }
    let project_files = cx.config.project_files.clone();
    let read = blocking(move || Ok(nested::read(&project_files, &files))).await?;
    let warnings = read.all_warnings();
    let Instructions { blocks, .. } = read;
    cx.host.warn(warnings);
    if blocks.is_empty() {
        return Ok(());
    }
    let loaded: Vec<Value> = blocks.iter().map(|block| Value::String(block.source.clone())).collect();
    tool_output.metadata.insert("loaded".to_owned(), Value::Array(loaded));
    let texts: Vec<&str> = blocks.iter().map(|block| block.text.trim_end()).collect();
    tool_output
        .output
        .push_str(&format!("\n\n<system-reminder>\n{}\n</system-reminder>", texts.join("\n\n")));
    Ok(())
}

/// The lines or entries to show.
#[derive(Clone, Copy)]
struct Window {
    /// The first one, from 1.
    offset: usize,
    limit: usize,
}

/// Reads a directory or a file. `unsaved` is the text that the editor has in the file's place.
fn read(
    target: &Target,
    window: Window,
    unsaved: Option<&str>,
    stopped: &AtomicBool,
) -> Result<ToolOutput, ToolError> {
    // Opens the path that was judged, even if a link is changed meanwhile.
    let (path, real) = (target.path.as_path(), target.real.as_path());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::Model(not_found(path)),
        _other => ToolError::Model(format!("Cannot read {}: {error}", path.display())),
    };
    let metadata = fs::metadata(real).map_err(failed)?;
    let (output, metadata, attachments) = if metadata.is_dir() {
        let (output, metadata) = read_directory(target, window).map_err(failed)?;
        (output, metadata, Vec::new())
    } else if !metadata.is_file() {
        // Opening a pipe or a device could block for ever.
        return Err(ToolError::Model(format!("Cannot read {}: it is not a regular file.", path.display())));
    } else if let Some(text) = unsaved {
        let lines = read_lines(text.as_bytes(), window, true, stopped).map_err(failed)?;
        let (output, metadata) = show_lines(path, window, &lines)?;
        (output, metadata, Vec::new())
    } else {
        let mut file = pinned::open_file(real).map_err(failed)?;
        let mut sample = Vec::with_capacity(SAMPLE_BYTES);
        file.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut sample).map_err(failed)?;
        match mime::of_bytes(&sample) {
            Some(mime) => attach(path, mime, metadata.len(), file)?,
            None if is_binary(path, &sample) => {
                return Err(ToolError::Model(format!("Cannot read binary file: {}", path.display())));
            }
            None => {
                file.rewind().map_err(failed)?;
                let is_counted = metadata.len() <= MAX_COUNTED_BYTES;
                let lines = read_lines(file, window, is_counted, stopped).map_err(failed)?;
                let (output, metadata) = show_lines(path, window, &lines)?;
                (output, metadata, Vec::new())
            }
        }
    };
    Ok(ToolOutput { title: one_line(Path::new(&target.relative)), output, metadata, attachments })
}

/// Makes the error for a missing file, with similar names in its directory.
fn not_found(path: &Path) -> String {
    let mut message = path::missing(format!("File not found: {}", path.display()), path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return message };
    let name = name.to_string_lossy().to_lowercase();
    let is_alike = |other: &str| {
        let other = other.to_lowercase();
        other.contains(&name) || name.contains(&other)
    };
    let mut alike: Vec<PathBuf> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_alike(&entry.file_name().to_string_lossy()))
        .map(|entry| parent.join(entry.file_name()))
        // An entry with a broken target, such as a closed file of a process, cannot be the one that was meant.
        .filter(|other| other != path)
        .collect();
    alike.sort();
    alike.truncate(3);
    if !alike.is_empty() {
        let names: Vec<String> = alike.iter().map(|path| one_line(path)).collect();
        message.push_str("\n\nDid you mean one of these?\n");
        message.push_str(&names.join("\n"));
    }
    message
}

fn read_directory(target: &Target, window: Window) -> io::Result<(String, Map<String, Value>)> {
    let mut names = Vec::new();
    let directory = Directory::open(&target.real)?;
    for entry in directory.entries()? {
        let entry = entry?;
        // Follows links, so that a link to a directory shows as a directory.
        let is_directory = match entry.file_type()? {
            kind if kind.is_symlink() => entry.path().is_dir(),
            kind => kind.is_dir(),
        };
        let mut name = one_line(Path::new(&entry.file_name()));
        if is_directory {
            name.push('/');
        }
        names.push(name);
    }
    names.sort();
    let n_total = names.len();
    let mut n_bytes = 0;
    let fits = |name: &String| {
        n_bytes += name.len() + 1;
        n_bytes <= MAX_BYTES
    };
    let shown = names.into_iter().skip(window.offset - 1).take(window.limit).take_while(fits);
    let shown: Vec<String> = shown.collect();
    let n_before = window.offset - 1;
    let is_truncated = n_before + shown.len() < n_total;
    let note = if is_truncated {
        format!(
            "(Showing {} of {n_total} entries. Use 'offset' parameter to read beyond entry {})",
            shown.len(),
            n_before + shown.len()
        )
    } else {
        format!("({n_total} entries)")
    };
    let path = display(&target.path);
    let output = format!(
        "<path>{path}</path>\n<type>directory</type>\n<entries>\n{}\n\n{note}\n</entries>",
        shown.join("\n")
    );
    let preview: Vec<&str> = shown.iter().take(N_PREVIEW).map(String::as_str).collect();
    let metadata = encode(&tool_metadata::Read {
        preview: &preview.join("\n"),
        truncated: is_truncated,
        loaded: Vec::new(),
        display: Some(Display {
            kind: DisplayKind::Directory,
            path: &path,
            text: None,
            entries: Some(Cow::Borrowed(&shown)),
            line_start: window.offset as u64,
            line_end: (n_before + shown.len()) as u64,
            total_lines: Some(n_total as u64),
            truncated: is_truncated,
        }),
    });
    Ok((output, metadata))
}

/// Returns true if the content of a regular file cannot be shown. Reads its beginning.
pub fn is_hidden_file(path: &Path) -> io::Result<bool> {
    let mut sample = Vec::with_capacity(SAMPLE_BYTES);
    File::open(path)?.take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
    Ok(is_hidden(path, &sample))
}

/// Returns true if the file's content cannot be shown.
pub(super) fn is_hidden(path: &Path, content: &[u8]) -> bool {
    let sample = &content[..content.len().min(SAMPLE_BYTES)];
    mime::of_bytes(sample).is_none() && is_binary(path, sample)
}

/// Output, metadata and attachments.
type ReadOutput = (String, Map<String, Value>, Vec<FilePart>);

fn attach(path: &Path, mime: &str, n_bytes: u64, mut file: File) -> Result<ReadOutput, ToolError> {
    if n_bytes > MAX_ATTACHED_BYTES {
        return Err(ToolError::Model(format!(
            "File {} is too large to attach: {n_bytes} bytes, the limit is {MAX_ATTACHED_BYTES}.",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.take(MAX_ATTACHED_BYTES).read_to_end(&mut bytes))
        .map_err(|error| ToolError::Model(format!("Cannot read {}: {error}", path.display())))?;
    let kind = if mime == "application/pdf" { "PDF" } else { "Image" };
    let message = format!("{kind} read successfully");
    let metadata = encode(&tool_metadata::Read {
        preview: &message,
        truncated: false,
        loaded: Vec::new(),
        display: None,
    });
    let attachment = FilePart {
        mime: mime.to_owned(),
        filename: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        url: format!("data:{mime};base64,{}", BASE64_STANDARD.encode(bytes)),
        source: None,
    };
    Ok((message, metadata, vec![attachment]))
}

fn is_binary(path: &Path, sample: &[u8]) -> bool {
    const EXTENSIONS: &[&str] = &[
        "zip", "tar", "gz", "exe", "dll", "so", "class", "jar", "war", "7z", "doc", "docx", "xls", "xlsx",
        "ppt", "pptx", "odt", "ods", "odp", "bin", "dat", "obj", "o", "a", "lib", "wasm", "pyc", "pyo",
    ];
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let n_control = sample.iter().filter(|byte| matches!(byte, 0..9 | 14..32)).count();
    EXTENSIONS.contains(&extension.as_str()) || sample.contains(&0) || n_control * 10 > sample.len() * 3
}

/// The lines of a window.
#[derive(Default)]
struct Lines {
    shown: Vec<String>,
    /// The number of lines in the whole file, if it was read to its end.
    n_total: Option<usize>,
    /// Set if the window ended early at [`MAX_BYTES`].
    is_capped: bool,
    /// Set if there are lines after the window.
    has_more: bool,
}

/// Reads lines and keeps at most the window, for any size of the file or of a line.
fn read_lines(file: impl Read, window: Window, is_counted: bool, stopped: &AtomicBool) -> io::Result<Lines> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut lines = Lines::default();
    let (mut n_lines, mut n_bytes) = (0, 0);
    let mut line = Vec::new();
    loop {
        if stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let is_wanted = n_lines + 1 >= window.offset;
        let is_full = lines.shown.len() == window.limit;
        if is_full && !is_counted {
            lines.has_more = !reader.fill_buf()?.is_empty();
            lines.n_total = (!lines.has_more).then_some(n_lines);
            return Ok(lines);
        }
        let keep = if is_wanted && !is_full { 4 * (MAX_LINE_CHARS + 1) } else { 0 };
        if !next_line(&mut reader, &mut line, keep)? {
            lines.n_total = Some(n_lines);
            return Ok(lines);
        }
        n_lines += 1;
        if !is_wanted {
            continue;
        }
        if is_full {
            lines.has_more = true;
            continue;
        }
        let text = shorten(&line, n_lines == 1);
        n_bytes += text.len() + usize::from(!lines.shown.is_empty());
        if lines.shown.len() >= DEFAULT_LIMIT {
            // As in OpenCode, the line numbers of the first 2000 lines are not counted; those of more lines
            // could be most of the text.
            n_bytes += number(n_lines).len();
        }
        if n_bytes > MAX_BYTES {
            lines.is_capped = true;
            lines.has_more = true;
            return Ok(lines);
        }
        lines.shown.push(text);
    }
}

/// Returns the prefix of a line.
fn number(line: usize) -> String {
    format!("{line}: ")
}

/// Reads one line without its end and keeps its first `keep` bytes. Returns false at the end of the file.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>, keep: usize) -> io::Result<bool> {
    line.clear();
    let mut is_any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        is_any = true;
        let end = memchr(b'\n', buffer);
        let content = &buffer[..end.unwrap_or(buffer.len())];
        let n_room = keep.saturating_sub(line.len()).min(content.len());
        line.extend_from_slice(&content[..n_room]);
        let n_read = content.len() + usize::from(end.is_some());
        reader.consume(n_read);
        if end.is_some() {
            break;
        }
    }
    Ok(is_any)
}

fn shorten(line: &[u8], is_first: bool) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.strip_suffix('\r').unwrap_or(&text);
    // Writers restore the mark; if it were shown, it would end up in an oldString.
    let text = text.strip_prefix('\u{feff}').filter(|_| is_first).unwrap_or(text);
    match text.char_indices().nth(MAX_LINE_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... (line truncated to {MAX_LINE_CHARS} chars)", &text[..end]),
    }
}

fn show_lines(path: &Path, window: Window, lines: &Lines) -> Result<(String, Map<String, Value>), ToolError> {
    let first = window.offset;
    let n_shown = lines.shown.len();
    if let Some(n_total) = lines.n_total.filter(|n_total| *n_total < first && first > 1) {
        return Err(ToolError::Model(format!(
            "Offset {first} is out of range for this file ({n_total} lines)"
        )));
    }
    let last = first + n_shown - 1;
    let next = last + 1;
    let footer = match (lines.is_capped, lines.has_more, lines.n_total) {
        (true, _, _) => {
            format!("(Output capped at 50 KB. Showing lines {first}-{last}. Use offset={next} to continue.)")
        }
        (false, true, Some(n_total)) => {
            format!("(Showing lines {first}-{last} of {n_total}. Use offset={next} to continue.)")
        }
        (false, true, None) => format!("(Showing lines {first}-{last}. Use offset={next} to continue.)"),
        (false, false, n_total) => format!("(End of file - total {} lines)", n_total.unwrap_or(last)),
    };
    let path = display(path);
    let mut output = format!("<path>{path}</path>\n<type>file</type>\n<content>\n");
    for (idx, line) in lines.shown.iter().enumerate() {
        if idx > 0 {
            output.push('\n');
        }
        output.push_str(&number(first + idx));
        output.push_str(line);
    }
    output.push_str("\n\n");
    output.push_str(&footer);
    output.push_str("\n</content>");
    let preview: Vec<&str> = lines.shown.iter().take(N_PREVIEW).map(String::as_str).collect();
    let metadata = encode(&tool_metadata::Read {
        preview: &preview.join("\n"),
        truncated: lines.has_more,
        loaded: Vec::new(),
        display: Some(Display {
            kind: DisplayKind::File,
            path: &path,
            text: Some(&lines.shown.join("\n")),
            entries: None,
            line_start: first as u64,
            line_end: last as u64,
            total_lines: lines.n_total.map(|n_total| n_total as u64),
            truncated: lines.has_more,
        }),
    });
    Ok((output, metadata))
}

#[cfg(test)]
mod tests;
