//! Makes a title for a conversation from its first message, with the small model, beside the first turn.

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle};
use windlass_protocol::opencode::{id::SessionId, message::Message};
use windlass_provider::{
    self as provider, Model, PromptIds, PromptMessage, ProviderError, UserContent, Wire, small,
};
use windlass_services::plugin::host::Host;

use crate::{
    Engine,
    session::{
        context::TurnCx,
        request::Command,
        revert,
        state::SessionState,
        title::{clean, first_words, is_default},
    },
    turn::{
        hooks::{self, Origin},
        model_request::{Draft, Params, request},
        user_shell,
    },
    workspace::loaded::Loaded,
};

const MAX_OUTPUT_TOKENS: u64 = 1000;
const LIMIT: Duration = Duration::from_secs(60);

/// A title being made beside the turn that began the conversation.
#[derive(Default)]
pub struct TitleTask(Option<JoinHandle<Option<String>>>);

impl TitleTask {
    /// Returns the title, when it was not delivered to the inbox.
    pub async fn finish(&mut self) -> Option<String> {
        // The handle stays until the title is made, so that giving up ends the request.
        let made = self.0.as_mut()?.await;
        self.0 = None;
        made.ok().flatten()
    }
}

impl Drop for TitleTask {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Everything needed to make a title, on its own.
pub struct Request {
    engine: Engine,
    loaded: Arc<Loaded>,
    plugins: Option<Arc<Host>>,
    /// The prompt that begins the conversation.
    message: Option<Message>,
    /// Absent where the one that is named cannot be had: no other is asked in its place.
    model: Option<Model>,
    /// The model of the conversation, where plugins may name a small one of its provider.
    main: Option<Model>,
    system: Arc<str>,
    temperature: Option<f64>,
    said: String,
    session: SessionId,
}

impl Request {
    pub fn new(cx: &TurnCx<'_>, state: &SessionState) -> Self {
        let agent = cx.loaded.agent("title");
        let model = match cx.model.wire {
            Wire::Demo => Ok(cx.model.clone()),
            Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Anthropic | Wire::Google | Wire::Bedrock => {
                cx.loaded.small_model(&cx.model)
            }
        };
        if let Err(unusable) = &model {
            cx.session.note(Some(format!("The title is the first line of the prompt. {unusable}")));
        }
        Self {
            engine: cx.session.engine.clone(),
            loaded: cx.loaded.clone(),
            plugins: cx.plugins.clone(),
            message: hooks::newest_prompt(state).cloned(),
            main: (model.is_ok() && !cx.loaded.names_small_model()).then(|| cx.model.clone()),
            model: model.ok(),
            system: agent.and_then(|agent| agent.prompt.clone()).unwrap_or_default(),
            temperature: agent.and_then(|agent| agent.temperature),
            said: first_words(&state.history),
            session: state.info.id.clone(),
        }
    }

    /// Returns the title: the model's, or the first line of the conversation.
    pub async fn run(self) -> String {
        let of_plugins = self.of_plugins().await;
        let made = match of_plugins.as_ref().or(self.model.as_ref()) {
            Some(model) => self.asked(model).await,
            None => None,
        };
        made.or_else(|| clean(&self.said)).unwrap_or_else(|| "Untitled".to_owned())
    }

    async fn of_plugins(&self) -> Option<Model> {
        let (host, main) = (self.plugins.as_deref()?, self.main.as_ref()?);
        match hooks::small_model(host, &self.engine, &self.loaded, main).await {
            Ok(model) => model,
            Err(error) => {
                tracing::warn!(%error, "no plugin names a small model");
                None
            }
        }
    }

    async fn asked(&self, model: &Model) -> Option<String> {
        match tokio::time::timeout(LIMIT, self.ask(model)).await {
            Ok(Ok(answer)) => clean(&answer),
            Ok(Err(error)) => {
                tracing::info!(%error, "no title was made");
                None
            }
            Err(_) => None,
        }
    }

    async fn ask(&self, model: &Model) -> Result<String, ProviderError> {
        let draft = Draft {
            persona: Cow::Borrowed(&self.system),
            messages: vec![PromptMessage::User(vec![
                UserContent::Text("Generate a title for this conversation:".into()),
                UserContent::Text(Cow::Borrowed(&self.said)),
            ])],
            params: Params {
                temperature: self.temperature,
                max_output_tokens: Some(MAX_OUTPUT_TOKENS),
                ..Params::default()
            },
            ids: PromptIds { session: Some(self.session.as_str()), is_agents: true, ..PromptIds::default() },
            ..Draft::default()
        };
        let model = small::without_thinking(model);
        let mut prompt = request(&model, draft);
        if let Some(host) = self.plugins.as_deref() {
            let origin = Origin {
                host,
                engine: &self.engine,
                loaded: &self.loaded,
                session_id: &self.session,
                agent: "title",
                model: &model,
                message: self.message.as_ref(),
            };
            hooks::change_request(&origin, &mut prompt).await?;
        }
        let model = self.engine.asked_by(&self.session, &model);
        provider::text(self.engine.http(), &model, &prompt).await
    }
}

/// Begins to make the title of a conversation that begins.
pub fn start(cx: &TurnCx<'_>, state: &SessionState, task: &mut TitleTask) {
    if state.info.parent_id.is_some() || !is_default(&state.info.title) {
        return;
    }
    let prompts = state.history.iter().filter(|it| matches!(it.info, Message::User(_)));
    let said = prompts.filter(|it| revert::has_model_content(&it.parts) && !user_shell::is_command(it));
    if said.take(2).count() != 1 {
        return;
    }
    let request = Request::new(cx, state);
    let inbox = cx.session.own_inbox.clone();
    task.0 = Some(tokio::spawn(async move {
        let text = request.run().await;
        match inbox.upgrade() {
            Some(inbox) => match inbox.send(Command::Title(text)).await {
                Ok(()) => None,
                Err(mpsc::error::SendError(command)) => match command {
                    Command::Title(text) => Some(text),
                    Command::Prompt { .. }
                    | Command::Select { .. }
                    | Command::Patched
                    | Command::Edit { .. }
                    | Command::Revert { .. } => None,
                },
            },
            None => Some(text),
        }
    }));
}
