//! The call of a server's tool as its maker: shows how far it has come, asks the user and a model for the server.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use windlass_core::permission::Ask;
use windlass_protocol::opencode::question::{ServerWanted, ServerWish};

use super::form::{Form, agreement, is_agreed, unfit_address};
use crate::{
    mcp::{Caller, Elicitation, Elicited, Progress, Sampled, Sampling, Wanted},
    tool::{ToolCx, ToolError},
};

/// The permission to ask the session's model for a server.
pub(crate) const SAMPLING: &str = "sampling";

/// Times that a form with unfitting answers is shown again.
const MAX_ATTEMPTS: usize = 3;

const OPENED: &str = "Done";

/// See the module's comment.
pub(super) struct ToolCall<'a, 'cx> {
    pub cx: &'a ToolCx<'cx>,
    pub server: &'a str,
    pub title: &'a str,
}

impl Caller for ToolCall<'_, '_> {
    fn session(&self) -> &str {
        self.cx.session_id.as_str()
    }

    fn progressed(&self, progress: &Progress) {
        self.cx.host.progress(Some(format!("{}: {}", self.title, percent(progress))), Map::new());
    }

    fn elicit(&self, wish: Elicitation) -> BoxFuture<'_, Elicited> {
        Box::pin(async move {
            let elicited = match wish.wanted {
                Wanted::Form(schema) => self.filled_in(wish.message, schema).await,
                Wanted::Page { id, url } => self.opened(&wish.message, &id, url).await,
            };
            elicited.unwrap_or_else(|error| match error {
                ToolError::Cancelled { .. } => Elicited::Cancelled,
                // The user does not want to, or nobody is there to be asked.
                _ => Elicited::Declined,
            })
        })
    }

    fn sample(&self, wish: Sampling) -> BoxFuture<'_, Result<Sampled, String>> {
        Box::pin(async move {
            let said: Vec<&str> = wish.messages.iter().map(|(_, text)| text.as_str()).collect();
            let metadata = json!({
                "server": self.server, "prompt": said.join("\n\n"), "system": wish.system,
                "maxTokens": wish.max_tokens,
            });
            let ask = Ask {
                permission: SAMPLING.to_owned(),
                patterns: vec![self.server.to_owned()],
                // A name that is a pattern would be remembered for others too.
                always: Some(self.server.to_owned())
                    .filter(|it| !it.contains(['*', '?']))
                    .into_iter()
                    .collect(),
                metadata: metadata.as_object().cloned().unwrap_or_default(),
            };
            let refused = |error: ToolError| error.to_string();
            self.cx.host.ask(ask).await.map_err(refused)?;
            self.cx.host.sample(wish).await.map_err(refused)
        })
    }
}

impl ToolCall<'_, '_> {
    async fn filled_in(&self, message: String, schema: Value) -> Result<Elicited, ToolError> {
        let form = Form::new(message, &schema);
        if let Some(title) = form.secret() {
            let reason = format!("a form may not ask for secrets such as `{title}`; use a page (mode `url`)");
            return Ok(Elicited::Refused(reason));
        }
        let mut reason = String::new();
        for _ in 0..MAX_ATTEMPTS {
            let mut questions = form.questions(self.server);
            if let Some(first) = questions.first_mut() {
                first.question.insert_str(0, &reason);
            }
            let message = format!("{reason}{}: {}", self.server, form.message());
            let wish = ServerWish { message, wanted: ServerWanted::Form(schema.clone()) };
            let answers = self.cx.host.grant_wish(wish, questions).await?;
            match form.values(&answers) {
                Ok(Some(values)) => return Ok(Elicited::Accepted(values)),
                Ok(None) => return Ok(Elicited::Declined),
                Err(unfit) => reason = format!("{unfit}\n"),
            }
        }
        let text = format!(
            "MCP server {} gets no answer to its form: {MAX_ATTEMPTS} times the values did not fit. {reason}",
            self.server
        );
        self.cx.host.notify(&text, text.clone());
        Ok(Elicited::Declined)
    }

    async fn opened(&self, message: &str, id: &str, url: String) -> Result<Elicited, ToolError> {
        if let Some(reason) = unfit_address(&url) {
            return Ok(Elicited::Refused(reason.to_owned()));
        }
        let questions = vec![agreement(self.server, &format!("{message}\nOpen {url}"), OPENED)];
        let message = format!("{}: {message}", self.server);
        // No other call has this id, and the server's connection lets none be used twice at once.
        let page = format!("{}/{}/{id}", self.cx.host.call_id(), self.server);
        let wish = ServerWish { message, wanted: ServerWanted::Page { id: page.clone(), url } };
        let answers = self.cx.host.grant_wish(wish, questions).await?;
        Ok(if is_agreed(&answers, OPENED) {
            Elicited::Opened(self.cx.host.page_completion(page))
        } else {
            Elicited::Declined
        })
    }
}

/// Returns how far a call has come, for people.
fn percent(progress: &Progress) -> String {
    let Progress { done, total, message } = progress;
    let share = match total {
        Some(total) => format!("{done}/{total}"),
        None => done.to_string(),
    };
    match message {
        Some(message) if !message.is_empty() => format!("{share} {message}"),
        Some(_) | None => share,
    }
}
