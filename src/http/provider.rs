//! Routes of providers, their models and their keys. The whole catalog is made once and served as it is.

use std::{collections::BTreeMap, io};

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_base::blocking::blocking;
use windlass_engine::{
    Workspace,
    accounts::{
        logins::{self, Page},
        plugin_logins::{Begun, LoginPage},
    },
};
use windlass_protocol::opencode::{config::AuthEntry, provider::UsableProviders};

use super::{
    body::{Answer, Payload, raw_json},
    by::{By, forbidden},
    error::{Failure, Piece},
    here::Here,
    routes::{Routes, get, post, put},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/config/providers", get(usable))
        .route("/provider", get(all))
        .route("/provider/auth", get(methods))
        .route("/provider/{id}/oauth/authorize", post(authorize))
        .route("/provider/{id}/oauth/callback", post(callback))
        .route("/auth/{id}", put(store).delete(remove))
}

async fn usable(Here(workspace): Here) -> Answer<UsableProviders> {
    Answer(workspace.loaded().usable_providers().await)
}

async fn all(
    State(server): State<Shared>,
    Here(workspace): Here,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let catalog = server.catalogs.get(&workspace.loaded()).await.map_err(no_listing)?;
    let text =
        |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let tag = HeaderValue::from_str(&catalog.tag);
    let is_known =
        text(header::IF_NONE_MATCH).split(',').any(|it| it.trim().trim_start_matches("W/") == catalog.tag);
    let takes_packed = text(header::ACCEPT_ENCODING).contains("gzip");
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_packed {
        let mut response = raw_json(StatusCode::OK, catalog.packed.clone());
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        raw_json(StatusCode::OK, catalog.plain().await.map_err(no_listing)?)
    };
    if let Ok(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

fn no_listing(error: io::Error) -> Failure {
    Failure::unknown(format!("the catalog cannot be shown: {error}"))
}

/// Returns the ways to log in to each known provider: by browser or code where it has them, and by a key.
async fn methods(
    State(server): State<Shared>,
    Here(workspace): Here,
) -> Result<Answer<BTreeMap<String, Value>>, Failure> {
    let logins = server.engine.accounts().plugin_logins(workspace.directory()).await?;
    let known = workspace.loaded().catalog.known();
    let of_provider = |id: &String| {
        let methods = logins::methods(id).into_iter();
        let methods = methods.map(|it| json!({"type": "oauth", "label": it.title}));
        methods.chain([json!({"type": "api", "label": "API key"})]).collect()
    };
    let mut methods: BTreeMap<String, Value> =
        known.into_iter().map(|id| (id.clone(), of_provider(&id))).collect();
    // A plugin's methods take the place of ours.
    methods.extend(logins.into_iter().map(|login| (login.provider, json!(login.methods))));
    Ok(Answer(methods))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuthorizeBody {
    /// The place of the method in the list of methods.
    method: usize,
    #[serde(default)]
    inputs: Map<String, Value>,
}

async fn authorize(
    State(server): State<Shared>,
    Here(workspace): Here,
    Path(id): Path<String>,
    Payload(body): Payload<AuthorizeBody>,
) -> Result<Answer<Value>, Failure> {
    if is_of_plugin(&server, &workspace, &id).await? {
        return authorize_by_plugin(&server, &workspace, &id, body).await;
    }
    let login_method = logins::methods(&id).into_iter().nth(body.method).ok_or_else(|| {
        let message = format!("{id} has no such login; GET /provider/auth lists its methods.");
        Failure::bad_request(Piece::Payload, message)
    })?;
    let instance = ["instance", "enterpriseUrl"].iter().find_map(|name| body.inputs.get(*name)?.as_str());
    let page = server.logins.begin(server.engine.clone(), login_method, instance.map(str::to_owned)).await;
    let Page { url, code } = page.map_err(|reason| login_failed(&id, &reason))?;
    let instructions = match code {
        Some(code) => format!("Enter the code {code} on the page."),
        None => "Complete the login in the browser.".to_owned(),
    };
    Ok(Answer(json!({"url": url, "method": "auto", "instructions": instructions})))
}

/// Returns true if a plugin of the directory brings the logins of a provider.
pub async fn is_of_plugin(server: &Shared, workspace: &Workspace, id: &str) -> Result<bool, Failure> {
    let logins = server.engine.accounts().plugin_logins(workspace.directory()).await?;
    Ok(logins.iter().any(|login| login.provider == id))
}

async fn authorize_by_plugin(
    server: &Shared,
    workspace: &Workspace,
    id: &str,
    body: AuthorizeBody,
) -> Result<Answer<Value>, Failure> {
    let (directory, inputs) = (workspace.directory(), Value::Object(body.inputs));
    let begun = server.engine.accounts().begin_plugin_login(directory, (id, body.method), &inputs).await;
    match begun.map_err(|reason| login_failed(id, &reason))? {
        Begun::Invalid { invalid } => {
            let data = json!({"field": invalid.field, "message": invalid.message});
            Err(Failure::named(StatusCode::BAD_REQUEST, "ProviderAuthValidationFailed", data))
        }
        // One by key needs no page.
        Begun::Ended { .. } => Ok(Answer(Value::Null)),
        Begun::Page(LoginPage { url, instructions, method }) => {
            Ok(Answer(json!({"url": url, "method": method, "instructions": instructions})))
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallbackBody {
    /// The code that the page of a plugin's login shows.
    code: Option<String>,
}

/// Answers when the login has ended. The code of our own comes by the page, not by this request.
async fn callback(
    State(server): State<Shared>,
    Here(workspace): Here,
    Path(id): Path<String>,
    Payload(body): Payload<CallbackBody>,
) -> Result<Answer<bool>, Failure> {
    let ended = if is_of_plugin(&server, &workspace, &id).await? {
        let code = body.code.as_deref();
        match server.engine.accounts().end_plugin_login(workspace.directory(), &id, code).await {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(reason) => Some(Err(reason)),
        }
    } else {
        server.logins.end(&id).await
    };
    match ended {
        Some(Ok(())) => Ok(Answer(true)),
        Some(Err(reason)) => Err(login_failed(&id, &reason)),
        None => {
            let message =
                format!("No login is under way for {id}; begin one by /provider/{id}/oauth/authorize.");
            let data = json!({"providerID": id, "message": message});
            Err(Failure::named(StatusCode::BAD_REQUEST, "ProviderAuthOauthMissing", data))
        }
    }
}

fn login_failed(id: &str, reason: &str) -> Failure {
    let data = json!({"providerID": id, "message": format!("The login at {id} failed: {reason}.")});
    Failure::named(StatusCode::BAD_REQUEST, "ProviderAuthOauthCallbackFailed", data)
}

/// Stores the team's key or login; of an account that is no administrator's, its own key for its own sessions.
async fn store(
    State(server): State<Shared>,
    by: By,
    Path(id): Path<String>,
    Payload(entry): Payload<AuthEntry>,
) -> Result<Answer<bool>, Failure> {
    if let Some((team, visitor)) = by.account()
        && !by.administers()
    {
        let AuthEntry::Api { key, metadata } = entry else {
            return Err(forbidden(
                "An account has keys of its own; logins at providers are an administrator's.",
            ));
        };
        if !metadata.is_empty() {
            return Err(forbidden(
                "The parts of a provider's address are an administrator's; an account has keys.",
            ));
        }
        let (accounts, account) = (team.accounts.clone(), visitor.account.clone());
        blocking(move || accounts.keep_key(&account, &id, &key)).await?;
        return Ok(Answer(true));
    }
    server.engine.accounts().store(&id, entry).await?;
    Ok(Answer(true))
}

async fn remove(
    State(server): State<Shared>,
    by: By,
    Path(id): Path<String>,
) -> Result<Answer<bool>, Failure> {
    if let Some((team, visitor)) = by.account()
        && !by.administers()
    {
        let (accounts, account) = (team.accounts.clone(), visitor.account.clone());
        blocking(move || accounts.drop_key(&account, &id)).await?;
        return Ok(Answer(true));
    }
    server.engine.accounts().remove(&id).await?;
    Ok(Answer(true))
}
