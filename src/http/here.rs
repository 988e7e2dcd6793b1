//! The services of the directory that a request selects.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use windlass_engine::Workspace;
use windlass_files::FilesError;

use super::{
    by::By,
    error::{Failure, Piece},
    selection::Selected,
    server::Shared,
};

/// The services of the selected directory, started where they do not run.
pub struct Here(pub Arc<Workspace>);

impl FromRequestParts<Shared> for Here {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<Self, Failure> {
        let Selected(directory) = Selected::from_request_parts(parts, server).await?;
        let workspace = server.engine.workspaces().workspace(&directory).await?;
        let Ok(by) = By::from_request_parts(parts, server).await;
        by.check_repository(&workspace)?;
        server.engine.workspaces().watch(&workspace);
        server.end_idle_services().await;
        Ok(Self(workspace))
    }
}

/// Returns a parameter that a request has to have.
pub fn required<T>(value: Option<T>, piece: Piece, name: &str) -> Result<T, Failure> {
    value.ok_or_else(|| Failure::bad_request(piece, format!("Missing key\n  at [\"{name}\"]")))
}

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::NotFound(message) => Self::not_found(message),
            FilesError::Invalid(message) => Self::bad_request(Piece::Query, message),
            FilesError::Failed(message) => Self::unknown(message),
        }
    }
}
