//! Logins by OpenID Connect that succeed, their renewal and their end.

use std::time::Duration;

use serde_json::json;

use super::site::{BACK, CLIENT, Key, SECRET, Site, query};
use crate::login::{
    Callback, Logins,
    clock::Clock,
    error::LoginError,
    http::Http,
    provider::{Identity, Refreshed},
};

/// A provider, and a server that logs people in there.
pub(super) struct Bench {
    pub(super) clock: Clock,
    pub(super) site: Site,
    pub(super) logins: Logins,
}

impl Bench {
    pub(super) async fn new() -> Self {
        let clock = Clock::default();
        let site = Site::start(&clock).await;
        let logins = Logins::with_clock(vec![site.openid("sso")], Http::default(), clock.clone()).unwrap();
        Self { clock, site, logins }
    }

    /// Logs in, with the answer changed on its way.
    pub(super) async fn log_in_by(&self, change: fn(&mut Callback)) -> Result<Identity, LoginError> {
        let begun = self.logins.begin("sso", BACK).await?;
        let mut callback = self.site.agree(&begun.url);
        change(&mut callback);
        self.logins.complete("sso", Some(&begun.browser_key), callback).await
    }

    pub(super) async fn log_in(&self) -> Result<Identity, LoginError> {
        self.log_in_by(|_| {}).await
    }
}

fn ada() -> Identity {
    Identity {
        provider: "sso".to_owned(),
        subject: "ada-1".to_owned(),
        name: "Ada Lovelace".to_owned(),
        email: Some("ada@example.com".to_owned()),
        refresh_token: Some("refresh".to_owned()),
        id_token: None,
    }
}

#[tokio::test]
async fn a_login_gives_the_person_that_the_provider_names() {
    let bench = Bench::new().await;
    let person = bench.log_in().await.unwrap();
    assert!(person.id_token.is_some());
    assert_eq!(Identity { id_token: None, ..person }, ada());
    assert_eq!(bench.site.n_requests("/me"), 0, "the token said everything");
}

#[tokio::test]
async fn tokens_that_are_signed_by_rsa_are_accepted() {
    let bench = Bench::new().await;
    let key = Key::rsa("rsa");
    bench.site.script().keys = vec![key.clone()];
    bench.site.script().signer = key;
    assert_eq!(bench.log_in().await.unwrap().subject, "ada-1");
}

#[tokio::test]
async fn the_browser_is_sent_with_state_nonce_challenge_and_scopes() {
    let bench = Bench::new().await;
    let begun = bench.logins.begin("sso", BACK).await.unwrap();
    let query = query(&begun.url);
    assert!(begun.url.starts_with(&format!("{}/authorize?", bench.site.url)));
    assert_eq!(query["response_type"], "code");
    assert_eq!(query["scope"], "openid profile email");
    assert_eq!(query["redirect_uri"], BACK);
    assert_eq!(query["code_challenge_method"], "S256");
    for secret in ["state", "nonce", "code_challenge"] {
        assert_eq!(query[secret].len(), 43, "{secret} is of 32 bytes");
    }
    assert!(!begun.url.contains(&begun.browser_key), "the key stays between browser and server");
}

#[tokio::test]
async fn the_secret_goes_into_the_body_where_the_provider_takes_it_only_there() {
    let bench = Bench::new().await;
    bench.site.script().metadata = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    // The scripted provider reads the header alone, so its refusal shows that none was sent.
    assert!(matches!(bench.log_in().await, Err(LoginError::Client { .. })));
}

#[tokio::test]
async fn name_and_address_come_from_the_endpoint_for_them_if_the_token_lacks_them() {
    let bench = Bench::new().await;
    bench.site.script().claims = json!({"name": null, "email": null});
    bench.site.script().user_info = json!({"sub": "ada-1", "preferred_username": "ada", "email": "a@example.com", "email_verified": "true"});
    let person = bench.log_in().await.unwrap();
    assert_eq!((person.name.as_str(), person.email.as_deref()), ("ada", Some("a@example.com")));

    bench.site.script().user_info = json!({"sub": "eve-1", "name": "Ada Lovelace"});
    let LoginError::Answer { reason, .. } = bench.log_in().await.unwrap_err() else { panic!() };
    assert_eq!(reason, "it describes another account than the one that logged in");

    bench.site.script().answers.insert("/me", (403, "x-a: b".to_owned(), String::new()));
    assert_eq!(bench.log_in().await.unwrap().name, "ada-1", "a login needs no name");
}

