//! Routes of the server as a whole, and of the services of one directory.

use std::path::Path;

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{body::Answer, selection::Selected, server::Shared};

pub fn routes() -> Router<Shared> {
    Router::new()
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
    for directory in server.engine.open_directories() {
        close(&server, &directory).await;
    }
    server.hub.say(None, "global.disposed", &json!({}));
    server.hub.end(None);
    Answer(true)
}

/// Ends a directory's sessions and services, and the streams of its events behind the last one.
async fn close(server: &Shared, directory: &Path) {
    for id in server.engine.close_directory(directory).await {
        server.release(&id);
    }
    let directory = directory.display().to_string();
    server.hub.say(Some(&directory), "server.instance.disposed", &json!({"directory": directory}));
    server.hub.end(Some(&directory));
}
