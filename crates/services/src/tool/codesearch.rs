//! Searches public documentation and code with Exa.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::permission::Ask;
use windlass_protocol::opencode::tool_metadata::{CodeSearch, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::{arguments, invalid},
    row::Offer,
    web::{self, Request, Service},
};

const TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_TOKENS: u32 = 5000;
const NOTHING: &str = "No code snippets or documentation found. Please try a different query, be more specific about the library or programming concept, or check the spelling of framework names.";

/// The search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The library, and the task to do with it.
    pub query: String,
    /// Maximum length of the answer in tokens, from 1000 to 50000 (default 5000).
    pub tokens_num: Option<u32>,
}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    web::has_exa(offer)
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("codesearch", input)?;
    let n_tokens = args.tokens_num.unwrap_or(DEFAULT_TOKENS);
    if !(1000..=50_000).contains(&n_tokens) {
        return Err(invalid(
            "codesearch",
            &format!("tokensNum is {n_tokens}, it must be from 1000 to 50000"),
        ));
    }
    let search = encode(&CodeSearch { query: &args.query, tokens_num: n_tokens });
    cx.host
        .ask(Ask {
            permission: "codesearch".to_owned(),
            patterns: vec![args.query.clone()],
            always: vec!["*".to_owned()],
            metadata: search.clone(),
        })
        .await?;
    let request = Request {
        service: Service::Exa,
        tool: "get_code_context_exa",
        arguments: Value::Object(search),
        timeout: TIMEOUT,
        what: "Code search",
    };
    let found = web::call(cx, request).await?;
    Ok(ToolOutput {
        title: format!("Code search: {}", args.query),
        output: found.unwrap_or_else(|| NOTHING.to_owned()),
        metadata: Map::new(),
        attachments: Vec::new(),
    })
}
