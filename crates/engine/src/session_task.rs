//! The task that owns a session: it takes prompts from its inbox and runs their turns one after another.

mod offered;
mod title;
mod turn;

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::sync::oneshot;
use windlass_base::{ids, log};
use windlass_protocol::opencode::session::SessionStatus;

use self::{title::TitleTask, turn::run_turn};
use crate::{
    EngineError, EngineErrorKind,
    session::{
        context::SessionCx,
        inbox::{self, Inbox},
        request::{Command, TurnOutcome},
        state::{SessionState, has_unanswered},
        title::fallback,
    },
    turn::file_snapshots,
    undo::{edit, file_undo},
};

/// Time that a finished daemon waits for a title that is being made.
const TITLE_GRACE: Duration = Duration::from_secs(2);

/// Runs until the inbox is closed, the session has had no work for `idle`, or a turn panics.
pub async fn run(cx: SessionCx, mut inbox: Inbox, idle: Duration) {
    let session_lock = cx.engine.storage().session_locks.share(&cx.id).await;
    // Nothing else fills it.
    let _ = cx.session_lock.set(session_lock);
    let claimed = cx.engine.fleet().claim(&cx.id, Some(cx.workspace.directory())).await;
    let loaded = match claimed {
        Ok(_) => load(&cx).await,
        Err(error) => Err(error),
    };
    let mut state = match loaded {
        Ok(state) => state,
        Err(error) => return refuse_all(&cx, &mut inbox, &error).await,
    };
    let mut title = TitleTask::default();
    loop {
        // Choices since the last turn apply to the earlier prompts that have not begun.
        if inbox.has_waiting() {
            inbox.apply_settings(&cx, &mut state, None).await;
        }
        let command = tokio::select! {
            command = inbox.next() => command,
            () = tokio::time::sleep(idle) => {
                if !cx.engine.sessions().release_if_idle(&cx.id, &inbox) {
                    continue;
                }
                // The log keeps the size of its busiest moment otherwise.
                if let Err(error) = cx.engine.storage().empty_log().await {
                    tracing::warn!(%error, "the store's log was not emptied");
                }
                let (engine, id) = (cx.engine.clone(), cx.id.clone());
                cx.engine.spawn(async move { _ = engine.fleet().give_back(&id).await });
                return;
            }
        };
        if let Some(Command::Prompt { .. } | Command::Revert { .. }) = &command
            && let Err(error) = file_snapshots::recover(&cx, &mut state).await
        {
            // The command itself meets the store next, and reports its fault.
            tracing::warn!(session = %cx.id, %error, "the files that an interrupted step changed are not stored");
        }
        let handled = match command {
            None => break,
            Some(Command::Prompt { place }) => match cx.tickets.take(place) {
                // It was withdrawn, or is sent again with the next prompt.
                None => Ok(()),
                Some(ticket) if was_taken_elsewhere(&cx, ticket).await => Ok(()),
                Some(ticket) if cx.tickets.end_without_turn(ticket) => Ok(()),
                Some(ticket) => answer(&cx, &mut state, &mut inbox, &mut title, ticket).await,
            },
            Some(Command::Select { agent, model }) => {
                inbox::select(&cx, &mut state, agent, model).await;
                Ok(())
            }
            Some(Command::Title(text)) => {
                inbox::retitle(&cx, &mut state, text).await;
                Ok(())
            }
            Some(Command::Patched) => {
                inbox::follow_patch(&cx, &mut state).await;
                Ok(())
            }
            Some(Command::Revert { to, done }) => {
                let reverted = file_undo::carry_out(&cx, &mut state, &to).await;
                report(&cx, &mut state, reverted, done).await
            }
            Some(Command::Edit { edit, done }) => {
                let edited = edit::carry_out(&cx, &mut state, edit).await;
                report(&cx, &mut state, edited, done).await
            }
        };
        if let Err(error) = handled {
            return fail(&cx, error);
        }
    }
    if cx.engine.is_finishing()
        && let Ok(Some(text)) = tokio::time::timeout(TITLE_GRACE, title.finish()).await
    {
        inbox::retitle(&cx, &mut state, text).await;
    }
    // A title that was not made in time is not made any more.
    if let Some(words) = fallback(&state.info.title, &state.history) {
        inbox::retitle(&cx, &mut state, words).await;
    }
}

