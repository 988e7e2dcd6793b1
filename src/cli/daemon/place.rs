//! The session at a server that a terminal talks in.

use std::{path::PathBuf, sync::Arc};

use serde_json::json;
use windlass_core::config::Environment;
use windlass_protocol::opencode::{model_ref::ModelRef, session::Session};

use super::{
    super::{
        output,
        run::{args::TalkArgs, failure::Failure, open},
    },
    http::{CredentialArgs, Http},
    remote::Remote,
};

/// Connects to the server that a command names. A directory that is not here may be there.
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
    if args.worktree.is_some() {
        let reason = "`--worktree` is for sessions of this process; a server makes one by `worktree` of POST /session.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    if args.system_prompt.is_some() || args.append_system_prompt.is_some() {
        let reason = "`--system-prompt` and `--append-system-prompt` are for sessions of this process; the agents of the \
                      server's configuration have prompts of their own.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    let directory: PathBuf = match &args.dir {
        Some(dir) => dir.canonicalize().unwrap_or_else(|_| dir.clone()),
        None => open::directory(args)?,
    };
    Remote::connect(Http::new(environment, url, credential, &directory)?).await
}

/// Finds the session to go on with, or a copy of it; makes a new one if none is named. Returns true for that.
pub async fn open(http: &Http, args: &TalkArgs, words: &str) -> Result<(Session, bool), Failure> {
    open::check(args)?;
    let continued = match &args.session {
        Some(id) => Some(session(http, id).await?),
        None if args.is_continued => {
            let latest: Vec<Session> = http.get("/session?roots=true&limit=1").await?;
            latest.into_iter().next()
        }
        None => None,
    };
    let (session, is_new) = match continued {
        Some(session) if args.is_forked => {
            (http.post(&format!("/session/{}/fork", session.id), &json!({})).await?, false)
        }
        Some(session) => (session, false),
        None => (create(http, open::title(args, words)).await?, true),
    };
    if args.share {
        let shared: Session = http.post(&format!("/session/{}/share", session.id), &json!({})).await?;
        output::note(&shared.share.map(|share| share.url).unwrap_or_default());
    }
    Ok((session, is_new))
}

/// Makes a session.
pub async fn create(http: &Http, title: Option<String>) -> Result<Session, Failure> {
    let body = title.map_or(json!({}), |title| json!({ "title": title }));
    Ok(http.post("/session", &body).await?)
}

/// Returns a session of the server.
pub async fn session(http: &Http, id: &str) -> Result<Session, Failure> {
    let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_id {
        return Err(Failure::Failed(format!("There is no session `{id}` at {}.", http.address())));
    }
    Ok(http.get(&format!("/session/{id}")).await?)
}

/// Reads the name of a model and its variant.
pub fn model(args: &TalkArgs) -> Result<Option<ModelRef>, Failure> {
    let Some(name) = &args.model else { return Ok(None) };
    let model = open::model_name(name)?;
    let variant = args.variant.clone().or(model.variant.clone());
    Ok(Some(ModelRef { variant, ..model }))
}
