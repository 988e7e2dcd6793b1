//! Logins below `/api`: an attempt is begun, looked at, completed by a code, or given up.

use std::path::PathBuf;

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{clock, ids};
use windlass_engine::{
    Workspace,
    accounts::{
        logins::{self, Page},
        plugin_logins::{Begun, LoginPage},
    },
};

use super::{
    api::{Envelope, envelope},
    api_key::invalid,
    attempt::{Attempt, End, LIMIT},
    body::{Answer, Payload},
    error::Failure,
    here::Here,
    provider::is_of_plugin,
    routes::{Routes, get, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/integration/{id}/connect/oauth", post(begin))
        .route("/api/integration/attempt/{id}", get(status).delete(give_up))
        .route("/api/integration/attempt/{id}/complete", post(complete))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BeginBody {
    #[serde(rename = "methodID")]
    method: String,
    #[serde(default)]
    inputs: Map<String, Value>,
}

async fn begin(
    State(server): State<Shared>,
    Here(workspace): Here,
    Path(provider): Path<String>,
    Payload(body): Payload<BeginBody>,
) -> Result<Answer<Envelope>, Failure> {
    let id = format!("att_{}", ids::random(24));
    let (end, _) = watch::channel(None);
    let (mut page, task, code_for) = if is_of_plugin(&server, &workspace, &provider).await? {
        begin_at_plugin(&server, &workspace, &provider, body, &end).await?
    } else {
        begin_at_provider(&server, &provider, body, &end).await?
    };
    let attempt = Attempt::new(id.clone(), provider, end, code_for, task);
    page["attemptID"] = id.into();
    page["time"] = attempt.times();
    server.attempts.push(attempt);
    envelope(&server, &workspace, page).await
}

/// The page of a begun login, the waiter for its end, and the directory of a plugin that waits for a code.
type BegunAttempt = (Value, Option<AbortOnDropHandle<()>>, Option<PathBuf>);

async fn begin_at_provider(
    server: &Shared,
    provider: &str,
    body: BeginBody,
    end: &watch::Sender<End>,
) -> Result<BegunAttempt, Failure> {
    let login_method =
        logins::methods(provider).into_iter().find(|it| it.id == body.method).ok_or_else(|| {
            let message = format!("{provider} has no login {:?}.", body.method);
            invalid(&message, "methodID")
        })?;
    let instance = ["instance", "enterpriseUrl"].iter().find_map(|name| body.inputs.get(*name)?.as_str());
    let page = server.logins.begin(server.engine.clone(), login_method, instance.map(str::to_owned)).await;
    let Page { url, code } = page.map_err(|reason| failed(provider, &reason))?;
    let instructions = match code {
        Some(code) => format!("Enter the code {code} on the page."),
        None => "Complete the login in the browser.".to_owned(),
    };
    let (server, provider, end) = (server.clone(), provider.to_owned(), end.clone());
    let task = tokio::spawn(async move {
        tokio::select! {
            biased;
            () = server.stop.cancelled() => {}
            ended = server.logins.end(&provider) => {
                let ended = ended.unwrap_or_else(|| Err("it was given up".to_owned()));
                end.send_replace(Some(ended));
            }
        }
    });
    let page = json!({"url": url, "mode": "auto", "instructions": instructions});
    Ok((page, Some(AbortOnDropHandle::new(task)), None))
}

async fn begin_at_plugin(
    server: &Shared,
    workspace: &Workspace,
    provider: &str,
    body: BeginBody,
    end: &watch::Sender<End>,
) -> Result<BegunAttempt, Failure> {
    let no_login = || invalid(&format!("{provider} has no login {:?}.", body.method), "methodID");
    let method = body.method.parse::<usize>().map_err(|_| no_login())?;
    let directory = workspace.directory().to_owned();
    let inputs = Value::Object(body.inputs);
    let begun = server.engine.accounts().begin_plugin_login(&directory, (provider, method), &inputs).await;
    match begun.map_err(|reason| failed(provider, &reason))? {
        Begun::Invalid { invalid: wrong } => Err(invalid(&wrong.message, &wrong.field)),
        Begun::Ended { .. } => {
            end.send_replace(Some(Ok(())));
            Ok((json!({"url": "", "mode": "auto", "instructions": "The login is complete."}), None, None))
        }
        Begun::Page(LoginPage { url, instructions, method }) => {
            let page = json!({"url": url, "mode": method, "instructions": instructions});
            if page["mode"] == "code" {
                return Ok((page, None, Some(directory)));
            }
            let (server, provider, end) = (server.clone(), provider.to_owned(), end.clone());
            let task = tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = server.stop.cancelled() => {}
                    ended = server.engine.accounts().end_plugin_login(&directory, &provider, None) => {
                        end.send_replace(Some(ended.map(drop)));
                    }
                }
            });
            Ok((page, Some(AbortOnDropHandle::new(task)), None))
        }
    }
}

async fn status(
    State(server): State<Shared>,
    Here(workspace): Here,
    Path(id): Path<String>,
) -> Result<Answer<Envelope>, Failure> {
    let status = server.attempts.with(&id, |attempt: &Attempt| {
        let time = attempt.times();
        match &*attempt.end.borrow() {
            Some(Ok(())) => json!({"status": "complete", "time": time}),
            Some(Err(reason)) => json!({"status": "failed", "message": reason, "time": time}),
            None if clock::now_ms() > attempt.expires() => json!({"status": "expired", "time": time}),
            None => json!({"status": "pending", "time": time}),
        }
    });
    let status = status.ok_or_else(|| unknown(&id))?;
    envelope(&server, &workspace, status).await
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompleteBody {
    code: Option<String>,
}

/// Takes the code of a page that shows one; waits for the end of another login.
async fn complete(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<CompleteBody>,
) -> Result<StatusCode, Failure> {
    let parts = |attempt: &Attempt| (attempt.provider.clone(), attempt.end.clone(), attempt.code_for.clone());
    let (provider, end, code_for) = server.attempts.with(&id, parts).ok_or_else(|| unknown(&id))?;
    let mut ended = end.subscribe();
    if let Some(directory) = code_for.filter(|_| ended.borrow().is_none()) {
        let Some(code) = body.code.filter(|code| !code.trim().is_empty()) else {
            return Err(invalid("The page shows a code, which is needed.", "code"));
        };
        let done = server.engine.accounts().end_plugin_login(&directory, &provider, Some(&code)).await;
        end.send_replace(Some(match done {
            Ok(true) => Ok(()),
            Ok(false) => Err("another login was begun instead".to_owned()),
            Err(reason) => Err(reason),
        }));
    }
    let done = tokio::time::timeout(LIMIT, ended.wait_for(Option::is_some)).await;
    match done.ok().and_then(|done| done.ok()?.clone()) {
        Some(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Some(Err(reason)) => Err(failed(&provider, &reason)),
        None => Err(failed(&provider, "it took too long")),
    }
}

async fn give_up(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    let attempt = server.attempts.remove(&id).ok_or_else(|| unknown(&id))?;
    let is_pending = attempt.end.borrow().is_none();
    if is_pending {
        server.logins.give_up(&attempt.provider);
    }
    Ok(StatusCode::NO_CONTENT)
}

fn failed(provider: &str, reason: &str) -> Failure {
    invalid(&format!("The login at {provider} failed: {reason}."), "attemptID")
}

fn unknown(id: &str) -> Failure {
    invalid(&format!("There is no login attempt {id:?}."), "attemptID")
}
