//! One turn: from a prompt to the answer that ends it, over as many steps as the model's tool calls take.

use std::{sync::Arc, time::Instant};

use tokio_util::sync::CancellationToken;
use windlass_base::{log, money};
use windlass_core::library::{Agent, Instructions, commands::Body};
use windlass_protocol::opencode::{
    message::{Message, MessageError},
    model_ref::ModelRef,
    session::{SessionModel, SessionStatus},
    tokens::Tokens,
};
use windlass_provider::{Finish, Model, Wire, unusable::Unusable};
use windlass_services::{mcp::ServersLease, plugin::host::Host, tool::AgentSwitch};

use super::{
    offered,
    title::{self, TitleTask},
};
use crate::{
    EngineError, EngineErrorKind,
    command::{self, Invoked, Started, builtin},
    compaction::{overflow::Room, prune},
    remote::skill_urls::Skills,
    session::{
        context::{SessionCx, TurnCx},
        inbox::Inbox,
        parent_limits::{self, ParentLimits},
        prompt_key::KeyClaim,
        request::{Begun, Delivery, Given, Invocation, OnMissing, PromptInput, StopReason, TurnOutcome},
        revert,
        state::{Journal, KnownFiles, SessionState, TurnState, text_part},
        structured::{self, Structured},
    },
    turn::{
        asked_again, attach, file_snapshots, hooks,
        loaded_instructions::LoadedInstructions,
        prompt, servers,
        step::{self, Step},
        subtask_parts, user_shell,
    },
    workspace::loaded::Loaded,
};

/// Runs a prompt's turn; `None` when the prompt was cancelled while it waited and is answered already.
pub async fn run_turn(
    cx: &SessionCx,
    state: &mut SessionState,
    inbox: &mut Inbox,
    title: &mut TitleTask,
    ticket: u64,
) -> Option<Result<TurnOutcome, EngineError>> {
    let (cancel, input) = cx.tickets.begin(ticket, Begun::Turn)?;
    // Held to the end: a retry meanwhile finds it, also that of a command.
    let key = input.key.clone();
    if let Some(repeat) = repeated(cx, key.as_deref()).await {
        return Some(repeat);
    }
    let began = Instant::now();
    cx.show_status(state, SessionStatus::Busy).await;
    cx.engine.clean();
    let mut result = run_prompt(cx, state, inbox, title, &cancel, input).await;
    if result.is_ok()
        && let Err(error) = prune::run(cx, state).await
    {
        result = Err(error);
    }
    if let Err(error) = file_snapshots::report(cx, state, &cancel).await {
        result = Err(error);
    }
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        // An answer that was given in the turn holds on other nodes from now on.
        () = cx.engine.fleet().exchange_answers(&cx.workspace) => {}
    }
    let is_store = matches!(&result, Err(error) if error.kind == EngineErrorKind::Store);
    if cancel.is_cancelled() && !is_store {
        // A cancelled turn is answered with `cancelled`, even if it failed (facts: ACP §1.4.3).
        let (tokens, message_id) = match result {
            Ok(outcome) => (outcome.tokens, outcome.message_id),
            Err(_) => (None, None),
        };
        result = Ok(TurnOutcome { tokens, message_id, ..TurnOutcome::cancelled() });
    }
    let duration = log::duration(began);
    match &result {
        Ok(outcome) => {
            let tokens = outcome.tokens.and_then(|tokens| tokens.total);
            tracing::info!(session = %cx.id, stop = outcome.stop.name(), tokens, duration, "a turn ended");
        }
        Err(error) => {
            tracing::error!(target: log::SHOWN, session = %cx.id, %error, duration, "a turn failed");
        }
    }
    if let Some(error) = session_error(state, &result) {
        let mut journal = Journal::default();
        journal.error(&state.info, error);
        // The error itself is answered below; the event is for clients that only watch.
        let _ = cx.commit(&mut journal).await;
    }
    inbox.apply_settings(cx, state, None).await;
    state.turn.given.key = None;
    Some(result)
}

