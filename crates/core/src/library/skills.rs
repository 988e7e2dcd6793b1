//! Skills: instructions for particular tasks that the model loads when it needs them, found as `SKILL.md` files.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use windlass_base::{home, text, watch::is_passed_over};
use windlass_protocol::opencode::permission::Action;

use crate::config::{
    Config, Findings, Warning, frontmatter, policy::Policy, project_files::ProjectFiles,
    text_file::Unreadable,
};

pub mod urls;

/// The name of a skill's file.
const FILE: &str = "SKILL.md";
/// Maximum depth of the search.
pub const MAX_DEPTH: usize = 8;
/// Maximum number of directory entries examined in one location.
const MAX_ENTRIES: usize = 20_000;
const MAX_NAME_CHARS: usize = 100;
/// Maximum bytes of a description in the lists that every request carries.
const MAX_DESCRIPTION: usize = 1024;
/// Maximum number of files that are named when a skill is loaded.
const MAX_FILES: usize = 10;

/// The skill that teaches the model to configure windlass.
pub const CUSTOMIZE: &str = "customize-windlass";
/// OpenCode's name for [`CUSTOMIZE`].
const CUSTOMIZE_ALIAS: &str = "customize-opencode";
const CUSTOMIZE_BODY: &str = include_str!("skills/customize.txt");

/// A skill, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// The path of its `SKILL.md`; `None` for a built-in skill.
    pub location: Option<PathBuf>,
}

/// The text that the model reads when it loads a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The text behind the front matter.
    pub body: String,
    /// Some of the files in the skill's directory.
    pub files: Vec<PathBuf>,
}

impl Skill {
    /// Returns the directory that relative paths in the skill start from.
    pub fn directory(&self) -> Option<&Path> {
        self.location.as_deref()?.parent()
    }

    /// Returns the text of a built-in skill.
    pub fn built_in_body(&self) -> &'static str {
        CUSTOMIZE_BODY
    }

    /// Reads the text and lists the files beside it. Blocking.
    pub fn load(&self, project_files: &ProjectFiles) -> Result<Content, String> {
        match &self.location {
            Some(location) => {
                Ok(Content { body: read_body(project_files, location)?, files: files_beside(location) })
            }
            None => Ok(Content { body: self.built_in_body().to_owned(), files: Vec::new() }),
        }
    }
}

/// Returns the skill of that name.
pub fn find<'a>(skills: &'a [Skill], name: &str) -> Option<&'a Skill> {
    let named = |name: &str| skills.iter().find(|skill| skill.name == name);
    named(name).or_else(|| named(CUSTOMIZE).filter(|_| name == CUSTOMIZE_ALIAS))
}

/// Returns the skills that no rule hides from the model.
pub fn offered<'a>(skills: &'a [Skill], policy: &Policy) -> Vec<&'a Skill> {
    let is_denied = |skill: &&Skill| policy.evaluate("skill", &skill.name) == Action::Deny;
    skills.iter().filter(|skill| !is_denied(skill)).collect()
}

/// Returns the system prompt's section about skills; empty if there are none.
pub fn listing(skills: &[&Skill]) -> String {
    if skills.is_empty() {
        return String::new();
    }
    let mut listing =
        "Skills hold instructions for particular tasks. When a task is what a skill describes, load \
                       the skill with the `skill` tool before you begin.\n<available_skills>\n"
            .to_owned();
    for skill in skills {
        let location = skill.location.as_deref().map_or("built in".to_owned(), |it| it.display().to_string());
        listing.push_str(&format!(
            "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  \
             </skill>\n",
            escape(&skill.name),
            escape(text::head(&skill.description, MAX_DESCRIPTION)),
            escape(&location)
        ));
    }
    listing.push_str("</available_skills>");
    listing
}

