//! Tokens from Azure's program and from Google, each as the request that follows carries it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{Granted, exchange};
use crate::{Exchange, ProviderError};

fn run<T>(future: impl Future<Output = T>) -> T {
    // Fails if another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Makes the client; needs the setup of [`run`].
fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Asks for a token at a server that gives `answer`; returns the request too.
fn ask(way: impl FnOnce(&str) -> Exchange, answer: &str) -> (Result<Granted, ProviderError>, String) {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = way(&listener.local_addr().unwrap().to_string());
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            // Both kinds of requests end so: with the empty line, or with the form behind it.
            while !request.ends_with(b"\r\n\r\n") && !is_whole(&request) {
                assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0);
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
            socket.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(request).unwrap()
        };
        let client = client();
        tokio::join!(exchange(&client, &way, ""), serve)
    })
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| body.len() >= length.parse::<usize>().unwrap())
}

const TOKEN: &str = r#"{"access_token": "ya29.x", "expires_in": "3599", "token_type": "Bearer"}"#;

fn google(file: &Path) -> Exchange {
    Exchange::Google { file: Some(file.to_owned()), server: String::new() }
}

#[test]
fn a_service_account_signs_for_its_token() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("account.json");
    let mut account: Value =
        serde_json::from_str(include_str!("../../../../../fixtures/providers/google/service_account.json"))
            .unwrap();
    let mut url = String::new();
    let (granted, request) = ask(
        |address| {
            url = format!("http://{address}/token");
            account["token_uri"] = url.clone().into();
            fs::write(&file, account.to_string()).unwrap();
            google(&file)
        },
        TOKEN,
    );
    let granted = granted.unwrap();
    assert!(granted.token.0 == "ya29.x" && granted.is_good());
    assert!(request.starts_with("POST /token "), "{request}");
    let (_, form) = request.split_once("\r\n\r\n").unwrap();
    let assertion = form
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let parts: Vec<Value> = signed
        .split('.')
        .map(|part| serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
        .collect();
    assert_eq!(parts[0], json!({"alg": "RS256", "typ": "JWT", "kid": "kid1"}));
    let claims = &parts[1];
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!("svc@acme.example"), &json!(url)));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
    let public = BASE64_STANDARD.decode(account["public_key"].as_str().unwrap()).unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
    public.verify(signed.as_bytes(), &signature).unwrap();
}

#[test]
fn a_users_login_is_exchanged_and_a_machine_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("user.json");
    let (granted, request) = ask(
        |address| {
            let user = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s",
                "refresh_token": "1//r", "token_uri": format!("http://{address}/token")});
            fs::write(&file, user.to_string()).unwrap();
            google(&file)
        },
        TOKEN,
    );
    assert_eq!(granted.unwrap().token.0, "ya29.x");
    let form = "grant_type=refresh_token&client_id=c&client_secret=s&refresh_token=1%2F%2Fr";
    assert!(request.ends_with(form), "{request}");
    let machine = |address: &str| Exchange::Google { file: None, server: address.to_owned() };
    let (granted, request) = ask(machine, TOKEN);
    assert_eq!(granted.unwrap().token.0, "ya29.x");
    assert!(
        request.starts_with("GET /computeMetadata/v1/instance/service-accounts/default/token?"),
        "{request}"
    );
    assert!(request.contains("metadata-flavor: Google\r\n"), "{request}");
}

#[test]
fn without_a_token_of_googles_the_way_out_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("user.json");
    let remedy = "; run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS";
    for (content, reason) in [
        ("{", "are not in a form that is known"),
        (r#"{"type": "external_account"}"#, "are of a kind that windlass does not know"),
        (
            r#"{"type": "service_account", "client_email": "e", "private_key": "x"}"#,
            "hold a private key that cannot be read",
        ),
    ] {
        fs::write(&file, content).unwrap();
        let error = run(async { exchange(&client(), &google(&file), "").await }).unwrap_err();
        let expected = format!("Google's credentials in {} {reason}{remedy}", file.display());
        assert_eq!(error, ProviderError::Auth { message: expected });
    }
    let machine = |address: &str| Exchange::Google { file: None, server: address.to_owned() };
    let error = ask(machine, r#"{"error": "invalid_grant"}"#).0.unwrap_err();
    assert_eq!(error.to_string(), format!("Google gave no token (HTTP 200){remedy}"));
}

#[test]
fn azures_program_is_asked_for_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("az");
    let write = |script: &str| {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let way = Exchange::Azure { program: program.clone(), scope: "https://ai.azure.com/.default" };
    let get = || run(async { exchange(&client(), &way, "").await });
    write(
        r#"[ "$*" = "account get-access-token --output json --scope https://ai.azure.com/.default" ] || exit 1
echo '{"accessToken": "eyJ", "expiresOn": "2099-01-01 00:00:00.000000", "expires_on": "4070908800"}'"#,
    );
    let granted = get().unwrap();
    assert!(granted.token.0 == "eyJ" && granted.is_good());
    write("echo 'Please run az login' >&2; exit 1");
    let expected = "`az account get-access-token` printed no token; run `az login`, or set the key";
    assert_eq!(get().unwrap_err(), ProviderError::Auth { message: expected.to_owned() });
}
