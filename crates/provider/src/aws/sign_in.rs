//! Credentials of `aws sso login`: exchanges the token that it has stored, which is renewed before it ends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use ring::digest;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_base::{blocking::blocking, clock, json_number};

use super::{
    Account, Credentials, NotSigned,
    profiles::{Profile, Profiles},
    refused,
    service::{self, LIMIT, address},
    sigv4,
};
use crate::login::tokens::RENEWALS;

/// Time before its end at which a token is renewed.
const EARLY_MS: i64 = 5 * 60 * 1000;

/// Time that a token is taken to last where AWS does not say.
const DEFAULT_LIFE_S: f64 = 3600.0;

/// The token as AWS's own programs store it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    access_token: String,
    expires_at: String,
    /// Absent from sign-ins without a session, which end for good.
    refresh_token: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// A sign-in of a profile.
struct SignIn<'a> {
    profile: &'a str,
    region: &'a str,
    file: PathBuf,
}

/// Finds the credentials of a profile that signs in.
pub(super) async fn find(
    account: &Account,
    client: &reqwest::Client,
    profiles: &Profiles,
    name: &str,
    profile: &Profile,
) -> Result<Credentials, NotSigned> {
    let session_name = profile.get("sso_session");
    let session = session_name.and_then(|session| profiles.session(session));
    let setting = |key: &str| session.and_then(|session| session.get(key)).or(profile.get(key));
    let missing =
        |key: &str| refused(format!("the AWS profile `{name}` has no `{key}`; run `aws configure sso`"));
    let region = setting("sso_region").ok_or_else(|| missing("sso_region"))?;
    let account_id = setting("sso_account_id").ok_or_else(|| missing("sso_account_id"))?;
    let role = setting("sso_role_name").ok_or_else(|| missing("sso_role_name"))?;
    // The file is named by the session, or by the address where there is none.
    let key = session_name.or(setting("sso_start_url")).ok_or_else(|| missing("sso_start_url"))?;
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    let file = account.home.join(".aws/sso/cache").join(format!("{}.json", sigv4::hex(hash.as_ref())));
    let sign_in = SignIn { profile: name, region, file };
    let token = sign_in.token(account, client).await?;
    sign_in.exchange(account, client, &token, role, account_id).await
}

impl SignIn<'_> {
    fn again(&self) -> String {
        format!("run `aws sso login --profile {}`", self.profile)
    }

    async fn read(&self) -> Result<Token, NotSigned> {
        let failed =
            |why: &str| refused(format!("the AWS profile `{}` {why}; {}", self.profile, self.again()));
        let text = tokio::fs::read_to_string(&self.file).await.map_err(|_| failed("is not signed in"))?;
        serde_json::from_str(&text).map_err(|_| failed("has a sign-in that cannot be read"))
    }

    /// Returns the token that holds; renews one that is about to end.
    async fn token(&self, account: &Account, client: &reqwest::Client) -> Result<String, NotSigned> {
        let token = self.read().await?;
        if !ends_within(&token, EARLY_MS) {
            return Ok(token.access_token);
        }
        // Another process, or another session of this one, may be about to renew it.
        let path = self.file.clone();
        let locked = blocking(move || lock(&path)).await;
        let _lock =
            locked.map_err(|error| refused(format!("cannot lock {} ({error})", self.file.display())))?;
        let token = self.read().await?;
        if !ends_within(&token, EARLY_MS) {
            return Ok(token.access_token);
        }
        let is_good = !ends_within(&token, 0);
        let default = || format!("https://oidc.{}.{}", self.region, service::domain(self.region));
        let base = account.variable("AWS_ENDPOINT_URL_SSO_OIDC").map_or_else(default, str::to_owned);
        let known = token.access_token.clone();
        let renewal = renew(client.clone(), format!("{base}/token"), self.file.clone(), token);
        // The user may cancel the turn, but a token that AWS has replaced must not be lost.
        let renewed = RENEWALS.spawn(renewal).await;
        match renewed.unwrap_or(Err(NotRenewed::NoMeans)) {
            Ok(renewed) => Ok(renewed),
            Err(_) if is_good => Ok(known),
            Err(NotRenewed::Failed(error @ NotSigned::Unavailable(_))) => Err(error),
            Err(reason) => {
                let profile = self.profile;
                Err(refused(format!(
                    "the sign-in of the AWS profile `{profile}` has ended{reason}; {}",
                    self.again()
                )))
            }
        }
    }

    async fn exchange(
        &self,
        account: &Account,
        client: &reqwest::Client,
        token: &str,
        role: &str,
        account_id: &str,
    ) -> Result<Credentials, NotSigned> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            role_credentials: RoleCredentials,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct RoleCredentials {
            access_key_id: String,
            secret_access_key: String,
            session_token: Option<String>,
            #[serde(default, deserialize_with = "json_number::deserialize")]
            expiration: Option<f64>,
        }
        let default = || format!("https://portal.sso.{}.{}", self.region, service::domain(self.region));
        let base = account.variable("AWS_ENDPOINT_URL_SSO").map_or_else(default, str::to_owned);
        let mut url = address(&format!("{base}/federation/credentials"))?;
        url.query_pairs_mut().append_pair("role_name", role).append_pair("account_id", account_id);
        let request = client.get(url).header("x-amz-sso_bearer_token", token);
        let answer = service::send(request, LIMIT, "AWS's sign-in").await;
        let answer = answer.map_err(|error| match error {
            NotSigned::Refused(sentence) => refused(format!("{sentence}; {}", self.again())),
            NotSigned::Unavailable(_) => error,
        })?;
        let Answer { role_credentials: it } = serde_json::from_str(&answer).map_err(|_| {
            let (profile, again) = (self.profile, self.again());
            refused(format!("AWS's sign-in gave no credentials for the profile `{profile}`; {again}"))
        })?;
        Ok(Credentials {
            access_key_id: it.access_key_id,
            secret_access_key: it.secret_access_key,
            session_token: it.session_token,
            expires_ms: it.expiration.map(|ms| ms as i64),
        })
    }
}

