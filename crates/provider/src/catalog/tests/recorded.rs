//! Requests that OpenCode was seen to send, compared key by key with ours for the same conversation.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_protocol::opencode::model_ref::ModelRef;

use super::{Catalog, Credentials, config, resolve};
use crate::{
    AssistantContent, Media, Model, Prompt, PromptIds, PromptMessage, Secret, ToolResult, ToolSpec,
    UserContent, Wire,
    http::{credential::Credential, encode, prompt_headers},
    login::tokens::Access,
    small::without_thinking,
};

/// A request: a title, or a step of a run with `bash` calls; some steps begin with media.
#[derive(Deserialize)]
pub(super) struct Recorded {
    /// `provider/model`.
    pub model: String,
    #[serde(default)]
    tag: String,
    step: String,
    url: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

const RECORDED: &str = include_str!("../../../../../fixtures/providers/requests.jsonl");

/// The known differences: the start of `provider/model`, a piece of the difference's line, and the reason.
const DIFFERENCES: [(&str, &str, &str); 38] = [
    ("", "tool_choice", "`auto` is what holds without it"),
    ("vercel/", "", "its compatible endpoint serves"),
    ("cohere/", "", "its compatible endpoint serves"),
    ("cloudflare-ai-gateway/", "", "its compatible endpoint serves"),
    (
        "gitlab/",
        "",
        "its gateway is spoken to as Anthropic and OpenAI are; the headers of its tokens come with them",
    ),
    ("", "header x-title", "names the program"),
    ("", "header http-referer", "names the program, which has no page"),
    ("", "header x-source", "names the program"),
    ("", "header originator", "names the program"),
    ("", "header x-billing-invoke-origin", "names the program"),
    ("", "header x-cerebras-3rd-party-integration", "names the program"),
    ("", "header x-opencode-client", "names the program"),
    ("", "header anthropic-beta: structured-outputs-2025-11-13", "no schema of a tool is strict"),
    (
        "",
        "thinking-binding-controls-2026-08-01,structured-outputs-2025-11-13",
        "no schema of a tool is strict; the order says nothing",
    ),
    ("", ".thinking.display", "without it thoughts come empty"),
    ("", "AWS4-HMAC", "requests are signed by the driver"),
    ("", "header x-amz-date", "requests are signed by the driver"),
    ("databricks/", "header authorization", "OpenCode sends no key at all, which fails"),
    ("venice/", ".n:", "1 is what holds without it"),
    ("azure-cognitive-services/", "url", "its address wants its version"),
    ("xai/", "strict", "false is what holds without it"),
    ("xai/", ".content", "a list of one text says the same"),
    ("xai/", ".output", "OpenCode loses the image"),
    ("azure/", "strict", "false is what holds without it"),
    ("openrouter/openai/", ".content", "a list of one text says the same"),
    ("openrouter/openai/", "reasoningEffort", "a stray of OpenCode's"),
    (
        "openrouter/anthropic/claude-sonnet-4.5 (media) 4",
        "",
        "its second answer had no thought, and the media go in a message of their own",
    ),
    (
        "openrouter/anthropic/claude-sonnet-4.5 (media) 3",
        "cache_control",
        "the last two messages are marked, whose ever they are",
    ),
    ("custom-alibaba/", ".messages[1].content", "a list of one text says the same"),
    ("custom-alibaba/", "reasoning_content", "thoughts go back"),
    ("github-copilot/", "include", "without it thoughts are lost"),
    ("github-copilot/", ".max_tokens", "the account's list has the limit"),
    ("github-copilot/gpt-6-sol", "header", "a token from the environment is sent as a login's is"),
    ("opencode/", "thoughtSignature", "newer models refuse a call without one"),
    ("google/gemini-2.5-pro (media) 4", ".contents", "the media go in the same message as the result"),
    ("", "title .", "a title is asked for in one message, without thinking, by a small model"),
    ("github-copilot/", " title header", "a title is nobody's own request"),
    ("", "title url", "a title's model is chosen as docs/providers.md says"),
];

/// Fields with texts that differ from conversation to conversation.
const PROSE: [&str; 27] = [
    "text",
    "content",
    "system",
    "arguments",
    "signature",
    "thinking",
    "instructions",
    "id",
    "call_id",
    "tool_use_id",
    "tool_call_id",
    "toolUseId",
    "output",
    "encrypted_content",
    "reasoning",
    "reasoning_content",
    "command",
    "description",
    "filePath",
    "title",
    "file_data",
    "url",
    "image_url",
    "bytes",
    "data",
    "thoughtSignature",
    "name",
];

const VARIABLES: [(&str, &str); 14] = [
    ("AZURE_RESOURCE_NAME", "myres"),
    ("AZURE_COGNITIVE_SERVICES_RESOURCE_NAME", "myres"),
    ("AZURE_API_KEY", "{key}"),
    ("AZURE_COGNITIVE_SERVICES_API_KEY", "{key}"),
    ("GOOGLE_VERTEX_PROJECT", "test-project"),
    ("CLOUDSDK_AUTH_ACCESS_TOKEN", "{key}"),
    ("CLOUDFLARE_ACCOUNT_ID", "acc0unt"),
    ("CLOUDFLARE_GATEWAY_ID", "gw"),
    ("CLOUDFLARE_API_KEY", "{key}"),
    ("CLOUDFLARE_API_TOKEN", "{key}"),
    ("SNOWFLAKE_ACCOUNT", "acct"),
    ("SNOWFLAKE_CORTEX_PAT", "{key}"),
    ("DATABRICKS_HOST", "dbc.cloud.databricks.com"),
    ("AWS_BEARER_TOKEN_BEDROCK", "{key}"),
];

pub(super) fn recorded() -> Vec<Recorded> {
    RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the catalog with the recorded provider, as it was set up.
fn set_up(it: &Recorded) -> Catalog {
    let id = it.model.split('/').next().unwrap();
    let by_variable = ["azure", "google-vertex", "snowflake", "cloudflare", "amazon"];
    let has_variable = by_variable.iter().any(|start| id.starts_with(start)) || it.tag == "no key";
    let mut provider = json!({"options": if has_variable { json!({}) } else { json!({"apiKey": "{key}"}) }});
    let own = match id {
        "custom-anthropic" => Some(("@ai-sdk/anthropic", "x")),
        "custom-openai" => Some(("@ai-sdk/openai", "x")),
        "custom-alibaba" => Some(("@ai-sdk/alibaba", "qwen3")),
        "ollama" => Some(("@ai-sdk/openai-compatible", "qwen3")),
        "lmstudio" => Some(("@ai-sdk/openai-compatible", "openai/gpt-oss-20b")),
        _ => None,
    };
    if let Some((npm, model)) = own {
        let key = if id == "ollama" { Value::Null } else { json!("{key}") };
        let options = json!({"baseURL": "https://{base}/v1", "apiKey": key});
        provider = json!({"npm": npm, "options": options, "models": {model: {}}});
    }
    if it.tag == "useCompletionUrls" {
        provider["options"]["useCompletionUrls"] = json!(true);
    }
    let mut credentials = Credentials::new();
    if it.tag.contains("login") {
        provider = json!({});
        let login = json!({"type": "oauth", "refresh": "{token}", "access": "{token}", "expires": 0});
        credentials.insert(id.to_owned(), serde_json::from_value(login).unwrap());
    }
    let region = if it.url.contains(".eu-west-1.") { "eu-west-1" } else { "us-east-1" };
    let variables = [&VARIABLES[..], &[("AWS_REGION", region)]].concat();
    resolve(&config(&json!({"provider": {id: provider}}), &variables), &credentials).0
}

/// The conversation of a step, with its owners.
struct Conversation {
    input: Value,
    file: Value,
    schema: Value,
}

impl Conversation {
    fn new() -> Self {
        Self {
            input: json!({"command": "echo hi", "description": "…"}),
            file: json!({"filePath": "img.png"}),
            schema: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
        }
    }

    fn prompt<'a>(&'a self, model: &'a Model, it: &Recorded) -> Prompt<'a> {
        let is_title = it.step == "title";
        let mut prompt = Prompt {
            system: vec!["You help.".into()],
            messages: self.messages(model, it),
            temperature: model.sampling.temperature.filter(|_| model.takes_temperature),
            top_p: model.sampling.top_p,
            top_k: model.sampling.top_k,
            max_output_tokens: Some(32_000),
            cache_key: Some("{session}").filter(|_| !is_title),
            ids: PromptIds {
                session: Some("{session}"),
                parent_session: None,
                project: Some("{project}"),
                message: Some("{message}"),
                is_agents: is_title,
            },
            ..Prompt::default()
        };
        if is_title {
            prompt.temperature = Some(0.5).filter(|_| model.takes_temperature);
            return prompt;
        }
        prompt.tools = vec![ToolSpec {
            name: "bash".into(),
            description: "Runs.".into(),
            schema: Cow::Borrowed(&self.schema),
        }];
        if let Some((_, variant)) = it.tag.split_once("variant=") {
            prompt.options = model.variant(variant).cloned().unwrap_or_default();
        }
        prompt
    }

    fn messages<'a>(&'a self, model: &Model, it: &Recorded) -> Vec<PromptMessage<'a>> {
        let text = |text: &'static str| UserContent::Text(text.into());
        if it.step == "title" {
            return vec![PromptMessage::User(vec![text("A title:"), text("Run it.")])];
        }
        let image = || Media { mime: "image/png", filename: Some("img.png"), base64: "{base64}" };
        let is_media = it.tag == "media";
        let mut messages = vec![PromptMessage::User(if is_media {
            vec![text("One."), text("Two."), UserContent::Media(image()), text("Run it.")]
        } else {
            vec![text("Run it.")]
        })];
        let n_steps = it.step.parse::<usize>().unwrap() - 1;
        // The second step of those with media answers two calls, the third one reads the image.
        for step in if is_media { 0..n_steps / 2 + n_steps % 2 } else { 0..n_steps } {
            let is_reading = is_media && step == 1;
            let n_calls = if is_media && !is_reading { 2 } else { 1 };
            messages.push(PromptMessage::Assistant(self.answer(model, it, n_calls, is_reading)));
            let result = |_| ToolResult {
                call_id: "call_1",
                name: "bash",
                output: "hi".into(),
                is_error: false,
                media: if is_reading { vec![image()] } else { Vec::new() },
            };
            messages.push(PromptMessage::ToolResults((0..n_calls).map(result).collect()));
        }
        messages
    }

