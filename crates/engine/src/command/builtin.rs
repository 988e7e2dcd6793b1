//! Commands that the daemon answers by itself: shown as an answer, kept for later loads, and never sent to a
//! model.

use std::{collections::BTreeSet, sync::Arc};

use windlass_core::{
    config::policy::Origin,
    library::commands::{BuiltinCommand, Source},
};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::Message,
    permission::Rule,
};
use windlass_provider::unusable::Unusable;
use windlass_services::{
    mcp::{Report, Servers, Status},
    tool::bash::background::Job,
};

use super::{
    Invoked, names, server_prompt,
    slash::{Slash, unknown_command},
    words,
};
use crate::{
    EngineError, EngineErrorKind, mcp_commands,
    session::{
        context::TurnCx,
        fork,
        inbox::follow_patch,
        request::{PromptInput, RevertTo, StopReason, TurnOutcome},
        revert::{self, Changed},
        state::{Journal, SessionState, text_part},
    },
    share::LEFT_OUT,
    turn::local_reply::reply_locally,
    undo::file_undo::{self, FilesEnd},
};

/// Tools of a server that are named.
const MAX_TOOLS: usize = 12;

/// Carries a command out that needs no model.
pub async fn run(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    own: BuiltinCommand,
    called: Invoked,
    unusable: Option<&Unusable>,
) -> Result<TurnOutcome, EngineError> {
    let text = match own {
        BuiltinCommand::Help => help(cx),
        BuiltinCommand::Undo => undo(cx, state, &called.arguments).await?,
        BuiltinCommand::Redo => redo(cx, state).await?,
        BuiltinCommand::Fork => fork(cx, state, &called.arguments).await?,
        BuiltinCommand::Status => status(cx, state, unusable),
        BuiltinCommand::Models => models(cx, unusable),
        BuiltinCommand::Permissions => permissions(cx, state).await,
        BuiltinCommand::Jobs => jobs(cx, &called.arguments).await,
        BuiltinCommand::Mcp => mcp(cx, &called.arguments).await,
        BuiltinCommand::Share => share(cx, state, &called.arguments).await,
        BuiltinCommand::Unshare => unshare(cx, state).await,
    };
    answer(cx, state, called.typed, text).await
}

/// Says that there is no command such as a prompt calls, before a model reads it; `None` where it calls none.
pub async fn answer_mistyped(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    input: &PromptInput,
) -> Result<Option<TurnOutcome>, EngineError> {
    let typed = words(&input.parts);
    let commands = &cx.loaded.commands;
    let offered = mcp_commands::commands(&cx.servers(), commands);
    let is_known = |name: &str| commands.contains_key(name) || offered.iter().any(|it| it.name == name);
    let name = match Slash::read(&typed, is_known) {
        // The demonstration plays the words after it.
        Some(Slash::Unknown("demo")) if cx.model.is_demo() => return Ok(None),
        Some(Slash::Unknown(name)) => name,
        Some(Slash::Known(_)) | None => return Ok(None),
    };
    let missing = server_prompt::why_missing(&cx.servers(), name);
    let unknown = missing.unwrap_or_else(|| match name {
        "demo" => "`/demo` is for the demo model, `windlass/demo`, and another one is chosen".to_owned(),
        name => {
            let fault = cx.loaded.before("command", name);
            fault + &unknown_command(name, names(&cx.loaded, &offered))
        }
    });
    let end = if unknown.ends_with('?') { "" } else { "." };
    let text = format!(
        "{unknown}{end} No model was asked. `/help` lists the commands; a space before the slash sends it as text."
    );
    answer(cx, state, typed, text).await.map(Some)
}

