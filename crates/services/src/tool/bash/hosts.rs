//! Asks about the hosts that a running command wants to reach and no setting names.

use std::{collections::BTreeMap, pin::pin};

use tokio::sync::mpsc;
use windlass_base::proxy::gate::{Answer, Asking, Question};
use windlass_core::{
    config::policy::REACH_HOST,
    permission::{self, Ask},
};
use windlass_protocol::opencode::permission::Action;

use super::call::{Line, described};
use crate::tool::{ToolCx, ToolError};

/// Connections that wait for an answer about their host.
const MAX_WAITING: usize = 16;
/// Hosts that a command has people asked about.
const MAX_ASKED: usize = 10;
/// Refusals after which nothing more is asked for a command.
const MAX_REFUSED: usize = 3;

/// The questions of one command.
pub struct Hosts {
    asked: mpsc::Receiver<Question>,
    /// The question that [`Self::answer`] is about.
    open: Option<Question>,
    /// Answers of persons, each of which holds for all connections to that host.
    known: BTreeMap<String, Answer>,
    /// Hosts that were asked about, also where the connection ended before the answer.
    n_asked: usize,
}

impl Hosts {
    /// Returns the questions of a command that is about to be started, and its proxy's way to ask them; none come from
    /// a command with a network that is not one by name.
    pub async fn new(cx: &ToolCx<'_>, is_by_name: bool) -> (Self, Option<Asking>) {
        let (questions, asked) = mpsc::channel(MAX_WAITING);
        let hosts = Self { asked, open: None, known: BTreeMap::new(), n_asked: 0 };
        if !is_by_name {
            return (hosts, None);
        }
        let (policy, answers) = (cx.host.policy(), cx.host.answers().await);
        let decided = move |pattern: &str| match permission::resolve(REACH_HOST, pattern, &policy, &answers) {
            Action::Allow => Some(Answer::Yes),
            Action::Deny => Some(Answer::No(None)),
            Action::Ask => None,
        };
        (hosts, Some(Asking { decided: Box::new(decided), questions }))
    }

    /// Waits for the next question. Never ends where none comes any more.
    pub async fn next(&mut self) {
        while let Some(question) = self.asked.recv().await {
            // Its program may have given up meanwhile.
            if !question.answer.is_closed() {
                self.open = Some(question);
                return;
            }
        }
        std::future::pending().await
    }

    /// Answers the open question, as before or by asking the user, unless its connection ends.
    pub async fn answer(&mut self, cx: &ToolCx<'_>, line: &Line) {
        let Some(Question { pattern, mut answer }) = self.open.take() else { return };
        let refused = self.known.values().filter(|it| **it != Answer::Yes).count();
        let given = match self.known.get(&pattern) {
            Some(known) => known.clone(),
            None if self.n_asked >= MAX_ASKED || refused >= MAX_REFUSED => Answer::Unasked,
            None => {
                self.n_asked += 1;
                let given = {
                    let mut asking = pin!(ask(cx, line, &pattern));
                    tokio::select! {
                        given = &mut asking => given,
                        () = answer.closed() => return,
                    }
                };
                self.known.insert(pattern, given.clone());
                given
            }
        };
        // The connection may be gone.
        let _ = answer.send(given);
    }
}

async fn ask(cx: &ToolCx<'_>, line: &Line, pattern: &str) -> Answer {
    let mut metadata = described(cx.config, &line.command, &line.workdir, None);
    metadata.insert("reason".to_owned(), format!("reach {pattern}, which no setting names").into());
    let ask = Ask {
        permission: REACH_HOST.to_owned(),
        patterns: vec![pattern.to_owned()],
        always: vec![pattern.to_owned()],
        metadata,
    };
    match cx.host.ask(ask).await {
        Ok(()) => Answer::Yes,
        Err(ToolError::Denied { feedback }) => Answer::No(feedback),
        Err(_other) => Answer::No(None),
    }
}