    fn answer<'a>(
        &'a self,
        model: &Model,
        it: &Recorded,
        n_calls: usize,
        is_reading: bool,
    ) -> Vec<AssistantContent<'a>> {
        let mut answer = Vec::new();
        let body = it.body.to_string();
        if body.contains("I think.") || body.contains("c2lnLTEyMzQ=") {
            let signature = match model.wire {
                Wire::OpenAiChat if it.model.starts_with("openrouter") => Some(SIGNED_DETAILS),
                Wire::OpenAiResponses => Some("item:rs_1:c2lnLTEyMzQ="),
                Wire::Google | Wire::OpenAiChat => None,
                _ => Some("c2lnLTEyMzQ="),
            };
            answer.push(AssistantContent::Reasoning { text: "I think.".into(), signature });
        }
        if body.contains("Next.") {
            answer.push(AssistantContent::Text("Next.".into()));
        }
        let signature = body.contains("thoughtSignature").then_some("dG9vbC1zaWc=");
        let input = if is_reading { &self.file } else { &self.input };
        let call = AssistantContent::ToolCall { call_id: "call_1", name: "bash", input, signature };
        answer.extend(std::iter::repeat_n(call, n_calls));
        answer
    }
}

const SIGNED_DETAILS: &str =
    r#"[{"type":"reasoning.text","text":"…","signature":"…","format":"anthropic-claude-v1","index":0}]"#;

