//! Fetches a page or a file from the web.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use reqwest::{
    Response, Url,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, USER_AGENT,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_core::{config::policy::Policy, permission::Ask};
use windlass_protocol::opencode::{
    permission::{Action, Rule},
    tool_metadata::{self, AskedPage, encode},
};
use windlass_provider::http;

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::{arguments, invalid},
    blocking,
};

pub(super) mod address;
mod page;

use page::{Format, Page};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_BODY_BYTES: usize = 5 << 20;
const MAX_REDIRECTS: usize = 10;

/// The user agent of a browser: many sites refuse all others.
const BROWSER: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36";
/// The fallback user agent: Cloudflare challenges apparent browsers that are none, and lets this name pass.
const PLAIN: &str = "opencode";

/// The page to fetch.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The complete URL, beginning with http:// or https://.
    pub url: String,
    /// The format to convert a web page to (default markdown).
    #[serde(default)]
    pub format: Format,
    /// Time limit in seconds, at most 120 (default 30).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("webfetch", input)?;
    if let Some(seconds) = args.timeout.filter(|seconds| *seconds <= 0.0) {
        return Err(invalid("webfetch", &format!("`timeout` must be greater than 0, but is {seconds}")));
    }
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
        output = fetch(cx, &args) => output,
    }
}

/// The result of one request.
enum Hop {
    Redirect(String),
    Document { content_type: String, body: Vec<u8> },
}

async fn fetch(cx: &ToolCx<'_>, args: &Args) -> Result<ToolOutput, ToolError> {
    let mut url = parse(&args.url)?;
    let policy = cx.host.policy();
    let rules = policy.about("webfetch");
    let mut judged = forms(&args.url, &url);
    address::judge_literal(&url, &rules).map_err(failed)?;
    ask(cx, args, &args.url, judged.clone(), &url).await?;
    let mut left = match args.timeout {
        Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TIMEOUT),
        None => DEFAULT_TIMEOUT,
    }
    .min(MAX_TIMEOUT);
    let mut user_agent = BROWSER;
    let mut addresses = within(&mut left, judge(&url, &rules)).await?.map_err(failed)?;
    for _ in 0..=MAX_REDIRECTS {
        let hop = within(&mut left, request(&url, &addresses, args.format, &mut user_agent)).await?;
        let target = match hop? {
            Hop::Redirect(target) => target,
            Hop::Document { content_type, body } => return output(args, &url, content_type, body).await,
        };
        let next = url.join(&target).map_err(|error| {
            failed(format!("Cannot fetch {url}: it redirects to {target}, which is no URL ({error})."))
        })?;
        let written = next.to_string();
        let next = address::normal(check(next)?);
        // Judged before the question: users should not have to tell a harmless address from one of their own
        // network.
        addresses = within(&mut left, judge(&next, &rules))
            .await?
            .map_err(|reason| failed(format!("{url} redirects to {next}. {reason}")))?;
        let next_judged = forms(&written, &next);
        if is_new_question(&policy, &judged, &next_judged) || host(&next) != host(&url) {
            ask(cx, args, &written, next_judged.clone(), &next).await?;
            judged = next_judged;
        }
        url = next;
    }
    Err(failed(format!("Cannot fetch {}: more than {MAX_REDIRECTS} redirects.", args.url)))
}

fn host(url: &Url) -> (Option<&str>, Option<u16>) {
    (url.host_str(), url.port())
}

/// Returns true if the rules decide otherwise about a page of the same host than about the one that was
/// approved.
fn is_new_question(policy: &Policy, agreed: &[String], next: &[String]) -> bool {
    let rules = |form: &String| policy.last_match("webfetch", form);
    let known: Vec<Option<&Rule>> = agreed.iter().map(rules).collect();
    let mut rules = next.iter().map(rules);
    rules.any(|rule| rule.is_none_or(|rule| rule.action != Action::Allow) && !known.contains(&rule))
}

/// Returns the result of some work, or an error when the time is over.
async fn within<T>(left: &mut Duration, work: impl Future<Output = T>) -> Result<T, ToolError> {
    let start = Instant::now();
    let result = tokio::time::timeout(*left, work).await;
    *left = left.saturating_sub(start.elapsed());
    result.map_err(|_| failed("Request timed out"))
}

async fn judge(url: &Url, rules: &[Rule]) -> Result<Vec<SocketAddr>, String> {
    address::judge(url, rules, address::system_lookup).await
}

fn failed(text: impl Into<String>) -> ToolError {
    ToolError::Model(text.into())
}

fn parse(text: &str) -> Result<Url, ToolError> {
    let is_web = |scheme: &str| text.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
    if !is_web("http://") && !is_web("https://") {
        return Err(failed("URL must start with http:// or https://"));
    }
    let url = Url::parse(text).map_err(|error| failed(format!("Invalid URL {text}: {error}")))?;
    check(url).map(address::normal)
}