/// Stores and shows a prompt that no model reads, with its answer.
async fn answer(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    typed: String,
    text: String,
) -> Result<TurnOutcome, EngineError> {
    let mut journal = Journal::default();
    cx.push_prompt(state, &mut journal);
    state.push_part(text_part(typed, false, true), &mut journal);
    cx.commit(&mut journal).await?;
    reply_locally(cx, state, text).await?;
    let message_id = state.answer_mut().map(|answer| answer.id.clone());
    Ok(TurnOutcome { stop: StopReason::EndTurn, message_id, ..TurnOutcome::cancelled() })
}

/// Lists the commands and subagents in the background, or stops a command.
async fn jobs(cx: &TurnCx<'_>, arguments: &str) -> String {
    let (sessions, id) = (cx.session.engine.sessions(), &cx.session.id);
    if let Some(named) = arguments.trim().strip_prefix("stop") {
        let named = named.trim();
        return match sessions.stop_job(id, named).await {
            Some(true) => format!("`{named}` is stopped."),
            Some(false) => format!("`{named}` had ended already."),
            None if named.is_empty() => "Name the command: `/jobs` lists them.".to_owned(),
            None => format!("No command of this session has the id `{named}`; `/jobs` lists them."),
        };
    }
    let command = |job: &Arc<Job>| {
        let state = job.end().map_or_else(|| "runs".to_owned(), |end| end.sentence.clone());
        format!("- `{}` ({state}) {}", job.id, job.command)
    };
    let subagent = |child: SessionId| format!("- subagent `{child}` (works)");
    let commands = sessions.jobs(id);
    let subagents = sessions.background().of(id);
    let lines: Vec<String> =
        commands.iter().map(command).chain(subagents.into_iter().map(subagent)).collect();
    if lines.is_empty() { "Nothing runs in the background.".to_owned() } else { lines.join("\n") }
}

/// Shares the session once its user has seen which parts of it others read, and says its link.
async fn share(cx: &TurnCx<'_>, state: &mut SessionState, arguments: &str) -> String {
    let (shares, id) = (cx.session.engine.shares(), &cx.session.id);
    let words = arguments.trim();
    if !["", "yes"].contains(&words) {
        return format!("`/share {words}` is not known; `/share` and `/share yes` are.");
    }
    let info = match cx.session.engine.sessions().get(id).await {
        Ok(info) => info,
        Err(error) => return format!("The session is not shared: {error}"),
    };
    if info.share.is_none() && words.is_empty() {
        if let Err(error) = shares.check(id).await {
            return format!("The session is not shared: {error}");
        }
        let left_out: Vec<String> = LEFT_OUT.iter().map(|it| format!("- {it}")).collect();
        return format!(
            "Everybody who has the link will read this session: its words, the calls of tools, and the files and outputs that \
             they show, those to come as well. The page lacks\n\n{}\n\nOther outputs are shown as they are, so look through the \
             session first. `/share yes` shares it.",
            left_out.join("\n")
        );
    }
    match shares.share(id).await {
        Ok(shared) => {
            follow_patch(cx.session, state).await;
            let link = shared.share.map(|share| share.url).unwrap_or_default();
            format!("Everybody who has this link reads the session, until `/unshare`: {link}")
        }
        Err(error) => format!("The session is not shared: {error}"),
    }
}

async fn unshare(cx: &TurnCx<'_>, state: &mut SessionState) -> String {
    let was_shared =
        cx.session.engine.sessions().get(&cx.session.id).await.is_ok_and(|info| info.share.is_some());
    let unshared = cx.session.engine.shares().unshare(&cx.session.id).await;
    follow_patch(cx.session, state).await;
    match unshared {
        Ok(_) if was_shared => "Its page is gone.".to_owned(),
        Ok(_) => "It was not shared.".to_owned(),
        Err(error) => format!("The session is still shared: {error}"),
    }
}

