//! OpenCode's shapes to ACP's: tool calls, permission questions, plans, sessions. Pure.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use windlass_base::{clock, home, text};
use windlass_engine as engine;
use windlass_protocol::opencode::{
    id::SessionId,
    part::{Attachment, FilePart, ToolPart, ToolState},
    permission::PermissionRequest,
    session::{Session, Todo, TodoPriority, TodoStatus},
    tokens::Tokens,
    tool::{Kind, Look, Subject},
    tool_metadata::{self, Changes, FileChange, PatchedFile, RunningCommand, Todos, decode},
};
use windlass_protocol_acp::{
    ext,
    schema::{
        BlobResourceContents, ContentBlock, Diff, EmbeddedResource, EmbeddedResourceResource, ImageContent,
        Meta, PermissionOption, PermissionOptionKind, PlanEntry, PlanEntryPriority, PlanEntryStatus,
        RequestPermissionRequest, ResourceLink, SessionInfo, StopReason, TextContent, ToolCall,
        ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
        Usage,
    },
};

/// Directories of the session, for paths as a model writes them.
#[derive(Debug, Clone, Copy)]
pub struct BaseDirectories<'a> {
    pub cwd: &'a Path,
    pub home: &'a Path,
}

impl BaseDirectories<'_> {
    /// Returns the directory of a command's `workdir`.
    pub fn workdir(&self, input: &Value) -> PathBuf {
        let workdir = input.get("workdir").and_then(Value::as_str).filter(|it| !it.is_empty());
        workdir.map_or_else(|| self.cwd.to_owned(), |text| self.cwd.join(home::expand(self.home, text)))
    }
}

/// Bytes of a running command's output that a client without terminals is shown; the whole comes when it ends.
pub const LIVE_TAIL: usize = 4096;
/// Bytes of a patch that is shown in place of two whole texts.
const MAX_PATCH: usize = 256 * 1024;

/// Returns the category of a tool.
fn kind(look: Look) -> ToolKind {
    match look.kind {
        Kind::Execute => ToolKind::Execute,
        Kind::Read => ToolKind::Read,
        Kind::Edit => ToolKind::Edit,
        Kind::Search => ToolKind::Search,
        Kind::Fetch => ToolKind::Fetch,
        Kind::Think => ToolKind::Think,
        Kind::SwitchMode => ToolKind::SwitchMode,
        Kind::Other => ToolKind::Other,
    }
}

/// Returns the category of a permission: that of the tool with its name.
fn asked_kind(permission: &str) -> ToolKind {
    match permission {
        "sandbox" => ToolKind::Execute,
        permission => kind(engine::tool_look(permission)),
    }
}

/// Makes hidden characters and changes of direction visible in a title or the name of an option.
pub fn label(text: &str) -> String {
    text::visible(text).into_owned()
}

/// Returns the category of a call: a patch that only deletes is a deletion.
fn call_kind(tool: &str, input: &Value) -> ToolKind {
    let look = engine::tool_look(tool);
    let is_deletion = look.subject == Subject::Patch && {
        let file_changes = engine::patch_changes(input);
        !file_changes.is_empty() && file_changes.iter().all(|(change, _)| *change == FileChange::Delete)
    };
    if is_deletion { ToolKind::Delete } else { kind(look) }
}

/// Returns the title of a completed call: as before, or as the tool words it, with the failure of a command.
fn final_title(tool: &str, input: &Value, shown: &str, metadata: &Map<String, Value>, cwd: &Path) -> String {
    let title = match engine::tool_look(tool).subject {
        Subject::File
        | Subject::Change
        | Subject::Pattern
        | Subject::Directory
        | Subject::Url
        | Subject::Todos => engine::call_title(tool, input, cwd),
        _worded_by_the_tool => {
            Some(shown.to_owned()).filter(|it| !it.is_empty()).or(engine::call_title(tool, input, cwd))
        }
    };
    let title = title.unwrap_or_else(|| tool.to_owned());
    match failure(tool, metadata) {
        Some(failure) => format!("{title} ({failure})"),
        None => title,
    }
}

/// Returns the way in which a command failed.
fn failure(tool: &str, metadata: &Map<String, Value>) -> Option<String> {
    let is_command = engine::tool_look(tool).subject == Subject::Command;
    let command: tool_metadata::Command<'_> = decode(metadata).filter(|_| is_command)?;
    match (command.exit, command.signal) {
        (Some(code), _) if code != 0 => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("ended by {signal}")),
        (Some(_) | None, _) => None,
    }
}

