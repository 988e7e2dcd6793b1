//! Commands for a session's task, in order, and the settings among them.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use windlass_protocol::opencode::{model_ref::ModelRef, session::SessionModel};

use super::{
    context::SessionCx,
    request::{Command, Place, PromptInput},
    state::{Journal, SessionState},
    tickets::Tickets,
};

/// Prompts that may wait behind a running turn.
pub const MAX_QUEUED: usize = 256;
/// Commands that may come between two steps; those of prompts that were withdrawn count until then.
pub const MAX_COMMANDS: usize = 16 * MAX_QUEUED;

/// See the module's comment.
pub struct Inbox {
    receiver: mpsc::Receiver<Command>,
    /// Prompts, and other commands between two turns, that were met while only settings were wanted.
    waiting: VecDeque<Command>,
}

impl Inbox {
    pub fn new(receiver: mpsc::Receiver<Command>) -> Self {
        Self { receiver, waiting: VecDeque::new() }
    }

    /// Returns the next command; `None` when no more can come.
    pub async fn next(&mut self) -> Option<Command> {
        match self.waiting.pop_front() {
            Some(command) => Some(command),
            None => self.receiver.recv().await,
        }
    }

    /// Applies the settings that have come, without waiting; prompts stay.
    ///
    /// Those that came before the user chose an agent again are answered by the agent that took over, if one did.
    pub async fn apply_settings(
        &mut self,
        cx: &SessionCx,
        state: &mut SessionState,
        mut switched_to: Option<&str>,
    ) {
        while let Ok(command) = self.receiver.try_recv() {
            match command {
                Command::Prompt { place } => {
                    if let Some(agent) = switched_to {
                        cx.tickets.of_place(place, |input| input.agent = Some(agent.to_owned()));
                    }
                    self.waiting.push_back(Command::Prompt { place });
                }
                command @ (Command::Revert { .. } | Command::Edit { .. }) => self.waiting.push_back(command),
                Command::Select { agent, model } => {
                    switched_to = switched_to.filter(|_| agent.is_none());
                    // The user has changed their mind about the waiting prompts as well.
                    self.change_waiting(&cx.tickets, |input| {
                        input.agent = agent.clone().or(input.agent.take());
                        input.model = model.clone().or(input.model.take());
                    });
                    select(cx, state, agent, model).await;
                }
                Command::Title(text) => retitle(cx, state, text).await,
                Command::Patched => follow_patch(cx, state).await,
            }
        }
    }

    /// Takes out the tickets of prompts that have no turn of their own: they belong into the conversation as it is.
    pub fn take_for_running_turn(&mut self, tickets: &Tickets) -> Vec<u64> {
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for command in self.waiting.drain(..) {
            match command {
                Command::Prompt { place } => match tickets.take_for_running_turn(place) {
                    Some(ticket) => taken.push(ticket),
                    None => left.push_back(Command::Prompt { place }),
                },
                other => left.push_back(other),
            }
        }
        self.waiting = left;
        taken
    }

    /// Returns true if a prompt was met that the running turn is to take in.
    pub fn has_for_running_turn(&self, tickets: &Tickets) -> bool {
        self.places().any(|place| tickets.is_for_running_turn(place))
    }

    /// Returns true if words of the user were met that the running turn is to take in.
    pub fn has_steer(&self, tickets: &Tickets) -> bool {
        self.places().any(|place| tickets.is_steer(place))
    }

    /// Lets this agent answer the prompts that wait.
    pub fn follow(&self, tickets: &Tickets, agent: &str) {
        self.change_waiting(tickets, |input| input.agent = Some(agent.to_owned()));
    }

    fn change_waiting(&self, tickets: &Tickets, mut change: impl FnMut(&mut PromptInput)) {
        for place in self.places() {
            // One that was cancelled meanwhile has no input.
            let _ = tickets.of_place(place, &mut change);
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.waiting.iter().filter_map(|command| match command {
            Command::Prompt { place } => Some(*place),
            Command::Select { .. }
            | Command::Title(_)
            | Command::Patched
            | Command::Revert { .. }
            | Command::Edit { .. } => None,
        })
    }

    /// Returns true if a prompt was met that has not begun.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets nothing more in.
    pub fn close(&mut self) {
        self.receiver.close();
    }

    /// Returns true if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.receiver.is_empty()
    }
}

pub async fn select(
    cx: &SessionCx,
    state: &mut SessionState,
    agent: Option<String>,
    model: Option<ModelRef>,
) {
    if let Some(agent) = agent {
        state.info.agent = Some(agent);
    }
    if let Some(model) = model {
        state.info.model =
            Some(SessionModel { id: model.model_id, provider_id: model.provider_id, variant: model.variant });
    }
    store_info(cx, state).await;
}

pub async fn retitle(cx: &SessionCx, state: &mut SessionState, title: String) {
    state.info.title = title;
    store_info(cx, state).await;
}

/// Takes over the settings that a client has stored. Several changes may be there already.
pub async fn follow_patch(cx: &SessionCx, state: &mut SessionState) {
    match cx.engine.storage().session(cx.id.clone()).await {
        Ok(Some(stored)) => {
            state.info.time.archived = stored.time.archived;
            state.info.permission = stored.permission;
            state.info.metadata = stored.metadata;
            state.info.share = stored.share;
        }
        // It was deleted, which ends its task.
        Ok(None) => {}
        Err(error) => {
            tracing::error!(session = %cx.id, %error, "a change of the session's settings was not read");
        }
    }
}

async fn store_info(cx: &SessionCx, state: &SessionState) {
    let mut journal = Journal::default();
    journal.session(&state.info);
    if let Err(error) = cx.commit(&mut journal).await {
        tracing::error!(session = %cx.id, %error, "the session's settings were not stored");
    }
}

#[cfg(test)]
mod tests;