#[tokio::test]
async fn names_are_made_safe_and_short_and_addresses_count_if_verified() {
    let bench = Bench::new().await;
    let long = "x".repeat(300);
    bench.site.script().claims = json!({"name": format!(" A\u{1b}[31m\n{long}"), "email_verified": false});
    let person = bench.log_in().await.unwrap();
    assert_eq!(person.name.chars().count(), 100);
    assert!(person.name.starts_with("A\\u{1b}[31m\\u{a}xxx"), "{}", person.name);
    assert_eq!(person.email, None);

    for email in ["two words@example.com", "no-at-sign", "a@b\u{202e}c"] {
        bench.site.script().claims = json!({"email": email});
        assert_eq!(bench.log_in().await.unwrap().email, None, "{email}");
    }
}

#[tokio::test]
async fn a_good_account_is_refreshed() {
    let bench = Bench::new().await;
    bench.site.script().claims = json!({"nonce": null});
    let refreshed = bench.logins.refresh("sso", "ada-1", "refresh").await.unwrap();
    assert!(refreshed.id_token.is_some());
    let expected = Refreshed {
        refresh_token: Some("refresh".to_owned()),
        id_token: None,
        name: Some("Ada Lovelace".to_owned()),
        email: Some("ada@example.com".to_owned()),
    };
    assert_eq!(Refreshed { id_token: None, ..refreshed }, expected);
}

#[tokio::test]
async fn a_refresh_tells_an_ended_account_from_a_provider_that_is_down() {
    let bench = Bench::new().await;
    let refresh = |token: &'static str| bench.logins.refresh("sso", "ada-1", token);
    assert!(matches!(refresh("revoked").await, Err(LoginError::Refused { .. })));
    bench.site.script().refusal = Some("temporarily_unavailable");
    assert!(matches!(refresh("refresh").await, Err(LoginError::Unreachable { .. })));
    bench.site.script().answers.insert("/token", (503, "x-a: b".to_owned(), "busy".to_owned()));
    assert!(matches!(refresh("refresh").await, Err(LoginError::Unreachable { .. })));
    bench.site.script().is_down = true;
    assert!(matches!(refresh("refresh").await, Err(LoginError::Unreachable { .. })));
}

#[tokio::test]
async fn a_refresh_for_another_account_is_refused() {
    let bench = Bench::new().await;
    let refreshed = bench.logins.refresh("sso", "eve-1", "refresh").await;
    let LoginError::Token { reason, .. } = refreshed.unwrap_err() else { panic!() };
    assert_eq!(reason, "it belongs to another account");
}

#[tokio::test]
async fn the_providers_session_ends_at_its_endpoint() {
    let bench = Bench::new().await;
    let url = bench.logins.logout_url("sso", Some("a.b.c"), BACK).await.unwrap();
    assert!(url.starts_with(&format!("{}/end?", bench.site.url)));
    let query = query(&url);
    assert_eq!(query["id_token_hint"], "a.b.c");
    assert_eq!(query["client_id"], CLIENT);
    assert_eq!(query["post_logout_redirect_uri"], BACK);

    let other = Bench::new().await;
    other.site.script().metadata = json!({"end_session_endpoint": null});
    assert_eq!(other.logins.logout_url("sso", None, BACK).await, None);
}

#[tokio::test]
async fn metadata_is_asked_for_once_an_hour() {
    let bench = Bench::new().await;
    let path = "/.well-known/openid-configuration";
    bench.log_in().await.unwrap();
    bench.clock.advance(Duration::from_secs(59 * 60));
    bench.log_in().await.unwrap();
    assert_eq!(bench.site.n_requests(path), 1);
    bench.clock.advance(Duration::from_secs(2 * 60));
    bench.log_in().await.unwrap();
    assert_eq!(bench.site.n_requests(path), 2);
}

#[tokio::test]
async fn callers_that_wait_for_metadata_share_one_request() {
    let bench = Bench::new().await;
    let begin = || bench.logins.begin("sso", BACK);
    let (one, two, three) = tokio::join!(begin(), begin(), begin());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(bench.site.n_requests("/.well-known/openid-configuration"), 1);
}

#[tokio::test]
async fn nothing_that_is_printed_holds_a_secret() {
    let bench = Bench::new().await;
    let person = bench.log_in().await.unwrap();
    let begun = bench.logins.begin("sso", BACK).await.unwrap();
    let state = query(&begun.url)["state"].clone();
    let callback = bench.site.agree(&begun.url);
    let (provider, logins) = (bench.site.openid("sso"), &bench.logins);
    let printed = format!("{person:?} {begun:?} {callback:?} {provider:?} {logins:?}");
    for secret in [SECRET, &state, &begun.browser_key, "code-", "\"refresh\"", "eyJ"] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
}

#[test]
fn logins_can_be_awaited_on_any_thread() {
    fn is_send(_: &impl Send) {}
    fn check(logins: &Logins) {
        is_send(&logins.begin("", ""));
        is_send(&logins.complete("", None, Callback::default()));
        is_send(&logins.refresh("", "", ""));
        is_send(&logins.logout_url("", None, ""));
    }
    let _ = check;
}
