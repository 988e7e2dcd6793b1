//! Turns a user's attachments into parts the model can read: named files are read, documents inlined
//! (facts: OpenCode §6.1).

use std::{
    fs, io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;
use windlass_base::{blocking::blocking, mime};
use windlass_core::{
    config::{Warning, policy::Policy, rules::rule},
    permission::Ask,
};
use windlass_protocol::opencode::{
    id::MessageId,
    part::{FilePart, PartKind},
    permission::{Action, Rule},
    question::Question,
    session::Todo,
};
use windlass_services::tool::{
    self, AgentSwitch, AllowedBy, Answers, FileStamp, Host, NestedCall, Subtask, ToolError, ToolOutput,
    editor::Editor,
    path::{Roots, judge},
};

use super::{
    loaded_instructions::LoadedInstructions,
    media,
    named_lines::{self, Lines, Named},
    user_reads,
};
use crate::session::{
    context::{SessionCx, TurnCx},
    request::PromptPart,
    state::{KnownFiles, text_part},
};

/// Said of a file that limits of the session deny even to its user.
const OUTSIDE: &str = "it is outside the directories of this session's owner";
/// Bytes of a file that is sent inline as media.
const MAX_MEDIA: u64 = 20 * 1024 * 1024;

/// Refuses a file that no model can be given, before a request is spent on it. Reads its beginning.
pub fn check_readable(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok(());
    }
    if !metadata.is_file() {
        // Opening a pipe or a device could block for ever.
        return Err(io::Error::other("it is not a regular file"));
    }
    if tool::read::is_hidden_file(path)? {
        return Err(io::Error::other("it is a binary file, neither an image nor a PDF file"));
    }
    Ok(())
}

/// Returns the parts of the user's message.
pub async fn resolve(
    cx: &TurnCx<'_>,
    known_files: &KnownFiles,
    instructions: &LoadedInstructions,
    message_id: &MessageId,
    parts: Vec<PromptPart>,
) -> Vec<PartKind> {
    let host = UserGave { session: cx.session, known_files, instructions, policy: policy(cx) };
    let mut kinds = Vec::new();
    for part in parts {
        match part {
            PromptPart::Text { text, is_synthetic, is_ignored } => {
                kinds.push(text_part(text, is_synthetic, is_ignored));
            }
            PromptPart::Document { place, path, text } => {
                if let Some(path) = path {
                    note_document(known_files, path, &text).await;
                }
                kinds.push(text_part(document(&place, &text), false, false));
            }
            PromptPart::File(file) => {
                let of_server = user_reads::resource(cx, &host, message_id, &file).await;
                kinds.extend(match (of_server, named_lines::of_url(&file.url)) {
                    (Some(read), _) => read,
                    (None, Some((path, named))) => read_file(cx, &host, message_id, file, &path, named).await,
                    (None, None) => media::of_data(file),
                });
            }
            PromptPart::Agent { name } => kinds.extend(mention(cx, name).await),
            PromptPart::Subtask { prompt, description, agent, model } => {
                kinds.push(PartKind::Subtask { prompt, description, agent, model, command: None });
            }
        }
    }
    kinds
}

/// Returns the parts that make the model give work to a subagent that the user named; nothing where a file has that
/// name.
async fn mention(cx: &TurnCx<'_>, name: String) -> Vec<PartKind> {
    let config = &cx.loaded.config;
    for directory in [&config.directory, &config.worktree] {
        if tokio::fs::try_exists(directory.join(&name)).await.unwrap_or(false) {
            return Vec::new();
        }
    }
    let mut policy = cx.agent.policy.clone();
    let is_denied = policy.evaluate("task", &name) == Action::Deny;
    policy.extend(&[rule("task", &name, Action::Allow)]);
    if policy.evaluate("task", &name) == Action::Deny {
        return Vec::new();
    }
    let note = if is_denied {
        " Rules keep it from you otherwise; the user has asked for it, so it is there for this message."
    } else {
        ""
    };
    let text = format!(
        "The user named the subagent {name}: call the task tool with subagent_type \"{name}\" and a prompt made from \
         the message above and what it refers to.{note}"
    );
    vec![PartKind::Agent { name, source: None }, text_part(text, true, false)]
}

