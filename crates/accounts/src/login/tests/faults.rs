//! Faults and attacks of logins by OpenID Connect, each refused with its reason.

use std::time::Duration;

use serde_json::json;

use super::{
    openid::Bench,
    site::{BACK, CLIENT, Key, Site, signed_by_secret, unsigned},
};
use crate::login::{Callback, Logins, clock::Clock, error::LoginError, http::Http};

/// Asserts that an error is of a variant, with its reason where it has one.
macro_rules! refused {
    ($result:expr, $variant:ident) => {
        match $result {
            Err(LoginError::$variant { .. }) => {}
            other => panic!("{other:?} is not {}", stringify!($variant)),
        }
    };
    ($result:expr, $variant:ident, $reason:expr) => {
        match $result {
            Err(LoginError::$variant { reason, .. }) => assert_eq!(reason, $reason),
            other => panic!("{other:?} is not {}", stringify!($variant)),
        }
    };
}

const WRONG_TIME: &str =
    "it has expired or is not valid yet; the administrator has to compare the clocks of the two machines";

#[tokio::test]
async fn an_answer_with_another_state_or_none_is_refused() {
    let bench = Bench::new().await;
    refused!(bench.log_in_by(|it| it.state = Some("guessed".to_owned())).await, UnknownAttempt);
    refused!(bench.log_in_by(|it| it.state = None).await, UnknownAttempt);
    assert_eq!(bench.site.n_requests("/token"), 0, "no code is sent on");
}

#[tokio::test]
async fn an_answer_in_another_browser_is_refused_and_uses_the_attempt_up() {
    let bench = Bench::new().await;
    for key in [None, Some(""), Some("of-another-browser")] {
        let begun = bench.logins.begin("sso", BACK).await.unwrap();
        let callback = bench.site.agree(&begun.url);
        let again =
            Callback { code: callback.code.clone(), state: callback.state.clone(), ..Callback::default() };
        refused!(bench.logins.complete("sso", key, callback).await, OtherBrowser);
        let own = Some(begun.browser_key.as_str());
        refused!(bench.logins.complete("sso", own, again).await, UnknownAttempt);
    }
    assert_eq!(bench.site.n_requests("/token"), 0, "no code is sent on");
}

#[tokio::test]
async fn an_answer_is_taken_once() {
    let bench = Bench::new().await;
    let begun = bench.logins.begin("sso", BACK).await.unwrap();
    let callback = bench.site.agree(&begun.url);
    let again =
        Callback { code: callback.code.clone(), state: callback.state.clone(), ..Callback::default() };
    let key = Some(begun.browser_key.as_str());
    assert!(bench.logins.complete("sso", key, callback).await.is_ok());
    refused!(bench.logins.complete("sso", key, again).await, UnknownAttempt);
}

#[tokio::test]
async fn an_attempt_ends_after_ten_minutes() {
    let bench = Bench::new().await;
    for (seconds, is_good) in [(9 * 60, true), (10 * 60, false)] {
        let begun = bench.logins.begin("sso", BACK).await.unwrap();
        let callback = bench.site.agree(&begun.url);
        bench.clock.advance(Duration::from_secs(seconds));
        let completed = bench.logins.complete("sso", Some(&begun.browser_key), callback).await;
        assert_eq!(completed.is_ok(), is_good, "{seconds}");
    }
}

#[tokio::test]
async fn a_code_of_another_login_is_refused() {
    let bench = Bench::new().await;
    let begun = bench.logins.begin("sso", BACK).await.unwrap();
    let stolen = bench.site.agree(&begun.url).code;
    let own = bench.logins.begin("sso", BACK).await.unwrap();
    let callback = Callback { code: stolen, ..bench.site.agree(&own.url) };
    refused!(bench.logins.complete("sso", Some(&own.browser_key), callback).await, Refused);
}

