//! The tokens of a company's gateway.

use std::time::Duration;

use serde_json::{Value, json};

use super::site::{CLIENT, Key, Site, signed_by_secret, unsigned};
use crate::login::{
    Identity,
    clock::Clock,
    error::LoginError,
    gateway::{Gateway, GatewayVerifier},
    http::Http,
};

fn settings(site: &Site) -> Gateway {
    Gateway {
        issuer: "https://gateway.example".to_owned(),
        audience: CLIENT.to_owned(),
        keys_url: format!("{}/keys", site.url),
    }
}

/// A gateway and the check of its tokens.
async fn bench() -> (Site, GatewayVerifier, Clock) {
    let clock = Clock::default();
    let site = Site::start(&clock).await;
    site.script().claims = json!({"iss": "https://gateway.example", "nonce": null, "email_verified": null});
    let verifier = GatewayVerifier::with_clock(settings(&site), Http::default(), clock.clone()).unwrap();
    (site, verifier, clock)
}

fn signed(site: &Site, over: &Value) -> String {
    let mut claims = site.claims("");
    for (name, value) in over.as_object().unwrap() {
        claims[name] = value.clone();
    }
    site.script().signer.sign(&claims)
}

#[tokio::test]
async fn a_token_gives_the_person_and_the_keys_are_fetched_once() {
    let (site, verifier, _) = bench().await;
    let expected = Identity {
        provider: "gateway".to_owned(),
        subject: "ada-1".to_owned(),
        name: "Ada Lovelace".to_owned(),
        email: Some("ada@example.com".to_owned()),
        refresh_token: None,
        id_token: None,
    };
    for _ in 0..3 {
        assert_eq!(verifier.verify(&signed(&site, &json!({}))).await.unwrap(), expected);
    }
    assert_eq!(site.script().requests, ["/keys"]);
    let unverified = verifier.verify(&signed(&site, &json!({"email_verified": false}))).await.unwrap();
    assert_eq!(unverified.email, None);
}

#[tokio::test]
async fn a_token_of_another_time_issuer_or_service_is_refused() {
    let (site, verifier, clock) = bench().await;
    let now = clock.unix();
    for over in [
        json!({"aud": "another-service"}),
        json!({"aud": [CLIENT, "another-service"]}),
        json!({"iss": "https://evil.example"}),
        json!({"exp": now - 61}),
        json!({"iat": now + 120}),
        json!({"nbf": now + 120}),
        json!({"sub": ""}),
    ] {
        let verified = verifier.verify(&signed(&site, &over)).await;
        assert!(matches!(verified, Err(LoginError::Token { .. })), "{over}: {verified:?}");
    }
    let claims = site.claims("");
    let forged = Key::curve("first").sign(&claims);
    let cut = signed(&site, &json!({}));
    let cut = cut.rsplit_once('.').unwrap().0.to_owned();
    let large = "x".repeat(20 << 10);
    for jwt in [unsigned(&claims), signed_by_secret(&claims), forged, cut, large, String::new()] {
        let verified = verifier.verify(&jwt).await;
        assert!(matches!(verified, Err(LoginError::Token { .. })), "{jwt}: {verified:?}");
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_and_the_known_ones_serve_while_the_gateway_is_down() {
    let (site, verifier, clock) = bench().await;
    let old = signed(&site, &json!({}));
    verifier.verify(&old).await.unwrap();
    let key = Key::curve("second");
    site.script().keys.push(key.clone());
    site.script().signer = key;
    let new = signed(&site, &json!({}));
    assert!(verifier.verify(&new).await.is_err(), "the keys are of this moment");
    clock.advance(Duration::from_secs(10));
    verifier.verify(&new).await.unwrap();
    assert_eq!(site.n_requests("/keys"), 2);

    clock.advance(Duration::from_secs(2 * 60 * 60));
    site.script().is_down = true;
    let later = signed(&site, &json!({}));
    verifier.verify(&later).await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_was_never_reached_lets_nobody_in() {
    let (site, verifier, _) = bench().await;
    site.script().is_down = true;
    let jwt = signed(&site, &json!({}));
    assert!(matches!(verifier.verify(&jwt).await, Err(LoginError::Unreachable { .. })));
    site.script().is_down = false;
    assert!(verifier.verify(&jwt).await.is_ok());
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let site = Site::start(&Clock::default()).await;
    for gateway in [
        Gateway { audience: String::new(), ..settings(&site) },
        Gateway { issuer: "gateway.example".to_owned(), ..settings(&site) },
        Gateway { keys_url: "http://gateway.example/keys".to_owned(), ..settings(&site) },
    ] {
        let made = GatewayVerifier::new(gateway.clone(), Http::default());
        assert!(matches!(made, Err(LoginError::Settings { .. })), "{gateway:?}");
    }
}