/// Renders a document as the model reads it.
fn document(place: &str, text: &str) -> String {
    format!("[{place}]\n{text}")
}

/// Remembers that the model knows a file, when all of it stands in the prompt as it is on disk.
async fn note_document(known_files: &KnownFiles, path: PathBuf, text: &str) {
    let text = text.to_owned();
    let compare = move || {
        let real = fs::canonicalize(path).ok()?;
        // Taken before the text, so that a change in between is noticed later.
        let metadata = fs::metadata(&real).ok().filter(|it| it.is_file() && it.len() == text.len() as u64)?;
        let content = fs::read(&real).ok()?;
        (content == text.as_bytes()).then(|| (real, FileStamp::of(&metadata).with_content(&content)))
    };
    if let Some((real, stamp)) = blocking(compare).await {
        known_files.insert(&real, stamp);
    }
}

/// Returns the texts among a prompt's parts.
pub fn words(parts: &[PromptPart]) -> Vec<PartKind> {
    let texts = parts.iter().filter_map(|part| match part {
        PromptPart::Text { text, is_synthetic, is_ignored } => {
            Some(text_part(text.clone(), *is_synthetic, *is_ignored))
        }
        PromptPart::Document { place, text, .. } => Some(text_part(document(place, text), false, false)),
        PromptPart::File(_) | PromptPart::Agent { .. } | PromptPart::Subtask { .. } => None,
    });
    texts.collect()
}

async fn read_file(
    cx: &TurnCx<'_>,
    host: &UserGave<'_>,
    message_id: &MessageId,
    mut file: FilePart,
    path: &Path,
    named: Named,
) -> Vec<PartKind> {
    if mime::is_media(&file.mime) {
        if let Some(kind) = inline(cx, &file, path).await {
            return vec![kind];
        }
        file.mime = "text/plain".to_owned();
    }
    let mut input = Map::new();
    input.insert("filePath".to_owned(), Value::String(path.display().to_string()));
    let lines = named_lines::find(&cx.loaded.config, cx.session.workspace.lsp(), path, named).await;
    if let Some(Lines { start, end }) = lines {
        input.insert("offset".to_owned(), json!(start));
        if let Some(end) = end {
            input.insert("limit".to_owned(), json!(end.saturating_sub(start) + 1));
        }
    }
    let input = Value::Object(input);
    let called = format!("Invoked the Read tool with the following input: {input}");
    match user_reads::run(cx, host, message_id, "read", input).await {
        Ok(output) => {
            let mut text = text_part(output.output, true, false);
            if let (PartKind::Text(text), Some(loaded)) = (&mut text, output.metadata.get("loaded")) {
                // So that the instruction files that came along are not shown again.
                text.metadata = Some(Map::from_iter([("loaded".to_owned(), loaded.clone())]));
            }
            let mut kinds = vec![text_part(called, true, false), text];
            kinds.extend(output.attachments.into_iter().map(PartKind::File));
            // The file itself stays in the message for the user to see; its text was given above.
            kinds.push(PartKind::File(file));
            kinds
        }
        Err(error) => {
            let failed =
                format!("Read tool failed to read {} with the following error: {error}", path.display());
            vec![text_part(failed, true, false)]
        }
    }
}

/// Returns true for an open file outside the project that limits of the session, or of those above, deny even to its user.
/// The open file counts where the system tells its path: links may have changed.
async fn is_withheld(cx: &TurnCx<'_>, path: &Path, file: &tokio::fs::File) -> bool {
    if cx.parent_limits.rules.is_empty() {
        return false;
    }
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    let (roots, path) = (Roots::new(&cx.loaded.config), path.to_owned());
    let target = blocking(move || judge(&roots, fs::read_link(opened).unwrap_or(path))).await;
    let pattern = target.directory().join("*").display().to_string();
    !target.is_inside && policy(cx).evaluate("external_directory", &pattern) == Action::Deny
}