/// Writes the leaves of a value with their places.
fn leaves(place: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let place = format!("{place}.{key}");
                match value {
                    Value::String(_) if PROSE.contains(&key.as_str()) => {
                        _ = found.insert(place, "…".to_owned())
                    }
                    value => leaves(&place, value, found),
                }
            }
            if fields.is_empty() {
                found.insert(place.to_owned(), "{}".to_owned());
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                leaves(&format!("{place}[{at}]"), item, found);
            }
        }
        Value::Number(number) => _ = found.insert(place.to_owned(), number.as_f64().unwrap().to_string()),
        value => _ = found.insert(place.to_owned(), value.to_string()),
    }
}

/// Returns all of a request: its address, headers, and the leaves of its body.
fn flat(url: &str, headers: &BTreeMap<String, String>, body: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::from([("url".to_owned(), url.to_owned())]);
    found.extend(headers.iter().map(|(name, value)| (format!("header {name}"), value.clone())));
    let mut body = body.clone();
    for schema in [
        "/tools/0/input_schema",
        "/tools/0/parameters",
        "/tools/0/function/parameters",
        "/tools/0/functionDeclarations/0/parameters",
        "/toolConfig/tools/0/toolSpec/inputSchema/json",
    ] {
        if let Some(schema) = body.pointer_mut(schema) {
            *schema = json!("…");
        }
    }
    leaves("", &body, &mut found);
    found.into_iter().map(|(place, value)| (place, without_placeholders(&value))).collect()
}