fn check(url: Url) -> Result<Url, ToolError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(failed(format!("Cannot fetch {url}: only http:// and https:// URLs can be fetched.")));
    }
    // `https://known.example@other.example` is a page of the latter that looks like one of the former.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(failed("URL must not contain a user name or password"));
    }
    Ok(url)
}

/// Returns a URL in every form that a rule may mean: as written, as requested, with its letters readable, and
/// with its runs of slashes reduced to one, as many servers read them.
pub(super) fn forms(written: &str, url: &Url) -> Vec<String> {
    let mut forms = vec![written.to_owned()];
    let plain = address::with_single_slashes(url);
    for form in [
        url.as_str().to_owned(),
        address::readable(url),
        plain.as_str().to_owned(),
        address::readable(&plain),
    ] {
        if !forms.iter().any(|known| known.trim_end_matches('/') == form.trim_end_matches('/')) {
            forms.push(form);
        }
    }
    forms
}

/// Asks for a URL in all its forms, and shows the one that will be requested.
async fn ask(
    cx: &ToolCx<'_>,
    args: &Args,
    written: &str,
    patterns: Vec<String>,
    url: &Url,
) -> Result<(), ToolError> {
    let requested = url.as_str();
    let is_other = requested.trim_end_matches('/') != written.trim_end_matches('/');
    let requested = is_other.then_some(requested);
    let metadata = encode(&AskedPage { url: written, format: args.format, timeout: args.timeout, requested });
    cx.host
        .ask(Ask { permission: "webfetch".to_owned(), patterns, always: vec!["*".to_owned()], metadata })
        .await
}

/// Makes one request, to exactly the addresses that were judged.
async fn request(
    url: &Url,
    addresses: &[SocketAddr],
    format: Format,
    user_agent: &mut &'static str,
) -> Result<Hop, ToolError> {
    let addresses = addresses.to_vec();
    let client =
        blocking(move || http::connect::pinned(&addresses).map_err(|error| failed(error.to_string())))
            .await?;
    let cannot = |error: reqwest::Error| failed(format!("Cannot fetch {url}: {}", http::causes(error)));
    let send = |user_agent: &'static str| {
        client
            .get(url.clone())
            .header(USER_AGENT, user_agent)
            .header(ACCEPT, accept(format))
            .header(ACCEPT_LANGUAGE, "en-US,en;q=0.9")
            .header(ACCEPT_ENCODING, "identity")
            .send()
    };
    let mut response = send(user_agent).await.map_err(cannot)?;
    let is_challenge = response.status().as_u16() == 403 && header(&response, "cf-mitigated") == "challenge";
    if is_challenge && *user_agent == BROWSER {
        *user_agent = PLAIN;
        response = send(user_agent).await.map_err(cannot)?;
    }
    let target = header(&response, LOCATION.as_str());
    if matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) && !target.is_empty() {
        return Ok(Hop::Redirect(target));
    }
    if !response.status().is_success() {
        return Err(failed(format!("Request failed with status code: {}", response.status().as_u16())));
    }
    let encoding = header(&response, CONTENT_ENCODING.as_str());
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        return Err(failed(format!(
            "Cannot fetch {url}: it is sent compressed ({encoding}) though not asked to."
        )));
    }
    let content_type = header(&response, CONTENT_TYPE.as_str());
    let too_large = || failed("Response too large (exceeds 5MB limit)");
    if response.content_length().is_some_and(|n_bytes| n_bytes > MAX_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(cannot)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Hop::Document { content_type, body })
}

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    value.unwrap_or_default().trim().to_owned()
}

fn accept(format: Format) -> &'static str {
    match format {
        Format::Markdown => {
            "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1"
        }
        Format::Text => "text/plain;q=1.0, text/markdown;q=0.9, text/html;q=0.8, */*;q=0.1",
        Format::Html => {
            "text/html;q=1.0, application/xhtml+xml;q=0.9, text/plain;q=0.8, text/markdown;q=0.7, */*;q=0.1"
        }
    }
}

async fn output(
    args: &Args,
    url: &Url,
    content_type: String,
    body: Vec<u8>,
) -> Result<ToolOutput, ToolError> {
    let title = format!("{} ({content_type})", args.url);
    let (format, name) = (args.format, args.url.clone());
    let page = blocking(move || {
        page::read(&body, &content_type, format).map_err(|why| failed(format!("Cannot show {name}: {why}.")))
    })
    .await?;
    let is_other = url.as_str().trim_end_matches('/') != args.url.trim_end_matches('/');
    let metadata = encode(&tool_metadata::Page { url: is_other.then_some(url.as_str()) });
    let (output, attachments) = match page {
        Page::Text(text) => (text, Vec::new()),
        Page::Media { kind, file } => (format!("{kind} fetched successfully"), vec![file]),
    };
    Ok(ToolOutput { title, output, metadata, attachments })
}

#[cfg(test)]
mod tests;