/// Returns the list of skills for the tool's description, one line each.
pub fn lines(skills: &[&Skill]) -> String {
    let line = |skill: &&Skill| {
        let description = text::head(&skill.description, MAX_DESCRIPTION).split_whitespace();
        format!("- {}: {}", skill.name, description.collect::<Vec<_>>().join(" "))
    };
    skills.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns every skill by name. Blocking.
///
/// A location that is searched later wins: the user's before the project's, outer directories before inner
/// ones.
pub fn scan(config: &Config) -> (Vec<Skill>, Findings) {
    let mut findings = Findings::default();
    let mut skills = BTreeMap::new();
    skills.insert(
        CUSTOMIZE.to_owned(),
        Skill {
            name: CUSTOMIZE.to_owned(),
            description:
                "How windlass is configured: opencode.json, permissions, agents, commands, skills, MCP \
                          servers, models and providers. Load it before you change or explain any of these."
                    .to_owned(),
            location: None,
        },
    );
    let mut seen = HashSet::new();
    let roots = roots(config, &mut findings);
    let mut places: Vec<Vec<PathBuf>> =
        roots.iter().map(|root| files_below(&config.project_files, root, &mut findings)).collect();
    for (idx, url) in config.skills.urls.iter().enumerate() {
        let (locations, problems) = urls::locations(&config.paths, url);
        places.push(locations);
        let warnings = problems.into_iter().map(|problem| named("urls", idx, format!("{url}: {problem}")));
        findings.warnings.extend(warnings);
    }
    for locations in places {
        for location in locations {
            // Locations overlap, and people link one to another.
            let real = fs::canonicalize(&location).unwrap_or_else(|_| location.clone());
            if !seen.insert(real) {
                continue;
            }
            let skill = match read(&config.project_files, &location) {
                Ok(skill) => skill,
                Err(warning) => {
                    if !findings.warnings.contains(&warning) {
                        findings.warnings.push(*warning);
                    }
                    continue;
                }
            };
            let hidden: Option<Skill> = skills.insert(skill.name.clone(), skill);
            if let Some(Skill { name, location: Some(hidden), .. }) = hidden {
                let message = format!("the skill `{name}` is replaced by the one in {}", location.display());
                findings.notes.push(whole(&hidden, message));
            }
        }
    }
    (skills.into_values().collect(), findings)
}

/// Returns the directories that may hold skills, existing or not, the weakest first.
pub fn places(config: &Config) -> Vec<PathBuf> {
    let environment = &config.environment;
    let mut places = Vec::new();
    let mut names = Vec::new();
    if !environment.is_on("OPENCODE_DISABLE_EXTERNAL_SKILLS") {
        let no_claude = ["OPENCODE_DISABLE_CLAUDE_CODE_SKILLS", "OPENCODE_DISABLE_CLAUDE_CODE"];
        if !no_claude.iter().any(|name| environment.is_on(name)) {
            names.push(".claude/skills");
        }
        names.push(".agents/skills");
    }
    places.extend(names.iter().map(|name| environment.home.join(name)));
    if !environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        for ancestor in config.upwards().iter().rev() {
            places.extend(names.iter().map(|name| ancestor.join(name)));
        }
    }
    for directory in &config.directories {
        places.extend(["skill", "skills"].map(|name| directory.join(name)));
    }
    places.extend(named_places(config));
    places
}

/// Returns the directories of `skills.paths`.
fn named_places(config: &Config) -> impl Iterator<Item = PathBuf> {
    config.skills.paths.iter().map(|path| home::join(&config.environment.home, &config.directory, path))
}

/// Returns the directories to search, the weakest first.
fn roots(config: &Config, findings: &mut Findings) -> Vec<PathBuf> {
    let mut roots = places(config);
    for (idx, path) in named_places(config).enumerate() {
        let Err(error) = fs::read_dir(&path) else { continue };
        let message = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                format!("{} is not a directory", path.display())
            }
            _ => format!("{} cannot be read: {error}", path.display()),
        };
        findings.warnings.push(named("paths", idx, message));
        roots.retain(|root| *root != path);
    }
    // The user's home may also be the project.
    let mut seen = HashSet::new();
    roots.retain(|root| seen.insert(root.clone()));
    roots
}

