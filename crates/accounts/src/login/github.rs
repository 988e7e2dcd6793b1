//! Logins by GitHub's form of OAuth: a person is asked for at its API, because there is no ID token.

use openidconnect::{
    HttpRequest, RedirectUrl,
    http::{
        Method, Request, StatusCode,
        header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
    },
    url::form_urlencoded,
};
use reqwest::Url;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    attempts::{Attempt, Sent},
    error::{LoginError, shown},
    http::{Http, address},
    person,
    provider::{Identity, Provider, Refreshed},
    refusal,
};

/// Scopes of a provider without a list of its own.
const SCOPES: [&str; 2] = ["read:user", "user:email"];
/// Scopes that allow reading a person's addresses.
const EMAIL_SCOPES: [&str; 2] = ["user:email", "user"];

/// GitHub, or a GitHub Enterprise Server.
pub(super) struct Github {
    name: String,
    /// Without a slash at the end, as `api`.
    site: String,
    api: String,
    client_id: String,
    client_secret: Option<String>,
    scopes: Vec<String>,
    http: Http,
}

/// An answer of the token endpoint, which reports errors with the status 200.
#[derive(Deserialize)]
struct Answer {
    access_token: Option<String>,
    refresh_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct User {
    id: u64,
    login: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Email {
    email: String,
    primary: bool,
    verified: bool,
}

/// The tokens of a login.
struct Granted {
    access_token: String,
    refresh_token: Option<String>,
}

impl Github {
    /// Makes the client of a site, or says which setting cannot be used.
    pub(super) fn new(provider: &Provider, site: &str, api: &str, http: Http) -> Result<Self, String> {
        address(site)?;
        address(api)?;
        let own = provider.scopes.clone();
        Ok(Self {
            name: provider.name.clone(),
            site: site.trim_end_matches('/').to_owned(),
            api: api.trim_end_matches('/').to_owned(),
            client_id: provider.client_id.clone(),
            client_secret: provider.client_secret.clone(),
            scopes: if own.is_empty() { SCOPES.map(str::to_owned).to_vec() } else { own },
            http,
        })
    }

    /// Returns the address to which a browser goes for a login.
    pub(super) fn authorize(&self, sent: &Sent, redirect_uri: &RedirectUrl) -> Result<Url, LoginError> {
        let mut url = Url::parse(&format!("{}/login/oauth/authorize", self.site))
            .map_err(|_| self.answer("its address is not a URL"))?;
        url.query_pairs_mut()
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", &self.scopes.join(" "))
            .append_pair("state", sent.state.secret())
            .append_pair("code_challenge", sent.challenge.as_str())
            .append_pair("code_challenge_method", sent.challenge.method());
        Ok(url)
    }

    /// Checks the issuer that an answer to a login names. GitHub need not name one.
    pub(super) fn check_issuer(&self, named: Option<&str>) -> Result<(), LoginError> {
        let Some(named) = named else { return Ok(()) };
        // The second is the issuer of its metadata (RFC 8414).
        if named == self.site || named == format!("{}/login/oauth", self.site) {
            return Ok(());
        }
        let reason = format!("it names the issuer \"{}\"", shown(named));
        Err(LoginError::OtherIssuer { provider: self.name.clone(), reason })
    }

    /// Gives the code in exchange for a token, and asks for the person.
    pub(super) async fn exchange(
        &self,
        provider: &str,
        attempt: Attempt,
        code: &str,
    ) -> Result<Identity, LoginError> {
        let granted = self
            .granted(&[
                ("code", code),
                ("redirect_uri", &attempt.redirect_uri),
                ("code_verifier", attempt.verifier.secret()),
            ])
            .await?;
        let user = self.user(&granted).await?;
        Ok(Identity {
            provider: provider.to_owned(),
            subject: user.id.to_string(),
            name: name_of(&user),
            email: self.email(&granted).await?,
            refresh_token: granted.refresh_token,
            id_token: None,
        })
    }

    /// Asks whether an account is still good. Only apps with tokens that expire get a refresh token.
    pub(super) async fn refresh(&self, subject: &str, refresh_token: &str) -> Result<Refreshed, LoginError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        let granted = self.granted(&form).await?;
        let user = self.user(&granted).await?;
        if user.id.to_string() != subject {
            let reason = "it belongs to another account".to_owned();
            return Err(LoginError::Token { provider: self.name.clone(), reason });
        }
        Ok(Refreshed {
            name: Some(name_of(&user)),
            email: self.email(&granted).await?,
            refresh_token: granted.refresh_token,
            id_token: None,
        })
    }

    async fn granted(&self, form: &[(&str, &str)]) -> Result<Granted, LoginError> {
        let secret = self.client_secret.as_deref().map(|secret| ("client_secret", secret));
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("client_id", &self.client_id)
            .extend_pairs(secret)
            .extend_pairs(form)
            .finish();
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/login/oauth/access_token", self.site))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.into_bytes());
        let answer: Answer = self.json(request.map_err(|_| self.answer("its address is not a URL"))?).await?;
        if let Some(error) = &answer.error {
            return Err(refusal::of_token_error(&self.name, error, answer.error_description.as_deref()));
        }
        let access_token = answer.access_token.ok_or_else(|| self.answer("it has no token"))?;
        Ok(Granted { access_token, refresh_token: answer.refresh_token })
    }

    async fn user(&self, granted: &Granted) -> Result<User, LoginError> {
        self.json(self.api_request("/user", granted)?).await
    }

    /// Returns the person's main address if GitHub checked it. The one in the profile says nothing about that.
    async fn email(&self, granted: &Granted) -> Result<Option<String>, LoginError> {
        if !self.scopes.iter().any(|scope| EMAIL_SCOPES.contains(&scope.as_str())) {
            return Ok(None);
        }
        match self.json::<Vec<Email>>(self.api_request("/user/emails", granted)?).await {
            Ok(emails) => {
                let main = emails.into_iter().find(|email| email.primary && email.verified);
                Ok(main.and_then(|main| person::email(&main.email)))
            }
            // A person may have granted less than was asked for.
            Err(LoginError::Refused { reason, .. }) => {
                tracing::debug!(provider = self.name, reason, "a provider tells no address of a person");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn api_request(&self, path: &str, granted: &Granted) -> Result<HttpRequest, LoginError> {
        let request = Request::builder()
            .uri(format!("{}{path}", self.api))
            .header(ACCEPT, "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28")
            .header(AUTHORIZATION, format!("Bearer {}", granted.access_token));
        request.body(Vec::new()).map_err(|_| self.answer("its token cannot be sent back"))
    }

    async fn json<T: DeserializeOwned>(&self, request: HttpRequest) -> Result<T, LoginError> {
        let path = request.uri().path().to_owned();
        let answer = self.http.send(request).await.map_err(|error| error.at(&self.name))?;
        match answer.status() {
            StatusCode::OK => serde_json::from_slice(answer.body())
                .map_err(|_| self.answer(&format!("its answer to {path} is not of the expected form"))),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(LoginError::Refused {
                provider: self.name.clone(),
                reason: format!("it answered {} to {path}", answer.status()),
            }),
            status => Err(self.answer(&format!("it answered {status} to {path}"))),
        }
    }

    fn answer(&self, reason: &str) -> LoginError {
        LoginError::Answer { provider: self.name.clone(), reason: reason.to_owned() }
    }
}

fn name_of(user: &User) -> String {
    person::name([user.name.as_deref(), Some(&user.login)]).unwrap_or_else(|| user.id.to_string())
}
