//! Tools without JavaScript: a manifest beside the tool files names a program that reads the arguments as JSON on its
//! standard input and writes its result on its standard output.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::json_schema::JsonSchema;
use windlass_core::config::project_files::ProjectFiles;

/// Name of the manifest in a directory of its own.
const FILE: &str = "tool.json";
const MAX_NAME: usize = 64;

/// A tool that a program runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file that describes it.
    pub file: PathBuf,
    pub name: String,
    pub description: String,
    pub schema: Arc<Value>,
    /// The program, and its arguments. A program with a slash is found from the manifest's directory.
    pub command: Vec<String>,
    /// Milliseconds that a call may take.
    pub timeout: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    description: String,
    #[serde(default)]
    parameters: Option<Value>,
    command: Command,
    timeout: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Command {
    Program(String),
    Words(Vec<String>),
}

/// Reads the manifests of a directory of tools, by name, and the sentences about those that cannot be used. Does
/// blocking reads.
pub fn read(project_files: &ProjectFiles, directory: &Path) -> (Vec<Arc<Manifest>>, Vec<(PathBuf, String)>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_entry = |path: PathBuf| {
        if path.extension().is_some_and(|it| it == "json") {
            let stem = path.file_stem()?.to_str()?.to_owned();
            return path.is_file().then_some((stem, path));
        }
        let file = path.join(FILE);
        let name = path.file_name()?.to_str()?.to_owned();
        file.is_file().then_some((name, file))
    };
    let mut files: Vec<(String, PathBuf)> = entries.filter_map(of_entry).collect();
    files.sort();
    let (mut manifests, mut problems) = (Vec::new(), Vec::new());
    for (name, file) in files {
        if let Some(refusal) = project_files.refusal(&file) {
            let problem = (refusal.path.clone(), refusal.to_string());
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            continue;
        }
        match manifest(project_files, name, &file) {
            Ok(Some(manifest)) => manifests.push(Arc::new(manifest)),
            Ok(None) => {}
            Err(reason) => problems.push((file, reason)),
        }
    }
    (manifests, problems)
}

/// Reads a file; `None` for data that a tool may read, which has neither a command nor a description.
fn manifest(project_files: &ProjectFiles, name: String, file: &Path) -> Result<Option<Manifest>, String> {
    let text = project_files.read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let keys: Option<Value> = serde_json::from_str(&text).ok();
    if keys.is_some_and(|it| it.get("command").is_none() && it.get("description").is_none()) {
        return Ok(None);
    }
    let written: Written = serde_json::from_str(&text).map_err(|error| format!("is no tool: {error}"))?;
    let name = written.name.unwrap_or(name);
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_letter) {
        return Err(format!("names its tool `{name}`; a name has letters, digits, `_` and `-`"));
    }
    let schema = written.parameters.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("has `parameters` that describe no object, with `\"type\": \"object\"`".to_owned());
    }
    JsonSchema::compile(&schema)
        .map_err(|reason| format!("has `parameters` that cannot be used: {reason}"))?;
    let mut command = match written.command {
        Command::Program(program) => vec![program],
        Command::Words(words) => words,
    };
    let Some(program) = command.first_mut().filter(|it| !it.is_empty()) else {
        return Err("has an empty `command`".to_owned());
    };
    let directory = file.parent().unwrap_or(Path::new("/"));
    if program.contains('/') {
        *program = directory.join(&*program).display().to_string();
    }
    // An interpreter's script lies beside the manifest, too.
    for word in command.iter_mut().skip(1).filter(|word| word.starts_with("./")) {
        *word = directory.join(&*word).display().to_string();
    }
    let (description, timeout) = (written.description, written.timeout);
    let schema = Arc::new(schema);
    Ok(Some(Manifest { file: file.to_owned(), name, description, schema, command, timeout }))
}

impl Manifest {
    /// Returns the files that change the tool when they change.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let programs = self.command.iter().map(PathBuf::from).filter(|word| word.is_absolute());
        std::iter::once(self.file.clone()).chain(programs)
    }
}