/// Returns the files a call is about, with a line where one is known.
fn locations(
    tool: &str,
    input: &Value,
    metadata: Option<&Map<String, Value>>,
    bases: BaseDirectories<'_>,
) -> Vec<ToolCallLocation> {
    let cwd = bases.cwd;
    let changes: Changes<'_> = metadata.and_then(decode).unwrap_or_default();
    if let Some(files) = &changes.files {
        return files.iter().flat_map(|file| file_locations(file, cwd)).collect();
    }
    let subject = engine::tool_look(tool).subject;
    let path = match subject {
        Subject::Command => return vec![ToolCallLocation::new(bases.workdir(input))],
        Subject::File | Subject::Change | Subject::Code => {
            let path = input.get("filePath").and_then(Value::as_str);
            path.map(|path| cwd.join(path))
        }
        Subject::Pattern | Subject::Directory => {
            let path = input.get("path").and_then(Value::as_str);
            Some(path.map_or_else(|| cwd.to_owned(), |path| cwd.join(path)))
        }
        Subject::Patch
        | Subject::Url
        | Subject::Resource
        | Subject::Task
        | Subject::Todos
        | Subject::Questions
        | Subject::Calls
        | Subject::Text(_)
        | Subject::Title
        | Subject::Arguments => None,
    };
    let Some(path) = path else { return Vec::new() };
    let line = match subject {
        Subject::File => input.get("offset").and_then(Value::as_u64).map(|line| line.max(1)),
        Subject::Change => changes.diff.and_then(first_line_of),
        Subject::Code => input.get("line").and_then(Value::as_u64).filter(|_| is_place(input)),
        _other => None,
    };
    vec![ToolCallLocation::new(path).line(line.and_then(|line| u32::try_from(line).ok()))]
}

/// Returns true if a question to a language server is about a place in its file.
fn is_place(input: &Value) -> bool {
    let operation = input.get("operation").and_then(Value::as_str);
    !matches!(operation, Some("documentSymbol" | "workspaceSymbol"))
}

/// Returns the new file's first changed line: from the first hunk's header of the unified diff.
fn first_line_of(diff: &str) -> Option<u64> {
    let header = diff.lines().find(|line| line.starts_with("@@ "))?;
    let start: u64 = header.split('+').nth(1)?.split([',', ' ']).next()?.parse().ok()?;
    let body = diff.lines().skip_while(|line| !line.starts_with("@@ ")).skip(1);
    let n_context = body.take_while(|line| line.starts_with(' ')).count();
    Some((start + n_context as u64).max(1))
}

/// Returns the place of a file after a patch and, if it is moved, the one before.
fn file_locations(file: &PatchedFile<'_>, cwd: &Path) -> Vec<ToolCallLocation> {
    let line = first_line_of(file.patch).and_then(|line| u32::try_from(line).ok());
    let now = ToolCallLocation::new(cwd.join(file.path())).line(line);
    let before = file.move_path.map(|_| ToolCallLocation::new(cwd.join(file.file_path)));
    std::iter::once(now).chain(before).collect()
}

/// Returns the first message about a call.
pub fn tool_call(part: &ToolPart, bases: BaseDirectories<'_>) -> ToolCall {
    let input = part.state.input();
    let title = match &part.state {
        ToolState::Completed { title, metadata, .. } => {
            final_title(&part.tool, input, title, metadata, bases.cwd)
        }
        ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Error { .. } => {
            engine::call_title(&part.tool, input, bases.cwd).unwrap_or_else(|| part.tool.clone())
        }
    };
    ToolCall::new(part.call_id.clone(), label(&title))
        .name(part.tool.clone())
        .kind(call_kind(&part.tool, input))
        .status(ToolCallStatus::Pending)
        .locations(locations(&part.tool, input, None, bases))
        .raw_input(input.clone())
}

