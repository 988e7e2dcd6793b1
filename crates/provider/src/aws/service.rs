//! Requests to AWS's own services.

use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode, Url};
use tokio::time::timeout;
use windlass_base::cause;

use super::{NotSigned, refused};

/// Time that an answer may take.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Maximum bytes of an answer.
pub(super) const MAX_BODY: usize = 64 << 10;

/// Returns the domain of a region's services.
pub(super) fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

pub(super) fn address(url: &str) -> Result<Url, NotSigned> {
    Url::parse(url).map_err(|error| refused(format!("the address {url} cannot be read ({error})")))
}

/// Returns the body of a successful answer.
pub(super) async fn send(request: RequestBuilder, limit: Duration, whom: &str) -> Result<String, NotSigned> {
    let exchange = async {
        let mut response = request.send().await?;
        let mut body = Vec::new();
        while body.len() < MAX_BODY
            && let Some(chunk) = response.chunk().await?
        {
            body.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY - body.len())]);
        }
        Ok::<_, reqwest::Error>((response.status(), String::from_utf8_lossy(&body).into_owned()))
    };
    match timeout(limit, exchange).await {
        Ok(Ok((status, body))) if status.is_success() => Ok(body),
        Ok(Ok((status, body))) => {
            let reason = tag(&body, "Message").map(|reason| format!(": {reason}")).unwrap_or_default();
            let sentence = format!("{whom} answered {}{reason}", status.as_u16());
            let may_recover = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            Err(if may_recover { NotSigned::Unavailable(sentence) } else { NotSigned::Refused(sentence) })
        }
        Ok(Err(error)) => {
            let reason = cause::innermost(&error.without_url());
            Err(NotSigned::Unavailable(format!("{whom} cannot be reached ({reason})")))
        }
        Err(_) => Err(NotSigned::Unavailable(format!("{whom} did not answer within {} s", limit.as_secs()))),
    }
}

/// Returns the text of the first element of a name. Keys and times hold nothing that XML would write otherwise.
pub(super) fn tag<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0.trim())
}

pub(super) fn time(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
