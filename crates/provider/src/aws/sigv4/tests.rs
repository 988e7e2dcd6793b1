//! The signer against AWS's published test suite.

use reqwest::Url;

use super::{Request, Scope, encode, sign};
use crate::aws::Credentials;

const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
/// 2015-08-30T12:36:00Z
const NOW_MS: i64 = 1_440_938_160_000;

/// Name, method, path, headers, body, and the signature.
type Vector = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

const VECTORS: [Vector; 10] = [
    ("get-vanilla", "GET", "/", &[], "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    (
        "get-vanilla-query-order-key-case",
        "GET",
        "/?Param2=value2&Param1=value1",
        &[],
        "",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "get-vanilla-query-order-encoded",
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        &[],
        "",
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    (
        "get-vanilla-query-unreserved",
        "GET",
        "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        &[],
        "",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    (
        "get-header-key-duplicate",
        "GET",
        "/",
        &[("My-Header1", "value2"), ("My-Header1", "value2"), ("My-Header1", "value1")],
        "",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    (
        "get-header-value-trim",
        "GET",
        "/",
        &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
        "",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    (
        "post-vanilla-query",
        "POST",
        "/?Param1=value1",
        &[],
        "",
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    (
        "post-x-www-form-urlencoded",
        "POST",
        "/",
        &[
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", "13"),
            ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"),
        ],
        "Param1=value1",
        "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    ),
    (
        "post-x-www-form-urlencoded-parameters",
        "POST",
        "/",
        &[
            ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("Content-Length", "13"),
            ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"),
        ],
        "Param1=value1",
        "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422",
    ),
    (
        "post-sts-header-before",
        "POST",
        "/",
        &[],
        "",
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
];

#[test]
fn the_published_vectors_are_met() {
    for (name, method, path, headers, body, signature) in VECTORS {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: name.contains("sts").then(|| TOKEN.to_owned()),
            expires_ms: None,
        };
        let url = Url::parse(&format!("https://example.amazonaws.com{path}")).unwrap();
        let request = Request { method, url: &url, headers, body: body.as_bytes() };
        let scope = Scope { region: "us-east-1", service: "service" };
        let signed = sign(&request, scope, &credentials, NOW_MS);
        assert!(signed[0].1.ends_with(&format!("Signature={signature}")), "{name}: {signed:?}");
        assert!(signed[0].1.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders="
        ));
        assert_eq!(signed[1], ("x-amz-date", "20150830T123600Z".to_owned()));
    }
}

#[test]
fn a_path_that_is_encoded_is_encoded_again() {
    let id = encode("anthropic.claude-v1:0");
    assert_eq!(id, "anthropic.claude-v1%3A0");
    let url = Url::parse(&format!("https://x/model/{id}/converse-stream")).unwrap();
    assert_eq!(super::path(&url), "/model/anthropic.claude-v1%253A0/converse-stream");
}