/// Returns the changes of a call that the client knows.
pub fn tool_call_update(part: &ToolPart, bases: BaseDirectories<'_>) -> ToolCallUpdate {
    let input = part.state.input();
    let fields = ToolCallUpdateFields::new().kind(call_kind(&part.tool, input)).name(part.tool.clone());
    let fields = match &part.state {
        ToolState::Pending { .. } => fields.status(ToolCallStatus::Pending),
        ToolState::Running { title: shown, metadata, .. } => {
            let title = engine::call_title(&part.tool, input, bases.cwd).or_else(|| shown.clone());
            let title = title.unwrap_or_else(|| part.tool.clone());
            // Before its first metadata a call may still have to be allowed.
            let is_allowed = metadata.is_some();
            let running: Option<RunningCommand<'_>> = metadata.as_ref().and_then(decode);
            let output = running.map(|it| it.output).filter(|it| !it.is_empty());
            let content = output.map(|it| vec![text_content(text::tail(it, LIVE_TAIL))]);
            fields
                .status(if is_allowed { ToolCallStatus::InProgress } else { ToolCallStatus::Pending })
                .title(label(&title))
                .locations(locations(&part.tool, input, metadata.as_ref(), bases))
                .raw_input(input.clone())
                .content(content)
        }
        ToolState::Completed { output, title: shown, metadata, attachments, .. } => {
            let title = final_title(&part.tool, input, shown, metadata, bases.cwd);
            let has_failed = failure(&part.tool, metadata).is_some();
            let mut content = vec![text_content(&shown_output(&part.tool, output, metadata))];
            content.extend(
                diffs(&decode(metadata).unwrap_or_default(), bases.cwd)
                    .into_iter()
                    .map(ToolCallContent::Diff),
            );
            content.extend(attachments.iter().flatten().filter_map(image));
            fields
                .status(if has_failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed })
                .title(label(&title))
                .locations(locations(&part.tool, input, Some(metadata), bases))
                .content(content)
                .raw_output(raw_output(output, metadata, attachments.as_deref()))
        }
        ToolState::Error { error, metadata, .. } => {
            let mut raw = json!({ "error": error });
            if let (Some(metadata), Value::Object(raw)) = (metadata, &mut raw) {
                raw.insert("metadata".to_owned(), Value::Object(without_texts(metadata)));
            }
            fields
                .status(ToolCallStatus::Failed)
                .title(label(
                    &engine::call_title(&part.tool, input, bases.cwd).unwrap_or_else(|| part.tool.clone()),
                ))
                .raw_input(input.clone())
                .content(vec![text_content(&shown_error(error, metadata.as_ref()))])
                .raw_output(raw)
        }
    };
    ToolCallUpdate::new(part.call_id.clone(), fields)
}

fn text_content(text: &str) -> ToolCallContent {
    ContentBlock::Text(TextContent::new(text)).into()
}

/// Returns a call's error, behind the output that an interrupted call has shown before.
fn shown_error<'a>(error: &'a str, metadata: Option<&Map<String, Value>>) -> Cow<'a, str> {
    let interrupted = metadata.filter(|it| it.get("interrupted") == Some(&Value::Bool(true)));
    let output = interrupted.and_then(|it| it.get("output")).and_then(Value::as_str).unwrap_or_default();
    if output.is_empty() {
        Cow::Borrowed(error)
    } else {
        Cow::Owned(format!("{}\n\n{error}", output.trim_end()))
    }
}

/// Returns the bare text of a file that was read, else the output as the model sees it, and how a command failed.
fn shown_output<'a>(tool: &str, output: &'a str, metadata: &'a Map<String, Value>) -> Cow<'a, str> {
    if let Some(text) = decode(metadata).and_then(|read: tool_metadata::Read<'_>| read.display?.text) {
        return Cow::Borrowed(text);
    }
    let Some(failure) = failure(tool, metadata) else { return Cow::Borrowed(output) };
    let command: tool_metadata::Command<'_> = decode(metadata).unwrap_or_default();
    // Of a command that printed nothing the model was told in words, and they say how it ended.
    let is_told = command.output == Some("") && !output.is_empty();
    if is_told { Cow::Borrowed(output) } else { Cow::Owned(format!("{}\n\n({failure})", output.trim_end())) }
}

/// Returns the whole texts before and after a change: of the one in `filediff`, or of each of `files`.
fn diffs(changes: &Changes<'_>, cwd: &Path) -> Vec<Diff> {
    let one = changes.filediff.iter().filter_map(|it| diff(it.file, it.before, it.after, cwd));
    let several = changes.files.iter().flatten();
    one.chain(several.filter_map(|it| diff(it.path(), it.before, it.after, cwd))).collect()
}

/// Texts are there while they are small enough. A deleted file has none afterwards.
fn diff(path: &str, before: Option<Option<&str>>, after: Option<Option<&str>>, cwd: &Path) -> Option<Diff> {
    let (before, after) = (before.flatten().map(str::to_owned), after?);
    let deleted = after.is_none().then(|| Map::from_iter([("kind".to_owned(), "delete".into())]));
    Some(Diff::new(cwd.join(path), after.unwrap_or_default()).old_text(before).meta(deleted))
}

