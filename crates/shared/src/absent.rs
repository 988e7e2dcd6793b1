//! The shared store of a build without one.

use std::{collections::HashMap, path::Path, time::Duration};

use tokio::sync::{mpsc, watch};
use windlass_core::storage::{Storage, outlet::SharedError};
use windlass_protocol::opencode::{id::SessionId, settings::SharedSettings};

use crate::{Claimed, NodeRow, Notice, Owner, PeopleRow, Place, ServerState, SharedAnswer, Standing, Totals};

/// Never there.
#[derive(Clone)]
pub enum Shared {}

/// Never there.
pub enum PeopleTurn {}

impl PeopleTurn {
    pub fn rows(&mut self) -> Vec<PeopleRow> {
        match *self {}
    }

    pub async fn put(self, _: &[PeopleRow]) -> Result<i64, SharedError> {
        match self {}
    }
}

impl Shared {
    /// Refuses a setting that names a store; `None` if there is none.
    pub fn new(settings: &SharedSettings, _: &Storage, _: &Path) -> Result<Option<Self>, SharedError> {
        match settings.url.as_deref() {
            Some(url) if !url.trim().is_empty() => {
                let reason = "this windlass was built without the feature `postgres`".to_owned();
                Err(SharedError::Setting { reason })
            }
            Some(_) | None => Ok(None),
        }
    }

    pub async fn run(self) {
        match self {}
    }

    pub fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        match *self {}
    }

    pub fn check(&self, _: &SessionId) -> Result<(), SharedError> {
        match *self {}
    }

    pub fn held(&self) -> Vec<SessionId> {
        match *self {}
    }

    pub fn holds(&self, _: &SessionId) -> bool {
        match *self {}
    }

    pub fn root(&self, _: &SessionId) -> Option<SessionId> {
        match *self {}
    }

    pub fn name(&self) -> &str {
        match *self {}
    }

    pub fn standing(&self) -> Standing {
        match *self {}
    }

    pub fn forget_lost(&self, _: &SessionId) {
        match *self {}
    }

    pub async fn token(&self, _: &Owner) -> Result<String, SharedError> {
        match *self {}
    }

    pub async fn is_of_fleet(&self, _: &str) -> bool {
        match *self {}
    }

    pub async fn seal(&self, _: &str) -> Result<String, SharedError> {
        match *self {}
    }

    pub async fn is_sealed(&self, _: &str, _: &str) -> Result<bool, SharedError> {
        match *self {}
    }

    pub async fn answers(&self, _: &str) -> Result<Vec<SharedAnswer>, SharedError> {
        match *self {}
    }

    pub async fn put_answers(&self, _: &str, _: &[SharedAnswer]) -> Result<(), SharedError> {
        match *self {}
    }

    pub fn lease(&self) -> Duration {
        match *self {}
    }

    pub fn people_changes(&self) -> watch::Receiver<u64> {
        match *self {}
    }

    pub async fn number(&self) -> Result<i64, SharedError> {
        match *self {}
    }

    pub async fn people_since(&self, _: i64) -> Result<Vec<PeopleRow>, SharedError> {
        match *self {}
    }

    pub async fn begin_people(&self, _: i64) -> Result<PeopleTurn, SharedError> {
        match *self {}
    }

    pub async fn claim(&self, _: &SessionId, _: Option<&Path>) -> Result<Claimed, SharedError> {
        match *self {}
    }

    pub async fn place(&self, _: &SessionId) -> Result<Place, SharedError> {
        match *self {}
    }

    pub async fn is_beside(&self, _: &SessionId) -> bool {
        match *self {}
    }

    pub async fn refuse(&self, _: &SessionId) {
        match *self {}
    }

    pub async fn release(&self, _: &SessionId) -> Result<(), SharedError> {
        match *self {}
    }

    pub async fn delete(&self, _: &SessionId) -> Result<(), SharedError> {
        match *self {}
    }

    pub async fn join(&self) -> Result<String, SharedError> {
        match *self {}
    }

    pub async fn end(&self) {
        match *self {}
    }

    pub async fn refresh(&self) -> Result<(), SharedError> {
        match *self {}
    }

    pub async fn owners(&self) -> Result<HashMap<String, Owner>, SharedError> {
        match *self {}
    }

    pub async fn nodes(&self) -> Result<Vec<NodeRow>, SharedError> {
        match *self {}
    }

    pub async fn totals(&self) -> Result<Totals, SharedError> {
        match *self {}
    }

    pub async fn server(&self) -> Result<ServerState, SharedError> {
        match *self {}
    }
}
