//! Figures of this process for Prometheus.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use super::{
    routes::{Routes, get},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new().route("/metrics", get(metrics))
}

/// Returns the figures in Prometheus' text form; those of shared sessions only where sessions are shared.
async fn metrics(State(server): State<Shared>) -> Response {
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, value: f64| {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"));
    };
    let busy = server.hub.busy().len();
    add("windlass_sessions_working", "gauge", "Sessions with a turn that runs.", busy as f64);
    if let Some(standing) = server.engine.fleet().standing().await {
        let gauge = "gauge";
        let counter = "counter";
        add("windlass_shared_sessions_held", gauge, "Shared sessions of this node.", standing.held as f64);
        let lag = standing.lag.as_secs_f64();
        add("windlass_shared_lag_seconds", gauge, "Age of the oldest change that is not in the log.", lag);
        let up = f64::from(u8::from(standing.trouble.is_none()));
        add("windlass_shared_up", gauge, "1 unless changes wait for the database.", up);
        for (name, help, value) in [
            ("windlass_shared_events_total", "Batches of changes that were logged.", standing.events),
            ("windlass_shared_bytes_total", "Bytes of these batches.", standing.bytes),
            ("windlass_shared_commits_total", "Commits that took them.", standing.commits),
            ("windlass_shared_fenced_total", "Sessions that another node took over.", standing.fenced),
            ("windlass_shared_taken_total", "Sessions that were made anew here.", standing.taken),
        ] {
            add(name, counter, help, value as f64);
        }
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
