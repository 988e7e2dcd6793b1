//! Routes of files, and of finding in them.

use serde::Deserialize;
use windlass_files::{FileQuery, Files};
use windlass_protocol::opencode::file::{FileContent, FileNode, FileStatus, LineMatch, NodeType, Symbol};

use super::{
    body::{Answer, Params, number},
    error::{Failure, Piece},
    here::{Here, required},
    routes::{Routes, get},
};

/// Paths that a search returns where its client names no number.
pub const DEFAULT_FOUND: usize = 10;
pub const MAX_FOUND: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .route("/file", get(list))
        .route("/file/content", get(read))
        .route("/file/status", get(status))
        .route("/find", get(find_text))
        .route("/find/file", get(find_files))
        .route("/find/symbol", get(find_symbols))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathParams {
    #[cfg_attr(test, schemars(required))]
    path: Option<String>,
}

async fn list(
    Here(workspace): Here,
    Params(params): Params<PathParams>,
) -> Result<Answer<Vec<FileNode>>, Failure> {
    let path = required(params.path, Piece::Query, "path")?;
    Ok(Answer(Files::of(&workspace).list_directory(&path).await?))
}

async fn read(
    Here(workspace): Here,
    Params(params): Params<PathParams>,
) -> Result<Answer<FileContent>, Failure> {
    let path = required(params.path, Piece::Query, "path")?;
    Ok(Answer(Files::of(&workspace).read_file(&path).await?))
}

async fn status(Here(workspace): Here) -> Result<Answer<Vec<FileStatus>>, Failure> {
    Ok(Answer(Files::of(&workspace).changed_files().await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindParams {
    #[cfg_attr(test, schemars(required))]
    pattern: Option<String>,
}

async fn find_text(
    Here(workspace): Here,
    Params(params): Params<FindParams>,
) -> Result<Answer<Vec<LineMatch>>, Failure> {
    let pattern = required(params.pattern, Piece::Query, "pattern")?;
    Ok(Answer(Files::of(&workspace).find_text(&pattern).await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindFilesParams {
    #[cfg_attr(test, schemars(required))]
    query: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
    r#type: Option<String>,
    dirs: Option<String>,
}

async fn find_files(
    Here(workspace): Here,
    Params(params): Params<FindFilesParams>,
) -> Result<Answer<Vec<String>>, Failure> {
    let wrong = |message: String| Failure::bad_request(Piece::Query, message);
    let letters = required(params.query, Piece::Query, "query")?;
    let limit = match params.limit.as_deref() {
        None => DEFAULT_FOUND,
        Some(text) => {
            number(Some(text)).filter(|limit| (1..=MAX_FOUND).contains(limit)).ok_or_else(|| {
                wrong(format!("Expected a number from 1 to {MAX_FOUND}, got {text:?}\n  at [\"limit\"]"))
            })?
        }
    };
    let only = match (params.r#type.as_deref(), params.dirs.as_deref()) {
        (Some("file"), _) | (None, Some("false")) => Some(NodeType::File),
        (Some("directory"), _) => Some(NodeType::Directory),
        (Some(other), _) => {
            let message = format!("Expected \"file\" | \"directory\", got {other:?}\n  at [\"type\"]");
            return Err(wrong(message));
        }
        (None, _) => None,
    };
    Ok(Answer(Files::of(&workspace).find_files(FileQuery { letters, limit, only }).await))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SymbolParams {
    #[cfg_attr(test, schemars(required))]
    query: Option<String>,
}

async fn find_symbols(
    Here(workspace): Here,
    Params(params): Params<SymbolParams>,
) -> Result<Answer<Vec<Symbol>>, Failure> {
    let query = required(params.query, Piece::Query, "query")?;
    Ok(Answer(Files::of(&workspace).find_symbols(&query).await))
}