/// Returns the outcome of a prompt that is in the conversation already, by its key.
async fn repeated(session: &SessionCx, key: Option<&KeyClaim>) -> Option<Result<TurnOutcome, EngineError>> {
    let known = session.engine.sessions().message_of_key(key?).await;
    known.map(|known| known.map(TurnOutcome::repeat)).transpose()
}

/// Returns the error of a turn that failed or was cancelled, as its answer holds it where it has one.
fn session_error(
    state: &mut SessionState,
    result: &Result<TurnOutcome, EngineError>,
) -> Option<MessageError> {
    let of_answer = state.answer_mut().and_then(|answer| answer.error.clone());
    let error = match result {
        Ok(outcome) if outcome.stop == StopReason::Cancelled => {
            return Some(MessageError::MessageAbortedError { message: "Aborted".to_owned() });
        }
        Ok(_) => return None,
        Err(error) => error,
    };
    let message = error.message.clone();
    // The error of an earlier answer says something else; this one's may have a way out behind it.
    if let Some(of_answer) = of_answer.filter(|of_answer| message.starts_with(of_answer.message())) {
        return Some(of_answer);
    }
    Some(if error.kind == EngineErrorKind::ContextOverflow {
        MessageError::ContextOverflowError { message, response_body: None }
    } else if let EngineErrorKind::StructuredOutput { retries } = error.kind {
        MessageError::StructuredOutputError { message, retries }
    } else {
        MessageError::UnknownError { message }
    })
}

async fn run_prompt(
    session: &SessionCx,
    state: &mut SessionState,
    inbox: &mut Inbox,
    title: &mut TitleTask,
    cancel: &CancellationToken,
    mut input: PromptInput,
) -> Result<TurnOutcome, EngineError> {
    state.turn = TurnState { given: Given::take(&mut input), ..TurnState::default() };
    prepare(session, state, cancel).await?;
    let (loaded, mcp, plugins) = generation(session);
    session.engine.remote().refresh_listed::<Skills>(&loaded);
    check_left_out(&loaded, state, &input)?;
    if input.on_missing == OnMissing::Fallback {
        input.agent = Some(loaded.agent_name(input.agent.as_deref()).to_owned());
    }
    let [is_shell, is_slash, is_again] =
        [Invocation::Shell, Invocation::Slash, Invocation::AskAgain].map(|it| input.invocation == it);
    let offered = offered::prompts(session, &loaded, &input, cancel).await;
    let called = command::take(&loaded, &offered, &mut input)?;
    let agent = choose_agent(&loaded, state, &input)?.clone();
    let own = called.as_ref().and_then(Invoked::own);
    let (model, unusable) = match choose_model(&loaded, &agent, &input) {
        Ok(model) => (model, None),
        // These are answered without a model, and tell how to get one.
        Err(unusable) if own.is_some() || is_shell => (loaded.demo().clone(), Some(unusable)),
        Err(unusable) => return Err(unusable.into()),
    };
    let structured = structured_answer(&input, &model)?;
    let of_command = called.as_ref().and_then(Invoked::variant);
    let chosen = of_command.or(input.model.as_ref().and_then(|model| model.variant.as_deref()));
    let variant = loaded.variant_for(&agent, &model, chosen);
    let parent_limits = limits_above(session, &loaded, state).await?;
    let mut cx = TurnCx {
        session,
        loaded,
        agent,
        model,
        variant,
        instructions: Vec::new(),
        parent_limits,
        mcp,
        structured,
        plugins,
        cancel: cancel.clone(),
    };
    let called = match called {
        Some(called) => match called.command.body {
            Body::Builtin(own) => return builtin::run(&cx, state, own, called, unusable.as_ref()).await,
            Body::Template(_) | Body::Skill(_) | Body::ServerPrompt(_) | Body::Compact => Some(called),
        },
        None if is_slash => match builtin::answer_mistyped(&cx, state, &input).await? {
            Some(outcome) => return Ok(outcome),
            None => None,
        },
        None => None,
    };
    revert::settle(session, state).await?;
    if is_shell {
        let stop = user_shell::run(&cx, state, &command::words(&input.parts)).await?;
        return Ok(without_answer(state, stop));
    }
    let read = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Instructions::default(),
        instructions = session.engine.workspaces().read_instructions(&cx.loaded) => instructions,
    };
    let untold = read.all_warnings();
    cx.instructions = read.blocks;
    let is_due = is_again || session.engine.fleet().has_unanswered(&session.id);
    let have_run = is_due && asked_again::run(&cx, state).await?;
    if is_again {
        if !have_run {
            return Ok(without_answer(state, StopReason::EndTurn));
        }
    } else if let Some(outcome) = take_in(&mut cx, state, input, called).await? {
        return Ok(outcome);
    }
    session.warn(&untold);
    note_prompt(&cx, state);
    title::start(&cx, state, title);
    servers::wait(&cx).await;
    take_steps(&mut cx, state, inbox).await
}

