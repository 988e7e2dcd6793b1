//! Logins by GitHub's OAuth.

use serde_json::json;

use super::site::{BACK, Site, query};
use crate::login::{
    Callback, Logins,
    clock::Clock,
    error::LoginError,
    http::Http,
    provider::{Identity, Provider},
};

fn logins(provider: Provider) -> Logins {
    Logins::new(vec![provider], Http::default()).unwrap()
}

async fn log_in(site: &Site, logins: &Logins) -> Result<Identity, LoginError> {
    let begun = logins.begin("hub", BACK).await?;
    let callback = site.agree(&begun.url);
    logins.complete("hub", Some(&begun.browser_key), callback).await
}

#[tokio::test]
async fn a_person_is_known_by_number_and_named_by_login() {
    let site = Site::start(&Clock::default()).await;
    let expected = Identity {
        provider: "hub".to_owned(),
        subject: "583231".to_owned(),
        name: "ada".to_owned(),
        email: Some("ada@example.com".to_owned()),
        refresh_token: None,
        id_token: None,
    };
    assert_eq!(log_in(&site, &logins(site.github("hub"))).await.unwrap(), expected);
}

#[tokio::test]
async fn the_browser_is_sent_with_state_challenge_and_scopes() {
    let site = Site::start(&Clock::default()).await;
    let begun = logins(site.github("hub")).begin("hub", BACK).await.unwrap();
    assert!(begun.url.starts_with(&format!("{}/login/oauth/authorize?", site.url)));
    let query = query(&begun.url);
    assert_eq!(query["scope"], "read:user user:email");
    assert_eq!(query["redirect_uri"], BACK);
    assert_eq!(query["state"].len(), 43);
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!(site.script().requests, Vec::<String>::new());
}

#[tokio::test]
async fn an_address_counts_if_it_is_the_main_one_and_verified() {
    let site = Site::start(&Clock::default()).await;
    let all = logins(site.github("hub"));
    site.script().emails = json!([
        {"email": "other@example.com", "primary": false, "verified": true},
        {"email": "ada@example.com", "primary": true, "verified": false},
    ]);
    assert_eq!(log_in(&site, &all).await.unwrap().email, None);
    site.script().answers.insert("/api/user/emails", (403, "x-a: b".to_owned(), String::new()));
    assert_eq!(log_in(&site, &all).await.unwrap().email, None);

    let n_before = site.n_requests("/api/user/emails");
    let narrow = logins(Provider { scopes: vec!["read:user".to_owned()], ..site.github("hub") });
    assert_eq!(log_in(&site, &narrow).await.unwrap().email, None);
    assert_eq!(site.n_requests("/api/user/emails"), n_before);
}

#[tokio::test]
async fn faults_are_refused_with_their_reason() {
    let site = Site::start(&Clock::default()).await;
    let logins_here = logins(site.github("hub"));
    let begun = logins_here.begin("hub", BACK).await.unwrap();
    let callback = Callback { code: Some("guessed".to_owned()), ..site.agree(&begun.url) };
    let completed = logins_here.complete("hub", Some(&begun.browser_key), callback).await;
    let reason = "bad_verification_code: The code has expired.".to_owned();
    let provider = "the site hub".to_owned();
    assert_eq!(completed.unwrap_err(), LoginError::Refused { provider: provider.clone(), reason });

    let begun = logins_here.begin("hub", BACK).await.unwrap();
    let callback = Callback { iss: Some("https://evil.example".to_owned()), ..site.agree(&begun.url) };
    let completed = logins_here.complete("hub", Some(&begun.browser_key), callback).await;
    assert!(matches!(completed, Err(LoginError::OtherIssuer { .. })));

    let wrong = logins(Provider { client_secret: Some("wrong".to_owned()), ..site.github("hub") });
    let reason = "incorrect_client_credentials".to_owned();
    assert_eq!(log_in(&site, &wrong).await.unwrap_err(), LoginError::Client { provider, reason });

    site.script().answers.insert("/api/user", (502, "x-a: b".to_owned(), String::new()));
    assert!(matches!(log_in(&site, &logins_here).await, Err(LoginError::Unreachable { .. })));
}

#[tokio::test]
async fn the_issuer_of_its_metadata_is_accepted() {
    let site = Site::start(&Clock::default()).await;
    let logins = logins(site.github("hub"));
    let begun = logins.begin("hub", BACK).await.unwrap();
    let callback = Callback { iss: Some(format!("{}/login/oauth", site.url)), ..site.agree(&begun.url) };
    assert!(logins.complete("hub", Some(&begun.browser_key), callback).await.is_ok());
}

#[tokio::test]
async fn a_refresh_asks_for_the_same_person() {
    let site = Site::start(&Clock::default()).await;
    let logins = logins(site.github("hub"));
    let refreshed = logins.refresh("hub", "583231", "refresh").await.unwrap();
    assert_eq!(refreshed.name.as_deref(), Some("ada"));
    assert!(matches!(logins.refresh("hub", "1", "refresh").await, Err(LoginError::Token { .. })));
    assert!(matches!(logins.refresh("hub", "583231", "revoked").await, Err(LoginError::Refused { .. })));
    site.script().is_down = true;
    assert!(matches!(logins.refresh("hub", "583231", "refresh").await, Err(LoginError::Unreachable { .. })));
}
