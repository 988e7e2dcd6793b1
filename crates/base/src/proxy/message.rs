//! Parts of HTTP messages that a proxy reads and writes itself: refusals, and the headers of one connection.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::gate::Closed;

/// Bytes of a request's line and headers.
pub(super) const MAX_HEAD: usize = 64 * 1024;
/// Headers about one connection, which the next one does not see
/// (<https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1>).
const OF_CONNECTION: [&str; 10] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The status and the sentence of an answer that is the proxy's own.
pub(super) type Refusal = (StatusCode, String);

pub(super) fn refused((status, sentence): Refusal) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("windlass: {sentence}\n")));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

pub(super) fn refusal(closed: Closed) -> Refusal {
    match closed {
        Closed::Refused(sentence) => (StatusCode::FORBIDDEN, sentence),
        Closed::Failed(sentence) => (StatusCode::BAD_GATEWAY, sentence),
    }
}

pub(super) fn malformed(sentence: &str) -> Refusal {
    (StatusCode::BAD_REQUEST, sentence.to_owned())
}

/// Takes out the headers that are about one connection.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|it| it.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|it| it.split(',')).filter_map(|it| it.trim().parse().ok()).collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
    OF_CONNECTION.iter().for_each(|name| drop(headers.remove(*name)));
}

#[cfg(test)]
mod tests {
    //! Headers on their way.

    use super::*;

    #[test]
    fn headers_of_one_connection_go_no_further() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "x-secret, close"),
            ("x-secret", "1"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("accept", "*/*"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["accept"]);
    }
}
