//! Reads the requests of an HTTP connection, for the servers on loopback.

use std::{collections::HashMap, io};

use serde_json::Value;
use tokio::{io::AsyncReadExt, net::TcpStream};

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method and the path.
    pub line: String,
    /// The headers, with names in lower case.
    pub headers: HashMap<String, String>,
    /// The body; a form as an object of its fields, null for anything else that is not JSON.
    pub body: Value,
}

impl Asked {
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// Reads the next request; `None` if the client hangs up. `buffer` keeps the received part of the one after it.
pub async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    let head_end = loop {
        match buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(position) => break position,
            None if stream.read_buf(buffer).await? == 0 => return Ok(None),
            None => {}
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
        .collect();
    let n_bytes: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let body_start = head_end + 4;
    while buffer.len() < body_start + n_bytes {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = &buffer[body_start..body_start + n_bytes];
    let is_form = headers.get("content-type").is_some_and(|it| it == "application/x-www-form-urlencoded");
    let body = if is_form { form(body) } else { serde_json::from_slice(body).unwrap_or_default() };
    buffer.drain(..body_start + n_bytes);
    Ok(Some(Asked { line, headers, body }))
}

fn form(body: &[u8]) -> Value {
    let url = reqwest::Url::parse(&format!("form:/?{}", str::from_utf8(body).unwrap())).unwrap();
    let fields = url.query_pairs().map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())));
    Value::Object(fields.collect())
}
