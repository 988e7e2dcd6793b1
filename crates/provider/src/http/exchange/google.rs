//! Tokens for Google's application default credentials: a user's, a service account's, or those of the machine (facts:
//! provider requests §2, vertex).

use std::{path::Path, time::Duration};

use reqwest::{Client, RequestBuilder, header::CONTENT_TYPE, redirect::Policy};
use serde::Deserialize;
use serde_json::json;
use windlass_base::{cause, clock, form, json_number, json_web_token};

use super::{Granted, TIMEOUT, body};
use crate::ProviderError;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const REMEDY: &str = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS";

/// Time in which a machine of Google's answers.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(3);

/// The credentials in a file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Credentials {
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        #[serde(default = "token_url")]
        token_uri: String,
    },
    ServiceAccount {
        client_email: String,
        private_key: String,
        #[serde(default)]
        private_key_id: Option<String>,
        #[serde(default = "token_url")]
        token_uri: String,
    },
    #[serde(other)]
    Other,
}

fn token_url() -> String {
    TOKEN_URL.to_owned()
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    #[serde(default, deserialize_with = "json_number::deserialize")]
    expires_in: Option<f64>,
}

/// Exchanges the credentials in a file.
pub(super) async fn of_file(client: &Client, file: &Path) -> Result<Granted, ProviderError> {
    let failed = |reason: &str| refused(format!("Google's credentials in {} {reason}", file.display()));
    let text = tokio::fs::read(file).await;
    let text = text.map_err(|error| failed(&format!("cannot be read ({error})")))?;
    let credentials: Credentials =
        serde_json::from_slice(&text).map_err(|_| failed("are not in a form that is known"))?;
    let (url, form) = match credentials {
        Credentials::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
            let fields = [
                ("grant_type", "refresh_token"),
                ("client_id", &client_id),
                ("client_secret", &client_secret),
                ("refresh_token", &refresh_token),
            ];
            (token_uri, form::text(&fields))
        }
        Credentials::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
            let now = clock::now_ms() / 1000;
            let claims = json!({"iss": client_email, "scope": SCOPE, "aud": token_uri, "iat": now,
                "exp": now + 3600});
            let assertion = json_web_token::signed(&claims, &private_key, private_key_id.as_deref())
                .ok_or_else(|| failed("hold a private key that cannot be read"))?;
            let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
            (token_uri, form::text(&[("grant_type", grant), ("assertion", &assertion)]))
        }
        Credentials::Other => return Err(failed("are of a kind that windlass does not know")),
    };
    let request = client.post(url).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
    ask(request.timeout(TIMEOUT)).await
}

/// Asks the server of the machine, which no proxy serves.
pub(super) async fn of_machine(server: &str) -> Result<Granted, ProviderError> {
    let client = Client::builder().no_proxy().redirect(Policy::none()).build();
    let client = client.map_err(|error| refused(cause::innermost(&error)))?;
    let url =
        format!("http://{server}/computeMetadata/v1/instance/service-accounts/default/token?scopes={SCOPE}");
    ask(client.get(url).header("metadata-flavor", "Google").timeout(MACHINE_TIMEOUT)).await
}

async fn ask(request: RequestBuilder) -> Result<Granted, ProviderError> {
    let mut response = request.send().await.map_err(|error| {
        refused(format!("Google gave no token ({})", cause::innermost(&error.without_url())))
    })?;
    let status = response.status();
    if status.is_server_error() {
        let message = format!("Google gave no token (HTTP {})", status.as_u16());
        return Err(ProviderError::Overloaded { message, status: Some(status.as_u16()), after: None });
    }
    let answer = body(&mut response).await.map_err(refused)?;
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|_| refused(format!("Google gave no token (HTTP {})", status.as_u16())))?;
    let ends_ms = answer.expires_in.map(|life_s| clock::now_ms().saturating_add((life_s * 1000.0) as i64));
    Ok(Granted::plain(answer.access_token, ends_ms))
}

fn refused(reason: String) -> ProviderError {
    ProviderError::Auth { message: format!("{reason}; {REMEDY}") }
}
