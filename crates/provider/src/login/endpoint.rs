//! Requests to the authority that gives tokens, and its answers.

use std::{net::IpAddr, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use reqwest::{
    Client, RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use serde_json::{Map, Value};
use windlass_base::{cause, clock, form, json_number, text};
use windlass_core::config::{Environment, secrets};
use windlass_protocol::opencode::config::AuthEntry;

use super::rows::{Encoding, Grant, Issuer, host};

/// A variable that puts a server on this machine in the place of every authority, for tests of logins.
const OVERRIDE: &str = "WINDLASS_LOGIN_ISSUER";

/// Time that an authority may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum bytes of an authority's answer.
const MAX_ANSWER: usize = 256 << 10;

/// Maximum bytes of an authority's own words that are shown.
const MAX_WORDS: usize = 300;

/// Time that a token is taken to last where the authority does not say.
const DEFAULT_LIFE_S: f64 = 3600.0;

/// A login or renewal that failed. The words hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The authority gives no token for the code or token that it was shown.
    #[error("{0}")]
    Refused(String),
    /// The authority could not be asked, or does not work.
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Failed(String),
}

/// An authority at its place.
pub struct Endpoint<'a> {
    pub client: &'a Client,
    pub environment: &'a Environment,
    pub issuer: &'static Issuer,
    /// The host of an instance of one's own.
    pub instance: Option<String>,
}

/// An authority's answer: its status and the fields of its JSON.
pub struct Answer {
    pub status: u16,
    pub fields: Map<String, Value>,
}

impl Answer {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns a number, which some write as text.
    pub fn number(&self, name: &str) -> Option<f64> {
        json_number::of(self.fields.get(name)?)
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status) && !self.fields.contains_key("error")
    }
}

impl<'a> Endpoint<'a> {
    /// Finds the authority's place: the instance that is given, that of its variable, or the public one.
    pub fn new(
        client: &'a Client,
        environment: &'a Environment,
        issuer: &'static Issuer,
        given: Option<&str>,
    ) -> Result<Self, LoginError> {
        let instance = match &issuer.instance {
            None => None,
            Some(place) => {
                let of_variable = || place.variable.and_then(|name| environment.get(name));
                let found = given.or_else(of_variable).or(place.default);
                let found = found.map(host).ok_or_else(|| {
                    let variable = place.variable.map(|name| format!(", or set {name}")).unwrap_or_default();
                    LoginError::Failed(format!("name the {} with `--instance`{variable}", place.title))
                })?;
                if !is_host(&found) {
                    return Err(LoginError::Failed(format!("`{found}` is not a {}", place.title)));
                }
                Some(found)
            }
        };
        Ok(Self { client, environment, issuer, instance })
    }

    pub fn client_id(&self) -> &str {
        let of_variable = self.issuer.client_variable.and_then(|name| self.environment.get(name));
        of_variable.unwrap_or(self.issuer.client_id)
    }

    /// Returns the instance if it is not the public one.
    pub fn own_instance(&self) -> Option<String> {
        let default = self.issuer.instance.as_ref().and_then(|place| place.default);
        self.instance.clone().filter(|instance| Some(instance.as_str()) != default)
    }

    /// Fills in an address.
    pub fn address(&self, template: &str) -> Result<Url, LoginError> {
        let filled = template.replace("${INSTANCE}", self.instance.as_deref().unwrap_or_default());
        let bad = |_| LoginError::Failed(format!("`{filled}` is not an address"));
        let mut url = Url::parse(&filled).map_err(bad)?;
        if let Some(other) = self.stand_in()? {
            let moved = url.set_scheme(other.scheme()).is_ok()
                && url.set_host(other.host_str()).is_ok()
                && url.set_port(other.port()).is_ok();
            if !moved {
                return Err(LoginError::Failed(format!("{OVERRIDE} does not fit {filled}")));
            }
        }
        Ok(url)
    }

    /// Returns true if a server on this machine stands in for the authority.
    pub fn has_stand_in(&self) -> bool {
        self.environment.get(OVERRIDE).is_some()
    }

    /// Returns the server that stands in for the authority. It must be on this machine: a variable must not be a way
    /// to send tokens elsewhere.
    fn stand_in(&self) -> Result<Option<Url>, LoginError> {
        let Some(text) = self.environment.get(OVERRIDE) else { return Ok(None) };
        let is_here = |url: &Url| {
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        };
        match Url::parse(text) {
            Ok(url) if is_here(&url) => Ok(Some(url)),
            Ok(_) | Err(_) => Err(LoginError::Failed(format!(
                "{OVERRIDE} names no address of this machine, such as http://127.0.0.1:8080; unset it"
            ))),
        }
    }