/// Brings everything up to date that a prompt is answered by: the configuration, files and answers from elsewhere.
async fn prepare(
    session: &SessionCx,
    state: &mut SessionState,
    cancel: &CancellationToken,
) -> Result<(), EngineError> {
    // Files that come along may be part of the configuration.
    file_snapshots::bring(session, state, cancel).await;
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        ready = ready(session) => ready?,
    }
    session.engine.workspaces().ask_trust(&session.workspace, &session.id, cancel).await;
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = session.engine.fleet().exchange_answers(&session.workspace) => {}
    }
    session.engine.remote().refresh_remote_config();
    Ok(())
}

/// Puts the prompt, or the text of the command that it calls, before the model; returns the outcome of a turn that ends
/// there.
async fn take_in(
    cx: &mut TurnCx<'_>,
    state: &mut SessionState,
    input: PromptInput,
    called: Option<Invoked>,
) -> Result<Option<TurnOutcome>, EngineError> {
    let ended = match called {
        None => {
            let no_reply = input.no_reply;
            accept(cx, state, input).await?;
            if no_reply {
                let message_id = state.history.last().map(|message| message.info.id().clone());
                let outcome =
                    TurnOutcome { stop: StopReason::EndTurn, message_id, ..TurnOutcome::cancelled() };
                return Ok(Some(outcome));
            }
            hooks::message::follow_prompt(cx, state)?;
            subtask_parts::run(cx, state, Vec::new()).await?
        }
        Some(called) => match command::begin(cx, state, called).await? {
            Started::Prompt => None,
            Started::Ended(stop) => Some(stop),
        },
    };
    Ok(ended.map(|stop| without_answer(state, stop)))
}

/// Reads changes of the configuration. Fails where the directory of the session is gone, which can be read without it.
async fn ready(session: &SessionCx) -> Result<(), EngineError> {
    session.engine.workspaces().sync_config(&session.workspace).await;
    let directory = session.workspace.directory();
    if tokio::fs::metadata(directory).await.is_ok_and(|it| it.is_dir()) {
        return Ok(());
    }
    let reason = format!(
        "The directory {} of this session is gone. The session can be read; a prompt needs the directory.",
        directory.display()
    );
    Err(EngineError::new(EngineErrorKind::InvalidInput, reason))
}

/// Tells the user the notes about the model, the prompt's files and the plugins.
fn note_prompt(cx: &TurnCx<'_>, state: &SessionState) {
    let session = cx.session;
    session.note(cx.loaded.unlisted(&cx.model));
    let prompted = state.history.iter().rfind(|message| matches!(message.info, Message::User(_)));
    session.note(prompted.and_then(|message| prompt::untaken_note(&cx.model, &message.parts)));
    for notice in session.engine.plugins().notices(&cx.loaded.config.directory) {
        session.note(Some(notice));
    }
}

