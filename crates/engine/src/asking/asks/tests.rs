//! Requests that continue or wait, and effects of one answer on the others.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc, task::Poll};

use futures_util::poll;
use serde_json::Map;
use tokio_util::sync::CancellationToken;
use windlass_base::queue::Queue;
use windlass_core::{
    bus::{Bus, Filter},
    config::policy::Policy,
    permission::Ask,
};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{MessageId, PermissionId, SessionId},
    permission::{Action, PermissionRequest, Reply, Rule, ToolRef},
};
use windlass_services::tool::ToolError;

use super::{Asker, Asks};
use crate::asking::{
    approvals::Approvals,
    client::{Answerable, Clients},
};

struct Scene {
    asks: Asks,
    set_answerable: Box<dyn Fn(Answerable)>,
    events: Arc<Queue<Arc<Event>>>,
    approvals: Approvals,
    policy: Policy,
    sessions: [SessionId; 2],
    cancel: CancellationToken,
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + 'a>>;

fn rule(permission: &str, pattern: &str, action: Action) -> Rule {
    Rule { permission: permission.to_owned(), pattern: pattern.to_owned(), action }
}

fn tool_ref() -> ToolRef {
    ToolRef { message_id: MessageId::from_trusted("msg_1"), call_id: "call_1".to_owned() }
}

impl Scene {
    fn new(rules: &[Rule]) -> Self {
        let bus = Bus::default();
        let clients = Clients::new(bus.clone());
        let set_answerable = clients.pretend(Answerable::Permissions, &["ses_1", "ses_2"]);
        Self {
            events: bus.listen(Filter::All),
            asks: Asks::new(bus, clients),
            set_answerable: Box::new(set_answerable),
            approvals: Approvals::default(),
            policy: Policy::new(rules.to_vec()),
            sessions: ["ses_1", "ses_2"].map(SessionId::from_trusted),
            cancel: CancellationToken::new(),
        }
    }

    /// Returns a command of the session with this index; `always` would allow `git *`.
    fn bash(&self, session: usize, command: &str) -> Asking<'_> {
        self.any(session, &[command], false)
    }

    fn any(&self, session: usize, commands: &[&str], is_opaque: bool) -> Asking<'_> {
        let asker = Asker {
            session_id: &self.sessions[session],
            tool: tool_ref(),
            policy: &self.policy,
            approvals: &self.approvals,
            cancel: &self.cancel,
            plugins: None,
        };
        Box::pin(self.asks.ask(asker, self.ask(commands), is_opaque))
    }

    fn ask(&self, commands: &[&str]) -> Ask {
        Ask {
            permission: "bash".to_owned(),
            patterns: commands.iter().map(|&command| command.to_owned()).collect(),
            always: vec!["git *".to_owned()],
            metadata: Map::new(),
        }
    }

    fn events(&self) -> Vec<EventPayload> {
        let mut batch = VecDeque::new();
        self.events.take(&mut batch);
        batch.into_iter().map(|event| event.payload.clone()).collect()
    }

    /// Starts asking; the question's id.
    async fn asked(&self, asking: &mut Asking<'_>) -> PermissionId {
        assert_eq!(poll!(asking), Poll::Pending);
        match self.events().as_slice() {
            [EventPayload::PermissionAsked(request)] => request.id.clone(),
            other => panic!("expected one question: {other:?}"),
        }
    }

    fn replied(&self, session: usize, id: &PermissionId, reply: Reply) -> EventPayload {
        EventPayload::PermissionReplied {
            session_id: self.sessions[session].clone(),
            request_id: id.clone(),
            reply,
        }
    }
}

fn denied(feedback: Option<&str>) -> Poll<Result<(), ToolError>> {
    Poll::Ready(Err(ToolError::Denied { feedback: feedback.map(str::to_owned) }))
}

#[tokio::test]
async fn a_rule_that_allows_asks_nobody() {
    let scene = Scene::new(&[rule("bash", "*", Action::Allow)]);
    assert_eq!(scene.bash(0, "git log").await, Ok(()));
    assert_eq!(scene.events(), []);
}

