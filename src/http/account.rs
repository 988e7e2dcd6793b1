//! Routes of accounts: logging in and out, tokens, programs that wait to be let in, and the team for its administrators.

use axum::{
    body::Bytes,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_accounts::{
    Account, AccountChange, AccountId, AccountsError, AuditEntry, Credential, Kind, NewCredential, Role,
    Scope, Visitor,
    login::{Callback, error::LoginError},
};
use windlass_base::{blocking::blocking, clock::now_ms, ids};
use windlass_protocol::opencode::id::SessionId;

use super::{
    body::{Answer, Payload},
    by::{By, forbidden},
    devices::{LIFETIME, Outcome},
    error::{Failure, Piece},
    peer::Peer,
    routes::{Routes, delete, get, post},
    server::Shared,
    session_access,
    team::{Team, real_directories, secrets, status_of},
};

mod view;

/// Cookie that holds a login that has begun to its browser.
const LOGIN_COOKIE: &str = "windlass_login";
/// Keeps other hosts of the domain from setting it, where connections are encrypted.
const OWN_HOST: &str = "__Host-";
/// The longest life of a token, in days.
const MAX_DAYS: i64 = 365;
const USUAL_DAYS: i64 = 90;
const DAY: i64 = 24 * 3_600_000;
/// Stands for those with the link of a session's page, in the form that takes it back.
const PAGE: &str = "page";
const NONCE_CHARS: usize = 24;

pub fn routes() -> Routes {
    Routes::new()
        .route("/account", get(page).post(form))
        .route("/account/login/{provider}", get(begin))
        .route("/account/callback/{provider}", get(complete))
        .route("/account/enter", get(link).post(follow))
        .route("/account/logout", post(log_out))
        .route("/account/me", get(me))
        .route("/account/list", get(list))
        .route("/account/shared", get(shared))
        .route("/account/token", get(tokens).post(make_token))
        .route("/account/token/{id}", delete(revoke))
        .route("/account/device", post(wait))
        .route("/account/device/token", post(settled))
}

/// Refuses routes of accounts where there are none.
fn team(server: &Shared) -> Result<&Team, Failure> {
    let none = || Failure::not_found("This server has no accounts; `windlass serve --accounts` has.");
    server.options.team.as_deref().ok_or_else(none)
}

fn caller(by: &By) -> Result<(&Team, &Visitor), Failure> {
    let none = || Failure::not_found("This server has no accounts; `windlass serve --accounts` has.");
    by.account().map(|(team, visitor)| (&**team, &**visitor)).ok_or_else(none)
}

impl From<AccountsError> for Failure {
    fn from(error: AccountsError) -> Self {
        match &error {
            AccountsError::Store(_) => Self::unknown(error.to_string()),
            AccountsError::OutOfReach(_) => Self::named(
                StatusCode::SERVICE_UNAVAILABLE,
                "Unavailable",
                json!({"message": error.to_string()}),
            ),
            AccountsError::Unknown(_) => Self::not_found(error.to_string()),
            AccountsError::Ambiguous(_)
            | AccountsError::Taken(_)
            | AccountsError::LastAdministrator(_)
            | AccountsError::NoName
            | AccountsError::TooManyTokens(_)
            | AccountsError::TooManyKeys(_)
            | AccountsError::TooManyGrants(_) => Self::bad_request(Piece::Payload, error.to_string()),
        }
    }
}

/// Adds a row to the audit.
async fn note(team: &Team, entry: AuditEntry) {
    let accounts = team.accounts.clone();
    if let Err(error) = blocking(move || accounts.note(&entry)).await {
        tracing::error!(%error, "the audit lacks an entry");
    }
}

fn address(peer: Option<&Peer>) -> String {
    peer.and_then(Peer::address).map(|it| it.to_string()).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
struct PageParams {
    back: Option<String>,
    /// The code of a program that waits.
    code: Option<String>,
}

async fn page(
    State(server): State<Shared>,
    by: By,
    Query(params): Query<PageParams>,
) -> Result<Response, Failure> {
    let team = team(&server)?;
    let Some((_, visitor)) = by.account() else {
        let back = params.code.map_or(params.back, |code| Some(format!("/account?code={code}")));
        return Ok(answer(StatusCode::OK, |nonce| view::login(team, &here(back), nonce)));
    };
    Ok(show(&server, team, visitor, &view::Said { code: params.code, ..view::Said::default() }).await)
}

/// Draws the page of an account.
async fn show(server: &Shared, team: &Team, visitor: &Visitor, said: &view::Said) -> Response {
    let mut sessions = Vec::new();
    for (id, level, owner) in team.accounts.shared_with(visitor) {
        let Ok(info) = server.engine.sessions().get(&id).await else { continue };
        let owner =
            team.accounts.get(&owner).map_or_else(|| "an account that is gone".to_owned(), |it| it.name);
        sessions.push(view::SharedSession { id, title: info.title, level, owner });
    }
    let mut own = Vec::new();
    for id in team.accounts.shared_by(&visitor.account) {
        let Ok(info) = server.engine.sessions().get(&id).await else { continue };
        let name = |account: &AccountId| team.accounts.get(account).map(|it| it.name);
        let grants = team.accounts.grants(&id).into_iter();
        let with = grants.map(|it| {
            let account = it.account.map(|it| (it.to_string(), name(&it).unwrap_or_default()));
            (account.unwrap_or_else(|| (String::new(), "everybody with an account".to_owned())), it.level)
        });
        own.push(view::OwnSession {
            with: with.collect(),
            page: info.share.map(|it| it.url),
            watching: team.watchers(&id).into_iter().map(|it| it.name).collect(),
            title: info.title,
            id,
        });
    }
    answer(StatusCode::OK, |nonce| view::account(team, visitor, (&own, &sessions), said, nonce))
}

fn answer(status: StatusCode, draw: impl FnOnce(&str) -> String) -> Response {
    let nonce = ids::random(NONCE_CHARS);
    let mut response = (status, Html(draw(&nonce))).into_response();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("same-origin"));
    response
}

/// Returns a path of this server to go back to; one that leads elsewhere counts as absent.
fn here(back: Option<String>) -> String {
    let is_here = |it: &String| {
        it.starts_with('/')
            && !it.starts_with("//")
            && !it.contains('\\')
            && it.chars().all(|it| !it.is_control())
    };
    back.filter(is_here).unwrap_or_else(|| "/account".to_owned())
}

/// Sends a browser to a provider.
async fn begin(
    State(server): State<Shared>,
    Path(provider): Path<String>,
    Query(params): Query<PageParams>,
) -> Result<Response, Failure> {
    let team = team(&server)?;
    match team.logins.begin(&provider, &callback_url(team, &provider)).await {
        Ok(begun) => {
            let mut response = Redirect::to(&begun.url).into_response();
            let secure = if team.is_secure() { "; Secure" } else { "" };
            let attributes = format!("Path=/; HttpOnly; SameSite=Lax; Max-Age=600{secure}");
            let name = login_cookie(team);
            for cookie in [
                format!("{name}={}; {attributes}", begun.browser_key),
                format!("{name}_back={}; {attributes}", encoded(&here(params.back))),
            ] {
                if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                    response.headers_mut().append(header::SET_COOKIE, cookie);
                }
            }
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            Ok(response)
        }
        Err(error) => {
            tracing::warn!(provider, %error, "a login cannot begin");
            Ok(answer(status_of(&error), |nonce| view::failed(&error.to_string(), nonce)))
        }
    }
}

