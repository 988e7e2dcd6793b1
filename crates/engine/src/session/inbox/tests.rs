//! A prompt is answered by the agent that was chosen last before it began.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_core::storage::StoredSession;

use super::{Command, Inbox, PromptInput, SessionCx};
use crate::{
    NewSession, fixture,
    session::{
        request::PromptWatch,
        state::SessionState,
        tickets::{Identity, Tickets},
        warning_log::WarningLog,
    },
};

/// Events before a session looks at its inbox: `Prompt` names the agent that it was sent to.
#[derive(Debug, Clone, Copy)]
enum Came {
    Prompt(&'static str),
    Select(&'static str),
    /// The session looks, as it does between two steps and two turns; an agent may have taken over.
    Look(Option<&'static str>),
}

/// Returns the agents that the waiting prompts are answered by, and the session's own.
async fn settled(order: &[Came]) -> (Vec<String>, Option<String>) {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.sessions().create(new).await.expect("made");
    let (sender, receiver) = mpsc::channel(8);
    let tickets = Arc::new(Tickets::new(&opened.info.id, engine.bus()));
    let cx = SessionCx {
        ahead: Default::default(),
        session_lock: Default::default(),
        engine: engine.clone(),
        id: opened.info.id.clone(),
        workspace: opened.workspace,
        mcp: None,
        parent_limits: Default::default(),
        tickets: tickets.clone(),
        warning_log: WarningLog::new(opened.info.id.clone()),
        own_inbox: sender.downgrade(),
    };
    let stored =
        StoredSession { info: opened.info, messages: Vec::new(), todos: Vec::new(), known_files: Vec::new() };
    let (mut state, _) = SessionState::from_stored(stored);
    let mut inbox = Inbox::new(receiver);
    let mut next_ticket = 0;
    for came in order {
        let command = match came {
            Came::Prompt(agent) => {
                next_ticket += 1;
                let input = PromptInput { agent: Some((*agent).to_owned()), ..PromptInput::default() };
                let watch = PromptWatch::until_end(Box::new(drop));
                tickets.issue(next_ticket, Identity::of(&input), CancellationToken::new(), watch, input);
                Command::Prompt { place: tickets.place_last(next_ticket, next_ticket).expect("issued") }
            }
            Came::Select(agent) => Command::Select { agent: Some((*agent).to_owned()), model: None },
            Came::Look(switched_to) => {
                inbox.apply_settings(&cx, &mut state, *switched_to).await;
                continue;
            }
        };
        assert!(sender.try_send(command).is_ok(), "there is room");
    }
    let agent = |place| tickets.of_place(place, |input| input.agent.clone().unwrap_or_default());
    let waiting = inbox.places().filter_map(agent).collect();
    drop(cx);
    engine.finish().await;
    (waiting, state.info.agent)
}

#[tokio::test]
async fn a_prompt_that_waits_goes_to_the_agent_that_was_chosen_last() {
    use Came::{Look, Prompt, Select};
    let cases: &[(&[Came], &[&str], Option<&str>)] = &[
        (&[Prompt("build"), Look(None)], &["build"], None),
        (&[Prompt("build"), Select("plan"), Look(None)], &["plan"], Some("plan")),
        // The choice comes when the prompt was seen already: after the turn before it, before its own.
        (&[Prompt("build"), Look(None), Select("plan"), Look(None)], &["plan"], Some("plan")),
        (&[Select("plan"), Prompt("plan"), Look(None)], &["plan"], Some("plan")),
        // The new agent answers prompts that were sent before the client heard of the switch.
        (&[Prompt("plan"), Look(Some("build"))], &["build"], None),
        // Unless the user chose again, for prompts before that and after.
        (
            &[Prompt("plan"), Select("plan"), Prompt("plan"), Look(Some("build"))],
            &["plan", "plan"],
            Some("plan"),
        ),
        (
            &[Prompt("plan"), Prompt("plan"), Look(Some("build")), Prompt("plan"), Look(None)],
            &["build", "build", "plan"],
            None,
        ),
    ];
    for (order, waiting, own) in cases {
        let (found, agent) = settled(order).await;
        assert_eq!(
            (found.iter().map(String::as_str).collect::<Vec<_>>(), agent.as_deref()),
            (waiting.to_vec(), *own),
            "{order:?}"
        );
    }
}
