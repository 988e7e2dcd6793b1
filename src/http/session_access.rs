//! Routes by which the owner of a session shares it with other accounts, and the page of a session for people with its link.

use axum::{
    Extension,
    extract::{Path, Request, State},
    http::{HeaderName, HeaderValue, header},
    response::{Html, IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_accounts::{AccountId, Grant, Level, PageLink};
use windlass_base::{
    blocking::blocking,
    clock::{iso, now_ms},
};
use windlass_engine::SessionPatch;
use windlass_protocol::opencode::{
    id::SessionId,
    session::{Session, SessionShare},
};

use super::{
    admission::Noted,
    body::{Answer, Id, Params, Payload},
    by::By,
    error::{Failure, Piece},
    pass_on,
    peers::FromFleet,
    routes::{Routes, get},
    server::Shared,
    team::Team,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/session/{id}/access", get(list).post(give).delete(take_back))
        .route("/s/{key}", get(page))
}

fn no_accounts() -> Failure {
    Failure::not_found("This server has no accounts; `windlass serve --accounts` has.")
}

async fn list(by: By, Id(id): Id<SessionId>) -> Result<Answer<Value>, Failure> {
    let (team, _) = by.account().ok_or_else(no_accounts)?;
    let watching = team.watchers(&id).into_iter().map(|it| json!({"id": it.id, "name": it.name}));
    Ok(Answer(json!({
        "owner": team.accounts.owner(&id),
        "access": team.accounts.grants(&id),
        "watching": watching.collect::<Value>(),
    })))
}

/// Stands for every account.
const EVERYBODY: &str = "*";

/// The use of a session that an account, or everybody with one, is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessBody {
    /// An account's id or name, or `*` for everybody with an account.
    account: String,
    level: Level,
    /// Milliseconds since the epoch.
    ends: Option<i64>,
}

async fn give(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
    Payload(body): Payload<AccessBody>,
) -> Result<(Extension<Noted>, Answer<Value>), Failure> {
    let (team, _) = by.account().ok_or_else(no_accounts)?;
    whole(&server, &id).await?;
    if body.level == Level::Own {
        return Err(Failure::bad_request(
            Piece::Payload,
            "`level` is \"read\", \"answer\" or \"prompt\".\n  at [\"level\"]",
        ));
    }
    check_end(body.ends)?;
    let grant = Grant { account: receiver(team, &body.account)?, level: body.level, ends: body.ends };
    let noted = Noted::detail(format!("{} {}{}", grant.level.name(), body.account, end_words(body.ends)));
    let (accounts, session) = (team.accounts.clone(), id.clone());
    blocking(move || accounts.grant(&session, &grant)).await?;
    Ok((Extension(noted), list(by.clone(), Id(id)).await?))
}

/// Returns the account that a client names; none for everybody.
fn receiver(team: &Team, account: &str) -> Result<Option<AccountId>, Failure> {
    if account == EVERYBODY { Ok(None) } else { Ok(Some(team.accounts.named(account)?.id)) }
}

/// Refuses an end that is over.
fn check_end(ends: Option<i64>) -> Result<(), Failure> {
    if ends.is_none_or(|ends| ends > now_ms()) {
        return Ok(());
    }
    let message = "`ends` is over already: it is a time in milliseconds since 1970.\n  at [\"ends\"]";
    Err(Failure::bad_request(Piece::Payload, message))
}

fn end_words(ends: Option<i64>) -> String {
    ends.map(|ends| format!(" until {}", iso(ends))).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
struct TakeBackParams {
    /// An account's id or name, or `*` for everybody with an account.
    account: String,
}

async fn take_back(
    by: By,
    Id(id): Id<SessionId>,
    Params(params): Params<TakeBackParams>,
) -> Result<(Extension<Noted>, Answer<bool>), Failure> {
    let (team, _) = by.account().ok_or_else(no_accounts)?;
    let account = receiver(team, &params.account)?;
    let accounts = team.accounts.clone();
    let withdrawn = blocking(move || accounts.withdraw(&id, account.as_ref())).await?;
    Ok((Extension(Noted::detail(params.account)), Answer(withdrawn)))
}

/// Refuses a subagent's session: it is shared with the one above it.
async fn whole(server: &Shared, id: &SessionId) -> Result<Session, Failure> {
    let info = server.session(id).await?;
    if info.parent_id.is_some() {
        return Err(Failure::bad_request(
            Piece::Params,
            "A subagent's session is shared with the session above it.",
        ));
    }
    Ok(info)
}

/// The page of a session that is to be shared.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShareBody {
    /// Ours: for people with an account of this server alone.
    #[serde(default)]
    login: bool,
    /// Ours: the end of the link, in milliseconds since the epoch.
    ends: Option<i64>,
}

impl ShareBody {
    /// Names the readers of the page, and its end.
    pub fn words(&self) -> String {
        let readers = if self.login { "those with an account" } else { "everybody with its link" };
        format!("page for {readers}{}", end_words(self.ends))
    }
}

/// Gives a session a page at this server.
pub async fn share(server: &Shared, by: &By, id: &SessionId, body: ShareBody) -> Result<Session, Failure> {
    let Some((team, _)) = by.account() else { return Ok(server.engine.shares().share(id).await?) };
    let info = whole(server, id).await?;
    check_end(body.ends)?;
    server.engine.shares().allowed(std::path::Path::new(&info.directory)).await?;
    let page = PageLink { session: id.clone(), needs_login: body.login, ends: body.ends };
    let accounts = team.accounts.clone();
    let key = blocking(move || accounts.make_page(&page)).await?;
    let share = SessionShare { url: format!("{}/s/{key}", team.url), page: None };
    patch(server, id, Some(share)).await
}

/// Shares a new session where the administrator wants each one shared. A failure leaves it unshared.
pub async fn share_unasked(server: &Shared, by: &By, info: Session) -> Session {
    if by.account().is_none() || info.parent_id.is_some() || !server.engine.shares().is_automatic().await {
        return info;
    }
    match share(server, by, &info.id, ShareBody::default()).await {
        Ok(shared) => shared,
        Err(failure) => {
            tracing::warn!(session = %info.id, reason = failure.message(), "the session is not shared");
            info
        }
    }
}

/// Takes the page of a session back.
pub async fn unshare(server: &Shared, by: &By, id: &SessionId) -> Result<Session, Failure> {
    let Some((team, _)) = by.account() else { return Ok(server.engine.shares().unshare(id).await?) };
    // Its key goes also where the session says nothing of a page.
    let (accounts, session) = (team.accounts.clone(), id.clone());
    blocking(move || accounts.drop_page(&session)).await?;
    Ok(server.engine.shares().unshare(id).await?)
}

async fn patch(server: &Shared, id: &SessionId, share: Option<SessionShare>) -> Result<Session, Failure> {
    Ok(server
        .engine
        .sessions()
        .patch(id, SessionPatch { share: Some(share), ..SessionPatch::default() })
        .await?)
}

/// Answers with the page of a link.
async fn page(
    State(server): State<Shared>,
    by: By,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let gone = || Failure::not_found("Nothing is shared by this link, or no more.");
    let team = server.options.team.clone().ok_or_else(gone)?;
    team.accounts.refresh()?;
    let page = team.accounts.page(&key).ok_or_else(gone)?;
    let is_passed_on = request.extensions().get::<FromFleet>().is_some();
    if page.needs_login && by.account().is_none() && !is_passed_on {
        return Ok(Redirect::to(&format!("/account?back={}", request.uri().path())).into_response());
    }
    if !is_passed_on && let Ok(Some(owner)) = server.engine.fleet().elsewhere(&page.session).await {
        let (parts, _) = request.into_parts();
        return pass_on::ask(&server, &owner, &parts).await;
    }
    // `session unshare` at the machine itself knows no keys.
    let info = server.session(&page.session).await.map_err(|_| gone())?;
    if info.share.is_none_or(|share| !share.url.ends_with(&key)) {
        return Err(gone());
    }
    let drawn = team.drawn.get(&key, server.engine.shares().draw(&page.session)).await?;
    let mut response = Html(drawn.to_string()).into_response();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}