#[tokio::test]
async fn a_rule_that_denies_tells_the_model_which() {
    let scene = Scene::new(&[rule("edit", "*", Action::Allow), rule("bash", "git *", Action::Deny)]);
    let expected = "The user has specified a rule which prevents you from using this specific tool call. Here \
                    are some of the relevant rules [{\"permission\":\"bash\",\"pattern\":\"git *\",\
                    \"action\":\"deny\"}]";
    assert_eq!(scene.bash(0, "git log").await, Err(ToolError::Forbidden(expected.to_owned())));
    assert_eq!(scene.events(), []);
}

#[tokio::test]
async fn what_nobody_can_answer_any_more_is_refused() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    (scene.set_answerable)(Answerable::Nothing);
    scene.asks.refuse_unanswerable();
    assert_eq!(poll!(&mut asking), denied(None));
    assert_eq!(scene.events(), [scene.replied(0, &id, Reply::Reject)]);
    // Readers see the request all the same.
    assert_eq!(poll!(&mut scene.bash(0, "git log")), denied(None));
    let kinds: Vec<_> = scene.events().iter().map(|it| it.kind().name()).collect();
    assert_eq!(kinds, ["permission.asked", "permission.replied"]);
}

#[tokio::test]
async fn a_question_says_everything_and_waits() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    assert_eq!(poll!(&mut asking), Poll::Pending);
    let pending = scene.asks.pending().of_session(&scene.sessions[0]);
    let expected = PermissionRequest {
        id: pending[0].id.clone(),
        session_id: scene.sessions[0].clone(),
        permission: "bash".to_owned(),
        patterns: vec!["git log".to_owned()],
        metadata: Map::new(),
        always: vec!["git *".to_owned()],
        approved: Vec::new(),
        tool: Some(tool_ref()),
    };
    assert_eq!(pending, std::slice::from_ref(&expected));
    assert_eq!(scene.events(), [EventPayload::PermissionAsked(expected)]);
    assert_eq!(scene.asks.pending().of_session(&scene.sessions[1]), []);
}

#[tokio::test]
async fn once_allows_this_call_and_not_the_next() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    assert!(scene.asks.reply(&id, Reply::Once, None));
    assert_eq!(poll!(&mut asking), Poll::Ready(Ok(())));
    assert_eq!(scene.events(), [scene.replied(0, &id, Reply::Once)]);
    assert_eq!(poll!(&mut scene.bash(0, "git log")), Poll::Pending);
}

#[tokio::test]
async fn always_allows_the_pattern_from_then_on_in_every_session() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    assert!(scene.asks.reply(&id, Reply::Always, None));
    assert_eq!(poll!(&mut asking), Poll::Ready(Ok(())));
    assert_eq!(scene.approvals.rules(), [rule("bash", "git *", Action::Allow)]);
    assert_eq!(poll!(&mut scene.bash(0, "git push")), Poll::Ready(Ok(())));
    assert_eq!(poll!(&mut scene.bash(1, "git push")), Poll::Ready(Ok(())));
    assert_eq!(poll!(&mut scene.bash(0, "rm x")), Poll::Pending);
}

#[tokio::test]
async fn always_lifts_no_deny() {
    let scene = Scene::new(&[rule("bash", "git push", Action::Deny)]);
    scene.approvals.remember(vec![rule("bash", "git *", Action::Allow)]);
    let answer = poll!(&mut scene.bash(0, "git push"));
    assert!(matches!(answer, Poll::Ready(Err(ToolError::Forbidden(_)))), "{answer:?}");
}

#[tokio::test]
async fn always_settles_what_it_allows_in_the_project_before_the_next_question_can_be_shown() {
    let scene = Scene::new(&[rule("bash", "*", Action::Ask), rule("bash", "echo *", Action::Allow)]);
    let [mut first, mut alike, mut unlike] = ["git log", "git push", "rm x"].map(|it| scene.bash(0, it));
    let mut elsewhere = scene.bash(1, "git push");
    let mut partly = scene.any(0, &["echo a", "git push"], false);
    let mut computed = scene.any(0, &["git $x"], true);
    let first_id = scene.asked(&mut first).await;
    let alike_id = scene.asked(&mut alike).await;
    scene.asked(&mut unlike).await;
    let elsewhere_id = scene.asked(&mut elsewhere).await;
    let partly_id = scene.asked(&mut partly).await;
    scene.asked(&mut computed).await;
    assert!(scene.asks.reply(&first_id, Reply::Always, None));
    let expected = [(0, &alike_id), (1, &elsewhere_id), (0, &partly_id), (0, &first_id)];
    assert_eq!(scene.events(), expected.map(|(session, id)| scene.replied(session, id, Reply::Always)));
    for mut settled in [first, alike, elsewhere, partly] {
        assert_eq!(poll!(&mut settled), Poll::Ready(Ok(())));
    }
    assert_eq!(poll!(&mut unlike), Poll::Pending);
    // No answer allows a command that can run anything.
    assert_eq!(poll!(&mut computed), Poll::Pending);
}

