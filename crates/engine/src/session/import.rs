//! Imports sessions: files of `windlass export` and `opencode export`, and OpenCode's own store.

mod renaming;
mod safety;
mod second;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use windlass_base::clock;
pub use windlass_core::storage::opencode::OpencodeSession;
use windlass_core::{
    config::worktree,
    storage::{
        StorageError, Write,
        opencode::{OpencodeStore, Stored},
    },
};
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    message::MessageWithParts,
    part::Part,
};

use super::export::SessionFile;
use crate::{EngineError, EngineErrorKind, Sessions, project};

/// A session that was brought in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub id: SessionId,
    pub title: String,
    pub n_messages: usize,
    /// Parts of kinds that this version does not know; they were left out.
    pub n_unknown: usize,
}

/// OpenCode's store, opened to be read.
pub struct OpencodeHistory(OpencodeStore);

impl OpencodeHistory {
    /// Opens the store in a data directory of OpenCode's, or a database by its path. Blocks.
    pub fn open(path: &Path) -> Result<Self, EngineError> {
        let store = OpencodeStore::open(path).map_err(of_opencode)?;
        let missing = || invalid(format!("there is no history of OpenCode in {}", path.display()));
        store.map(Self).ok_or_else(missing)
    }

    /// Lists all sessions, subagents' sessions last. Blocks.
    pub fn sessions(&self) -> Result<Vec<OpencodeSession>, EngineError> {
        self.0.sessions().map_err(of_opencode)
    }

    /// Reads a session with its subagents' sessions. Blocks.
    pub fn read(&self, session: &OpencodeSession, all: &[OpencodeSession]) -> Result<Value, EngineError> {
        let mut known = HashSet::new();
        self.read_tree(session, all, &mut known)
    }

    fn read_tree(
        &self,
        session: &OpencodeSession,
        all: &[OpencodeSession],
        known: &mut HashSet<String>,
    ) -> Result<Value, EngineError> {
        let id = session.id.as_str();
        SessionId::parse(id).map_err(|error| invalid(error.to_string()))?;
        let mut file = match self.0.session(session).map_err(of_opencode)? {
            Some(Stored::First(file)) => file,
            Some(Stored::Second(session)) => second::file(session).map_err(invalid)?,
            None => return Err(invalid(format!("OpenCode has no session {id}"))),
        };
        known.insert(id.to_owned());
        let mut children = Vec::new();
        for child in all.iter().filter(|it| it.parent_id.as_deref() == Some(id)) {
            if !known.contains(&child.id) {
                children.push(self.read_tree(child, all, known)?);
            }
        }
        file["children"] = children.into();
        Ok(file)
    }
}

/// Returns the fault of OpenCode's store, which is not ours.
fn of_opencode(error: StorageError) -> EngineError {
    let cause = if let StorageError::At { error: cause, .. } = &error { cause } else { &error };
    match cause {
        StorageError::Damaged(reason) => {
            invalid(format!("OpenCode's store is damaged ({reason}); only a whole one is read"))
        }
        StorageError::Sqlite(reason) => {
            let reason = reason.to_string();
            let reason = reason.split(" in SELECT").next().unwrap_or_default();
            invalid(format!("OpenCode's store has a form that is not understood ({reason})"))
        }
        _other => error.into(),
    }
}

