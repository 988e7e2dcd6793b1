//! Lets requests to a server with accounts through: each needs an account with the right for its route, and is noted.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::{Body, to_bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use futures_util::future::BoxFuture;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};
use windlass_accounts::{Account, Accounts, AuditEntry, Level, Role, Scope, Visitor, as_visitor};
use windlass_base::{blocking::blocking, lock::lock, path::real};
use windlass_core::bus::{Filter, Subscriber};
use windlass_engine::SessionFilter;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    part::PartKind,
    permission::PermissionRequest,
};

use super::{
    by::forbidden,
    error::Failure,
    need::{self, Effect, Need},
    pass_on::{ACCOUNT, EVENTS, PAGES, PassedOn},
    peer::Peer,
    peers::FromFleet,
    server::Shared,
    team::{Caller, NoCaller, Team, Visiting},
};

/// Bytes of an answer to a question that are looked at for the audit.
const MAX_REPLY: usize = 64 << 10;
/// Time between two looks for changes that other processes make.
const LOOK: Duration = Duration::from_secs(1);
/// Sessions above a session that are looked up.
const MAX_DEPTH: usize = 32;

/// Words of a handler for the audit of its request, in the extensions of its answer.
#[derive(Debug, Clone, Default)]
pub struct Noted {
    /// The id of something that the request has made.
    subject: Option<String>,
    detail: String,
}

impl Noted {
    pub fn detail(detail: String) -> Self {
        Self { subject: None, detail }
    }

    pub fn subject(subject: &SessionId) -> Self {
        Self { subject: Some(subject.to_string()), detail: String::new() }
    }
}

/// Lets a request through to its route if its account may make it.
pub async fn admit(State(server): State<Shared>, request: Request, next: Next) -> Response {
    let Some(team) = server.options.team.clone() else { return next.run(request).await };
    if request.extensions().get::<FromFleet>().is_some() {
        return admit_node(&server, &team, request, next).await;
    }
    let route = request.extensions().get::<MatchedPath>().map(|it| it.as_str().to_owned());
    // A path of no route is nobody's secret.
    let need = route.as_deref().map_or(Need::Account, |route| need::of(request.method(), route));
    let peer = request.extensions().get::<Peer>().and_then(Peer::address);
    let access = &server.options.access;
    let refused = access.refusal_of_page(&request);
    let (parts, body) = request.into_parts();
    let caller = match team.caller(&parts).await {
        Ok(Some(caller)) => {
            // A page elsewhere makes a browser send its cookies, and no token.
            let is_way_in = need == Need::Open && parts.method.is_safe();
            if let Some(refused) = refused
                && !caller.is_by_token
                && !is_way_in
            {
                return refused;
            }
            caller
        }
        // One that has logged out still holds its token.
        Ok(None) | Err(NoCaller::Wrong(_)) if need == Need::Open => {
            return next.run(Request::from_parts(parts, body)).await;
        }
        Ok(None) => {
            return not_logged_in(
                &parts,
                "Log in at /account, or show a token as `Authorization: Bearer …`.",
            );
        }
        Err(NoCaller::Broken(reason)) => {
            return Failure::named(
                StatusCode::SERVICE_UNAVAILABLE,
                "Unavailable",
                json!({"message": reason}),
            )
            .into_response();
        }
        Err(NoCaller::Wrong(reason)) => {
            if !access.count_try(peer) {
                let message = "Too many wrong tokens came from this address; wait a minute.";
                return Failure::named(
                    StatusCode::TOO_MANY_REQUESTS,
                    "Forbidden",
                    json!({"message": message}),
                )
                .into_response();
            }
            return not_logged_in(&parts, &reason);
        }
    };
    let address = peer.map(|it| it.to_string()).unwrap_or_default();
    let caller = Caller { visitor: Visitor { address, ..caller.visitor }, ..caller };
    match judge(&server, &team, &caller.visitor, need, &parts).await {
        Ok(()) => {
            let request = Request::from_parts(parts, body);
            pass(&server, &team, caller, request, next).await
        }
        Err(failure) => failure.into_response(),
    }
}

