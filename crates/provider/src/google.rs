//! The Gemini wire of Google's own API and of Vertex. It has no call ids: the order of the parts shows which of them
//! belong together.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    AssistantContent, Encoded, Media, Model, Prompt, PromptMessage, ToolResult, UserContent,
    http::body::{self, Accepted, Fields, ListItem},
};

mod decoder;
mod schema;
#[cfg(test)]
mod tests;

pub use self::decoder::Decoder;

/// Stands in for the signature that Gemini 3 requires on a step's first call, where another model made it
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the URL for requests.
pub fn url(model: &Model) -> String {
    // Tuned models are named with their path.
    let folder = if model.api_id.contains('/') { "" } else { "models/" };
    body::join(&model.base_url, &format!("/{folder}{}:streamGenerateContent?alt=sse", model.api_id))
}

/// Encodes the request's JSON.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    let mut fields = Fields::new();
    let system: Vec<&str> =
        prompt.system.iter().map(|text| &**text).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        fields.json("systemInstruction", json!({"parts": [{"text": system.join("\n\n")}]}));
    }
    let mut contents = Vec::with_capacity(prompt.messages.len());
    for message in &prompt.messages {
        push_message(model, message, &mut contents);
    }
    fields.list("contents", &contents);
    if model.takes_tools && !prompt.tools.is_empty() {
        let declarations = prompt.tools.iter().map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters: schema::of(&tool.schema),
        });
        let ours = Tools::Ours { declarations: declarations.collect() };
        let own = body::own_tools(model, &prompt.options).into_iter().map(Tools::Providers);
        fields.structured("tools", std::iter::once(ours).chain(own).collect::<Vec<_>>());
        fields.json("toolConfig", json!({"functionCallingConfig": {"mode": "AUTO"}}));
    }
    let mut generation = Map::new();
    if prompt.max_output_tokens.is_some() {
        generation
            .insert("maxOutputTokens".to_owned(), body::cap_output(model, prompt.max_output_tokens).into());
    }
    if let Some(temperature) = prompt.temperature.filter(|_| model.takes_temperature) {
        generation.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(top_p) = prompt.top_p {
        generation.insert("topP".to_owned(), top_p.into());
    }
    if let Some(top_k) = prompt.top_k {
        generation.insert("topK".to_owned(), top_k.into());
    }
    for (key, value) in body::options(model, &prompt.options) {
        match key.as_str() {
            "setCacheKey" | "interleaved" | "structuredOutputs" | "tools" => {}
            "safetySettings" | "cachedContent" | "labels" | "toolConfig" => fields.borrowed(key, value),
            "thinkingConfig" => {
                let mut thinking = value.clone();
                // The two are alternatives, of which the more particular option names one.
                if let (Some(fields), Some(over)) = (thinking.as_object_mut(), prompt.options.get(key))
                    && over.get("thinkingBudget").is_some()
                {
                    fields.shift_remove("thinkingLevel");
                }
                generation.insert(key.clone(), thinking);
            }
            _ => _ = generation.insert(key.clone(), value.clone()),
        }
    }
    if !generation.is_empty() {
        fields.json("generationConfig", Value::Object(generation));
    }
    fields.encode()
}