/// Ends a prompt that another process has carried out: its row is gone. Returns true if it was.
async fn was_taken_elsewhere(cx: &SessionCx, ticket: u64) -> bool {
    let Some(row) = cx.tickets.restored_row(ticket) else { return false };
    // A store that fails says so with the prompt's turn.
    let is_there = cx.engine.storage().has_kept_prompt(cx.id.clone(), row).await.unwrap_or(true);
    if !is_there {
        cx.tickets.end(ticket, Ok(TurnOutcome::cancelled()));
    }
    !is_there
}

/// Answers all prompts of a session that cannot be loaded with the error.
async fn refuse_all(cx: &SessionCx, inbox: &mut Inbox, error: &EngineError) {
    inbox.close();
    while inbox.next().await.is_some() {}
    cx.tickets.end_all(error.clone());
}

/// Answers a prompt, and has the session's page show that its turn is over, however it ended.
async fn answer(
    cx: &SessionCx,
    state: &mut SessionState,
    inbox: &mut Inbox,
    title: &mut TitleTask,
    ticket: u64,
) -> Result<(), EngineError> {
    let answered = run_and_end(cx, state, inbox, title, ticket).await;
    cx.engine.shares().note_turn(&cx.id).await;
    answered
}

/// Runs a prompt's turn and ends its ticket. Fails if the task cannot go on.
async fn run_and_end(
    cx: &SessionCx,
    state: &mut SessionState,
    inbox: &mut Inbox,
    title: &mut TitleTask,
    ticket: u64,
) -> Result<(), EngineError> {
    let turn = run_turn(cx, state, inbox, title, ticket);
    let result = match AssertUnwindSafe(turn).catch_unwind().await {
        Ok(None) => return Ok(()),
        Ok(Some(result)) => result,
        Err(_) => {
            tracing::error!(target: log::SHOWN, session = %cx.id, "a turn panicked");
            cx.show_status(state, SessionStatus::Idle).await;
            let message = "The turn failed with an internal error of windlass; the log has the details. \
                           The session can go on.";
            return Err(EngineError::new(EngineErrorKind::Internal, message));
        }
    };
    forget_unstored(cx, state, &result).await?;
    cx.show_status(state, SessionStatus::Idle).await;
    cx.tickets.end(ticket, result);
    cx.engine.remote().refresh_catalog();
    Ok(())
}

/// Reports the outcome of a change of the history to the client that asked for it.
async fn report<T>(
    cx: &SessionCx,
    state: &mut SessionState,
    outcome: Result<T, EngineError>,
    done: oneshot::Sender<Result<T, EngineError>>,
) -> Result<(), EngineError> {
    let restored = forget_unstored(cx, state, &outcome).await;
    // The client may have gone.
    let _ = done.send(outcome);
    restored
}

/// Puts the state back to the stored one if a change could not be stored: it did not happen.
async fn forget_unstored<T>(
    cx: &SessionCx,
    state: &mut SessionState,
    result: &Result<T, EngineError>,
) -> Result<(), EngineError> {
    if let Err(error) = result
        && error.kind == EngineErrorKind::OtherNode
    {
        return Err(error.clone());
    }
    if matches!(result, Err(error) if error.kind == EngineErrorKind::Store) {
        *state = load(cx).await?;
    }
    Ok(())
}

/// Ends the task: every prompt is answered, and the next one begins with the stored state.
fn fail(cx: &SessionCx, error: EngineError) {
    cx.engine.sessions().drop_task(&cx.id);
    cx.tickets.end_all(error);
}

async fn load(cx: &SessionCx) -> Result<SessionState, EngineError> {
    let stored = cx.engine.storage().load(cx.id.clone()).await?;
    let stored = stored.ok_or_else(|| EngineError::session_not_found(&cx.id))?;
    let (state, mut journal) = SessionState::from_stored(stored);
    if let Some(last) = state.history.last() {
        // The clock may have been set back since, and the order of messages is that of their ids.
        ids::follow(last.info.id().as_str());
        if has_unanswered(last) {
            cx.engine.fleet().note_unanswered(&cx.id);
        }
    }
    cx.commit(&mut journal).await?;
    Ok(state)
}