/// Lists the MCP servers with their tools, or connects or disconnects one of the directory's.
async fn mcp(cx: &TurnCx<'_>, arguments: &str) -> String {
    let workspace = &cx.session.workspace;
    let (wish, name) = arguments.trim().split_once(char::is_whitespace).unwrap_or((arguments.trim(), ""));
    let name = name.trim();
    let is_known = match wish {
        "" => return list_servers(cx).await,
        "connect" => workspace.connect_server(name),
        "disconnect" => workspace.disconnect_server(name),
        _other => {
            return format!(
                "`/mcp {wish}` is not known; `/mcp`, `/mcp connect NAME` and `/mcp disconnect NAME` are."
            );
        }
    };
    match (is_known, wish) {
        (true, "connect") => format!("`{name}` is being connected; `/mcp` shows how it goes."),
        (true, _) => format!("`{name}` is disconnected until it is connected again."),
        (false, _) => format!("There is no MCP server `{name}` here; `/mcp` lists them."),
    }
}

async fn list_servers(cx: &TurnCx<'_>) -> String {
    let workspace = &cx.session.workspace;
    let mut states = workspace.server_states().await;
    let of_client: Vec<Report> = cx.session.mcp.iter().flat_map(|own| own.reports()).collect();
    states.extend(of_client.iter().map(|report| (report.name.clone(), Some(report.status.clone()))));
    let reports: Vec<Report> = workspace.mcp().reports().into_iter().chain(of_client).collect();
    let line = |(name, status): (String, Option<Status>)| {
        let report = reports.iter().find(|report| report.name == name);
        let tools: Vec<&str> =
            report.into_iter().flat_map(|report| &report.tools).map(|(tool, _)| tool.as_str()).collect();
        let shown = match tools.as_slice() {
            [] => String::new(),
            all if all.len() > MAX_TOOLS => {
                format!(": {}, … ({} tools)", all[..MAX_TOOLS].join(", "), all.len())
            }
            all => format!(": {}", all.join(", ")),
        };
        let state = status.map_or_else(|| format!("{name} is switched off"), |it| state_of(&name, &it));
        format!("- {state}{shown}")
    };
    let lines: Vec<String> = states.into_iter().map(line).collect();
    if lines.is_empty() {
        return "There are no MCP servers; `windlass mcp add` adds one.".to_owned();
    }
    lines.join("\n")
}

fn help(cx: &TurnCx<'_>) -> String {
    let mut text = "Commands:\n".to_owned();
    let own = cx.loaded.command_choices();
    let own = own.iter().filter_map(|choice| cx.loaded.commands.get(&choice.name));
    let of_servers = mcp_commands::commands(&cx.servers(), &cx.loaded.commands);
    for command in own.chain(&of_servers) {
        let hint = command.hint().map(|hint| format!(" {hint}")).unwrap_or_default();
        let source = match command.source {
            Source::Builtin => "",
            Source::Config => " (configured)",
            Source::Skill => " (skill)",
            Source::Server => " (MCP server)",
        };
        let description = command.description.lines().next().unwrap_or_default();
        text.push_str(&format!("\n- `/{}{hint}`{source} {description}", command.name));
    }
    text
}

async fn undo(cx: &TurnCx<'_>, state: &mut SessionState, arguments: &str) -> Result<String, EngineError> {
    let Some(to) = undo_point(arguments) else {
        return Ok(format!(
            "`{arguments}` is neither a number of prompts nor the id of a message, so nothing is undone."
        ));
    };
    let _sole_use = match cx.session.sole_use("undo") {
        Ok(sole_use) => sole_use,
        Err(error) => return Ok(format!("Nothing is undone: {error}.")),
    };
    let before = state.info.revert.clone();
    let changed = match revert::change(state, &to) {
        Ok(Some(changed)) => changed,
        Ok(None) => return Ok("There is nothing to undo.".to_owned()),
        Err(error) => return Ok(format!("Nothing is undone: {error}.")),
    };
    let end = file_undo::follow(cx.session, &cx.loaded, &cx.cancel, state, before).await?;
    Ok(format!(
        "Undone: \"{}\" and what followed. The model no longer sees it; the screen shows it until the session is \
         loaded again. `/redo` puts it back, the next prompt removes it for good.{}",
        changed.prompt,
        file_undo::sentences(&cx.loaded.config.worktree, &end, &changed)
    ))
}