/// Lets a request of another node through, by the right of the account that it was made by there.
async fn admit_node(server: &Shared, team: &Arc<Team>, mut request: Request, next: Next) -> Response {
    let Some(passed) = request.headers_mut().remove(ACCOUNT) else {
        let path = request.uri().path();
        // That node tells each event to its own readers, and has judged the link of a page.
        return if path == EVENTS || path.starts_with(PAGES) {
            next.run(request).await
        } else {
            let words = "This server has accounts, and the other node has none: start it with --accounts.";
            forbidden(words).into_response()
        };
    };
    let visitor = match visitor_of(team, passed.as_bytes()).await {
        Ok(visitor) => visitor,
        Err(failure) => return failure.into_response(),
    };
    let route = request.extensions().get::<MatchedPath>().map(|it| it.as_str().to_owned());
    let need = route.as_deref().map_or(Need::Nobody, |route| need::of(request.method(), route));
    let (parts, body) = request.into_parts();
    if let Err(failure) = judge(server, team, &visitor, need, &parts).await {
        return failure.into_response();
    }
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(Visiting(Arc::new(visitor)));
    next.run(request).await
}

/// Returns the account that another node has let in, as it is by the newest change that either node knows.
async fn visitor_of(team: &Team, passed: &[u8]) -> Result<Visitor, Failure> {
    let passed: PassedOn = serde_json::from_slice(passed)
        .map_err(|_| forbidden("The account of the request cannot be read."))?;
    if team.accounts.head() < passed.head {
        let accounts = team.accounts.clone();
        blocking(move || accounts.catch_up()).await?;
    }
    team.accounts.refresh()?;
    let account = team.accounts.get(&passed.account);
    let account = account.ok_or_else(|| forbidden("The account of the request is gone."))?;
    let visitor = as_visitor(&account);
    Ok(Visitor { scope: passed.scope, credential: passed.credential, address: passed.address, ..visitor })
}

/// Notes the session above each that a session makes, before any stream is told of it, and the cost of each step.
struct Lineage {
    accounts: Accounts,
    /// Dollars by session that are not stored yet.
    costs: Mutex<HashMap<SessionId, f64>>,
}

impl Subscriber for Lineage {
    fn deliver(&self, event: &Arc<Event>) {
        match &event.payload {
            EventPayload::SessionCreated(created) => {
                if let Some(above) = &created.info.parent_id {
                    self.accounts.note_below(&created.session_id, above);
                }
            }
            EventPayload::PartUpdated { session_id, part, .. } => {
                if let PartKind::StepFinish { cost, .. } = &part.kind
                    && *cost > 0.0
                {
                    *lock(&self.costs).entry(session_id.clone()).or_default() += cost;
                }
            }
            _other => {}
        }
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn n_behind(&self) -> usize {
        0
    }

    fn cut_off(&self) {}
}

impl Lineage {
    async fn store_costs(&self) {
        let costs = std::mem::take(&mut *lock(&self.costs));
        if costs.is_empty() {
            return;
        }
        let accounts = self.accounts.clone();
        let stored = blocking(move || {
            let of_owner = |(id, cost): (SessionId, f64)| Some((accounts.owner(&id)?, cost));
            costs.into_iter().filter_map(of_owner).try_for_each(|(owner, cost)| accounts.spend(&owner, cost))
        });
        if let Err(error) = stored.await {
            tracing::warn!(%error, "a cost is not counted");
        }
    }
}

/// Asks the providers, account by account, whether the people that they have logged in are still good there.
async fn renew(team: &Team) {
    loop {
        tokio::time::sleep(LOOK).await;
        let accounts = team.accounts.clone();
        let due = blocking(move || accounts.take_due()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "logins are not renewed");
            Vec::new()
        });
        let renewed = due.iter().map(|(account, token)| team.renew(account.clone(), token));
        for error in futures_util::future::join_all(renewed).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "a login is not renewed");
        }
    }
}

