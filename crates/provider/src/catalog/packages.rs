//! The AI SDK's npm packages, by which configurations and the catalog name a provider's protocol
//! (facts: provider requests §2, §3).

use windlass_protocol::opencode::settings::WireName;

use super::dialect::{self, DialectFn};
use crate::{Auth, Quirk, Quirks, Wire};

/// A package's protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Package {
    pub npm: &'static str,
    pub wire: Wire,
    /// The vendor's address, with `${NAME}` for variables.
    pub url: Option<&'static str>,
    pub auth: Auth,
    pub quirks: Quirks,
    /// Tells the protocol of each model, where models of one package differ in it.
    pub dialect: Option<DialectFn>,
}

/// Returns the package that speaks a protocol as its maker does.
pub(super) fn of_wire(name: WireName) -> &'static str {
    match name {
        WireName::Chat => "@ai-sdk/openai-compatible",
        WireName::Responses => "@ai-sdk/openai",
        WireName::Anthropic => "@ai-sdk/anthropic",
        WireName::Google => "@ai-sdk/google",
        WireName::Bedrock => "@ai-sdk/amazon-bedrock",
    }
}

/// Returns a package by name.
pub(super) fn find(npm: &str) -> Option<&'static Package> {
    PACKAGES.iter().find(|package| package.npm == npm)
}

const fn chat(npm: &'static str, url: Option<&'static str>, quirks: &[Quirk]) -> Package {
    Package {
        npm,
        wire: Wire::OpenAiChat,
        url,
        auth: Auth::Bearer,
        quirks: Quirks::of(quirks),
        dialect: None,
    }
}

const fn responses(npm: &'static str, url: &'static str, auth: Auth, quirks: &[Quirk]) -> Package {
    Package {
        npm,
        wire: Wire::OpenAiResponses,
        url: Some(url),
        auth,
        quirks: Quirks::of(quirks),
        dialect: None,
    }
}

const fn google(npm: &'static str, url: &'static str, auth: Auth) -> Package {
    Package { npm, wire: Wire::Google, url: Some(url), auth, quirks: Quirks::of(&[]), dialect: None }
}

const fn anthropic(npm: &'static str, url: &'static str, auth: Auth, quirks: &[Quirk]) -> Package {
    Package { npm, wire: Wire::Anthropic, url: Some(url), auth, quirks: Quirks::of(quirks), dialect: None }
}

/// The package that `useCompletionUrls` makes of Azure's.
pub(super) const AZURE_COMPLETIONS: &str = "@ai-sdk/azure/completions";

/// The package of GitLab's gateway.
pub(super) const GITLAB: &str = "gitlab-ai-provider";