fn image(attachment: &Attachment) -> Option<ToolCallContent> {
    let file = &attachment.file;
    let data = file.url.strip_prefix("data:")?.split_once(";base64,")?.1;
    let is_image = file.mime.starts_with("image/");
    is_image.then(|| ContentBlock::Image(ImageContent::new(data, file.mime.clone())).into())
}

fn raw_output(output: &str, metadata: &Map<String, Value>, attachments: Option<&[Attachment]>) -> Value {
    let mut metadata = without_texts(metadata);
    // The same once more, or the end of it.
    metadata.remove("output");
    let mut raw = json!({ "output": output, "metadata": metadata });
    if let (Some(attachments), Value::Object(raw)) = (attachments, &mut raw) {
        // The data itself is in the content; here it would only be said twice.
        let named =
            attachments.iter().map(|it| json!({ "mime": it.file.mime, "filename": it.file.filename }));
        raw.insert("attachments".to_owned(), named.collect());
    }
    raw
}

/// Returns the metadata without the whole texts that the diff content already holds.
fn without_texts(metadata: &Map<String, Value>) -> Map<String, Value> {
    let mut metadata = metadata.clone();
    tool_metadata::forget_texts(&mut metadata);
    metadata
}

/// Returns a file of the user's as it was given: an image as such, anything else as a link.
pub fn file_block(file: &FilePart) -> ContentBlock {
    let data = file.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let name = file.filename.clone().unwrap_or_else(|| "attachment".to_owned());
    match data {
        Some((_, data)) if file.mime.starts_with("image/") => {
            ContentBlock::Image(ImageContent::new(data, file.mime.clone()))
        }
        Some((_, data)) => {
            let blob =
                BlobResourceContents::new(data, format!("attachment:{name}")).mime_type(file.mime.clone());
            ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::BlobResourceContents(
                blob,
            )))
        }
        None => {
            ContentBlock::ResourceLink(ResourceLink::new(name, file.url.clone()).mime_type(file.mime.clone()))
        }
    }
}

/// Returns a permission question with the exact subject, its place and the whole change.
///
/// `root` is the session the client knows: the request's own, or the one its subagent works for.
pub fn permission(root: &SessionId, request: &PermissionRequest, cwd: &Path) -> RequestPermissionRequest {
    let metadata = &request.metadata;
    // Tools of MCP servers choose their metadata themselves: none of it may stand for the question.
    let is_own = engine::is_own_permission(&request.permission);
    let field = |key: &str| metadata.get(key).and_then(Value::as_str).filter(|_| is_own);
    let words = engine::asked_words(request, cwd);
    let path = match request.permission.as_str() {
        "glob" | "grep" | "list" => Some(field("path").map_or_else(|| cwd.to_owned(), |path| cwd.join(path))),
        "lsp" => field("filePath").map(|path| cwd.join(path)),
        _other => field("filepath").or(field("workdir")).map(|path| cwd.join(path)),
    };
    let changes: Changes<'_> = Some(metadata).filter(|_| is_own).and_then(decode).unwrap_or_default();
    let line = changes.diff.and_then(first_line_of).and_then(|line| u32::try_from(line).ok());
    let locations: Vec<ToolCallLocation> = match &changes.files {
        Some(files) => files.iter().flat_map(|file| file_locations(file, cwd)).collect(),
        None => path.map(|path| ToolCallLocation::new(path).line(line)).into_iter().collect(),
    };
    let is_deletion = changes
        .files
        .as_ref()
        .is_some_and(|files| !files.is_empty() && files.iter().all(|file| file.change == FileChange::Delete));
    let content: Vec<ToolCallContent> = diffs(&changes, cwd).into_iter().map(ToolCallContent::Diff).collect();
    // The whole texts were too large to keep: the change itself is shown all the same.
    let content = match field("diff").or(field("prompt")) {
        _ if !content.is_empty() => Some(content),
        Some(text) => Some(vec![text_content(text::head(text, MAX_PATCH))]),
        None if is_own => todo_lines(metadata).map(|text| vec![text_content(text::head(&text, MAX_PATCH))]),
        None => None,
    };
    let mut raw_input = if is_own { without_texts(metadata) } else { metadata.clone() };
    if raw_input.is_empty() {
        raw_input.insert("permission".to_owned(), request.permission.clone().into());
        raw_input.insert("patterns".to_owned(), json!(request.patterns));
    }
    if !request.approved.is_empty() {
        raw_input.insert("approved".to_owned(), json!(request.approved));
    }
    let call_id = match &request.tool {
        Some(tool) if request.session_id == *root => tool.call_id.clone(),
        Some(tool) => child_call_id(&request.session_id, &tool.call_id),
        None => request.id.to_string(),
    };
    let fields = ToolCallUpdateFields::new()
        .title(words.title)
        .kind(if is_deletion { ToolKind::Delete } else { asked_kind(&request.permission) })
        .status(ToolCallStatus::Pending)
        .locations(locations)
        .raw_input(Value::Object(raw_input))
        .content(content);
    RequestPermissionRequest::new(
        root.shared(),
        ToolCallUpdate::new(call_id, fields),
        answers(words.always.as_deref()),
    )
}

