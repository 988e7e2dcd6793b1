//! Agents, modes and commands that are markdown files (facts: OpenCode §2.4).

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_base::text::distance;

use super::{
    frontmatter::{self, FrontMatter},
    layer::{Kind, Layer, pointer},
    project_files::ProjectFiles,
    text_file::Unreadable,
    warning::{Findings, Warning},
};

/// Files that one directory may define; more are a directory that was not meant.
const MAX_FILES: usize = 2000;

/// Directories within directories.
pub const MAX_DEPTH: usize = 16;

/// Subdirectories of a directory of configuration.
const SUBDIRECTORIES: [&str; 12] = [
    "agent", "agents", "mode", "modes", "command", "commands", "skill", "skills", "plugin", "plugins",
    "tool", "tools",
];

/// End of the warning about a [`Broken`] file.
pub const LEFT_OUT: &str = "the file is left out";

/// Findings in a directory of configuration.
#[derive(Debug, Default)]
pub struct Read {
    /// One for each file.
    pub layers: Vec<Layer>,
    /// Directories and files that were read.
    pub watched: BTreeSet<PathBuf>,
    /// Files that define something and cannot be used.
    pub broken: Vec<Broken>,
}

/// A file that defines something and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub file: PathBuf,
    /// `agent` or `command`.
    pub key: &'static str,
    pub name: String,
}

/// Reads the commands, agents and modes of a directory, in this order: later ones win.
pub fn read(project_files: &ProjectFiles, directory: &Path, findings: &mut Findings) -> Read {
    let mut read = Read::default();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) => {
            if err.kind() != io::ErrorKind::NotFound && err.kind() != io::ErrorKind::NotADirectory {
                findings.warnings.push(warning(directory, format!("cannot be read: {err}")));
            }
            return read;
        }
    };
    read.watched.insert(directory.to_owned());
    let mut names = BTreeSet::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if SUBDIRECTORIES.contains(&name.as_str()) {
            names.insert(name);
        } else if let Some(meant) = meant(&name).filter(|_| entry.path().is_dir()) {
            let message = format!("is not read; did you mean `{meant}`?");
            findings.warnings.push(warning(&entry.path(), message));
        }
    }
    for (subdirectory, kind) in [
        ("command", Definition::Command),
        ("commands", Definition::Command),
        ("agent", Definition::Agent),
        ("agents", Definition::Agent),
        ("mode", Definition::Mode),
        ("modes", Definition::Mode),
    ] {
        if !names.contains(subdirectory) {
            continue;
        }
        let root = directory.join(subdirectory);
        for file in files(project_files, &root, kind, &mut read.watched, findings) {
            match definition(project_files, &root, &file, kind, findings) {
                Some(layer) => read.layers.push(layer),
                // A file that others wrote is as if it were not there.
                None if project_files.refusal(&file).is_some() => {}
                None => {
                    let key = kind.keys().0;
                    let broken = name(&root, &file).map(|name| Broken { file: file.clone(), key, name });
                    read.broken.extend(broken);
                }
            }
            read.watched.insert(file);
        }
    }
    read
}

/// Reads a directory of nothing but agents.
pub fn read_agents(project_files: &ProjectFiles, root: &Path, findings: &mut Findings) -> Read {
    let mut read = Read::default();
    for file in files(project_files, root, Definition::Agent, &mut read.watched, findings) {
        read.layers.extend(definition(project_files, root, &file, Definition::Agent, findings));
        read.watched.insert(file);
    }
    read
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    Agent,
    /// A primary agent in the deprecated form.
    Mode,
    Command,
}

impl Definition {
    /// Returns the key that the file defines, and the key of its text.
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            Definition::Agent | Definition::Mode => ("agent", "prompt"),
            Definition::Command => ("command", "template"),
        }
    }
}

/// Returns the name of a subdirectory that looks like this one.
fn meant(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let near = SUBDIRECTORIES.iter().map(|&known| (distance(&name, known), known));
    // Short words are near to each other by accident.
    let (away, known) = near.min_by_key(|&(away, known)| (away, known.len()))?;
    (away <= 2 && name.len() >= 4 && away * 3 <= known.len()).then_some(known)
}

