//! Answers to questions, the events about them, and that no question waits without a user.

use std::{collections::VecDeque, sync::Arc};

use futures_util::poll;
use tokio_util::sync::CancellationToken;
use windlass_base::queue::Queue;
use windlass_core::bus::{Bus, Filter};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{MessageId, QuestionId, SessionId},
    permission::ToolRef,
    question::{Question, QuestionRequest},
};
use windlass_services::tool::{Answers, ToolError};

use super::Questions;
use crate::asking::client::{Answerable, Clients};

struct Scene {
    questions: Questions,
    set_answerable: Box<dyn Fn(Answerable)>,
    events: Arc<Queue<Arc<Event>>>,
    session: SessionId,
    cancel: CancellationToken,
}

impl Scene {
    fn new() -> Self {
        let bus = Bus::default();
        let clients = Clients::new(bus.clone());
        Self {
            events: bus.listen(Filter::All),
            set_answerable: Box::new(clients.pretend(Answerable::Everything, &["ses_1"])),
            questions: Questions::new(bus, clients),
            session: SessionId::from_trusted("ses_1"),
            cancel: CancellationToken::new(),
        }
    }

    /// Asks two questions at once.
    fn ask(&self) -> impl Future<Output = Result<Answers, ToolError>> + '_ {
        let tool = ToolRef { message_id: MessageId::from_trusted("msg_1"), call_id: "call_1".to_owned() };
        let question = |text: &str| Question {
            question: text.to_owned(),
            header: String::new(),
            options: Vec::new(),
            multiple: None,
            custom: None,
        };
        self.questions.ask(&self.session, tool, vec![question("A?"), question("B?")], None, &self.cancel)
    }

    fn waiting(&self) -> Vec<QuestionRequest> {
        self.questions.pending().of_session(&self.session)
    }

    fn id(&self) -> QuestionId {
        self.waiting().first().expect("a question waits").id.clone()
    }

    /// Returns the names of the events so far.
    fn events(&self) -> Vec<&'static str> {
        let mut batch = VecDeque::new();
        self.events.take(&mut batch);
        batch.iter().map(|event| event.payload.kind().name()).collect()
    }
}

fn answers(lists: &[&str]) -> Answers {
    lists.iter().map(|list| list.split_terminator(',').map(str::to_owned).collect()).collect()
}

#[tokio::test]
async fn the_first_answer_wins() {
    let scene = Scene::new();
    let mut asking = Box::pin(scene.ask());
    assert!(poll!(asking.as_mut()).is_pending());
    let id = scene.id();
    assert!(scene.questions.reply(&id, answers(&["x", "y,z"])));
    assert!(!scene.questions.reply(&id, answers(&["late", ""])));
    assert!(!scene.questions.reject(&id));
    assert_eq!(asking.await, Ok(answers(&["x", "y,z"])));
    assert_eq!(scene.events(), ["question.asked", "question.replied"]);
}

#[tokio::test]
async fn there_is_an_answer_for_each_question() {
    for given in [answers(&["x"]), answers(&["x", "", "too much"])] {
        let scene = Scene::new();
        let mut asking = Box::pin(scene.ask());
        assert!(poll!(asking.as_mut()).is_pending());
        scene.questions.reply(&scene.id(), given);
        assert_eq!(asking.await, Ok(answers(&["x", ""])));
    }
}

#[tokio::test]
async fn a_rejection_is_told_to_the_tool_and_to_everyone() {
    let scene = Scene::new();
    let mut asking = Box::pin(scene.ask());
    assert!(poll!(asking.as_mut()).is_pending());
    assert!(scene.questions.reject(&scene.id()));
    assert_eq!(asking.await, Err(ToolError::Dismissed));
    assert_eq!(scene.events(), ["question.asked", "question.rejected"]);
}

#[tokio::test]
async fn a_cancelled_tool_takes_its_question_back() {
    let scene = Scene::new();
    let mut asking = Box::pin(scene.ask());
    assert!(poll!(asking.as_mut()).is_pending());
    let id = scene.id();
    drop(asking);
    assert_eq!(scene.waiting(), []);
    assert_eq!(scene.events(), ["question.asked", "question.rejected"]);
    assert!(!scene.questions.reply(&id, answers(&["x", "y"])));
}

#[tokio::test]
async fn no_answer_counts_once_the_turn_is_cancelled() {
    let scene = Scene::new();
    let mut asking = Box::pin(scene.ask());
    assert!(poll!(asking.as_mut()).is_pending());
    let id = scene.id();
    assert!(scene.questions.pending().is_waiting(&id));
    scene.cancel.cancel();
    assert!(!scene.questions.pending().is_waiting(&id) && scene.waiting().is_empty());
    assert!(!scene.questions.reply(&id, answers(&["x", "y"])) && !scene.questions.reject(&id));
    assert!(poll!(asking.as_mut()).is_pending());
}

#[tokio::test]
async fn where_nobody_can_answer_nobody_is_asked() {
    let scene = Scene::new();
    let mut asking = Box::pin(scene.ask());
    assert!(poll!(asking.as_mut()).is_pending());
    (scene.set_answerable)(Answerable::Permissions);
    scene.questions.refuse_unanswerable();
    for result in [asking.await, scene.ask().await] {
        let Err(ToolError::Model(text)) = result else { panic!("{result:?} is no text for the model") };
        assert!(text.contains("Decide by yourself"), "{text}");
    }
    assert_eq!(scene.events(), ["question.asked", "question.rejected"]);
    assert!(matches!(scene.waiting().as_slice(), []));
}

#[test]
fn the_events_say_what_opencodes_say() {
    let replied = EventPayload::QuestionReplied {
        session_id: SessionId::from_trusted("ses_1"),
        request_id: QuestionId::from_trusted("que_1"),
        answers: answers(&["x", ""]),
    };
    assert_eq!(
        serde_json::to_value(replied).unwrap(),
        serde_json::json!({
            "type": "question.replied",
            "properties": {"sessionID": "ses_1", "requestID": "que_1", "answers": [["x"], []]},
        })
    );
}