/// Takes up the changes of other servers that share the accounts: when they tell of one, and each second.
async fn follow(server: &Shared, team: &Team) {
    let Some(mut told) = server.engine.fleet().people_changes().await else {
        return std::future::pending().await;
    };
    let mut is_out_of_reach = false;
    loop {
        let accounts = team.accounts.clone();
        let caught_up = blocking(move || accounts.catch_up()).await;
        if let Err(error) = &caught_up
            && !is_out_of_reach
        {
            tracing::warn!(%error, "changes of the accounts by other servers are not seen");
        }
        is_out_of_reach = caught_up.is_err();
        // The end of the channel is the end of the engine.
        tokio::select! {
            Ok(()) = told.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Knows the sessions below others, takes up changes of the accounts by other processes, and stops the work of accounts that are
/// gone, until the server ends.
pub async fn keep(server: &Shared) {
    let Some(team) = server.options.team.clone() else { return };
    let lineage = Arc::new(Lineage { accounts: team.accounts.clone(), costs: Mutex::default() });
    let subscriber: Arc<dyn Subscriber> = lineage.clone();
    server.engine.bus().subscribe(Filter::Lossy, &subscriber);
    let all = SessionFilter { limit: usize::MAX, ..SessionFilter::default() };
    let known = server.engine.sessions().filter(all).await.unwrap_or_else(|error| {
        // Each is looked up when it is asked for.
        tracing::warn!(%error, "the sessions cannot be listed");
        Vec::new()
    });
    for info in known {
        if let Some(above) = &info.parent_id {
            team.accounts.note_below(&info.id, above);
        }
    }
    let mut changes = team.accounts.changes();
    let beside = async { tokio::join!(renew(&team), follow(server, &team)) };
    tokio::pin!(beside);
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = &mut beside => return,
            () = server.stop.cancelled() => {
                lineage.store_costs().await;
                return;
            }
            _ = looks.tick() => {
                lineage.store_costs().await;
                if let Err(error) = team.accounts.refresh() {
                    tracing::warn!(%error, "changes of the accounts are not seen");
                }
            }
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                for (id, _) in server.hub.busy() {
                    let is_gone = team.accounts.owner(&id).is_some_and(|owner| team.accounts.get(&owner).is_none());
                    if is_gone {
                        server.engine.sessions().cancel(&id);
                    }
                }
            }
        }
    }
}