impl Sessions<'_> {
    /// Returns the number of OpenCode's sessions of a project that are not here; none where its store cannot be read. Blocks
    /// shortly.
    pub async fn left_in_opencode(self, directory: &Path) -> usize {
        let root = self.engine.workspaces().project_root(directory);
        let Ok(history) = OpencodeHistory::open(&self.opencode_data()) else { return 0 };
        let mut n_left = 0;
        for session in history.sessions().unwrap_or_default() {
            let is_meant = session.parent_id.is_none() && Path::new(&session.directory).starts_with(&root);
            if is_meant && !self.has(&session.id).await.unwrap_or(true) {
                n_left += 1;
            }
        }
        n_left
    }

    /// Returns the directory of OpenCode's data.
    pub fn opencode_data(self) -> PathBuf {
        self.engine.0.paths.opencode_data.clone()
    }

    /// Returns true if a session with this id is stored.
    pub async fn has(self, id: &str) -> Result<bool, EngineError> {
        let Ok(id) = SessionId::parse(id) else { return Ok(false) };
        Ok(self.engine.0.storage.session(id).await?.is_some())
    }

    /// Stores a session of a file, with its subagents' sessions; all or nothing. Sessions keep their ids if they are
    /// free; messages and parts if theirs are free and sort before later ones. A session with a directory that does not
    /// exist here gets `directory`.
    pub async fn import(self, file: Value, directory: &Path) -> Result<Imported, EngineError> {
        let file = if second::is_export(&file) { second::exported(file).map_err(invalid)? } else { file };
        let (mut tree, n_unknown) = tolerant(file)?;
        let mut file = decode(&tree)?;
        let mut ids = checked_ids(&file)?;
        if !renaming::sorts_before_new_ids(&file) {
            renaming::sort_by_time(&mut tree);
            file = decode(&tree)?;
            renaming::rename(&mut tree, &file, &HashSet::new());
            file = decode(&tree)?;
            ids = checked_ids(&file)?;
        }
        if !self.insert(&file, &ids, directory).await? {
            let mut taken = HashSet::new();
            for id in renaming::sessions(&file) {
                if self.engine.0.storage.session(id.clone()).await?.is_some() {
                    taken.insert(id.clone());
                }
            }
            renaming::rename(&mut tree, &file, &taken);
            file = decode(&tree)?;
            if !self.insert(&file, &checked_ids(&file)?, directory).await? {
                return Err(EngineError::new(EngineErrorKind::Internal, "the new ids are taken; repeat"));
            }
        }
        let SessionFile { info, messages, .. } = file;
        Ok(Imported { id: info.id, title: info.title, n_messages: messages.len(), n_unknown })
    }

    async fn insert(self, file: &SessionFile, ids: &[String], directory: &Path) -> Result<bool, EngineError> {
        let mut writes = Vec::new();
        let here = Path::new(&file.info.directory);
        let directory = if here.is_absolute() && here.is_dir() { here } else { directory };
        let worktree = worktree::worktree(&self.engine.0.environment, directory);
        let project_id = self.engine.workspaces().project_id(&worktree).await?;
        let root = file.info.id.clone();
        let mut waiting = vec![(file, None)];
        while let Some((file, parent)) = waiting.pop() {
            let mut info = safety::without_powers(file);
            info.directory = directory.display().to_string();
            info.path = directory.strip_prefix(&worktree).ok().map(|path| path.display().to_string());
            info.project_id = project_id.clone();
            info.parent_id = parent;
            info.time.compacting = None;
            writes.push(Write::Session(info.into()));
            for MessageWithParts { info, parts } in &file.messages {
                writes.push(Write::Message(info.clone().into()));
                writes.extend(
                    parts.iter().filter_map(safety::without_snapshots).map(|part| Write::Part(part.into())),
                );
            }
            if !file.todos.is_empty() {
                writes.push(Write::Todos {
                    session_id: file.info.id.clone(),
                    todos: file.todos.as_slice().into(),
                });
            }
            let session_id = &file.info.id;
            writes.extend(
                file.spent
                    .iter()
                    .map(|answer| Write::Spent { session_id: session_id.clone(), answer: answer.clone() }),
            );
            waiting.extend(file.children.iter().map(|child| (child, Some(file.info.id.clone()))));
        }
        let is_new = self.engine.0.storage.insert(ids.to_vec(), writes).await?;
        if is_new {
            self.engine.fleet().claim(&root, None).await?;
        }
        Ok(is_new)
    }
}

fn invalid(message: String) -> EngineError {
    EngineError::new(EngineErrorKind::InvalidInput, message)
}

fn decode(tree: &Value) -> Result<SessionFile, EngineError> {
    serde_json::from_value(tree.clone()).map_err(|error| invalid(format!("it cannot be understood: {error}")))
}

/// Fills in the fields that older versions of OpenCode did not write, and leaves out parts of kinds that are not known.
/// Returns the number of those too.
fn tolerant(mut file: Value) -> Result<(Value, usize), EngineError> {
    let mut n_unknown = 0;
    let now = clock::now_ms();
    let Some(root) = file.as_object_mut() else { return Err(invalid("it is no JSON object".to_owned())) };
    let Some(info) = root.get_mut("info").and_then(Value::as_object_mut) else {
        return Err(invalid(
            "it has no object `info`, as `windlass export` and `opencode export` write it".to_owned(),
        ));
    };
    without_nulls(info);
    let id = info.get("id").cloned().unwrap_or_default();
    let directory = info.get("directory").cloned().unwrap_or_else(|| "/".into());
    let time = json!({"created": now, "updated": now});
    for (key, value) in [
        ("slug", project::slug().into()),
        ("projectID", "global".into()),
        ("directory", directory.clone()),
        ("title", "Imported session".into()),
        ("version", "0".into()),
        ("time", time),
    ] {
        info.entry(key).or_insert(value);
    }
    if let Some(time) = info.get_mut("time").and_then(Value::as_object_mut) {
        without_nulls(time);
    }
    let messages = match root.get_mut("messages") {
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(invalid("`messages` is no list".to_owned())),
        None => return Err(invalid("it has no list `messages`".to_owned())),
    };
    fill_in_models(messages);
    let mut prompt = Value::Null;
    for (index, message) in messages.iter_mut().enumerate() {
        let place = || format!("messages[{index}]");
        let Some(info) = message.get_mut("info").and_then(Value::as_object_mut) else {
            return Err(invalid(format!("`{}` has no object `info`", place())));
        };
        fill_in_message(info, &id, &directory, &mut prompt);
        let message_id = info.get("id").cloned().unwrap_or_default();
        let created = info.get("time").and_then(|time| time["created"].as_i64()).unwrap_or(now);
        let Some(parts) = message.get_mut("parts").and_then(Value::as_array_mut) else {
            return Err(invalid(format!("`{}` has no list `parts`", place())));
        };
        let n_parts = parts.len();
        for part in parts.iter_mut().filter_map(Value::as_object_mut) {
            fill_in_part(part, &id, &message_id, created);
        }
        parts.retain(|part| part["type"].as_str().is_none_or(|kind| KINDS.contains(&kind)));
        n_unknown += n_parts - parts.len();
        for (index, part) in parts.iter().enumerate() {
            // The whole is decoded again; here the error can say where.
            serde_json::from_value::<Part>(part.clone())
                .map_err(|error| invalid(format!("`{}.parts[{index}]`: {error}", place())))?;
        }
    }
    if let Some(children) = root.get_mut("children").and_then(Value::as_array_mut) {
        for child in children {
            let (filled, n_below) = tolerant(child.take())?;
            *child = filled;
            n_unknown += n_below;
        }
    }
    Ok((file, n_unknown))
}