/// Returns the configuration, the MCP servers and the plugins of this moment, taken in one step so that they belong
/// together; a turn keeps them to its end.
fn generation(session: &SessionCx) -> (Arc<Loaded>, ServersLease, Option<Arc<Host>>) {
    let workspace = &session.workspace;
    (workspace.loaded(), workspace.mcp().lease(), session.engine.plugins().host(workspace.directory()))
}

/// Returns the limits of the sessions above.
async fn limits_above(
    session: &SessionCx,
    loaded: &Loaded,
    state: &SessionState,
) -> Result<ParentLimits, EngineError> {
    // A parent passes its denials down; a client that opens a subagent's session directly cannot.
    let is_limited = state.info.parent_id.is_some() || !state.info.limits.is_empty();
    if session.parent_limits.rules.is_empty() && is_limited {
        return parent_limits::stored(&session.engine, loaded, &state.info).await;
    }
    Ok(session.parent_limits.clone())
}

/// Returns the end of a turn that no model answered.
fn without_answer(state: &mut SessionState, stop: StopReason) -> TurnOutcome {
    let mut spent = std::mem::take(&mut state.turn.child_tokens);
    let answer = state.answer_mut();
    answer.iter().for_each(|answer| spent.add(&answer.tokens));
    let message_id = answer.map(|answer| answer.id.clone());
    let is_known = spent != Tokens::default();
    TurnOutcome { stop, tokens: is_known.then_some(spent), message_id, ..TurnOutcome::cancelled() }
}

/// Returns the form that a prompt wants its answer in, which the model has to be able to give.
fn structured_answer(input: &PromptInput, model: &Model) -> Result<Option<Structured>, EngineError> {
    let structured = input.format.as_ref().map(Structured::read).transpose()?.flatten();
    if structured.is_some() {
        structured::check_model(model)?;
    }
    Ok(structured)
}

/// Times that a model may pause in a turn and be asked to go on.
const MAX_PAUSES: u32 = 20;

/// Asks the model and runs its tools, step by step, until the turn ends.
async fn take_steps(
    cx: &mut TurnCx<'_>,
    state: &mut SessionState,
    inbox: &mut Inbox,
) -> Result<TurnOutcome, EngineError> {
    let mut spent = std::mem::take(&mut state.turn.child_tokens);
    let mut answered = None;
    let mut n_steps = 0;
    let mut room = Room::default();
    let (mut n_failed, mut n_pauses) = (0, 0);
    let mut has_ended = false;
    let (limits, cost_before) = (state.turn.given.limits, state.info.cost);
    if cx.plugins.as_ref().is_some_and(|host| host.declares("chat.message")) {
        // A hook's settings for the prompt belong to it.
        apply_settings(cx, state, inbox, None).await;
    }
    let stop = loop {
        match take_in_waiting(cx, state, inbox).await? {
            // What came is answered with as many steps as a prompt is.
            TakenIn::UsersWords => n_steps = 0,
            // They were withdrawn again.
            TakenIn::Nothing if has_ended => break StopReason::EndTurn,
            TakenIn::Nothing | TakenIn::OtherWords => {}
        }
        has_ended = false;
        room.before_step(cx, state).await?;
        if room.ends_turn {
            break StopReason::EndTurn;
        }
        if cx.cancel.is_cancelled() {
            break StopReason::Cancelled;
        }
        servers::tell_lost_logins(cx);
        n_steps += 1;
        let is_last = cx.agent.steps.into_iter().chain(limits.steps).any(|limit| n_steps >= limit);
        prompt::keep(&cx.agent, &cx.model, cx.variant.as_deref(), state);
        let outcome = step::run(cx, state, is_last).await?;
        spent.add(&std::mem::take(&mut state.turn.child_tokens));
        if let Some(answer) = state.answer_mut() {
            spent.add(&answer.tokens);
            answered = Some(answer.id.clone());
        }
        if let Some(switch) = state.turn.switch.take() {
            let goes_on = outcome == Step::ToolsRan && !is_last && !cx.cancel.is_cancelled();
            switch_agent(cx, state, inbox, switch, goes_on).await?;
        }
        match insist_on_form(cx, state, outcome, &mut n_failed, is_last).await? {
            Step::Interrupted => break StopReason::Cancelled,
            Step::Rejected | Step::Answered => break StopReason::EndTurn,
            Step::Finished(Finish::Length) => break StopReason::MaxTokens,
            Step::Finished(Finish::ContentFilter) => break StopReason::Refusal,
            Step::Finished(_) if is_last && n_steps > 1 => break StopReason::MaxTurnRequests,
            Step::Finished(Finish::Paused) if n_pauses < MAX_PAUSES => {
                n_pauses += 1;
                apply_settings(cx, state, inbox, None).await;
            }
            Step::Finished(Finish::Stop | Finish::ToolCalls | Finish::Paused | Finish::Unknown) => {
                apply_settings(cx, state, inbox, None).await;
                if !inbox.has_steer(&cx.session.tickets) {
                    break StopReason::EndTurn;
                }
                has_ended = true;
            }
            Step::ToolsRan if is_last => break StopReason::MaxTurnRequests,
            Step::ToolsRan if limits.cost.is_some_and(|limit| state.info.cost - cost_before >= limit) => {
                break StopReason::MaxTurnRequests;
            }
            Step::ToolsRan => apply_settings(cx, state, inbox, None).await,
            Step::Overflow => {
                n_steps -= 1;
                room.after_refusal(cx, state).await?;
            }
        }
    };
    let is_known = spent != Tokens::default();
    let structured = state.answer_mut().and_then(|answer| answer.structured.clone());
    Ok(TurnOutcome {
        stop,
        tokens: is_known.then_some(spent),
        message_id: answered,
        structured,
        is_repeat: false,
    })
}