/// Hands a request to its route, notes it, and gives its browser a new cookie now and then.
async fn pass(server: &Shared, team: &Team, caller: Caller, request: Request, next: Next) -> Response {
    let route =
        request.extensions().get::<MatchedPath>().map(|it| it.as_str().to_owned()).unwrap_or_default();
    let is_change = !request.method().is_safe() && !route.starts_with("/account");
    let action = format!("{} {route}", request.method());
    let headers = request.headers().clone();
    let (parts, body) = request.into_parts();
    let subject = id_of(&parts, &route).unwrap_or_default();
    // Afterwards it waits no more.
    let asked = if is_reply(&route) { asked(server, &parts) } else { String::new() };
    let (mut request, reply) = with_reply(Request::from_parts(parts, body), &route).await;
    request.extensions_mut().insert(Visiting(Arc::new(caller.visitor.clone())));
    let mut response = next.run(request).await;
    if is_change && response.status().is_success() {
        let noted = response.extensions_mut().remove::<Noted>().unwrap_or_default();
        let detail = [reply, asked, noted.detail].into_iter().filter(|it| !it.is_empty());
        let detail = detail.collect::<Vec<_>>().join(": ");
        let subject = noted.subject.unwrap_or(subject);
        let entry = AuditEntry::new(Some(&caller.visitor), &action, &subject).with(&detail);
        let accounts = team.accounts.clone();
        if let Err(error) = blocking(move || accounts.note(&entry)).await {
            tracing::error!(%error, action, "the audit lacks an entry");
        }
    }
    if let Some(cookie) = new_cookie(team, &caller, &headers).await {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

async fn new_cookie(team: &Team, caller: &Caller, headers: &HeaderMap) -> Option<HeaderValue> {
    HeaderValue::from_str(&team.rotated(caller, headers).await?).ok()
}

/// Says whether an account may make a request.
async fn judge(
    server: &Shared,
    team: &Team,
    visitor: &Visitor,
    need: Need,
    request: &Parts,
) -> Result<(), Failure> {
    let route = request.extensions.get::<MatchedPath>().map(|it| it.as_str().to_owned()).unwrap_or_default();
    match need {
        Need::Open | Need::Account => Ok(()),
        Need::Member if visitor.role >= Role::Member && visitor.scope >= Scope::Work => Ok(()),
        Need::Member => Err(forbidden("A reader, or a token with this scope, has no sessions of its own.")),
        Need::Admin if visitor.is_admin() => Ok(()),
        Need::Admin => Err(forbidden("Administrators alone do this at a server with accounts.")),
        Need::Nobody => Err(forbidden("This is not offered at a server with accounts.")),
        Need::Session(level) => {
            let text = id_of(request, &route).unwrap_or_default();
            let missing = || Failure::not_found(format!("Session not found: {text}"));
            let id = SessionId::parse(&text).map_err(|_| missing())?;
            require(server, team, visitor, &id, level, missing).await?;
            match need::effect(&request.method, &route) {
                Effect::Other => Ok(()),
                // The node that has the session asks.
                _ if is_elsewhere(server, &id).await => Ok(()),
                Effect::Files => check_owner(server, team, &id).await.map(drop),
                Effect::Work => check_work(server, team, &id).await,
            }
        }
        Need::Permission => {
            let text = id_of(request, &route).unwrap_or_default();
            let asked = server.engine.asking().all_pending_permissions().into_iter();
            let session = asked.into_iter().find(|it| it.id.as_str() == text).map(|it| it.session_id);
            let missing = || Failure::not_found(format!("Permission request not found: {text}"));
            if session.is_none() && server.engine.fleet().is_shared().await {
                return Ok(());
            }
            require(server, team, visitor, &session.ok_or_else(missing)?, Level::Answer, missing).await
        }
        Need::Question => {
            let text = id_of(request, &route).unwrap_or_default();
            let asked = server.engine.asking().all_pending_questions().into_iter();
            let session = asked.into_iter().find(|it| it.id.as_str() == text).map(|it| it.session_id);
            let missing = || Failure::not_found(format!("Question request not found: {text}"));
            if session.is_none() && server.engine.fleet().is_shared().await {
                return Ok(());
            }
            require(server, team, visitor, &session.ok_or_else(missing)?, Level::Answer, missing).await
        }
    }
}

/// Returns true if another node has a session and takes requests for it.
async fn is_elsewhere(server: &Shared, id: &SessionId) -> bool {
    let fleet = server.engine.fleet();
    !fleet.holds(id) && matches!(fleet.elsewhere(id).await, Ok(Some(_)))
}

/// Requires a use of a session. One that the account may not know of is missing.
async fn require(
    server: &Shared,
    team: &Team,
    visitor: &Visitor,
    id: &SessionId,
    level: Level,
    missing: impl Fn() -> Failure,
) -> Result<(), Failure> {
    look_up(server, team, id).await;
    match team.accounts.level(visitor, id) {
        None => Err(missing()),
        Some(own) if own >= level => Ok(()),
        Some(own) => {
            let way_out = if own < visitor.most() {
                "its owner can give you more"
            } else if visitor.role < Role::Member {
                "you are a reader, and an administrator can make you a member"
            } else {
                "the scope of this token allows no more"
            };
            Err(forbidden(&format!(
                "You have the right to `{}` in this session, and this takes `{}`: {way_out}.",
                own.name(),
                level.name()
            )))
        }
    }
}

/// Learns which session is above one that nothing is known of.
pub async fn look_up(server: &Shared, team: &Team, id: &SessionId) {
    let mut current = id.clone();
    for _ in 0..MAX_DEPTH {
        if team.accounts.knows(&current) {
            return;
        }
        let info = match server.engine.sessions().get(&current).await {
            Ok(info) => Some(info),
            Err(_) => server.engine.fleet().listed(&current, &server.options.directory).await,
        };
        let Some(info) = info else { return };
        let Some(above) = info.parent_id else { return };
        team.accounts.note_below(&current, &above);
        current = above;
    }
}

/// Returns the owner of a session; refuses where that account may not open its directory any more.
async fn check_owner(server: &Shared, team: &Team, id: &SessionId) -> Result<Option<Account>, Failure> {
    let Some(owner) = team.accounts.owner(id) else { return Ok(None) };
    let Some(owner) = team.accounts.get(&owner) else {
        return Err(forbidden("The session's owner has no account any more."));
    };
    let directory = server.session(id).await?.directory;
    if !owner.may_open(&real(Path::new(&directory))) {
        return Err(forbidden(&format!("The session's owner may not open {directory} any more.")));
    }
    Ok(Some(owner))
}

/// Refuses work in a session whose owner has spent enough, or has as many sessions at work as allowed.
async fn check_work(server: &Shared, team: &Team, id: &SessionId) -> Result<(), Failure> {
    let Some(owner) = check_owner(server, team, id).await? else { return Ok(()) };
    let too_many = |message: String| {
        Err(Failure::named(StatusCode::TOO_MANY_REQUESTS, "TooManySessions", json!({"message": message})))
    };
    if let Some(max) = team.max_cost() {
        let spent = team.accounts.spent(&owner.id);
        if spent >= max {
            return too_many(format!(
                "The sessions of {} have cost ${spent:.2} in 24 hours, of ${max:.2}; go on later.",
                owner.name
            ));
        }
    }
    let busy = server.hub.busy().into_iter().map(|(id, _)| team.accounts.root(&id));
    let at_work: HashSet<SessionId> =
        busy.filter(|root| team.accounts.owner(root).as_ref() == Some(&owner.id)).collect();
    let max = team.max_working();
    if at_work.len() < max || at_work.contains(&team.accounts.root(id)) {
        return Ok(());
    }
    too_many(format!(
        "{max} sessions of this account are at work, and more are not allowed at once; wait for one."
    ))
}

/// Returns the first id in a path, decoded as its route does.
fn id_of(request: &Parts, route: &str) -> Option<String> {
    let place = route.split('/').position(|it| it.starts_with('{'))?;
    let segment = request.uri.path().split('/').nth(place)?;
    Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned())
}

fn is_reply(route: &str) -> bool {
    route.ends_with("/reply") || route.ends_with("/permissions/{permission}")
}

/// Returns the permission that a request answers, as text.
fn asked(server: &Shared, request: &Parts) -> String {
    let waiting = server.engine.asking().all_pending_permissions();
    let meant =
        waiting.iter().find(|it| request.uri.path().split('/').any(|segment| segment == it.id.as_str()));
    let words =
        |it: &PermissionRequest| format!("{} {} in {}", it.permission, it.patterns.join(", "), it.session_id);
    meant.map(words).unwrap_or_default()
}

/// Reads the answer to a question, for the audit.
async fn with_reply(request: Request, route: &str) -> (Request, String) {
    if !is_reply(route) {
        return (request, String::new());
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_REPLY).await else {
        // The route finds the body short, and refuses it.
        return (Request::from_parts(parts, Body::empty()), String::new());
    };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let said = ["reply", "response", "answers"].iter().find_map(|key| value.get(key));
    let detail = said.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).unwrap_or_default();
    (Request::from_parts(parts, Body::from(bytes)), detail)
}

/// Sends a browser to the login, and tells programs.
fn not_logged_in(request: &Parts, message: &str) -> Response {
    let value =
        |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if request.method.is_safe()
        && value("accept").contains("text/html")
        && !value("sec-fetch-mode").contains("cors")
    {
        let back = request.uri.path_and_query().map_or("/", |it| it.as_str());
        return Redirect::to(&format!("/account?back={}", utf8_percent_encode(back, NON_ALPHANUMERIC)))
            .into_response();
    }
    let fields = json!({"message": message});
    let mut response = Failure::named(StatusCode::UNAUTHORIZED, "Unauthorized", fields).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