/// Implements [`encoded`](super::encoded()).
pub fn encoded(model: &Model, messages: &[PromptMessage<'_>]) -> Vec<Encoded> {
    let mut contents = Vec::new();
    for message in messages {
        push_message(model, message, &mut contents);
    }
    let is_models = |content: &Content<'_>| match content {
        Content::Plain { role, .. } => *role == "model",
        Content::Encoded(_) => false,
    };
    contents.iter().filter_map(|content| body::encode_piece(is_models(content), content)).collect()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tools<'a> {
    Ours {
        #[serde(rename = "functionDeclarations")]
        declarations: Vec<Declaration<'a>>,
    },
    Providers(&'a Value),
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Plain { role: &'static str, parts: Vec<Part<'a>> },
    Encoded(&'a RawValue),
}

impl ListItem for Content<'_> {
    fn encoded(&self) -> Option<&RawValue> {
        match self {
            Content::Plain { .. } => None,
            Content::Encoded(json) => Some(json),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Part<'a> {
    Plain {
        #[serde(flatten)]
        content: PartContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    /// A call or result of a tool of the provider's own.
    Provided(Box<RawValue>),
}

impl<'a> From<PartContent<'a>> for Part<'a> {
    fn from(content: PartContent<'a>) -> Part<'a> {
        Part::Plain { content, thought: false, thought_signature: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PartContent<'a> {
    Text(Cow<'a, str>),
    InlineData(InlineData<'a>),
    FunctionCall {
        name: &'a str,
        args: Cow<'a, Value>,
    },
    FunctionResponse {
        name: &'a str,
        response: Response<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part<'a>>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct Response<'a> {
    name: &'a str,
    content: Cow<'a, str>,
}

fn push_message<'a>(model: &Model, message: &'a PromptMessage<'_>, contents: &mut Vec<Content<'a>>) {
    let (role, parts): (_, Vec<Part<'a>>) = match message {
        PromptMessage::User(said) => {
            let parts = said.iter().filter_map(|content| match content {
                UserContent::Text(text) if text.is_empty() => None,
                UserContent::Text(text) => Some(PartContent::Text(Cow::Borrowed(text)).into()),
                UserContent::Media(media) => Some(media_part(model, media)),
            });
            ("user", parts.collect())
        }
        PromptMessage::Assistant(said) => ("model", answer_parts(model, said)),
        PromptMessage::ToolResults(results) => ("user", result_parts(model, results)),
        PromptMessage::Encoded(pieces) => {
            contents.extend(pieces.iter().map(|piece| Content::Encoded(&piece.json)));
            return;
        }
    };
    if !parts.is_empty() {
        contents.push(Content::Plain { role, parts });
    }
}

fn answer_parts<'a>(model: &Model, said: &'a [AssistantContent<'_>]) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(said.len());
    let mut needs_signature = is_newer_than_2(model);
    for content in said {
        if let AssistantContent::Reasoning { signature: Some(signature), .. } = content
            && let Some(part) = body::of_provider(signature)
        {
            parts.push(Part::Provided(part));
            continue;
        }
        let (content, thought, signature) = match content {
            AssistantContent::Text(text) if text.is_empty() => continue,
            AssistantContent::Reasoning { text, signature: None } if text.is_empty() => continue,
            // The signature of the text before it.
            AssistantContent::Reasoning { text, signature } if text.is_empty() => {
                (PartContent::Text(Cow::Borrowed("")), false, *signature)
            }
            AssistantContent::Text(text) => (PartContent::Text(Cow::Borrowed(text)), false, None),
            AssistantContent::Reasoning { text, signature } => {
                (PartContent::Text(Cow::Borrowed(text)), true, *signature)
            }
            AssistantContent::ToolCall { call_id: _, name, input, signature } => {
                let signature = signature.or(needs_signature.then_some(NO_SIGNATURE));
                needs_signature = false;
                (PartContent::FunctionCall { name, args: body::input_object(input) }, false, signature)
            }
        };
        parts.push(Part::Plain { content, thought, thought_signature: signature });
    }
    parts
}

fn result_parts<'a>(model: &Model, results: &'a [ToolResult<'_>]) -> Vec<Part<'a>> {
    let takes_media = is_newer_than_2(model);
    let mut parts = Vec::with_capacity(results.len());
    let mut media_parts: Vec<Part<'a>> = Vec::new();
    for result in results {
        let mut content = Cow::Borrowed(&*result.output);
        let mut own = Vec::new();
        for media in &result.media {
            // The parts of a result are data alone.
            match body::accept(model, media) {
                Accepted::Image(media) | Accepted::Pdf(media) if takes_media => own.push(inline(media)),
                Accepted::Image(media) | Accepted::Pdf(media) => media_parts.push(inline(media)),
                Accepted::Note(note) if content.is_empty() => content = Cow::Owned(note),
                Accepted::Note(note) => content = Cow::Owned(format!("{content}\n\n{note}")),
            }
        }
        let response = Response { name: result.name, content };
        parts.push(PartContent::FunctionResponse { name: result.name, response, parts: own }.into());
    }
    if !media_parts.is_empty() {
        parts.push(PartContent::Text(Cow::Borrowed("Attached media from tool result:")).into());
        parts.append(&mut media_parts);
    }
    parts
}

/// Returns true for Gemini 3 and later, which take media in results and check signatures.
fn is_newer_than_2(model: &Model) -> bool {
    let id = model.api_id.to_ascii_lowercase();
    let version = id.split_once("gemini-").map(|(_, version)| version);
    version.is_some_and(|version| !version.starts_with("1.") && !version.starts_with("2."))
}

fn inline<'a>(media: &'a Media<'a>) -> Part<'a> {
    PartContent::InlineData(InlineData { mime_type: media.mime, data: media.base64 }).into()
}

fn media_part<'a>(model: &Model, media: &'a Media<'a>) -> Part<'a> {
    match body::accept(model, media) {
        Accepted::Image(media) | Accepted::Pdf(media) => inline(media),
        Accepted::Note(note) => PartContent::Text(Cow::Owned(note)).into(),
    }
}