/// Has the model try again where its answer should have been data and was not; fails once it has tried often enough.
async fn insist_on_form(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    outcome: Step,
    n_failed: &mut u32,
    is_last: bool,
) -> Result<Step, EngineError> {
    let Some(structured) = &cx.structured else { return Ok(outcome) };
    let has_ended = match outcome {
        Step::Finished(Finish::Stop | Finish::ToolCalls | Finish::Unknown) => true,
        Step::ToolsRan => false,
        Step::Finished(Finish::Length | Finish::ContentFilter)
        | Step::Finished(Finish::Paused)
        | Step::Answered
        | Step::Overflow
        | Step::Rejected
        | Step::Interrupted => return Ok(outcome),
    };
    let was_tried = state.history.last().is_some_and(|message| structured::was_tried(&message.parts));
    if !has_ended && !was_tried {
        return Ok(outcome);
    }
    let mut journal = Journal::default();
    let retries = *n_failed;
    *n_failed += 1;
    if retries < structured.n_retries && !is_last {
        if has_ended {
            cx.push_prompt(state, &mut journal);
            state.push_part(text_part(structured::REMINDER.trim_end().to_owned(), true, false), &mut journal);
        }
        cx.commit(&mut journal).await?;
        return Ok(Step::ToolsRan);
    }
    let message =
        "The model did not give its answer in the form of the schema. Ask again, give it an easier schema, \
                   or choose another model."
            .to_owned();
    if let Some(answer) = state.answer_mut() {
        answer.error = Some(MessageError::StructuredOutputError { message: message.clone(), retries });
    }
    state.touch_answer(&mut journal);
    cx.commit(&mut journal).await?;
    Err(EngineError::new(EngineErrorKind::StructuredOutput { retries }, message))
}