pub(super) const PACKAGES: [Package; 25] = [
    chat("@ai-sdk/openai-compatible", None, &[]),
    responses("@ai-sdk/openai", "https://api.openai.com/v1", Auth::Bearer, &[]),
    anthropic(
        "@ai-sdk/anthropic",
        "https://api.anthropic.com/v1",
        Auth::Header("x-api-key"),
        &[Quirk::EagerInput],
    ),
    google(
        "@ai-sdk/google",
        "https://generativelanguage.googleapis.com/v1beta",
        Auth::Header("x-goog-api-key"),
    ),
    google(
        "@ai-sdk/google-vertex",
        "https://${GOOGLE_VERTEX_ENDPOINT}/v1beta1/projects/${GOOGLE_VERTEX_PROJECT}/locations/\
         ${GOOGLE_VERTEX_LOCATION}/publishers/google",
        Auth::Bearer,
    ),
    anthropic(
        "@ai-sdk/google-vertex/anthropic",
        "https://${GOOGLE_VERTEX_ENDPOINT}/v1/projects/${GOOGLE_VERTEX_PROJECT}/locations/\
         ${GOOGLE_VERTEX_LOCATION}/publishers/anthropic",
        Auth::Bearer,
        &[Quirk::Vertex],
    ),
    responses(
        "@ai-sdk/azure",
        "https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1?api-version=v1",
        Auth::Header("api-key"),
        &[],
    ),
    // The same addresses in the older form.
    Package {
        npm: AZURE_COMPLETIONS,
        wire: Wire::OpenAiChat,
        url: Some("https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1?api-version=v1"),
        auth: Auth::Header("api-key"),
        quirks: Quirks::of(&[
            Quirk::MaxCompletionTokens,
            Quirk::DeveloperRole,
            Quirk::CacheKey,
            Quirk::NullContent,
        ]),
        dialect: None,
    },
    Package {
        npm: "@ai-sdk/amazon-bedrock",
        wire: Wire::Bedrock,
        url: Some("https://bedrock-runtime.${AWS_REGION}.${AWS_DOMAIN}"),
        auth: Auth::Bearer,
        quirks: Quirks::of(&[]),
        dialect: None,
    },
    responses(
        "@ai-sdk/amazon-bedrock/mantle",
        "https://bedrock-mantle.${AWS_REGION}.api.aws/openai/v1",
        Auth::Bearer,
        &[Quirk::NoCacheKey],
    ),
    responses(
        "@ai-sdk/xai",
        "https://api.x.ai/v1",
        Auth::Bearer,
        &[Quirk::SystemRole, Quirk::NoSummary, Quirk::ItemIds],
    ),
    chat(
        "@openrouter/ai-sdk-provider",
        Some("https://openrouter.ai/api/v1"),
        &[
            Quirk::AsksForUsage,
            Quirk::NoStreamOptions,
            Quirk::ReasoningDetails,
            Quirk::CacheControl,
            Quirk::NamedResults,
            Quirk::ReasoningObject,
        ],
    ),
    chat(
        "@ai-sdk/mistral",
        Some("https://api.mistral.ai/v1"),
        &[Quirk::Mistral, Quirk::NamedResults, Quirk::NoStreamOptions, Quirk::CacheKey],
    ),
    chat(
        "@ai-sdk/groq",
        Some("https://api.groq.com/openai/v1"),
        &[Quirk::NoStreamOptions, Quirk::ReasoningField],
    ),
    chat(
        "@ai-sdk/deepinfra",
        Some("https://api.deepinfra.com/v1/openai"),
        &[Quirk::NoStreamOptions, Quirk::CacheKey],
    ),
    chat(
        "@ai-sdk/cerebras",
        Some("https://api.cerebras.ai/v1"),
        &[Quirk::NoStreamOptions, Quirk::CacheKey, Quirk::ReasoningField, Quirk::NullContent],
    ),
    // Its own protocol says nothing that this one does not.
    chat("@ai-sdk/cohere", Some("https://api.cohere.ai/compatibility/v1"), &[Quirk::NoReasoning]),
    chat("@ai-sdk/gateway", Some("https://ai-gateway.vercel.sh/v1"), &[Quirk::CacheControl]),
    chat("@ai-sdk/togetherai", Some("https://api.together.xyz/v1"), &[Quirk::NullContent]),
    chat("@ai-sdk/perplexity", Some("https://api.perplexity.ai"), &[Quirk::NoReasoning]),
    chat("@ai-sdk/vercel", Some("https://api.v0.dev/v1"), &[Quirk::NoStreamOptions]),
    chat(
        "@ai-sdk/alibaba",
        Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        &[Quirk::CacheControl, Quirk::MarksAll],
    ),
    chat(
        "venice-ai-sdk-provider",
        Some("https://api.venice.ai/api/v1"),
        &[Quirk::NoStreamOptions, Quirk::MaxCompletionTokens, Quirk::CacheKey, Quirk::Parts],
    ),
    Package {
        dialect: Some(dialect::gitlab_dialect),
        ..anthropic(GITLAB, "https://cloud.gitlab.com/ai/v1/proxy", Auth::Bearer, &[])
    },
    Package {
        dialect: Some(dialect::copilot_dialect),
        ..chat(
            "@ai-sdk/github-copilot",
            Some("https://api.githubcopilot.com"),
            &[
                Quirk::NoStreamOptions,
                Quirk::SystemRole,
                Quirk::NoCacheKey,
                Quirk::NoReasoning,
                Quirk::NullContent,
                Quirk::Initiator,
            ],
        )
    },
];