/// Returns the policy of files that the user names: all are allowed that no limit denies.
fn policy(cx: &TurnCx<'_>) -> Policy {
    Policy::new(vec![rule("*", "*", Action::Allow)]).below(&cx.parent_limits.rules)
}

/// Returns a picture or document as it is; `None` for a file that has only the name of one.
async fn inline(cx: &TurnCx<'_>, file: &FilePart, path: &Path) -> Option<PartKind> {
    let read = async {
        // A pipe or device would have no end.
        if !tokio::fs::metadata(path).await?.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        if is_withheld(cx, path, &file).await {
            return Err(std::io::Error::other(OUTSIDE));
        }
        file.take(MAX_MEDIA + 1).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 > MAX_MEDIA {
            Err(std::io::Error::other(format!("it is larger than {} MiB", MAX_MEDIA >> 20)))
        } else {
            Ok(bytes)
        }
    };
    let bytes = match read.await {
        Ok(bytes) => bytes,
        Err(error) => {
            return Some(text_part(format!("{} could not be read: {error}", path.display()), true, false));
        }
    };
    // The wires have words for an empty one.
    let mime = mime::of_bytes(&bytes).or(bytes.is_empty().then_some(&*file.mime))?;
    let url = format!("data:{mime};base64,{}", BASE64_STANDARD.encode(bytes));
    Some(PartKind::File(FilePart { url, mime: mime.to_owned(), ..file.clone() }))
}

/// The user named the file, so there is no question.
struct UserGave<'a> {
    session: &'a SessionCx,
    known_files: &'a KnownFiles,
    instructions: &'a LoadedInstructions,
    policy: Policy,
}

impl Host for UserGave<'_> {
    fn ask_who(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>> {
        Box::pin(async move { self.ask(ask).await.map(|()| AllowedBy::Rules) })
    }

    fn ask_opaque(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>> {
        self.ask_who(ask)
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn answers(&self) -> BoxFuture<'_, Vec<Rule>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>> {
        let is_denied = ask.permission == "external_directory"
            && ask.patterns.iter().any(|it| self.policy.evaluate(&ask.permission, it) == Action::Deny);
        let answer = if is_denied { Err(ToolError::Model(OUTSIDE.to_owned())) } else { Ok(()) };
        Box::pin(std::future::ready(answer))
    }

    fn progress(&self, _title: Option<String>, _metadata: Map<String, Value>) {}

    fn editor(&self) -> Option<Arc<dyn Editor>> {
        self.session.engine.clients().editor(&self.session.id)
    }

    fn set_todos(&self, _todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn subtask(&self, _subtask: Subtask) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::Internal("an attachment starts no subagent".to_owned()))))
    }

    fn question(&self, _questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::Internal("an attachment asks nothing".to_owned()))))
    }

    fn plan_file(&self) -> PathBuf {
        PathBuf::new()
    }

    fn switch_agent(&self, _switch: AgentSwitch) {}

    fn call(&self, _call: NestedCall) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::Internal("an attachment calls no tool".to_owned()))))
    }

    fn todos(&self) -> Vec<Todo> {
        Vec::new()
    }

    fn known_stamp(&self, path: &Path) -> Option<FileStamp> {
        self.known_files.get(path)
    }

    fn known_paths(&self) -> Vec<PathBuf> {
        self.known_files.paths()
    }

    fn record_read(&self, path: &Path, stamp: FileStamp) {
        self.known_files.insert(path, stamp);
    }

    fn claim_instructions(&self, path: &Path) -> bool {
        self.instructions.insert(path)
    }

    fn warn(&self, warnings: Vec<Warning>) {
        self.session.warn(&warnings);
    }

    fn notify(&self, about: &str, text: String) {
        self.session.warning_log.notify_about(self.session.engine.bus(), about, &text);
    }

    fn edited(&self, _path: &Path, _real: &Path) {}
}