fn login_cookie(team: &Team) -> String {
    if team.is_secure() { format!("{OWN_HOST}{LOGIN_COOKIE}") } else { LOGIN_COOKIE.to_owned() }
}

fn callback_url(team: &Team, provider: &str) -> String {
    format!("{}/account/callback/{provider}", team.url)
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[derive(Debug, Deserialize)]
struct CallbackParams {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Takes a browser back from a provider, and logs it in.
async fn complete(
    State(server): State<Shared>,
    Path(provider): Path<String>,
    Query(params): Query<CallbackParams>,
    request: Request,
) -> Result<Response, Failure> {
    let team = team(&server)?;
    let (headers, peer) = (request.headers().clone(), request.extensions().get::<Peer>().cloned());
    let key = secrets(&headers, &login_cookie(team)).into_iter().next();
    let CallbackParams { code, state, iss, error, error_description } = params;
    let callback = Callback { code, state, iss, error, error_description };
    let failed = |status: StatusCode, words: String| answer(status, |nonce| view::failed(&words, nonce));
    let refused = async |words: &str| {
        let entry = AuditEntry {
            address: address(peer.as_ref()),
            ..AuditEntry::new(None, "login refused", &provider).with(words)
        };
        note(team, entry).await;
    };
    let identity = match team.logins.complete(&provider, key.as_deref(), callback).await {
        Ok(identity) => identity,
        Err(error) => {
            // Anybody can send answers to logins that nobody began; the rows of others stay.
            let is_answer = !matches!(
                error,
                LoginError::UnknownProvider { .. }
                    | LoginError::UnknownAttempt { .. }
                    | LoginError::OtherBrowser { .. }
            );
            let address = peer.as_ref().and_then(Peer::address);
            if is_answer && server.options.access.count_try(address) {
                refused(&error.to_string()).await;
            }
            return Ok(failed(status_of(&error), error.to_string()));
        }
    };
    let person = format!("{} ({})", identity.name, identity.subject);
    let Some(account) = team.enter(identity).await? else {
        let words = format!(
            "{person} has no account here: an administrator invites people, or names the domains that may join."
        );
        refused(&words).await;
        return Ok(failed(StatusCode::FORBIDDEN, words));
    };
    let back = secrets(&headers, &format!("{}_back", login_cookie(team))).into_iter().next();
    let back =
        back.and_then(|it| Some(percent_encoding::percent_decode_str(&it).decode_utf8().ok()?.into_owned()));
    let response = entered(team, &account, &headers, &here(back), address(peer.as_ref()), &provider).await?;
    Ok(response)
}

/// Logs a browser in, and sends it on by a page of this server: its own cookie goes along then.
async fn entered(
    team: &Team,
    account: &Account,
    headers: &HeaderMap,
    back: &str,
    address: String,
    way: &str,
) -> Result<Response, Failure> {
    let cookie = team.cookie(account, headers).await?;
    let entry = AuditEntry {
        account: Some(account.id.to_string()),
        name: account.name.clone(),
        address,
        ..AuditEntry::new(None, "login", way)
    };
    note(team, entry).await;
    let mut response = answer(StatusCode::OK, |nonce| view::entered(&account.name, back, nonce));
    for cookie in [
        cookie,
        format!("{}=; Path=/; Max-Age=0", login_cookie(team))
            + if team.is_secure() { "; Secure" } else { "" },
    ] {
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    Ok(response)
}

#[derive(Debug, Deserialize)]
struct LinkParams {
    #[serde(default)]
    key: String,
}

/// Shows a link's account; a press of the button uses it up, and no program that looks ahead does.
async fn link(State(server): State<Shared>, Query(params): Query<LinkParams>) -> Result<Response, Failure> {
    let team = team(&server)?;
    Ok(match team.accounts.link_of(&params.key) {
        Some(account) => answer(StatusCode::OK, |nonce| view::link(&account, &params.key, nonce)),
        None => answer(StatusCode::FORBIDDEN, |nonce| view::failed(NO_LINK, nonce)),
    })
}

const NO_LINK: &str = "This link has been followed already, is too old, or is of another server; an administrator makes a new one.";

async fn follow(
    State(server): State<Shared>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Failure> {
    let team = team(&server)?;
    let peer = request.extensions().get::<Peer>().cloned();
    // Another page could log a browser into an account that its person does not know.
    if let Some(refused) = server.options.access.refusal_of_page(&request) {
        return Ok(refused);
    }
    let bytes = axum::body::to_bytes(request.into_body(), MAX_FORM).await.unwrap_or_default();
    let (accounts, key) = (team.accounts.clone(), field(&bytes, "key"));
    Ok(match blocking(move || accounts.follow(&key)).await? {
        Some(account) => {
            entered(team, &account, &headers, "/account", address(peer.as_ref()), "link").await?
        }
        None => answer(StatusCode::FORBIDDEN, |nonce| view::failed(NO_LINK, nonce)),
    })
}

const MAX_FORM: usize = 64 << 10;

/// Returns a field of a form.
fn field(body: &[u8], name: &str) -> String {
    fields(body).into_iter().find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
}

fn fields(body: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(body);
    let url = reqwest::Url::parse(&format!("form:?{text}")).ok();
    url.map(|url| url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
        .unwrap_or_default()
}

async fn log_out(by: By, headers: HeaderMap) -> Result<Response, Failure> {
    let (team, visitor) = caller(&by)?;
    if let Some(credential) = visitor.credential.clone() {
        let (accounts, account) = (team.accounts.clone(), visitor.account.clone());
        blocking(move || accounts.revoke(&account, &credential)).await?;
    }
    note(team, AuditEntry::new(Some(visitor), "logout", "")).await;
    if !headers.contains_key(header::COOKIE) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // The provider's own session would log the next person at this browser in.
    let provider = team.accounts.get(&visitor.account).map(|it| it.provider).unwrap_or_default();
    let own = format!("{}/account", team.url);
    let next = team.logins.logout_url(&provider, None, &own).await;
    let mut response = match next {
        // A form's policy holds for the address that its answer leads to.
        Some(next) => answer(StatusCode::OK, |nonce| view::left(&next, nonce)),
        None => Redirect::to("/account").into_response(),
    };
    if let Ok(cookie) = HeaderValue::from_str(&team.no_cookie(&headers)) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn me(by: By) -> Result<Answer<Value>, Failure> {
    let (team, visitor) = caller(&by)?;
    let account = team.accounts.get(&visitor.account);
    Ok(Answer(json!({"account": account, "scope": visitor.scope})))
}

/// Lists the accounts that a session can be shared with.
async fn list(by: By) -> Result<Answer<Value>, Failure> {
    let (team, visitor) = caller(&by)?;
    let shown =
        |it: &Account| if visitor.is_admin() { json!(it) } else { json!({"id": it.id, "name": it.name}) };
    Ok(Answer(team.accounts.list().iter().map(shown).collect()))
}

/// Lists the sessions of others that the account may use.
async fn shared(by: By) -> Result<Answer<Value>, Failure> {
    let (team, visitor) = caller(&by)?;
    let shared = team.accounts.shared_with(visitor).into_iter();
    Ok(Answer(
        shared.map(|(id, level, owner)| json!({"sessionID": id, "level": level, "owner": owner})).collect(),
    ))
}

fn token_view(it: &Credential) -> Value {
    json!({"id": it.id, "name": it.name, "scope": it.scope, "created": it.created, "ends": it.ends})
}

async fn tokens(by: By) -> Result<Answer<Value>, Failure> {
    let (team, visitor) = caller(&by)?;
    Ok(Answer(team.accounts.credentials(&visitor.account, Kind::Token).iter().map(token_view).collect()))
}

/// A token that is to be made.
#[derive(Debug, Deserialize)]
pub struct TokenBody {
    name: String,
    scope: Option<Scope>,
    /// Days until it ends, at most 365; 90 without a number.
    days: Option<i64>,
}

async fn make_token(by: By, Payload(body): Payload<TokenBody>) -> Result<Answer<Value>, Failure> {
    let (team, visitor) = caller(&by)?;
    let token = issue(team, visitor, &body.name, body.scope.unwrap_or(Scope::Work), body.days).await?;
    Ok(Answer(json!({"token": token})))
}

/// Makes a token, which is good for no more than the visitor's own credential.
async fn issue(
    team: &Team,
    visitor: &Visitor,
    name: &str,
    scope: Scope,
    days: Option<i64>,
) -> Result<String, Failure> {
    check_browser(team, visitor)?;
    let days = days.unwrap_or(USUAL_DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(Failure::bad_request(Piece::Payload, format!("A token lasts for 1 to {MAX_DAYS} days.")));
    }
    let new = NewCredential {
        kind: Kind::Token,
        name: name.to_owned(),
        scope: scope.min(visitor.scope),
        ends: now_ms() + days * DAY,
    };
    let words = format!("{} for {days} days", new.scope.name());
    let (accounts, account) = (team.accounts.clone(), visitor.account.clone());
    let token = blocking(move || accounts.issue(&account, new)).await?;
    note(team, AuditEntry::new(Some(visitor), "token made", name).with(&words)).await;
    Ok(token)
}

/// Refuses a token: one that was stolen makes and ends no others.
fn check_browser(team: &Team, visitor: &Visitor) -> Result<(), Failure> {
    let own = team.accounts.credentials(&visitor.account, Kind::Token);
    if own.iter().any(|it| Some(&it.id) == visitor.credential.as_ref()) {
        return Err(forbidden("A token makes and ends no other: log in by a browser, at /account."));
    }
    Ok(())
}

async fn revoke(by: By, Path(id): Path<String>) -> Result<Answer<bool>, Failure> {
    let (team, visitor) = caller(&by)?;
    Ok(Answer(revoked(team, visitor, &id).await?))
}

async fn revoked(team: &Team, visitor: &Visitor, id: &str) -> Result<bool, Failure> {
    if visitor.credential.as_deref() != Some(id) {
        check_browser(team, visitor)?;
    }
    let (accounts, account, credential) = (team.accounts.clone(), visitor.account.clone(), id.to_owned());
    let is_revoked = blocking(move || accounts.revoke(&account, &credential)).await?;
    if is_revoked {
        note(team, AuditEntry::new(Some(visitor), "token revoked", id)).await;
    }
    Ok(is_revoked)
}

/// A program that wants a token.
#[derive(Debug, Deserialize)]
pub struct DeviceBody {
    name: Option<String>,
}

/// Lets a program wait for its person (RFC 8628).
async fn wait(State(server): State<Shared>, request: Request) -> Result<Answer<Value>, Failure> {
    let team = team(&server)?;
    let address = address(request.extensions().get::<Peer>());
    let bytes = axum::body::to_bytes(request.into_body(), MAX_FORM).await.unwrap_or_default();
    let body: DeviceBody = serde_json::from_slice(&bytes).unwrap_or(DeviceBody { name: None });
    let name: String = body.name.unwrap_or_default().chars().take(100).collect();
    let begun = team.devices.begin(&windlass_base::text::visible_line(&name), &address);
    let Some((secret, code)) = begun else {
        let message = "Too many programs wait to be let in; try again in some minutes.";
        return Err(Failure::named(StatusCode::TOO_MANY_REQUESTS, "Forbidden", json!({"message": message})));
    };
    let address = format!("{}/account", team.url);
    Ok(Answer(json!({
        "device_code": secret,
        "user_code": code,
        "verification_uri": address,
        "verification_uri_complete": format!("{address}?code={code}"),
        "expires_in": LIFETIME / 1000,
        "interval": 1,
    })))
}

/// A program that asks whether it has been let in.
#[derive(Debug, Deserialize)]
pub struct SettledBody {
    device_code: String,
}

async fn settled(
    State(server): State<Shared>,
    Payload(body): Payload<SettledBody>,
) -> Result<Answer<Value>, Failure> {
    let waiting = |error: &str| Err(Failure::plain(StatusCode::BAD_REQUEST, json!({"error": error})));
    match team(&server)?.devices.outcome(&body.device_code) {
        Some(Outcome::Confirmed(token)) => Ok(Answer(json!({"access_token": token, "token_type": "Bearer"}))),
        Some(Outcome::Waiting) => waiting("authorization_pending"),
        Some(Outcome::Refused) => waiting("access_denied"),
        None => waiting("expired_token"),
    }
}

/// Carries out a form of the page, and shows the page again.
async fn form(State(server): State<Shared>, by: By, body: Bytes) -> Result<Response, Failure> {
    let (team, visitor) = caller(&by)?;
    let get = |name: &str| field(&body, name);
    let mut said = view::Said::default();
    let outcome = match get("action").as_str() {
        "token" => {
            let days = get("days").parse().ok();
            let scope = serde_json::from_value(get("scope").into()).unwrap_or(Scope::Work);
            issue(team, visitor, &get("name"), scope, days).await.map(|token| said.secret = Some(token))
        }
        "revoke" => revoked(team, visitor, &get("id")).await.map(drop),
        "confirm" | "refuse" => settle(team, visitor, &get("code"), get("action") == "confirm")
            .await
            .map(|words| said.words = Some(words)),
        "key" => keep_key(team, visitor, &get("provider"), &get("key")).await,
        "withdraw" => withdraw(&server, &by, &get("id"), &get("account")).await,
        action if visitor.is_admin() => {
            administer(team, visitor, action, &body).await.map(|it| said.secret = it)
        }
        _other => Err(forbidden("Administrators alone do this.")),
    };
    if let Err(failure) = outcome {
        said.words = Some(failure.message());
    }
    Ok(show(&server, team, visitor, &said).await)
}

/// Keeps the account's own key of a provider; an empty one is forgotten.
async fn keep_key(team: &Team, visitor: &Visitor, provider: &str, key: &str) -> Result<(), Failure> {
    if visitor.role < Role::Member || visitor.scope < Scope::Work {
        return Err(forbidden("A reader has no sessions that would use a key."));
    }
    let (accounts, account) = (team.accounts.clone(), visitor.account.clone());
    let (id, secret) = (provider.trim().to_owned(), key.trim().to_owned());
    blocking(move || {
        if secret.is_empty() {
            accounts.drop_key(&account, &id).map(drop)
        } else {
            accounts.keep_key(&account, &id, &secret)
        }
    })
    .await?;
    note(
        team,
        AuditEntry::new(
            Some(visitor),
            if key.trim().is_empty() { "key removed" } else { "key kept" },
            provider,
        ),
    )
    .await;
    Ok(())
}

/// Takes a session back from an account, from everybody, or from those with its page's link.
async fn withdraw(server: &Shared, by: &By, id: &str, account: &str) -> Result<(), Failure> {
    let (team, visitor) = caller(by)?;
    let id = SessionId::parse(id).map_err(|_| Failure::not_found(format!("Session not found: {id}")))?;
    if !by.owns(&id) {
        return Err(Failure::session_not_found(&id));
    }
    if account == PAGE {
        session_access::unshare(server, by, &id).await?;
    } else {
        let account =
            (!account.is_empty()).then(|| team.accounts.named(account)).transpose()?.map(|it| it.id);
        let (accounts, session) = (team.accounts.clone(), id.clone());
        blocking(move || accounts.withdraw(&session, account.as_ref())).await?;
    }
    note(team, AuditEntry::new(Some(visitor), "session withdrawn", id.as_str()).with(account)).await;
    Ok(())
}

/// Lets a program in that waits, or not.
async fn settle(team: &Team, visitor: &Visitor, code: &str, is_confirmed: bool) -> Result<String, Failure> {
    check_browser(team, visitor)?;
    let Some((name, _)) = team.devices.waiting(code) else {
        return Err(Failure::not_found("No program waits with this code; run `windlass login` again."));
    };
    let (outcome, words) = if is_confirmed {
        let scope = visitor.scope.min(Scope::Work);
        (
            Outcome::Confirmed(issue(team, visitor, &name, scope, None).await?),
            "It has got a token; go back to it.",
        )
    } else {
        (Outcome::Refused, "It got nothing.")
    };
    team.devices.settle(code, outcome);
    Ok(words.to_owned())
}

/// Changes the team, and returns a link if one was made.
async fn administer(
    team: &Team,
    visitor: &Visitor,
    action: &str,
    body: &[u8],
) -> Result<Option<String>, Failure> {
    check_browser(team, visitor)?;
    let get = |name: &str| field(body, name);
    let role = || serde_json::from_value::<Role>(get("role").into()).unwrap_or(Role::Reader);
    let accounts = team.accounts.clone();
    let (id, name) = (get("id"), get("name"));
    let (role, directories, url) = (role(), directories(&get("directories"))?, team.url.clone());
    let (entry, subject) =
        (format!("account {action}"), if id.is_empty() { name.clone() } else { id.clone() });
    let is_set = ["invite", "change"].contains(&action);
    let words = if is_set { format!("{} {}", role.name(), directories.join(" ")) } else { String::new() };
    let act = action.to_owned();
    let own = visitor.account.clone();
    let link = blocking(move || -> Result<Option<String>, AccountsError> {
        match act.as_str() {
            "invite" => {
                let account = accounts.create("invitation", None, &name, role, directories)?;
                return accounts.invite(&account, &url).map(Some);
            }
            "link" => return accounts.invite(&accounts.named(&id)?, &url).map(Some),
            "change" => {
                let account = accounts.named(&id)?;
                // The last one could not be made an administrator again.
                let role = if account.id == own { None } else { Some(role) };
                accounts.update(
                    &account.id,
                    AccountChange { name: None, role, directories: Some(directories) },
                )?;
            }
            "remove" => accounts.remove(&accounts.named(&id)?.id)?,
            other => return Err(AccountsError::Unknown(other.to_owned())),
        }
        Ok(None)
    })
    .await?;
    note(team, AuditEntry::new(Some(visitor), &entry, &subject).with(&words)).await;
    Ok(link)
}

/// Reads directories, a line each.
fn directories(text: &str) -> Result<Vec<String>, Failure> {
    let lines: Vec<String> =
        text.lines().map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    match lines.iter().find(|it| !it.starts_with('/')) {
        Some(line) => Err(Failure::bad_request(
            Piece::Payload,
            format!("`{line}` is no absolute path of the server, such as /srv/project."),
        )),
        None => Ok(real_directories(&lines)),
    }
}