#[tokio::test]
async fn an_answer_at_the_address_of_another_provider_is_refused() {
    let clock = Clock::default();
    let (honest, evil) = (Site::start(&clock).await, Site::start(&clock).await);
    let providers = vec![honest.openid("honest"), evil.openid("evil")];
    let logins = Logins::with_clock(providers, Http::default(), clock).unwrap();
    let begun = logins.begin("evil", BACK).await.unwrap();
    // The evil site sent the browser on to the honest one, with its own state.
    let callback = honest.agree(&begun.url);
    refused!(logins.complete("honest", Some(&begun.browser_key), callback).await, OtherProvider);

    let begun = logins.begin("evil", BACK).await.unwrap();
    let callback = Callback { iss: Some(honest.url.clone()), ..honest.agree(&begun.url) };
    let reason = format!("it names the issuer \"{}\"", honest.url);
    refused!(logins.complete("evil", Some(&begun.browser_key), callback).await, OtherIssuer, reason);
    assert_eq!(honest.n_requests("/token") + evil.n_requests("/token"), 0, "no code is sent on");
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused() {
    let bench = Bench::new().await;
    let other = |it: &mut Callback| it.iss = Some("https://evil.example\n".to_owned());
    let reason = "it names the issuer \"https://evil.example\"";
    refused!(bench.log_in_by(other).await, OtherIssuer, reason);
}

#[tokio::test]
async fn an_answer_without_the_issuer_is_refused_where_the_provider_names_it_always() {
    let bench = Bench::new().await;
    bench.site.script().metadata = json!({"authorization_response_iss_parameter_supported": true});
    let reason = "it names no issuer, as this provider's answers do";
    refused!(bench.log_in().await, OtherIssuer, reason);
    // An error has to be of that provider too.
    let denied = |it: &mut Callback| it.error = Some("access_denied".to_owned());
    refused!(bench.log_in_by(denied).await, OtherIssuer, reason);

    let begun = bench.logins.begin("sso", BACK).await.unwrap();
    let callback = Callback { iss: Some(bench.site.url.clone()), ..bench.site.agree(&begun.url) };
    assert!(bench.logins.complete("sso", Some(&begun.browser_key), callback).await.is_ok());
}

#[tokio::test]
async fn metadata_of_another_issuer_is_refused() {
    let bench = Bench::new().await;
    let url = bench.site.url.clone();
    for issuer in ["https://evil.example".to_owned(), format!("{url}/")] {
        bench.site.script().metadata = json!({"issuer": issuer});
        let reason = format!(
            "its metadata names another issuer than \"{url}\"; the administrator has to set the issuer exactly as the \
             provider writes it"
        );
        refused!(bench.log_in().await, Answer, reason);
    }
}

#[tokio::test]
async fn metadata_with_an_endpoint_in_the_open_is_refused() {
    let bench = Bench::new().await;
    for endpoint in ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"] {
        bench.site.script().metadata = json!({endpoint: "http://sso.example/x"});
        // The keys may be asked for before the address is judged, and are not there.
        assert!(bench.logins.begin("sso", BACK).await.is_err(), "{endpoint}");
    }
}

#[tokio::test]
async fn a_token_of_another_login_client_issuer_or_time_is_refused() {
    let bench = Bench::new().await;
    let now = bench.clock.unix();
    for (claims, reason) in [
        (json!({"nonce": "of-another-login"}), "it belongs to another login"),
        (json!({"nonce": null}), "it belongs to another login"),
        (json!({"aud": "another-client"}), "it is addressed to another client"),
        (json!({"aud": null}), "it is addressed to another client"),
        (json!({"aud": [CLIENT, "another-client"]}), "it is addressed to others too"),
        (json!({"azp": "another-client"}), "it was issued to another client"),
        (json!({"iss": "https://evil.example"}), "it names another issuer"),
        (json!({"exp": now - 61}), WRONG_TIME),
        (json!({"iat": now + 120}), WRONG_TIME),
        (json!({"nbf": now + 120}), WRONG_TIME),
        (json!({"sub": ""}), "it names no account"),
        (json!({"sub": "x".repeat(256)}), "its account's id is longer than 255 characters"),
        (json!({"sub": "a\u{7}b"}), "its account's id has control characters"),
        (json!({"at_hash": "bm90IHRoZSBoYXNo"}), "it belongs to another access token"),
    ] {
        bench.site.script().claims = claims;
        refused!(bench.log_in().await, Token, reason);
    }
}

#[tokio::test]
async fn clocks_may_differ_by_a_minute() {
    let bench = Bench::new().await;
    let now = bench.clock.unix();
    for claims in [
        json!({"exp": now - 40}),
        json!({"iat": now + 50, "nbf": now + 50}),
        json!({"aud": [CLIENT, "another-client"], "azp": CLIENT}),
        json!({"sub": "x".repeat(255)}),
    ] {
        bench.site.script().claims = claims.clone();
        assert!(bench.log_in().await.is_ok(), "{claims}");
    }
}

#[tokio::test]
async fn a_token_needs_a_signature_by_a_public_key() {
    let bench = Bench::new().await;
    bench.site.script().token = Some(unsigned);
    refused!(bench.log_in().await, Token, "it is not signed");
    bench.site.script().token = Some(signed_by_secret);
    refused!(bench.log_in().await, Token, "it is signed by an algorithm that is not allowed");
}

#[tokio::test]
async fn a_token_without_its_own_signature_is_refused() {
    let bench = Bench::new().await;
    // The key has the name of the provider's.
    bench.site.script().signer = Key::curve("first");
    refused!(bench.log_in().await, Token, "it is not signed by a key of its issuer");
}