    /// Asks for something. Values of `fields` are not shown in errors.
    pub async fn post(
        &self,
        template: &str,
        encoding: Encoding,
        fields: &[(&str, &str)],
    ) -> Result<Answer, LoginError> {
        let url = self.address(template)?;
        let place = url.host_str().unwrap_or_default().to_owned();
        let mut request = self.client.post(url).timeout(TIMEOUT).header(ACCEPT, "application/json");
        if self.issuer.has_basic_auth {
            let id = self.client_id();
            let pair = base64::prelude::BASE64_STANDARD.encode(format!("{id}:{id}"));
            request = request.header(AUTHORIZATION, format!("Basic {pair}"));
        }
        let request = encoded(request, encoding, fields);
        let unreachable =
            |reason: String| LoginError::Unreachable(format!("{place} cannot be asked ({reason})"));
        let mut response =
            request.send().await.map_err(|error| unreachable(cause::innermost(&error.without_url())))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| unreachable(cause::innermost(&error.without_url())))?
        {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER {
                return Err(unreachable("its answer is too large".to_owned()));
            }
        }
        // It follows no redirect: those are of networks that want a login of their own.
        if status >= 500 || status == 429 || (300..400).contains(&status) {
            return Err(unreachable(format!("it answered {status}")));
        }
        let fields = match serde_json::from_slice(&body) {
            Ok(fields) => fields,
            // A page of a proxy, say, which grants nothing and refuses nothing.
            Err(_) if (200..300).contains(&status) && !body.is_empty() => {
                return Err(unreachable("its answer is not JSON".to_owned()));
            }
            // A refusal counts by its status alone.
            Err(_) => Map::new(),
        };
        Ok(Answer { status, fields })
    }

    /// Exchanges a code for a token.
    pub async fn exchange(
        &self,
        code: &str,
        verifier: &str,
        redirect: &str,
    ) -> Result<AuthEntry, LoginError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("client_id", self.client_id()),
            ("code_verifier", verifier),
        ];
        let answer = self.post(self.issuer.token_url, self.issuer.encoding, &fields).await?;
        if !answer.is_success() {
            return Err(LoginError::Refused(self.reason(&answer, &fields)));
        }
        self.entry(&answer, None)
    }

    /// Exchanges the token for renewals for new tokens.
    pub async fn renew(&self, refresh: &str) -> Result<AuthEntry, LoginError> {
        let fields =
            [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", self.client_id())];
        let answer = self.post(self.issuer.token_url, self.issuer.encoding, &fields).await?;
        if !answer.is_success() {
            return Err(LoginError::Refused(self.reason(&answer, &fields)));
        }
        self.entry(&answer, Some(refresh))
    }

    /// Returns the authority's reason for a refusal, without the values that it was sent.
    pub fn reason(&self, answer: &Answer, sent: &[(&str, &str)]) -> String {
        let own = answer.text("error_description").or_else(|| answer.text("error")).or_else(|| {
            // OpenAI's is an object.
            answer.fields.get("error")?.get("message")?.as_str()
        });
        let host = self.address(self.issuer.token_url).ok();
        let host = host.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned();
        match own {
            Some(own) => {
                let hidden = sent.iter().fold(own.to_owned(), |text, (_, value)| secrets::hide(&text, value));
                let plain: String = hidden.chars().filter(|letter| !letter.is_control()).collect();
                format!("{host} says: {}", text::head(&plain, MAX_WORDS).trim_end_matches('.'))
            }
            None => format!("{host} answered {}", answer.status),
        }
    }

    /// Reads the tokens that the authority granted. `before` is the token that was used for it, which stays where no
    /// new one comes.
    pub fn entry(&self, answer: &Answer, before: Option<&str>) -> Result<AuthEntry, LoginError> {
        let lacking = || LoginError::Failed("the answer holds no token".to_owned());
        let (field, is_lasting) = match self.issuer.grant {
            Grant::Key(field) => {
                let key = answer.text(field).ok_or_else(lacking)?;
                return Ok(AuthEntry::key(key));
            }
            Grant::Renewed => ("access_token", false),
            Grant::Lasting => ("access_token", true),
        };
        let access = answer.text(field).ok_or_else(lacking)?.to_owned();
        if is_lasting {
            let enterprise_url = self.own_instance();
            let refresh = access.clone();
            return Ok(AuthEntry::Oauth {
                refresh,
                access,
                expires: 0,
                account_id: None,
                enterprise_url,
                extra: Map::new(),
            });
        }
        let refresh = answer.text("refresh_token").or(before).unwrap_or_default().to_owned();
        let claims = claims(&access);
        let now_ms = clock::now_ms();
        let life_s = answer.number("expires_in").filter(|life_s| *life_s >= 1.0);
        let by_claim = claims.get("exp").and_then(Value::as_i64).map(|exp| exp.saturating_mul(1000));
        let lasts_until = |life_s: f64| now_ms.saturating_add((life_s * 1000.0) as i64);
        let expires = life_s.map(lasts_until).or(by_claim).unwrap_or_else(|| lasts_until(DEFAULT_LIFE_S));
        let of_id = answer.text("id_token").map(self::claims).unwrap_or_default();
        let account_id = account(&of_id).or_else(|| account(&claims));
        let (enterprise_url, extra) = (self.own_instance(), Map::new());
        Ok(AuthEntry::Oauth { refresh, access, expires, account_id, enterprise_url, extra })
    }
}

fn encoded(request: RequestBuilder, encoding: Encoding, fields: &[(&str, &str)]) -> RequestBuilder {
    match encoding {
        Encoding::Form => {
            let kind = "application/x-www-form-urlencoded";
            request.header(CONTENT_TYPE, kind).body(form::text(fields))
        }
        Encoding::Json => {
            let json: Map<String, Value> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
            request.header(CONTENT_TYPE, "application/json").body(Value::from(json).to_string())
        }
    }
}

fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'))
}

/// Reads the claims of a signed token without checking the signature, which is the server's affair.
pub fn claims(token: &str) -> Map<String, Value> {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let json = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).unwrap_or_default();
    serde_json::from_slice(&json).unwrap_or_default()
}

/// Returns the ChatGPT account that a token is for.
fn account(claims: &Map<String, Value>) -> Option<String> {
    const OURS: &str = "https://api.openai.com/auth";
    let places = [
        claims.get("chatgpt_account_id"),
        claims.get(OURS).and_then(|auth| auth.get("chatgpt_account_id")),
        claims.get("organizations").and_then(|all| all.get(0)?.get("id")),
    ];
    places.into_iter().flatten().find_map(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests;