/// Empties the braces in which the recording has keys, tokens and ids.
fn without_placeholders(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0;
    for c in text.chars() {
        depth -= i32::from(c == '}');
        if depth == 0 {
            plain.push(c);
        }
        depth += i32::from(c == '{');
    }
    plain
}

/// Returns ours for the same.
fn ours(model: &Model, it: &Recorded) -> BTreeMap<String, String> {
    let conversation = Conversation::new();
    let model = if it.step == "title" { &without_thinking(model) } else { model };
    let prompt = conversation.prompt(model, it);
    let (url, body) = encode(model, &prompt);
    let credential = if model.has_login {
        Credential::Token(Access {
            token: Secret("{token}".to_owned()),
            account: (model.provider_id == "openai").then(|| "{account}".to_owned()),
        })
    } else {
        Credential::key(model)
    };
    let headers = prompt_headers(model, &prompt, &credential).unwrap();
    let is_ours = |name: &str| !["accept", "content-type"].contains(&name);
    let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers.iter().filter(|(name, _)| is_ours(name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
    flat(&url, &headers, &serde_json::from_slice(&body).unwrap())
}

#[test]
fn requests_are_those_of_opencode_but_for_the_differences_in_the_table() {
    let recorded = recorded();
    let mut unexplained = BTreeSet::new();
    let mut n_compared = 0;
    for it in &recorded {
        let catalog = set_up(it);
        let Ok(main) = catalog.get(&ModelRef::parse(&it.model).unwrap()) else {
            unexplained.insert(format!("{}: no model", it.model));
            continue;
        };
        let model = if it.step == "title" { catalog.small_model(&main) } else { &main };
        let (theirs, ours) = (flat(&it.url, &it.headers, &it.body), ours(model, it));
        n_compared += 1;
        let places: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
        for place in places {
            let (one, other) = (theirs.get(place), ours.get(place));
            if one == other {
                continue;
            }
            let none = "–".to_owned();
            let tag = if it.tag.is_empty() { String::new() } else { format!(" ({})", it.tag) };
            let line = format!(
                "{}{tag} {} {place}: {} → {}",
                it.model,
                it.step,
                one.unwrap_or(&none),
                other.unwrap_or(&none)
            );
            let holds =
                |(start, part, _): &&(&str, &str, &str)| line.starts_with(start) && line.contains(part);
            match DIFFERENCES.iter().find(holds) {
                Some((.., reason)) => println!("{line} ({reason})"),
                None => _ = unexplained.insert(line),
            }
        }
    }
    println!("{n_compared} requests");
    let unexplained: Vec<String> = unexplained.into_iter().collect();
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
}