/// Returns the markdown files below a directory, in order of their paths.
fn files(
    project_files: &ProjectFiles,
    root: &Path,
    kind: Definition,
    watched: &mut BTreeSet<PathBuf>,
    findings: &mut Findings,
) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    let mut visited = HashSet::new();
    let mut pending = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        if let Some(refusal) = project_files.refusal(&directory) {
            findings.refuse(&refusal);
            watched.insert(directory);
            continue;
        }
        // A symbolic link may lead back to a directory above it.
        match fs::metadata(&directory) {
            Ok(metadata) if !visited.insert((metadata.dev(), metadata.ino())) => {
                let message = "is a link back to a directory that was read; it is left out".to_owned();
                findings.warnings.push(warning(&directory, message));
                continue;
            }
            Ok(_) | Err(_) => {}
        }
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(err) => {
                findings.warnings.push(warning(&directory, format!("cannot be read: {err}")));
                continue;
            }
        };
        watched.insert(directory.clone());
        for entry in entries.flatten() {
            let path = entry.path();
            let is_markdown = path.extension().is_some_and(|extension| extension == "md");
            let is_directory = match entry.file_type() {
                Ok(file_type) if file_type.is_symlink() => path.is_dir(),
                Ok(file_type) => file_type.is_dir(),
                Err(_) => false,
            };
            if is_directory && kind != Definition::Mode && depth < MAX_DEPTH {
                pending.push((path, depth + 1));
            } else if !is_directory && is_markdown {
                files.insert(path);
            }
        }
        if files.len() > MAX_FILES {
            let message = format!("holds more than {MAX_FILES} files; the rest is left out");
            findings.warnings.push(warning(root, message));
            while files.len() > MAX_FILES {
                files.pop_last();
            }
            break;
        }
    }
    files
}

/// Returns one file as a layer; none when it cannot be used.
fn definition(
    project_files: &ProjectFiles,
    root: &Path,
    file: &Path,
    kind: Definition,
    findings: &mut Findings,
) -> Option<Layer> {
    let skipped = |message: String| warning(file, format!("{message}; {LEFT_OUT}"));
    let name = match name(root, file) {
        Some(name) => name,
        None => {
            findings.warnings.push(skipped("its path is not a name".to_owned()));
            return None;
        }
    };
    let text = match project_files.read(file) {
        Ok(text) => text,
        Err(Unreadable::Refused(refusal)) => {
            findings.refuse(&refusal);
            return None;
        }
        Err(err) => {
            let (line, column) = err.position().unzip();
            findings.warnings.push(Warning { line, column, ..skipped(format!("cannot be read: {err}")) });
            return None;
        }
    };
    let front_matter = match frontmatter::split(&text) {
        Ok(front_matter) => front_matter,
        Err(err) => {
            let place = skipped(err.message);
            findings.warnings.push(Warning { line: Some(err.line), column: Some(err.column), ..place });
            return None;
        }
    };
    let layer = layer(file, kind, &name, front_matter, &text);
    if let Some(color) = layer.value.get("agent").and_then(|agents| agents.get(&name)?.get("color"))
        && color.is_null()
    {
        let message = "is empty; put a value that begins with `#` in quotes".to_owned();
        findings.warnings.push(layer.warning(&["agent", &name, "color"], message));
    }
    Some(layer)
}

fn layer(file: &Path, kind: Definition, name: &str, front_matter: FrontMatter, text: &str) -> Layer {
    let (key, body_key) = kind.keys();
    let FrontMatter { data: mut definition, key_lines, body } = front_matter;
    let body_text = body.trim();
    let prefix = pointer(&[key, name]);
    let mut places = key_lines;
    places = places.into_iter().map(|(place, position)| (format!("{prefix}{place}"), position)).collect();
    places.insert(prefix.clone(), (1, 1));
    if kind == Definition::Mode {
        definition.insert("mode".to_owned(), Value::from("primary"));
    }
    // An agent's file without a body changes an agent and leaves its prompt.
    if !body_text.is_empty() || kind == Definition::Command {
        definition.insert(body_key.to_owned(), Value::from(body_text));
        places.insert(format!("{prefix}/{body_key}"), (frontmatter::body_line(text, &body), 1));
    }
    let entry = Map::from_iter([(name.to_owned(), Value::Object(definition))]);
    let value = Map::from_iter([(key.to_owned(), Value::Object(entry))]);
    let base = file.parent().unwrap_or(Path::new("/"));
    Layer { places, ..Layer::new(Kind::Markdown, &file.display().to_string(), base, value) }
}

/// Returns the path below `root` without `.md`, as `a/b`.
fn name(root: &Path, file: &Path) -> Option<String> {
    let relative = file.strip_prefix(root).ok()?.to_str()?;
    let name = relative.strip_suffix(".md")?;
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    name.split('/').all(is_plain).then(|| name.to_owned())
}

fn warning(path: &Path, message: String) -> Warning {
    Warning { source: path.display().to_string(), line: None, column: None, message }
}

#[cfg(test)]
mod tests;
