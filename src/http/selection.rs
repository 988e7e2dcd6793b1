//! The directory that a request is about: its query's, its header's, or the server's own.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
};

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use percent_encoding::percent_decode_str;
use windlass_base::path::absolute;

use super::{
    by::{By, no_directory},
    error::Failure,
    server::Shared,
};

const HEADER: &str = "x-opencode-directory";

/// The directory that a request selects, and that its account may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected(pub PathBuf);

/// The directory that a request names, for handlers that only compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named(pub PathBuf);

impl Named {
    /// Returns the directory as text, as sessions and events hold it.
    pub fn text(&self) -> String {
        self.0.display().to_string()
    }
}

impl FromRequestParts<Shared> for Selected {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<Self, Failure> {
        let Ok(by) = By::from_request_parts(parts, server).await;
        let directory = select(parts, &server.options.directory);
        if by.may_open(&directory) { Ok(Self(directory)) } else { Err(no_directory(&directory)) }
    }
}

impl FromRequestParts<Shared> for Named {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<Self, Infallible> {
        Ok(Self(select(parts, &server.options.directory)))
    }
}

/// Returns the directory; the query beats the header, and each is decoded once.
fn select(parts: &Parts, own: &Path) -> PathBuf {
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let query = query.map(|Query(pairs)| pairs).unwrap_or_default();
    let named = query
        .into_iter()
        .find(|(name, value)| (name == "directory" || name == "location[directory]") && !value.is_empty());
    let directory = named.map(|(_, value)| value).or_else(|| {
        let header = parts.headers.get(HEADER)?.to_str().ok()?;
        // The SDK encodes it, others send it as it is: one that is no encoding of a text is taken literally.
        let decoded = percent_decode_str(header).decode_utf8();
        Some(decoded.map_or_else(|_| header.to_owned(), |text| text.into_owned()))
    });
    match directory.filter(|directory| !directory.is_empty()) {
        Some(directory) => absolute(own, directory),
        None => own.to_owned(),
    }
}

#[cfg(test)]
mod tests;
