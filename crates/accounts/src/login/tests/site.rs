//! A scripted login provider in this process: OpenID Connect, GitHub's OAuth, and a gateway's keys.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use openidconnect::url::form_urlencoded;
use reqwest::Url;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use windlass_base::{json_web_token, lock::lock};

use crate::login::{
    Callback,
    clock::Clock,
    provider::{Kind, Provider},
};

pub(super) const CLIENT: &str = "windlass-client";
pub(super) const SECRET: &str = "s3cret/of the client";
pub(super) const BACK: &str = "https://windlass.example/login/callback";

/// A key that signs tokens.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) id: String,
    pem: String,
    pub(super) public: Value,
}

impl Key {
    pub(super) fn curve(id: &str) -> Self {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
        // The point begins with the mark of the uncompressed form.
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let public =
            json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": encode(x), "y": encode(y)});
        let pem = base64::prelude::BASE64_STANDARD.encode(der.as_ref());
        Self { id: id.to_owned(), pem, public }
    }

    pub(super) fn rsa(id: &str) -> Self {
        let account = include_str!("../../../../../fixtures/providers/google/service_account.json");
        let account: Value = serde_json::from_str(account).unwrap();
        let pem = account["private_key"].as_str().unwrap().to_owned();
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        let der = base64::prelude::BASE64_STANDARD.decode(lines.collect::<String>()).unwrap();
        let pair = ring::signature::RsaKeyPair::from_pkcs8(&der).unwrap();
        let parts = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
        let public = json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": id, "n": encode(&parts.n), "e": encode(&parts.e)});
        Self { id: id.to_owned(), pem, public }
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        json_web_token::signed(claims, &self.pem, Some(&self.id)).unwrap()
    }
}

