//! Searches the web with Exa or Parallel.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::permission::Ask;
use windlass_protocol::opencode::tool_metadata::{Search, Searched, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    row::Offer,
    web::{self, Request, Service},
};

const TIMEOUT: Duration = Duration::from_secs(25);
const DEFAULT_RESULTS: u32 = 8;
const NOTHING: &str = "No search results found. Please try a different query.";

/// The search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The query.
    pub query: String,
    /// Number of pages to return (default 8).
    pub num_results: Option<u32>,
    /// Visits to pages: only if there is no stored copy (fallback) or whenever possible (preferred).
    #[serde(default)]
    pub livecrawl: Livecrawl,
    /// The thoroughness of the search (default auto).
    #[serde(default, rename = "type")]
    pub kind: Kind,
    /// Maximum length of the whole answer in characters.
    pub context_max_characters: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Livecrawl {
    #[default]
    Fallback,
    Preferred,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Auto,
    Fast,
    Deep,
}

pub(super) fn is_offered(offer: &Offer<'_>) -> bool {
    web::has_exa(offer) || web::has_parallel(offer)
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("websearch", input)?;
    let service = Service::of_session(cx.config, cx.session_id.as_str());
    let search = Search {
        query: &args.query,
        kind: args.kind,
        num_results: args.num_results.filter(|n_results| *n_results > 0).unwrap_or(DEFAULT_RESULTS),
        livecrawl: args.livecrawl,
        context_max_characters: args.context_max_characters,
        provider: None,
    };
    let sent = Value::Object(encode(&search));
    cx.host
        .ask(Ask {
            permission: "websearch".to_owned(),
            patterns: vec![args.query.clone()],
            always: vec!["*".to_owned()],
            metadata: encode(&Search { provider: Some(service.id()), ..search }),
        })
        .await?;
    let (tool, arguments) = match service {
        Service::Exa => ("web_search_exa", sent),
        Service::Parallel => {
            let search = json!({
                "objective": args.query,
                "search_queries": [args.query],
                "session_id": cx.session_id,
            });
            ("web_search", search)
        }
    };
    let found = web::call(cx, Request { service, tool, arguments, timeout: TIMEOUT, what: "Search" }).await?;
    Ok(ToolOutput {
        title: format!("Web search: {}", args.query),
        output: found.unwrap_or_else(|| NOTHING.to_owned()),
        metadata: encode(&Searched { provider: service.id() }),
        attachments: Vec::new(),
    })
}
