//! The settings of providers, and the bounds of the things kept for them.

use openidconnect::RedirectUrl;

use super::site::BACK;
use crate::login::{
    Kind, Logins, Provider,
    attempts::{Attempts, MAX_ATTEMPTS},
    error::LoginError,
    http::Http,
};

fn provider(id: &str, issuer: &str) -> Provider {
    Provider {
        id: id.to_owned(),
        name: "Example".to_owned(),
        kind: Kind::OpenId { issuer: issuer.to_owned() },
        client_id: "client".to_owned(),
        client_secret: None,
        scopes: Vec::new(),
    }
}

fn refusal(providers: Vec<Provider>) -> String {
    Logins::new(providers, Http::default()).unwrap_err().to_string()
}

#[test]
fn providers_are_listed_in_their_order() {
    let providers = vec![
        provider("b", "https://b.example"),
        provider("a", "http://localhost:8080/realm"),
        provider("c", "http://[::1]:8080"),
    ];
    let logins = Logins::new(providers, Http::default()).unwrap();
    let ids: Vec<&str> = logins.providers().map(|(id, _)| id).collect();
    assert_eq!(ids, ["b", "a", "c"]);
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let one = || provider("one", "https://a.example");
    assert_eq!(
        refusal(vec![one(), one()]),
        "the login provider \"one\" cannot be used: two providers have this id; give one of them another"
    );
    assert_eq!(
        refusal(vec![provider("one", "http://a.example")]),
        "the login provider \"one\" cannot be used: \"http://a.example\" has to begin with https://"
    );
    assert!(refusal(vec![provider("one", "a.example")]).contains("is not a URL"));
    assert!(refusal(vec![provider("gateway", "https://a.example")]).contains("is the id of the gateway"));
    assert!(refusal(vec![provider("A b", "https://a.example")]).contains("small letters"));
    assert!(refusal(vec![Provider { client_id: String::new(), ..one() }]).contains("no client id"));
    let kind =
        Kind::Github { site: "https://github.com".to_owned(), api: "http://api.github.com".to_owned() };
    assert!(refusal(vec![Provider { kind, ..one() }]).contains("has to begin with https://"));
}

#[tokio::test]
async fn a_login_needs_a_known_provider_and_an_address_to_come_back_to() {
    let logins = Logins::new(vec![provider("one", "https://a.example")], Http::default()).unwrap();
    let begun = logins.begin("two", BACK).await;
    assert_eq!(begun.unwrap_err(), LoginError::UnknownProvider { id: "two".to_owned() });
    assert!(matches!(logins.begin("one", "nowhere").await, Err(LoginError::Settings { .. })));
}

#[test]
fn the_oldest_of_too_many_attempts_gives_way() {
    let attempts = Attempts::default();
    let back = RedirectUrl::new(BACK.to_owned()).unwrap();
    let begun: Vec<_> = (0..=MAX_ATTEMPTS).map(|_| attempts.begin("one", back.clone())).collect();
    let is_known = |place: usize| {
        let sent = &begun[place];
        attempts.take(("one", "Example"), Some(sent.state.secret()), Some(&sent.browser_key)).is_ok()
    };
    assert_eq!([is_known(0), is_known(1), is_known(MAX_ATTEMPTS)], [false, true, true]);
}