#[tokio::test]
async fn an_unknown_key_has_the_keys_fetched_anew_at_most_every_ten_seconds() {
    let bench = Bench::new().await;
    bench.log_in().await.unwrap();
    let (second, third) = (Key::curve("second"), Key::curve("third"));
    bench.site.script().signer = second.clone();
    bench.site.script().keys = vec![second];
    bench.clock.advance(Duration::from_secs(10));
    bench.log_in().await.unwrap();
    assert_eq!(bench.site.n_requests("/keys"), 2);

    bench.site.script().signer = third.clone();
    for _ in 0..3 {
        refused!(bench.log_in().await, Token, "it is not signed by a key of its issuer");
    }
    assert_eq!(bench.site.n_requests("/keys"), 2);
    bench.site.script().keys = vec![third];
    bench.clock.advance(Duration::from_secs(10));
    bench.log_in().await.unwrap();
    assert_eq!(bench.site.n_requests("/keys"), 3);
}

#[tokio::test]
async fn a_provider_that_was_down_is_asked_again() {
    let bench = Bench::new().await;
    bench.site.script().is_down = true;
    refused!(bench.logins.begin("sso", BACK).await, Unreachable);
    bench.site.script().is_down = false;
    assert!(bench.log_in().await.is_ok());
}

#[tokio::test]
async fn metadata_is_kept_while_the_provider_is_down() {
    let bench = Bench::new().await;
    bench.log_in().await.unwrap();
    bench.clock.advance(Duration::from_secs(2 * 60 * 60));
    bench.site.script().is_down = true;
    let begun = bench.logins.begin("sso", BACK).await.unwrap();
    let callback = bench.site.agree(&begun.url);
    refused!(bench.logins.complete("sso", Some(&begun.browser_key), callback).await, Unreachable);
    bench.site.script().is_down = false;
    assert!(bench.log_in().await.is_ok());
}

#[tokio::test]
async fn a_no_of_the_person_is_told_in_the_providers_words() {
    let bench = Bench::new().await;
    let denied = |it: &mut Callback| {
        it.error = Some("access_denied".to_owned());
        it.error_description = Some(format!("not \u{1b}[1myou{}", "!".repeat(500)));
    };
    let error = bench.log_in_by(denied).await.unwrap_err();
    let words = error.to_string();
    assert!(
        words.starts_with("the site sso did not allow the login (access_denied: not \\u{1b}[1myou!!!"),
        "{words}"
    );
    assert!(words.len() < 400, "{words}");
    let busy = |it: &mut Callback| it.error = Some("temporarily_unavailable".to_owned());
    refused!(bench.log_in_by(busy).await, Unreachable);
    let no_code = |it: &mut Callback| it.code = None;
    refused!(bench.log_in_by(no_code).await, Answer, "it has no code");
}

#[tokio::test]
async fn a_wrong_client_secret_is_the_administrators_to_mend() {
    let bench = Bench::new().await;
    let mut provider = bench.site.openid("sso");
    provider.client_secret = Some("wrong".to_owned());
    let logins = Logins::new(vec![provider], Http::default()).unwrap();
    let begun = logins.begin("sso", BACK).await.unwrap();
    let callback = bench.site.agree(&begun.url);
    let completed = logins.complete("sso", Some(&begun.browser_key), callback).await;
    refused!(completed, Client, "invalid_client: no such client");
}

#[tokio::test]
async fn an_answer_larger_than_a_mebibyte_is_refused() {
    for path in ["/.well-known/openid-configuration", "/keys", "/token", "/me"] {
        let bench = Bench::new().await;
        bench.site.script().claims = json!({"name": null});
        let header = "content-type: application/json".to_owned();
        let body = format!("{{\"x\": \"{}\"}}", "x".repeat(1 << 20));
        bench.site.script().answers.insert(path, (200, header, body));
        refused!(bench.log_in().await, Answer, "the answer of 127.0.0.1 is larger than 1 MiB");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for path in ["/.well-known/openid-configuration", "/keys", "/token", "/me"] {
        let bench = Bench::new().await;
        bench.site.script().claims = json!({"name": null});
        let elsewhere = format!("location: {}/elsewhere", bench.site.url);
        bench.site.script().answers.insert(path, (307, elsewhere, String::new()));
        let reason = "127.0.0.1 redirects the request, which is not followed; the administrator has to set the final \
                      address";
        refused!(bench.log_in().await, Answer, reason);
        assert_eq!(bench.site.n_requests("/elsewhere"), 0);
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_repeated() {
    for (path, body) in [
        ("/token", "{\"access_token\": \"hush\", \"token_type\": 7}"),
        ("/token", "hush"),
        ("/keys", "hush"),
        ("/.well-known/openid-configuration", "{\"issuer\": \"hush\"}"),
    ] {
        let bench = Bench::new().await;
        let header = "content-type: application/json".to_owned();
        bench.site.script().answers.insert(path, (200, header, body.to_owned()));
        let error = bench.log_in().await.unwrap_err();
        assert!(matches!(error, LoginError::Answer { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    }
}