/// The tags of the kinds of parts.
const KINDS: [&str; 12] = [
    "text",
    "reasoning",
    "file",
    "tool",
    "step-start",
    "step-finish",
    "snapshot",
    "patch",
    "agent",
    "subtask",
    "retry",
    "compaction",
];

fn without_nulls(object: &mut Map<String, Value>) {
    object.retain(|_, value| !value.is_null());
}

/// Gives prompts of versions that did not note a model the one that answered.
fn fill_in_models(messages: &mut [Value]) {
    let mut model = json!({"providerID": "unknown", "modelID": "unknown"});
    for info in messages.iter_mut().rev().filter_map(|message| message.get_mut("info")?.as_object_mut()) {
        if let (Some(provider), Some(answered)) = (info.get("providerID"), info.get("modelID")) {
            model = json!({"providerID": provider, "modelID": answered});
        } else if info.get("role").is_some_and(|role| role == "user") {
            info.entry("model").or_insert_with(|| model.clone());
        }
    }
}

/// Fills in a message; `prompt` is the id of the newest prompt before it.
fn fill_in_message(info: &mut Map<String, Value>, session: &Value, directory: &Value, prompt: &mut Value) {
    without_nulls(info);
    info.insert("sessionID".to_owned(), session.clone());
    let is_user = info.get("role").is_some_and(|role| role == "user");
    let agent = info.get("agent").or(info.get("mode")).cloned().unwrap_or_else(|| "build".into());
    info.entry("agent").or_insert_with(|| agent.clone());
    if is_user {
        *prompt = info.get("id").cloned().unwrap_or_default();
        return;
    }
    for (key, value) in [
        ("parentID", prompt.clone()),
        ("mode", agent),
        ("path", json!({"cwd": directory, "root": directory})),
        ("cost", 0.0.into()),
        ("tokens", json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}})),
    ] {
        info.entry(key).or_insert(value);
    }
}

fn fill_in_part(part: &mut Map<String, Value>, session: &Value, message: &Value, created: i64) {
    without_nulls(part);
    part.insert("sessionID".to_owned(), session.clone());
    part.insert("messageID".to_owned(), message.clone());
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind == "reasoning" {
        part.entry("time").or_insert_with(|| json!({"start": created, "end": created}));
    }
    if kind == "step-finish" {
        part.entry("reason").or_insert_with(|| "stop".into());
    }
    let Some(state) = part.get_mut("state").and_then(Value::as_object_mut) else { return };
    let is_over = state.get("status").is_some_and(|status| status == "completed" || status == "error");
    if is_over {
        state.entry("time").or_insert_with(|| json!({"start": created, "end": created}));
    }
    if state.get("status").is_some_and(|status| status == "completed") {
        state.entry("metadata").or_insert_with(|| json!({}));
        state.entry("title").or_insert_with(|| "".into());
    }
}

/// Returns all ids of a file: each is well-formed and occurs once.
fn checked_ids(file: &SessionFile) -> Result<Vec<String>, EngineError> {
    let mut ids = Vec::new();
    let mut waiting = vec![file];
    while let Some(file) = waiting.pop() {
        ids.push(SessionId::parse(file.info.id.as_str()).map(|id| id.to_string()));
        for message in &file.messages {
            ids.push(MessageId::parse(message.info.id().as_str()).map(|id| id.to_string()));
            for part in &message.parts {
                ids.push(PartId::parse(part.id.as_str()).map(|id| id.to_string()));
            }
        }
        waiting.extend(&file.children);
    }
    let ids: Result<Vec<String>, _> = ids.into_iter().collect();
    let ids = ids.map_err(|error| invalid(error.to_string()))?;
    let mut known = HashSet::new();
    match ids.iter().find(|id| !known.insert(id.as_str())) {
        Some(twice) => Err(invalid(format!("the id {twice} occurs twice"))),
        None => Ok(ids),
    }
}
