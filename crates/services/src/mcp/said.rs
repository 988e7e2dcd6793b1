//! Reads an answer over HTTP that is not the one that is due.

use futures_util::StreamExt;
use reqwest::{Response, StatusCode};
use rmcp::model::{JsonRpcError, RequestId, ServerJsonRpcMessage};
use serde_json::Value;
use windlass_base::text;

/// Bytes that are read of it.
const MAX_READ: usize = 64 << 10;
/// Bytes that are shown of it.
const MAX_SHOWN: usize = 256;

/// Reads the beginning of an answer.
pub(super) async fn start(response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(Ok(chunk)) = bytes.next().await {
        if body.len() + chunk.len() > MAX_READ {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    body
}

/// Gives an answer the id of the request that it came for, which servers that could not read the request leave out;
/// `None` for a message of another kind.
pub(super) fn answering(message: ServerJsonRpcMessage, id: &RequestId) -> Option<ServerJsonRpcMessage> {
    match message {
        ServerJsonRpcMessage::Error(error) => {
            Some(ServerJsonRpcMessage::Error(JsonRpcError { id: Some(id.clone()), ..error }))
        }
        ServerJsonRpcMessage::Response(mut response) => {
            response.id = id.clone();
            Some(ServerJsonRpcMessage::Response(response))
        }
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    }
}

/// Describes an answer by its status and its own words.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> String {
    let words: Vec<String> = words(body).split_whitespace().map(str::to_owned).collect();
    let words = words.join(" ");
    let words = text::head(&words, MAX_SHOWN);
    if words.is_empty() {
        format!("HTTP {status} and nothing more")
    } else {
        format!("HTTP {status}: {}", text::visible(words))
    }
}

/// Returns the message of an error in JSON, the title of a page, or the text itself.
fn words(body: &[u8]) -> String {
    if let Ok(json) = serde_json::from_slice::<Value>(body) {
        // The places where web frameworks put it.
        let places = ["/error/message", "/error_description", "/error", "/message", "/detail"];
        let message = places.iter().find_map(|place| json.pointer(place)?.as_str());
        return message.map_or_else(|| json.to_string(), str::to_owned);
    }
    let said = text::decode(body);
    let Some(start) = said.to_ascii_lowercase().find("<title>") else { return said.into_owned() };
    let title = said[start + "<title>".len()..].split('<').next().unwrap_or_default();
    format!("a page, {}", title.trim())
}

#[cfg(test)]
mod tests {
    //! The words of answers of several kinds.

    use super::*;

    #[test]
    fn the_servers_own_words_are_found() {
        let check = |body: &str, expected: &str| {
            assert_eq!(refusal(StatusCode::BAD_REQUEST, body.as_bytes()), expected, "{body}");
        };
        check(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no tea"}}"#,
            "HTTP 400 Bad Request: no tea",
        );
        check(r#"{"error":"no tea"}"#, "HTTP 400 Bad Request: no tea");
        check(r#"{"detail":"no tea"}"#, "HTTP 400 Bad Request: no tea");
        check(r#"{"detail":[1]}"#, r#"HTTP 400 Bad Request: {"detail":[1]}"#);
        check("no\ntea\n", "HTTP 400 Bad Request: no tea");
        check(
            "<!DOCTYPE html>\n<html><TITLE> Bad gateway </TITLE>",
            "HTTP 400 Bad Request: a page, Bad gateway",
        );
        check("", "HTTP 400 Bad Request and nothing more");
    }
}