/// Refuses to go on with another agent than a session's own that is left out: it may do more.
fn check_left_out(loaded: &Loaded, state: &SessionState, input: &PromptInput) -> Result<(), EngineError> {
    let own = state.info.agent.as_deref().filter(|name| loaded.config.left_out.contains(*name));
    let is_chosen = input.on_missing == OnMissing::Fails && input.agent.is_some();
    match own.filter(|_| !is_chosen) {
        Some(name) => {
            let reason = format!(
                "The agent {name} of this session is left out, because a restriction of it cannot be understood; mend its \
                 definition (`windlass config check` says where), or choose another agent."
            );
            Err(EngineError::new(EngineErrorKind::InvalidInput, reason))
        }
        None => Ok(()),
    }
}

/// Returns the agent that answers a prompt: the prompt's own wish, the session's last agent, the default.
fn choose_agent<'a>(
    loaded: &'a Loaded,
    state: &SessionState,
    input: &PromptInput,
) -> Result<&'a Agent, EngineError> {
    match input.agent.as_deref() {
        Some(name) => loaded.checked_agent(name),
        None => {
            let last = state.info.agent.as_deref().and_then(|name| loaded.agent(name));
            Ok(last.unwrap_or_else(|| loaded.default_agent()))
        }
    }
}

/// Returns the model that answers a prompt; the demo, which says how to configure one, only where nothing at
/// all is configured and the front end has a user to tell.
fn choose_model(loaded: &Loaded, agent: &Agent, input: &PromptInput) -> Result<Model, Unusable> {
    match input.on_missing {
        OnMissing::Fails => loaded.answering(agent, input.model.as_ref()),
        OnMissing::Fallback => loaded.answers_next(Some(&agent.name), input.model.as_ref()),
    }
}

/// Stores the user's prompt as a message.
async fn accept(cx: &TurnCx<'_>, state: &mut SessionState, input: PromptInput) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    state.info.agent = Some(cx.agent.name.clone());
    // A session that the demo answered without being chosen goes on with a real model once there is one.
    let is_chosen = cx.model.wire != Wire::Demo || input.model.is_some();
    state.info.model = is_chosen.then(|| SessionModel {
        id: cx.model.id.clone(),
        provider_id: cx.model.provider_id.clone(),
        variant: cx.variant.clone(),
    });
    if let Some(spent) = &input.of_task {
        state.info.cost = money::sum(state.info.cost, spent.cost);
        state.info.tokens.add(&spent.tokens);
        state.turn.child_tokens.add(&spent.tokens);
    }
    state.touch();
    journal.session(&state.info);
    let mut said = Journal::default();
    let message_id = cx.push_prompt(state, &mut said);
    let known_files = state.known_files.clone();
    let instructions = LoadedInstructions::new(&cx.instructions, state.gathered().instructions);
    let words = attach::words(&input.parts);
    let read = KnownFiles::default();
    let kinds = tokio::select! {
        biased;
        // The words are kept, the files that were still being read are not.
        () = cx.cancel.cancelled() => words,
        kinds = attach::resolve(cx, &read, &instructions, &message_id, input.parts) => {
            known_files.take_in(&read);
            kinds
        }
    };
    for kind in kinds {
        state.push_given_part(kind, &mut said);
    }
    let notes = [state.brought.take().unwrap_or_default(), state.late_errors.take().await];
    for note in notes.iter().filter(|note| !note.is_empty()) {
        state.push_part(text_part(note.trim_start().to_owned(), true, false), &mut said);
    }
    hooks::message::change_prompt(cx, state, 0, &mut said).await?;
    journal.append(said);
    journal.known_files(&state.info, &known_files);
    cx.commit_ahead(&mut journal).await?;
    if let Some(key) = state.turn.given.key.take() {
        key.stored(message_id);
    }
    Ok(())
}

/// Prompts without a turn of their own that a turn took in.
enum TakenIn {
    Nothing,
    /// The user's, and maybe others.
    UsersWords,
    /// Results of subagents and of commands in the background, or words of plugins.
    OtherWords,
}

