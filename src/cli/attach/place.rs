//! The session at a server that a terminal talks in.

use std::{path::PathBuf, sync::Arc};

use serde_json::json;
use windlass_core::config::Environment;
use windlass_protocol::opencode::{model_ref::ModelRef, session::Session};

use super::{
    super::{
        daemon::{
            http::{CredentialArgs, Http},
            remote::Remote,
        },
        output,
        run::{args::TalkArgs, failure::Failure},
    },
    failed,
};

/// Characters of the prompt that become the title when `--title` is empty.
const TITLE_LENGTH: usize = 50;

/// Returns the directory that the options name. One that is not here may be at the server.
pub fn directory(args: &TalkArgs) -> Result<PathBuf, Failure> {
    match &args.dir {
        Some(dir) => Ok(dir.canonicalize().unwrap_or_else(|_| dir.clone())),
        None => std::env::current_dir()
            .map_err(|error| Failure::Misuse(format!("this directory cannot be used: {error}."))),
    }
}

/// Connects to the server that a command names.
pub async fn connect(
    environment: &Environment,
    url: &str,
    credential: &CredentialArgs,
    args: &TalkArgs,
) -> Result<Arc<Remote>, Failure> {
    if args.no_sandbox {
        let reason =
            "`--no-sandbox` is for commands of this process; the server's settings say how its own run.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    Remote::connect(Http::new(environment, url, credential, &directory(args)?)?).await
}

/// Finds the session to go on with, or a copy of it; makes a new one if none is named.
pub async fn open(http: &Http, args: &TalkArgs, words: &str) -> Result<(Session, bool), Failure> {
    if args.is_forked && !args.is_continued && args.session.is_none() {
        let reason =
            "`--fork` copies a session: name it by `--session ID`, or take the latest by `--continue`.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    let continued = match &args.session {
        Some(id) => Some(session(http, id).await?),
        None if args.is_continued => {
            let latest: Vec<Session> = http.get("/session?roots=true&limit=1").await.map_err(failed)?;
            latest.into_iter().next()
        }
        None => None,
    };
    match continued {
        Some(session) if args.is_forked => {
            let forked = http.post(&format!("/session/{}/fork", session.id), &json!({})).await;
            Ok((forked.map_err(failed)?, false))
        }
        Some(session) => Ok((session, false)),
        None => Ok((create(http, args.title.as_deref(), words).await?, true)),
    }
}

/// Makes a session; an empty title is the beginning of the words.
pub async fn create(http: &Http, title: Option<&str>, words: &str) -> Result<Session, Failure> {
    let mut body = json!({});
    if let Some(title) = title {
        let title = match title.trim() {
            "" => output::plain(words).chars().take(TITLE_LENGTH).collect(),
            title => title.to_owned(),
        };
        body["title"] = title.into();
    }
    http.post("/session", &body).await.map_err(failed)
}

/// Returns a session of the server.
pub async fn session(http: &Http, id: &str) -> Result<Session, Failure> {
    let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_id {
        return Err(Failure::Failed(format!("There is no session `{id}` at {}.", http.address())));
    }
    http.get(&format!("/session/{id}")).await.map_err(failed)
}

/// Reads the name of a model and its variant.
pub fn model(name: Option<&str>, variant: Option<&str>) -> Result<Option<ModelRef>, Failure> {
    let Some(name) = name else { return Ok(None) };
    let model = ModelRef::parse(name)
        .ok_or_else(|| Failure::Misuse(format!("`{name}` is not a model name: write `provider/model`.")))?;
    let variant = variant.map(str::to_owned).or(model.variant.clone());
    Ok(Some(ModelRef { variant, ..model }))
}