#[tokio::test]
async fn always_settles_nothing_of_another_project() {
    let scene = Scene::new(&[]);
    let other_project = Approvals::default();
    let asker = Asker {
        session_id: &scene.sessions[1],
        tool: tool_ref(),
        policy: &Policy::new(Vec::new()),
        approvals: &other_project,
        cancel: &scene.cancel,
        plugins: None,
    };
    let mut first = scene.bash(0, "git log");
    let mut elsewhere: Asking<'_> = Box::pin(scene.asks.ask(asker, scene.ask(&["git log"]), false));
    let first_id = scene.asked(&mut first).await;
    scene.asked(&mut elsewhere).await;
    assert!(scene.asks.reply(&first_id, Reply::Always, None));
    assert_eq!(poll!(&mut first), Poll::Ready(Ok(())));
    assert_eq!(poll!(&mut elsewhere), Poll::Pending);
}

#[tokio::test]
async fn reject_ends_every_question_of_the_session_and_the_feedback_reaches_the_one_it_was_for() {
    let scene = Scene::new(&[]);
    let (mut first, mut second) = (scene.bash(0, "git log"), scene.bash(0, "rm x"));
    let mut elsewhere = scene.bash(1, "git log");
    let first_id = scene.asked(&mut first).await;
    let second_id = scene.asked(&mut second).await;
    scene.asked(&mut elsewhere).await;
    assert!(scene.asks.reply(&second_id, Reply::Reject, Some("use trash".to_owned())));
    let expected = [&first_id, &second_id].map(|id| scene.replied(0, id, Reply::Reject));
    assert_eq!(scene.events(), expected);
    assert_eq!(poll!(&mut second), denied(Some("use trash")));
    assert_eq!(poll!(&mut first), denied(None));
    assert_eq!(poll!(&mut elsewhere), Poll::Pending);
}

#[tokio::test]
async fn blank_feedback_is_none() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    assert!(scene.asks.reply(&id, Reply::Reject, Some(" \n".to_owned())));
    assert_eq!(poll!(&mut asking), denied(None));
}

#[tokio::test]
async fn a_tool_that_is_dropped_takes_its_question_back() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    drop(asking);
    assert_eq!(scene.events(), [scene.replied(0, &id, Reply::Reject)]);
    assert_eq!(scene.asks.pending().of_session(&scene.sessions[0]), []);
    assert!(!scene.asks.reply(&id, Reply::Once, None));
    assert_eq!(scene.events(), []);
}

#[tokio::test]
async fn no_answer_counts_once_the_turn_is_cancelled() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    // The asking tool has not noticed yet.
    scene.cancel.cancel();
    assert!(!scene.asks.reply(&id, Reply::Always, None));
    assert_eq!((scene.approvals.rules(), scene.events()), (Vec::new(), Vec::new()));
    drop(asking);
    assert_eq!(scene.events(), [scene.replied(0, &id, Reply::Reject)]);
}

#[tokio::test]
async fn only_the_first_answer_counts() {
    let scene = Scene::new(&[]);
    let mut asking = scene.bash(0, "git log");
    let id = scene.asked(&mut asking).await;
    assert!(scene.asks.reply(&id, Reply::Once, None));
    assert!(!scene.asks.reply(&id, Reply::Reject, None));
    assert_eq!(poll!(&mut asking), Poll::Ready(Ok(())));
    assert_eq!(scene.events(), [scene.replied(0, &id, Reply::Once)]);
    assert!(!scene.asks.reply(&PermissionId::from_trusted("per_x"), Reply::Once, None));
}
