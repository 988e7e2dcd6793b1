//! Tokens for a program that logs in as itself, without a person (RFC 6749 §4.4): by a secret, or by a key of its own that
//! signs the request (RFC 7523).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use windlass_base::{clock, form, ids, json_web_token};
use windlass_protocol::opencode::config::McpOauthClient;

use super::authority::Authority;

/// Life of a signed request.
const ASSERTION_LIFE_S: i64 = 60;
/// Time before a token's end at which another one is asked for.
const MARGIN: Duration = Duration::from_secs(30);
/// Life after which another token is asked for in any case.
const LONGEST_LIFE_S: u64 = 24 * 60 * 60;
/// Life of a token that states none.
const USUAL_LIFE_S: u64 = 300;

/// See the module's comment.
pub struct ClientCredentials {
    authority: Arc<Authority>,
    client: McpOauthClient,
    /// Address of the server, for which the tokens are.
    resource: String,
    metadata: AuthorizationMetadata,
    scopes: Vec<String>,
    token: Mutex<Option<(String, Instant)>>,
}

impl ClientCredentials {
    pub fn new(
        authority: Arc<Authority>,
        client: McpOauthClient,
        resource: String,
        metadata: AuthorizationMetadata,
        scopes: Vec<String>,
    ) -> Self {
        Self { authority, client, resource, metadata, scopes, token: Mutex::default() }
    }

    /// Forgets a token that was refused.
    pub async fn forget(&self) {
        *self.token.lock().await = None;
    }

    /// Returns a token that holds; an error is a sentence.
    pub async fn token(&self) -> Result<String, String> {
        // Requests that come meanwhile wait for the same token.
        let mut known = self.token.lock().await;
        if let Some((token, end)) = &*known
            && Instant::now() < *end
        {
            return Ok(token.clone());
        }
        let (token, life) = self.ask().await?;
        // One that lives shorter than the margin is good for the request at hand.
        *known = Some((token.clone(), Instant::now() + life.saturating_sub(MARGIN)));
        Ok(token)
    }

    async fn ask(&self) -> Result<(String, Duration), String> {
        let id = self.client.client_id.as_deref().ok_or("`oauth.clientId` is missing")?;
        let mut fields =
            vec![("grant_type", "client_credentials".to_owned()), ("resource", self.resource.clone())];
        if !self.scopes.is_empty() {
            fields.push(("scope", self.scopes.join(" ")));
        }
        let mut request = http::Request::post(self.metadata.token_endpoint.as_str())
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json");
        match (&self.client.private_key, &self.client.client_secret) {
            (Some(key), _) => {
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                let audience = self.metadata.issuer.as_deref().unwrap_or(&self.metadata.token_endpoint);
                fields.push(("client_assertion_type", kind.to_owned()));
                let now_s = clock::now_ms() / 1000;
                let claims = json!({
                    "iss": id, "sub": id, "aud": audience, "iat": now_s, "exp": now_s + ASSERTION_LIFE_S,
                    "jti": ids::random(20),
                });
                let signed = json_web_token::signed(&claims, key, None);
                let bad = "`oauth.privateKey` is no private key in PEM's form (PKCS #8)";
                fields.push(("client_assertion", signed.ok_or(bad)?));
                fields.push(("client_id", id.to_owned()));
            }
            (None, Some(secret)) if self.takes("client_secret_basic") => {
                let pair = BASE64_STANDARD.encode(format!("{}:{}", form::value(id), form::value(secret)));
                request = request.header("authorization", format!("Basic {pair}"));
            }
            (None, Some(secret)) => {
                fields.push(("client_id", id.to_owned()));
                fields.push(("client_secret", secret.clone()));
            }
            (None, None) => return Err("`oauth.clientSecret` or `oauth.privateKey` is missing".to_owned()),
        }
        let pairs: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = request.body(form::text(&pairs).into_bytes()).map_err(|error| error.to_string())?;
        let answer = self.authority.send(request, false).await.map_err(|error| error.to_string())?;
        let fields: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let Some(token) = fields["access_token"].as_str().filter(|_| answer.status().is_success()) else {
            let said = fields["error_description"].as_str().or(fields["error"].as_str());
            return Err(format!("the authority gave no token: {}", said.unwrap_or("it says no more")));
        };
        let life_s = fields["expires_in"].as_u64().unwrap_or(USUAL_LIFE_S).min(LONGEST_LIFE_S);
        Ok((token.to_owned(), Duration::from_secs(life_s)))
    }

    /// Returns true if the authority takes a client that shows itself so, which is basic where it says nothing.
    fn takes(&self, method: &str) -> bool {
        match self.metadata.additional_fields.get("token_endpoint_auth_methods_supported") {
            Some(Value::Array(methods)) => methods.iter().any(|it| it == method),
            _ => method == "client_secret_basic",
        }
    }
}