async fn fork(cx: &TurnCx<'_>, state: &SessionState, arguments: &str) -> Result<String, EngineError> {
    let before = match arguments.trim() {
        "" => None,
        words => match MessageId::parse(words) {
            Ok(id) => Some(id),
            Err(_) => return Ok(format!("`{words}` is no id of a message, so nothing is copied.")),
        },
    };
    if cx.session.engine.has_people() {
        return Ok("A copy needs an owner here: make it by `POST /session/ID/fork`.".to_owned());
    }
    let (info, history) = (&state.info, &state.history);
    let forked = fork::fork(&cx.session.engine, info, &cx.parent_limits, history, before.as_ref()).await;
    let forked = match forked {
        Ok(forked) => forked,
        Err(error) if error.kind == EngineErrorKind::MessageNotFound => {
            return Ok(format!("Nothing is copied: {error}."));
        }
        Err(error) => return Err(error),
    };
    let copied =
        if before.is_some() { "The conversation before that message" } else { "The conversation so far" };
    Ok(format!(
        "{copied} is copied into the session `{}` ({}). Open it with your editor's list of sessions \
         (`session/load`), or continue with `windlass run --session {}`. This session stays as it is.",
        forked.id, forked.title, forked.id
    ))
}

/// Reads the words behind `/undo`: none, a number of prompts, or the id of a message.
fn undo_point(arguments: &str) -> Option<RevertTo> {
    match arguments.trim() {
        "" => Some(RevertTo::Prompts(1)),
        words if words.starts_with("msg_") => {
            let message_id = MessageId::parse(words).ok()?;
            Some(RevertTo::Message { message_id, part_id: None })
        }
        words => words.parse().ok().filter(|n_prompts| *n_prompts > 0).map(RevertTo::Prompts),
    }
}

async fn redo(cx: &TurnCx<'_>, state: &mut SessionState) -> Result<String, EngineError> {
    let _sole_use = match cx.session.sole_use("undo") {
        Ok(sole_use) => sole_use,
        Err(error) => return Ok(format!("Nothing is put back: {error}.")),
    };
    let before = state.info.revert.clone();
    let Some(changed) = revert::redo(state) else { return Ok("There is nothing to redo.".to_owned()) };
    let end = file_undo::follow(cx.session, &cx.loaded, &cx.cancel, state, before).await?;
    let left = match changed.n_undone {
        0 => String::new(),
        1 => " One more prompt is undone.".to_owned(),
        n_undone => format!(" {n_undone} more prompts are undone."),
    };
    let files = match end {
        // Where files are not restored, they still are as they were.
        FilesEnd::Off(_) | FilesEnd::Unchanged => String::new(),
        end => {
            let changed = Changed { unsaved: BTreeSet::new(), has_open_step: false, ..changed.clone() };
            file_undo::sentences(&cx.loaded.config.worktree, &end, &changed)
        }
    };
    Ok(format!("Put back: \"{}\" with its answers.{left}{files}", changed.prompt))
}