/// The reason why a token was not renewed, as an addition to a sentence.
#[derive(Debug, thiserror::Error)]
enum NotRenewed {
    /// The sign-in has nothing to renew it by.
    #[error("")]
    NoMeans,
    #[error(" and cannot be renewed ({0})")]
    Failed(NotSigned),
}

/// Renews a token and stores it where AWS's own programs find it.
async fn renew(
    client: reqwest::Client,
    url: String,
    file: PathBuf,
    token: Token,
) -> Result<String, NotRenewed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Renewed {
        access_token: String,
        #[serde(default, deserialize_with = "json_number::deserialize")]
        expires_in: Option<f64>,
        refresh_token: Option<String>,
    }
    let (Some(refresh), Some(id), Some(secret)) = (token.refresh_token, token.client_id, token.client_secret)
    else {
        return Err(NotRenewed::NoMeans);
    };
    let body = json!({"clientId": id, "clientSecret": secret, "grantType": "refresh_token",
        "refreshToken": refresh});
    let request = client.post(address(&url).map_err(NotRenewed::Failed)?);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = service::send(request, LIMIT, "AWS's sign-in").await.map_err(NotRenewed::Failed)?;
    let renewed: Renewed = serde_json::from_str(&answer)
        .map_err(|_| NotRenewed::Failed(refused("the answer holds no token")))?;
    let life_ms = (renewed.expires_in.unwrap_or(DEFAULT_LIFE_S) * 1000.0) as i64;
    let ends_ms = clock::now_ms().saturating_add(life_ms);
    let ends = jiff::Timestamp::from_millisecond(ends_ms)
        .map_err(|error| NotRenewed::Failed(refused(error.to_string())))?;
    let mut changes = Map::new();
    changes.insert("accessToken".to_owned(), renewed.access_token.clone().into());
    changes.insert("expiresAt".to_owned(), ends.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    changes.extend(renewed.refresh_token.map(|token| ("refreshToken".to_owned(), token.into())));
    if let Err(error) = blocking(move || store(&file, changes)).await {
        // The session goes on; AWS's own programs have to sign in.
        tracing::error!("a renewed sign-in of AWS was not stored: {error}");
    }
    Ok(renewed.access_token)
}

fn ends_within(token: &Token, margin_ms: i64) -> bool {
    service::time(&token.expires_at).is_some_and(|ends| ends - margin_ms <= clock::now_ms())
}

/// Waits until no other renewal of the file's token is under way. Does blocking reads.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    file.lock()?;
    Ok(file)
}

/// Changes fields of the stored token in one step. Does blocking writes.
fn store(path: &Path, changes: Map<String, Value>) -> io::Result<()> {
    let mut fields: Map<String, Value> = serde_json::from_slice(&fs::read(path)?)?;
    fields.extend(changes);
    let draft = path.with_extension(format!("json.{}", std::process::id()));
    let mut output = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    output.write_all(&serde_json::to_vec(&fields)?)?;
    output.sync_all()?;
    fs::rename(&draft, path)
}