/// Makes a token without a signature.
pub(super) fn unsigned(claims: &Value) -> String {
    format!("{}.{}.", encode(br#"{"alg":"none"}"#), encode(claims.to_string().as_bytes()))
}

/// Makes a token that is signed by the client's secret.
pub(super) fn signed_by_secret(claims: &Value) -> String {
    let text = format!("{}.{}", encode(br#"{"alg":"HS256"}"#), encode(claims.to_string().as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("{text}.{}", encode(hmac::sign(&key, text.as_bytes()).as_ref()))
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The behaviour of a provider, and the requests it got.
pub(super) struct Script {
    /// Drops each connection.
    pub(super) is_down: bool,
    /// Put over the metadata.
    pub(super) metadata: Value,
    pub(super) keys: Vec<Key>,
    /// Signs tokens; not necessarily one of `keys`.
    pub(super) signer: Key,
    /// Put over the claims of tokens; `null` takes a claim away.
    pub(super) claims: Value,
    /// Makes the token in place of `signer`.
    pub(super) token: Option<fn(&Value) -> String>,
    /// The error of the token endpoint.
    pub(super) refusal: Option<&'static str>,
    pub(super) user_info: Value,
    pub(super) emails: Value,
    /// Answers in place of the usual ones, by path: status, header line, body.
    pub(super) answers: HashMap<&'static str, (u16, String, String)>,
    pub(super) requests: Vec<String>,
    codes: HashMap<String, Granted>,
}

/// A code that was given to a browser.
struct Granted {
    nonce: String,
    challenge: String,
    redirect_uri: String,
}

pub(super) struct Site {
    pub(super) url: String,
    script: Arc<Mutex<Script>>,
    clock: Clock,
    task: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Site {
    pub(super) async fn start(clock: &Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let key = Key::curve("first");
        let script = Arc::new(Mutex::new(Script {
            is_down: false,
            metadata: json!({}),
            keys: vec![key.clone()],
            signer: key,
            claims: json!({}),
            token: None,
            refusal: None,
            user_info: json!({"sub": "ada-1"}),
            emails: json!([{"email": "ada@example.com", "primary": true, "verified": true}]),
            answers: HashMap::new(),
            requests: Vec::new(),
            codes: HashMap::new(),
        }));
        let place = (url.clone(), script.clone(), clock.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &place.0, &place.1, &place.2).await;
            }
        });
        Self { url, script, clock: clock.clone(), task }
    }

    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        lock(&self.script)
    }

    /// Returns the settings of a client of this provider.
    pub(super) fn openid(&self, id: &str) -> Provider {
        let kind = Kind::OpenId { issuer: self.url.clone() };
        self.provider(id, kind)
    }

    pub(super) fn github(&self, id: &str) -> Provider {
        let kind = Kind::Github { site: self.url.clone(), api: format!("{}/api/", self.url) };
        self.provider(id, kind)
    }

    fn provider(&self, id: &str, kind: Kind) -> Provider {
        Provider {
            id: id.to_owned(),
            name: format!("the site {id}"),
            kind,
            client_id: CLIENT.to_owned(),
            client_secret: Some(SECRET.to_owned()),
            scopes: Vec::new(),
        }
    }

    /// Logs in as a person would, and returns the answer that the browser brings back.
    pub(super) fn agree(&self, url: &str) -> Callback {
        let query = query(url);
        assert_eq!(query["client_id"], CLIENT);
        assert_eq!(query["code_challenge_method"], "S256");
        let mut script = self.script();
        let code = format!("code-{}", script.codes.len());
        let granted = Granted {
            nonce: query.get("nonce").cloned().unwrap_or_default(),
            challenge: query["code_challenge"].clone(),
            redirect_uri: query["redirect_uri"].clone(),
        };
        script.codes.insert(code.clone(), granted);
        Callback { code: Some(code), state: Some(query["state"].clone()), ..Callback::default() }
    }

    /// Counts the requests to a path.
    pub(super) fn n_requests(&self, path: &str) -> usize {
        self.script().requests.iter().filter(|request| *request == path).count()
    }

    /// Returns the claims of a token that is good now.
    pub(super) fn claims(&self, nonce: &str) -> Value {
        claims(&self.script(), &self.url, &self.clock, nonce)
    }
}

pub(super) fn query(url: &str) -> HashMap<String, String> {
    Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

fn claims(script: &Script, url: &str, clock: &Clock, nonce: &str) -> Value {
    let now = clock.unix();
    let mut claims = json!({
        "iss": url, "aud": CLIENT, "sub": "ada-1", "iat": now, "exp": now + 300, "nonce": nonce,
        "name": "Ada Lovelace", "email": "ada@example.com", "email_verified": true,
    });
    put_over(&mut claims, &script.claims);
    claims
}

fn put_over(value: &mut Value, over: &Value) {
    let Some(value) = value.as_object_mut() else { return };
    for (name, part) in over.as_object().into_iter().flatten() {
        if part.is_null() {
            value.remove(name);
        } else {
            value.insert(name.clone(), part.clone());
        }
    }
}

async fn serve(mut stream: TcpStream, url: &str, script: &Mutex<Script>, clock: &Clock) {
    if lock(script).is_down {
        return;
    }
    let Some((head, body)) = read(&mut stream).await else { return };
    let path = head.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
    let (status, header, body) = {
        let mut script = lock(script);
        script.requests.push(path.clone());
        match script.answers.get(path.as_str()) {
            Some(answer) => answer.clone(),
            None => {
                let (status, json) = answer(&mut script, url, clock, &path, &head, &body);
                (status, "content-type: application/json".to_owned(), json.to_string())
            }
        }
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Said\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // A client that has read enough may be gone.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
}

async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").and_then(|length| length.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = head.lines().filter_map(|line| line.split_once(": "));
    pairs.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn answer(script: &mut Script, url: &str, clock: &Clock, path: &str, head: &str, body: &str) -> (u16, Value) {
    match path {
        "/.well-known/openid-configuration" => {
            let mut metadata = json!({
                "issuer": url,
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"),
                "userinfo_endpoint": format!("{url}/me"),
                "jwks_uri": format!("{url}/keys"),
                "end_session_endpoint": format!("{url}/end"),
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
            });
            put_over(&mut metadata, &script.metadata);
            (200, metadata)
        }
        "/keys" => {
            let keys = script.keys.iter().map(|key| key.public.clone());
            (200, json!({"keys": keys.collect::<Vec<_>>()}))
        }
        "/token" => token(script, url, clock, head, body),
        "/me" => (200, script.user_info.clone()),
        "/login/oauth/access_token" => github_token(script, body),
        "/api/user" if is_bearer(head) => (200, json!({"id": 583_231, "login": "ada", "name": null})),
        "/api/user/emails" if is_bearer(head) => (200, script.emails.clone()),
        "/api/user" | "/api/user/emails" => (401, json!({"message": "Bad credentials"})),
        _other => (404, json!({})),
    }
}

fn is_bearer(head: &str) -> bool {
    header(head, "authorization") == Some("Bearer access")
}

fn token(script: &mut Script, url: &str, clock: &Clock, head: &str, body: &str) -> (u16, Value) {
    let escaped: String = form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
    let basic = base64::prelude::BASE64_STANDARD.encode(format!("{CLIENT}:{escaped}"));
    if header(head, "authorization") != Some(&format!("Basic {basic}")) {
        return (401, json!({"error": "invalid_client", "error_description": "no such client"}));
    }
    if let Some(error) = script.refusal {
        return (400, json!({"error": error}));
    }
    let form: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let nonce = match form["grant_type"].as_str() {
        "refresh_token" if form["refresh_token"] == "refresh" => "",
        "authorization_code" => match redeemed(script, &form) {
            Some(granted) => &granted.nonce.clone(),
            None => return (400, json!({"error": "invalid_grant"})),
        },
        _other => return (400, json!({"error": "invalid_grant"})),
    };
    let claims = claims(script, url, clock, nonce);
    let id_token = script.token.map_or_else(|| script.signer.sign(&claims), |token| token(&claims));
    (
        200,
        json!({"access_token": "access", "token_type": "Bearer", "id_token": id_token, "refresh_token": "refresh"}),
    )
}

fn github_token(script: &mut Script, body: &str) -> (u16, Value) {
    let form: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    if form.get("client_secret").map(String::as_str) != Some(SECRET) {
        return (200, json!({"error": "incorrect_client_credentials"}));
    }
    let is_good = match form.get("refresh_token") {
        Some(token) => token == "refresh",
        None => redeemed(script, &form).is_some(),
    };
    if !is_good {
        return (
            200,
            json!({"error": "bad_verification_code", "error_description": "The code has expired."}),
        );
    }
    (200, json!({"access_token": "access", "token_type": "bearer", "scope": "read:user,user:email"}))
}

/// Takes back a code, if the client shows that it began the login.
fn redeemed(script: &mut Script, form: &HashMap<String, String>) -> Option<Granted> {
    let granted = script.codes.remove(form.get("code")?)?;
    let proof = encode(&Sha256::digest(form.get("code_verifier")?.as_bytes()));
    (proof == granted.challenge && form.get("redirect_uri") == Some(&granted.redirect_uri)).then_some(granted)
}