/// Adds the prompts that have no turn of their own to the conversation.
async fn take_in_waiting(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    inbox: &mut Inbox,
) -> Result<TakenIn, EngineError> {
    let tickets = &cx.session.tickets;
    if inbox.has_for_running_turn(tickets) {
        // What a step changed is told before the prompts behind it.
        file_snapshots::settle(cx.session, state, &cx.cancel).await?;
    }
    // All of them begin at once: one that is changed or withdrawn later has begun.
    let begin = |ticket: u64| Some((ticket, tickets.begin(ticket, Begun::Within)?.1));
    let begun: Vec<_> = inbox.take_for_running_turn(tickets).into_iter().filter_map(begin).collect();
    let taken_in = match begun.iter().any(|(_, input)| input.delivery != Delivery::Turn) {
        true => TakenIn::UsersWords,
        false if begun.is_empty() => TakenIn::Nothing,
        false => TakenIn::OtherWords,
    };
    let mut failure: Option<EngineError> = None;
    for (ticket, mut input) in begun {
        if let Some(failure) = &failure {
            tickets.end(ticket, Err(failure.clone()));
            continue;
        }
        if let Some(repeat) = repeated(cx.session, input.key.as_deref()).await {
            tickets.end(ticket, repeat);
            continue;
        }
        let before = std::mem::replace(&mut state.turn.given, Given::take(&mut input));
        let accepted = accept(cx, state, input).await;
        state.turn.given = before;
        let message_id = state.history.last().map(|message| message.info.id().clone());
        let outcome = TurnOutcome { stop: StopReason::EndTurn, message_id, ..TurnOutcome::cancelled() };
        tickets.end(ticket, accepted.clone().map(|()| outcome));
        failure = accepted.err();
    }
    failure.map_or(Ok(taken_in), Err)
}

/// Lets settings that came meanwhile hold for the next step; prompts wait for a turn of their own, answered by the
/// agent that took over, if one did.
async fn apply_settings(
    cx: &mut TurnCx<'_>,
    state: &mut SessionState,
    inbox: &mut Inbox,
    switched_to: Option<&str>,
) {
    // A command may be answered by another agent than the session's.
    let before = (state.info.agent.clone(), state.info.model.clone());
    inbox.apply_settings(cx.session, state, switched_to).await;
    if before.0 != state.info.agent
        && let Some(agent) = state.info.agent.as_deref().and_then(|name| cx.loaded.agent(name))
    {
        cx.agent = agent.clone();
    }
    if before.1 == state.info.model {
        return;
    }
    let reference = state.info.model.as_ref().map(|model| ModelRef {
        provider_id: model.provider_id.clone(),
        model_id: model.id.clone(),
        variant: model.variant.clone(),
    });
    let chosen = reference.as_ref().and_then(|reference| reference.variant.as_deref());
    if let Some(model) = reference.as_ref().and_then(|reference| cx.loaded.checked_model(reference).ok()) {
        cx.variant = cx.loaded.variant_for(&cx.agent, &model, chosen);
        cx.model = model;
    }
}

/// Lets the agent take over that a tool had the user choose, for this turn and those that come.
async fn switch_agent(
    cx: &mut TurnCx<'_>,
    state: &mut SessionState,
    inbox: &mut Inbox,
    switch: AgentSwitch,
    goes_on: bool,
) -> Result<(), EngineError> {
    // Choices of the user while the question was open are older than its answer.
    apply_settings(cx, state, inbox, None).await;
    let AgentSwitch { agent, message } = switch;
    let Some(chosen) = cx.loaded.agent(&agent) else { return Ok(()) };
    cx.agent = chosen.clone();
    inbox.follow(&cx.session.tickets, &agent);
    let mut journal = Journal::default();
    state.info.agent = Some(agent.clone());
    state.touch();
    journal.session(&state.info);
    journal.switch(&state.info);
    if goes_on {
        cx.push_prompt(state, &mut journal);
        state.push_part(text_part(message, true, false), &mut journal);
    }
    cx.commit(&mut journal).await?;
    // A front end learns of the switch only now: a prompt that it sent while that was stored names the agent before.
    apply_settings(cx, state, inbox, Some(&agent)).await;
    Ok(())
}
