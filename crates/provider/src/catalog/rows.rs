//! Providers that differ from their entries in the catalog (facts: provider requests §3).

use crate::{Auth, Quirk, Quirks};

/// A provider's peculiarities.
pub(super) struct Row {
    pub id: &'static str,
    /// The package to use instead of the catalog's.
    pub npm: Option<&'static str>,
    /// The address, with `${NAME}` for variables.
    pub url: Option<&'static str>,
    /// Variables that may hold the key, the first one first; empty for those of the catalog.
    pub keys: &'static [&'static str],
    /// A variable that names an account, which most people use instead of a key.
    pub account: Option<&'static str>,
    pub auth: Option<Auth>,
    pub headers: &'static [(&'static str, &'static str)],
    pub quirks: Quirks,
    /// Fields of every request's body, as JSON.
    pub options: &'static str,
    /// Like `options`, for models that think.
    pub thinking: &'static str,
}

const PLAIN: Row = Row {
    id: "",
    npm: None,
    url: None,
    keys: &[],
    account: None,
    auth: None,
    headers: &[],
    quirks: Quirks::of(&[]),
    options: "",
    thinking: "",
};

/// Names the client; routers show it to their users.
const TITLE: &[(&str, &str)] = &[("x-title", "windlass")];

const ZAI: &str = r#"{"thinking": {"type": "enabled", "clear_thinking": false}}"#;

/// The providers that are preferred where keys of several are there, then the others by name.
pub(super) const PREFERRED: [&str; 10] = [
    "anthropic",
    "openai",
    "google",
    "openrouter",
    "xai",
    "deepseek",
    "mistral",
    "moonshotai",
    "zai",
    "groq",
];

/// Providers with variables that other programs read as well, so that a variable alone does not make them the default.
pub(super) const SHARED: [&str; 8] = [
    "amazon-bedrock",
    "azure",
    "azure-cognitive-services",
    "databricks",
    "gitlab",
    "google-vertex",
    "google-vertex-anthropic",
    "huggingface",
];

/// Returns the row of a provider with peculiarities.
pub(super) fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

const ROWS: [Row; 28] = [
    Row {
        id: "anthropic",
        headers: &[(
            "anthropic-beta",
            "interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14",
        )],
        ..PLAIN
    },
    Row {
        id: "openai",
        headers: &[("originator", "windlass")],
        quirks: Quirks::of(&[Quirk::NoOutputLimit, Quirk::SessionHeader]),
        ..PLAIN
    },
    Row { id: "azure", keys: &["AZURE_API_KEY"], ..PLAIN },
    Row {
        id: "azure-cognitive-services",
        url: Some(
            "https://${AZURE_COGNITIVE_SERVICES_RESOURCE_NAME}.cognitiveservices.azure.com/openai/v1?api-version=v1",
        ),
        keys: &["AZURE_COGNITIVE_SERVICES_API_KEY"],
        ..PLAIN
    },
    Row {
        id: "google",
        keys: &["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"],
        ..PLAIN
    },
    Row { id: "openrouter", headers: TITLE, ..PLAIN },
    Row { id: "vercel", headers: TITLE, ..PLAIN },
    Row { id: "kilo", headers: TITLE, ..PLAIN },
    Row { id: "zenmux", headers: TITLE, ..PLAIN },
    Row { id: "llmgateway", headers: &[("x-title", "windlass"), ("x-source", "windlass")], ..PLAIN },
    Row {
        id: "nvidia",
        headers: &[("x-title", "windlass"), ("x-billing-invoke-origin", "windlass")],
        ..PLAIN
    },
    Row { id: "cerebras", headers: &[("x-cerebras-3rd-party-integration", "windlass")], ..PLAIN },
    Row { id: "deepseek", quirks: Quirks::of(&[Quirk::EmptyReasoning]), ..PLAIN },
    Row { id: "zai", thinking: ZAI, ..PLAIN },
    Row { id: "zai-coding-plan", thinking: ZAI, ..PLAIN },
    Row { id: "zhipuai", thinking: ZAI, ..PLAIN },
    Row { id: "zhipuai-coding-plan", thinking: ZAI, ..PLAIN },
    Row { id: "alibaba-cn", thinking: r#"{"enable_thinking": true}"#, ..PLAIN },
    Row { id: "baseten", thinking: r#"{"chat_template_args": {"enable_thinking": true}}"#, ..PLAIN },
    Row {
        id: "venice",
        options: r#"{"venice_parameters": {"include_venice_system_prompt": false}}"#,
        ..PLAIN
    },
    Row {
        id: "snowflake-cortex",
        keys: &["SNOWFLAKE_CORTEX_PAT", "SNOWFLAKE_CORTEX_TOKEN"],
        quirks: Quirks::of(&[Quirk::MaxCompletionTokens]),
        ..PLAIN
    },
    Row {
        id: "cloudflare-ai-gateway",
        npm: Some("@ai-sdk/openai-compatible"),
        url: Some(
            "https://gateway.ai.cloudflare.com/v1/${CLOUDFLARE_ACCOUNT_ID}/${CLOUDFLARE_GATEWAY_ID}/compat",
        ),
        keys: &["CLOUDFLARE_API_TOKEN", "CF_AIG_TOKEN"],
        auth: Some(Auth::BearerIn("cf-aig-authorization")),
        ..PLAIN
    },
    Row { id: "amazon-bedrock", keys: &["AWS_BEARER_TOKEN_BEDROCK"], account: Some("AWS_PROFILE"), ..PLAIN },
    Row {
        id: "google-vertex",
        keys: &["CLOUDSDK_AUTH_ACCESS_TOKEN"],
        account: Some("GOOGLE_APPLICATION_CREDENTIALS"),
        ..PLAIN
    },
    Row {
        id: "google-vertex-anthropic",
        keys: &["CLOUDSDK_AUTH_ACCESS_TOKEN"],
        account: Some("GOOGLE_APPLICATION_CREDENTIALS"),
        ..PLAIN
    },
    Row {
        id: "github-copilot",
        npm: Some("@ai-sdk/github-copilot"),
        headers: &[("openai-intent", "conversation-edits"), ("x-github-api-version", "2026-06-01")],
        ..PLAIN
    },
    Row { id: "moonshotai", quirks: Quirks::of(&[Quirk::PlainReferences]), ..PLAIN },
    Row { id: "moonshotai-cn", quirks: Quirks::of(&[Quirk::PlainReferences]), ..PLAIN },
];