/// Returns the answers that a user may give to a permission question.
fn answers(always: Option<&str>) -> Vec<PermissionOption> {
    let mut options = vec![PermissionOption::new("once", "Allow once", PermissionOptionKind::AllowOnce)];
    if let Some(what) = always {
        options.push(PermissionOption::new(
            "always",
            format!("Always allow {what}"),
            PermissionOptionKind::AllowAlways,
        ));
    }
    options.push(PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce));
    if let Some(what) = always {
        options.push(PermissionOption::new(
            "reject_always",
            format!("Always reject {what}"),
            PermissionOptionKind::RejectAlways,
        ));
    }
    options
}

/// Returns the new todo list, one entry a line.
fn todo_lines(metadata: &Map<String, Value>) -> Option<String> {
    let Todos { todos } = decode(metadata)?;
    let lines =
        todos.iter().map(|it| format!("- [{}] {} ({})", it.status.name(), it.content, it.priority.name()));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the id of a subagent's call in the session that it works for: ids are unique within a session that the
/// client knows.
pub fn child_call_id(child: &SessionId, call_id: &str) -> String {
    format!("{child}/{call_id}")
}

/// Id of the plan that a session's todo list is.
pub const TODO_PLAN: &str = "todos";

/// Returns an entry of the todo list as version 1 has it; `None` for a cancelled one.
pub fn plan_entry(todo: &Todo) -> Option<PlanEntry> {
    let status = match todo.status {
        TodoStatus::Pending => PlanEntryStatus::Pending,
        TodoStatus::InProgress => PlanEntryStatus::InProgress,
        TodoStatus::Completed => PlanEntryStatus::Completed,
        TodoStatus::Cancelled => return None,
    };
    let priority = match todo.priority {
        TodoPriority::High => PlanEntryPriority::High,
        TodoPriority::Medium => PlanEntryPriority::Medium,
        TodoPriority::Low => PlanEntryPriority::Low,
    };
    Some(PlanEntry::new(todo.content.clone(), priority, status))
}

/// Returns a row of `session/list`.
pub fn session_info(session: &Session) -> SessionInfo {
    let row = SessionInfo::new(session.id.shared(), session.directory.clone())
        .title(session.title.clone())
        .updated_at(clock::iso(session.time.updated))
        .archived(session.time.archived.is_some());
    match &session.share {
        Some(share) => row.meta(Meta::from_iter([(ext::SHARE.to_owned(), share.url.clone().into())])),
        None => row,
    }
}

/// Returns the reason that a turn ended.
pub fn stop_reason(stop: engine::StopReason) -> StopReason {
    match stop {
        engine::StopReason::EndTurn => StopReason::EndTurn,
        engine::StopReason::MaxTokens => StopReason::MaxTokens,
        engine::StopReason::MaxTurnRequests => StopReason::MaxTurnRequests,
        engine::StopReason::Refusal => StopReason::Refusal,
        engine::StopReason::Cancelled => StopReason::Cancelled,
    }
}

/// Returns the tokens that a turn used.
pub fn usage(tokens: &Tokens) -> Usage {
    let total = tokens.context() + tokens.output + tokens.reasoning;
    let some = |count: u64| (count > 0).then_some(count);
    Usage::new(total, tokens.input, tokens.output)
        .thought_tokens(some(tokens.reasoning))
        .cached_read_tokens(some(tokens.cache.read))
        .cached_write_tokens(some(tokens.cache.write))
}

#[cfg(test)]
mod tests;