fn status(cx: &TurnCx<'_>, state: &SessionState, unusable: Option<&Unusable>) -> String {
    let info = &state.info;
    let tokens = &info.tokens;
    let mut lines = vec![
        format!("- Session: `{}` {}", info.id, info.title),
        format!("- Directory: `{}`", cx.loaded.config.directory.display()),
        format!("- Agent: {}", cx.agent.name),
        match unusable {
            Some(unusable) => format!("- Model: none. {unusable}"),
            None => format!("- Model: {} ({})", cx.model.reference(), cx.model.name),
        },
        format!(
            "- Tokens: {} in, {} out, {} thought, {} read from cache, {} written to cache",
            tokens.input, tokens.output, tokens.reasoning, tokens.cache.read, tokens.cache.write
        ),
        format!("- Cost: ${:.4}", info.cost),
    ];
    let last = state.history.iter().rev().find_map(|message| match &message.info {
        Message::Assistant(answer) if answer.tokens.context() > 0 => Some(answer.tokens.context()),
        Message::Assistant(_) | Message::User(_) => None,
    });
    if let Some(used) = last {
        let of = match cx.model.limit.context {
            0 => String::new(),
            size => format!(" of {size} ({} %)", used * 100 / size),
        };
        lines.push(format!("- Context: {used} tokens{of}"));
    }
    let servers = servers(cx.session.workspace.mcp()).into_iter();
    let servers: Vec<String> =
        servers.chain(cx.session.mcp.iter().flat_map(|own| self::servers(own))).collect();
    if servers.is_empty() {
        lines.push("- MCP servers: none".to_owned())
    } else {
        lines.push(format!("- MCP servers: {}", servers.join("; ")))
    }
    if !cx.loaded.warnings.is_empty() {
        lines.push("- Part of the configuration is ignored:".to_owned());
        lines.extend(cx.loaded.warnings.iter().map(|warning| format!("  - {warning}")));
    }
    lines.join("\n")
}

fn servers(servers: &Servers) -> Vec<String> {
    servers.statuses().iter().map(|(name, status)| state_of(name, status)).collect()
}

fn state_of(name: &str, status: &Status) -> String {
    match status {
        Status::Connecting => format!("{name} is connecting"),
        Status::Connected => format!("{name} is connected"),
        Status::Disabled => format!("{name} is switched off"),
        Status::Failed { error } => format!("{name} failed: {error}"),
        Status::NeedsAuth => format!("{name} wants a login"),
        Status::NeedsClientRegistration { error } => format!("{name} wants a login: {error}"),
    }
}

fn models(cx: &TurnCx<'_>, unusable: Option<&Unusable>) -> String {
    let current = unusable.is_none().then(|| cx.model.reference().to_string());
    let lines = cx.loaded.model_choices().into_iter().map(|choice| {
        let mark = if Some(&choice.id) == current.as_ref() { " (answers now)" } else { "" };
        format!("- `{}` {}{mark}", choice.id, choice.name)
    });
    let reason = unusable.map(|unusable| format!("{unusable}\n\n")).unwrap_or_default();
    format!("{reason}Models:\n\n{}", lines.collect::<Vec<_>>().join("\n"))
}

async fn permissions(cx: &TurnCx<'_>, state: &SessionState) -> String {
    let approvals = cx.session.approvals();
    approvals.sync().await;
    let mut text = format!(
        "Rules of the agent `{}`; the last one that matches decides:\n\n{}",
        cx.agent.name,
        rules(cx.agent.policy.rules())
    );
    for layer in cx.agent.policy.layers().iter().filter(|layer| layer.origin != Origin::Agent) {
        text.push_str(&format!("\n\n{}:\n\n{}", layer.origin.title(), rules(&layer.rules)));
    }
    if let Some(own) = state.info.permission.as_deref().filter(|own| !own.is_empty()) {
        text.push_str(&format!("\n\nRules of this session, behind those:\n\n{}", rules(own)));
    }
    let answers = approvals.rules();
    text.push_str("\n\n");
    if answers.is_empty() {
        text.push_str("No answers are remembered for this project.")
    } else {
        text.push_str(&format!(
            "Your remembered answers, where the rules ask (`windlass permission` revokes them):\n\n{}",
            rules(&answers)
        ))
    }
    text
}

fn rules(rules: &[Rule]) -> String {
    let lines = rules.iter().map(|rule| {
        let action = serde_json::to_value(rule.action).unwrap_or_default();
        format!("- {} `{}` `{}`", action.as_str().unwrap_or("ask"), rule.permission, rule.pattern)
    });
    lines.collect::<Vec<_>>().join("\n")
}