/// Returns every `SKILL.md` below a directory, sorted. Searches level by level, so that only deep files are
/// lost at the limit.
fn files_below(project_files: &ProjectFiles, root: &Path, findings: &mut Findings) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut followed = HashSet::new();
    let mut n_entries = 0;
    let mut pending = VecDeque::from([(root.to_owned(), 0)]);
    'search: while let Some((directory, depth)) = pending.pop_front() {
        if let Some(refusal) = project_files.refusal(&directory) {
            findings.refuse(&refusal);
            continue;
        }
        let warnings = &mut findings.warnings;
        let mut cannot_read = |path: &Path, error: io::Error| {
            warnings.push(whole(path, format!("cannot be read, so skills in it are left out: {error}")));
        };
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                let is_missing =
                    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                // A broken link still exists, unlike a file that was removed since it was found.
                if !is_missing || fs::symlink_metadata(&directory).is_ok() {
                    cannot_read(&directory, error);
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                let message = format!(
                    "skills are looked for among the nearest {MAX_ENTRIES} files and directories only"
                );
                warnings.push(whole(root, message));
                break 'search;
            }
            let name = entry.file_name();
            if name == FILE {
                found.push(entry.path());
                continue;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let is_directory = if kind.is_symlink() {
                match fs::metadata(entry.path()) {
                    // A link may lead back to a directory above it.
                    Ok(target) => target.is_dir() && followed.insert((target.dev(), target.ino())),
                    Err(error) => {
                        if error.kind() == io::ErrorKind::PermissionDenied {
                            cannot_read(&entry.path(), error);
                        }
                        false
                    }
                }
            } else {
                kind.is_dir()
            };
            if is_directory && depth < MAX_DEPTH && !is_passed_over(&name) {
                pending.push_back((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    found
}

/// Reads a whole skill file, because a skill that cannot be loaded must not be listed.
fn read(project_files: &ProjectFiles, location: &Path) -> Result<Skill, Box<Warning>> {
    let at = |line: usize, column: usize, message: String| {
        let source = location.display().to_string();
        Box::new(Warning { source, line: Some(line), column: Some(column), message })
    };
    let text = project_files.read(location).map_err(|error| {
        if let Unreadable::Refused(refusal) = &error {
            return Box::new(Warning::from(refusal.as_ref()));
        }
        let (line, column) = error.position().unzip();
        let message = format!("the skill cannot be read: {error}");
        Box::new(Warning { line, column, ..whole(location, message) })
    })?;
    let front = frontmatter::split(&text)
        .map_err(|error| at(error.line, error.column, format!("the skill is ignored: {}", error.message)))?;
    let field = |key: &str| {
        let (line, column) = front.key_lines.get(&format!("/{key}")).copied().unwrap_or((1, 1));
        match front.data.get(key) {
            Some(Value::String(value)) if !value.trim().is_empty() => Ok(value.trim().to_owned()),
            Some(_) => Err(at(line, column, format!("the skill is ignored: `{key}` must be a text"))),
            None => Err(at(1, 1, format!("the skill is ignored: its front matter has no `{key}`"))),
        }
    };
    let (name, description) = (field("name")?, field("description")?);
    // Lists have one line per skill.
    if name.contains(char::is_control) || name.chars().count() > MAX_NAME_CHARS {
        let (line, column) = front.key_lines.get("/name").copied().unwrap_or((1, 1));
        let message =
            format!("the skill is ignored: its name must be one line of at most {MAX_NAME_CHARS} characters");
        return Err(at(line, column, message));
    }
    Ok(Skill { name, description, location: Some(location.to_owned()) })
}

/// Returns true if a name from a server is safe as the name of a directory.
fn is_valid(name: &str) -> bool {
    let is_bad = |it: char| it.is_whitespace() || it.is_control() || matches!(it, '/' | '\\' | '*' | '?');
    !name.is_empty()
        && name.chars().count() <= MAX_NAME_CHARS
        && !name.starts_with('.')
        && !name.contains(is_bad)
}

/// Reads the text of a `SKILL.md` behind its front matter. Blocking.
fn read_body(project_files: &ProjectFiles, location: &Path) -> Result<String, String> {
    let text = project_files.read(location).map_err(|error| {
        let place = error.position().map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
        format!("The skill {}{place} cannot be read: {error}", location.display())
    })?;
    let front = frontmatter::split(&text).map_err(|error| format!("{}:{error}", location.display()))?;
    Ok(front.body.trim().to_owned())
}

/// Returns some of the files below a skill's directory.
fn files_beside(location: &Path) -> Vec<PathBuf> {
    let Some(directory) = location.parent() else { return Vec::new() };
    let mut found = Vec::new();
    let mut n_entries = 0;
    let mut pending = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                break;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() && depth < MAX_DEPTH && !is_passed_over(&name) {
                pending.push((entry.path(), depth + 1));
            } else if kind.is_file() && name != FILE {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found.truncate(MAX_FILES);
    found
}

/// Makes a warning about an element of a list in `skills`.
fn named(list: &str, idx: usize, message: String) -> Warning {
    Warning { source: format!("skills.{list}.{idx}"), line: None, column: None, message }
}

fn whole(source: &Path, message: String) -> Warning {
    Warning { source: source.display().to_string(), line: None, column: None, message }
}

#[cfg(test)]
mod tests;
