//! Routes of the server as a whole, and of the services of one directory.

use std::path::Path;

use axum::extract::State;
use serde_json::{Value, json};
use windlass_protocol::opencode::{
    event::EventPayload,
    service::{ServiceEvent, ServiceNews},
};

use super::{
    body::Answer,
    routes::{Routes, get, post},
    selection::Selected,
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/global/health", get(health))
        .route("/global/dispose", post(dispose_all))
        .route("/instance/dispose", post(dispose))
}

async fn health() -> Answer<Value> {
    Answer(json!({"healthy": true, "version": env!("CARGO_PKG_VERSION")}))
}

async fn dispose(State(server): State<Shared>, selected: Selected) -> Answer<bool> {
    close(&server, &selected.0).await;
    Answer(true)
}

async fn dispose_all(State(server): State<Shared>) -> Answer<bool> {
    for directory in server.engine.workspaces().directories() {
        close(&server, &directory).await;
    }
    tell(&server, None, ServiceNews::GlobalDisposed {});
    Answer(true)
}

/// Ends a directory's sessions and services; the last event ends the streams of its events.
async fn close(server: &Shared, directory: &Path) {
    for id in server.engine.sessions().close_directory(directory).await {
        server.release(&id);
    }
    let directory = directory.display().to_string();
    tell(server, Some(directory.clone()), ServiceNews::InstanceDisposed { directory });
}

fn tell(server: &Shared, directory: Option<String>, news: ServiceNews) {
    server.engine.bus().publish(EventPayload::Service(ServiceEvent { directory, news }));
}
