//! Logins in a browser on this machine, which comes back to a server that listens only meanwhile.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use windlass_base::browser_return::{BrowserReturn, NOBODY_CAME};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    device::{Page, Show},
    endpoint::{Answer, Endpoint, LoginError},
    rows::Redirect,
};

/// Logs in by a code with proof of possession (RFC 7636).
pub async fn log_in(
    endpoint: &Endpoint<'_>,
    authorize: &str,
    extra: &[(&str, &str)],
    redirect: &Redirect,
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let listener = open(endpoint, redirect).await?;
    let (verifier, state) = (random()?, random()?);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let mut url = endpoint.address(authorize)?;
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", endpoint.client_id())
        .append_pair("redirect_uri", listener.address())
        .append_pair("scope", endpoint.issuer.scope)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .extend_pairs(extra)
        .append_pair("state", &state);
    show(&Page { url: url.into(), code: None });
    let answer = wait(&listener, &state).await?;
    let code = answer.text("code").ok_or_else(|| refused(&answer))?;
    endpoint.exchange(code, &verifier, listener.address()).await
}

/// Logs in by a token that the browser brings itself.
pub async fn log_in_implicitly(
    endpoint: &Endpoint<'_>,
    authorize: &str,
    redirect: &Redirect,
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let listener = open(endpoint, redirect).await?;
    let state = random()?;
    let mut url = endpoint.address(authorize)?;
    url.query_pairs_mut()
        .append_pair("response_type", "token")
        .append_pair("client_id", endpoint.client_id())
        .append_pair("redirect_uri", listener.address())
        .append_pair("scope", endpoint.issuer.scope)
        .append_pair("state", &state);
    show(&Page { url: url.into(), code: None });
    let answer = wait(&listener, &state).await?;
    if answer.text("error").is_some() {
        return Err(refused(&answer));
    }
    endpoint.entry(&answer, None)
}

fn refused(answer: &Answer) -> LoginError {
    let reason = answer.text("error_description").or_else(|| answer.text("error"));
    LoginError::Refused(match reason {
        Some(reason) => format!("the login was not granted ({reason})"),
        None => "the browser came back without a code".to_owned(),
    })
}

/// Returns 256 random bits as text.
fn random() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| LoginError::Failed(format!("no random numbers can be had ({error})")))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Opens the server that the browser comes back to.
async fn open(endpoint: &Endpoint<'_>, redirect: &Redirect) -> Result<BrowserReturn, LoginError> {
    // A stand-in takes any address, and tests run side by side.
    let port = if endpoint.has_stand_in() { 0 } else { redirect.port };
    BrowserReturn::open(redirect.host, port, redirect.path).await.map_err(|error| {
        LoginError::Failed(format!("{error}; end the program that uses it, or log in with a key"))
    })
}

async fn wait(listener: &BrowserReturn, state: &str) -> Result<Answer, LoginError> {
    let fields = listener.wait(state).await.ok_or_else(|| LoginError::Failed(NOBODY_CAME.to_owned()))?;
    Ok(Answer { status: 200, fields })
}
