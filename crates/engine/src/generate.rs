//! Has a model write an agent from a description: its identifier, when to use it, and its prompt (facts: OpenCode §3.3).

use std::{borrow::Cow, path::Path, sync::Arc};

use serde::Deserialize;
use windlass_base::ids;
use windlass_protocol::opencode::model_ref::ModelRef;
use windlass_provider::{
    self as provider, AssistantContent, Model, PromptMessage, ProviderError, UserContent, Wire, retry,
};

use crate::{
    Engine, EngineError, EngineErrorKind, Workspaces,
    turn::{
        hooks,
        model_request::{Draft, Params, request},
    },
    workspace::loaded::Loaded,
};

const SYSTEM: &str = include_str!("generate.txt");
const TEMPERATURE: f64 = 0.3;
const MAX_OUTPUT_TOKENS: u64 = 8_000;
/// Answers that are looked at, and requests that are sent for each when the provider fails.
const MAX_TRIES: u32 = 3;
/// Characters of an identifier.
const MAX_NAME: usize = 50;

/// An agent as a model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedAgent {
    /// Lower-case letters, digits and hyphens; no agent of the directory has it.
    pub name: String,
    /// Cases in which the main agent is to hand work over.
    pub description: String,
    pub prompt: String,
}

/// Request to the model.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    identifier: String,
    when_to_use: String,
    system_prompt: String,
}

impl Workspaces<'_> {
    /// Has a model, the default one unless another is named, write an agent for the task in `wanted`.
    pub async fn generate_agent(
        self,
        directory: &Path,
        wanted: &str,
        model: Option<&ModelRef>,
    ) -> Result<GeneratedAgent, EngineError> {
        let plugins = self.engine.plugins();
        let is_running = plugins.host(directory).is_some();
        let generated = with_plugins(self.engine, directory, wanted, model).await;
        if !is_running {
            plugins.end(directory).await;
        }
        generated
    }
}

/// Generates an agent while the plugins of the directory run: they may change the request.
async fn with_plugins(
    engine: &Engine,
    directory: &Path,
    wanted: &str,
    model: Option<&ModelRef>,
) -> Result<GeneratedAgent, EngineError> {
    let loaded = Arc::new(engine.workspaces().read_and_start(directory).await?.loaded);
    loaded.log_problems(None);
    let model = match model {
        Some(reference) => loaded.checked_model(reference)?,
        None => loaded.default_model()?,
    };
    if model.wire == Wire::Demo {
        let message = "The demo model cannot write agents: name another one by `--model`.";
        return Err(EngineError::new(EngineErrorKind::InvalidInput, message));
    }
    let taken: Vec<&str> = loaded.agents.iter().map(|agent| agent.name.as_str()).collect();
    let request = format!("Design an agent for this request:\n\n{wanted}\n\nTaken: {}", taken.join(", "));
    let mut messages = vec![said(request)];
    let mut reason = String::new();
    for _ in 0..MAX_TRIES {
        let answer =
            ask(engine, &loaded, &model, &messages).await.map_err(|error| EngineError::from(&error))?;
        match read(&answer, &taken) {
            Ok(agent) => return Ok(agent),
            Err(error) => reason = error,
        }
        messages.push(PromptMessage::Assistant(vec![AssistantContent::Text(Cow::Owned(answer))]));
        messages.push(said(format!("That cannot be used: {reason}. Answer with the JSON object alone.")));
    }
    let message = format!("{} gave no usable agent in {MAX_TRIES} answers: {reason}", model.reference());
    Err(EngineError::new(EngineErrorKind::Provider, message))
}

fn said(text: String) -> PromptMessage<'static> {
    PromptMessage::User(vec![UserContent::Text(Cow::Owned(text))])
}

async fn ask(
    engine: &Engine,
    loaded: &Arc<Loaded>,
    model: &Model,
    messages: &[PromptMessage<'_>],
) -> Result<String, ProviderError> {
    let params = Params {
        temperature: Some(TEMPERATURE),
        max_output_tokens: Some(MAX_OUTPUT_TOKENS),
        ..Params::default()
    };
    let persona = Cow::Borrowed(SYSTEM);
    let mut prompt =
        request(model, Draft { persona, messages: messages.to_vec(), params, ..Draft::default() });
    hooks::change_system(engine, loaded, model, &mut prompt).await?;
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        match provider::text(engine.http(), model, &prompt).await {
            Ok(text) => return Ok(text),
            Err(error) if error.is_retryable() && n_tries < MAX_TRIES => {
                tracing::warn!(%error, n_tries, "asking the provider again");
                tokio::time::sleep(retry::delay(n_tries, error.retry_after(), ids::fraction())).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the agent in an answer, or a sentence about the fault in it.
fn read(answer: &str, taken: &[&str]) -> Result<GeneratedAgent, String> {
    let end = answer.rfind('}').map(|at| at + 1);
    // Models like to put a fence or a sentence around the JSON that they were asked for.
    let json = answer.find('{').zip(end).filter(|(start, end)| start < end);
    let json = json.and_then(|(start, end)| answer.get(start..end));
    let json = json.ok_or("it holds no JSON object")?;
    let answer: Answer =
        serde_json::from_str(json).map_err(|error| format!("its JSON is wrong ({error})"))?;
    let name = sanitized(&answer.identifier);
    for (field, text) in
        [("identifier", &name), ("whenToUse", &answer.when_to_use), ("systemPrompt", &answer.system_prompt)]
    {
        if text.trim().is_empty() {
            return Err(format!("its `{field}` is empty"));
        }
    }
    Ok(GeneratedAgent {
        name: free(name, taken),
        description: answer.when_to_use.trim().to_owned(),
        prompt: answer.system_prompt.trim().to_owned(),
    })
}

/// Returns a name that is safe as a file's: characters that are no letter or digit become one hyphen.
pub fn sanitized(identifier: &str) -> String {
    let lower = identifier.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(MAX_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

fn free(name: String, taken: &[&str]) -> String {
    let mut numbered = (2..).map(|number| format!("{name}-{number}"));
    if taken.contains(&name.as_str()) {
        numbered.find(|name| !taken.contains(&name.as_str())).unwrap_or(name)
    } else {
        name
    }
}

#[cfg(test)]
mod tests;
