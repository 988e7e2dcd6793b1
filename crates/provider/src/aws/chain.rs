//! The places of AWS's credentials in the order of the lookup: variables, profiles with sign-ins, roles and programs,
//! web identity, container, instance.

use std::{
    collections::BTreeMap,
    io::ErrorKind::{NotADirectory, NotFound},
    path::Path,
    time::Duration,
};

use reqwest::Url;
use serde::Deserialize;
use tokio::{fs, time::timeout};
use windlass_base::{
    cause, clock,
    process::{self, Spawn},
};

use super::{
    Account, Credentials, NotSigned,
    profiles::{Profile, Profiles},
    refused,
    service::{LIMIT, MAX_BODY, address, domain, send, tag, time},
    sign_in,
    sigv4::{self, Request, Scope},
};

/// Maximum number of profiles that take their roles from each other.
const MAX_ROLES: usize = 5;
/// For a program, which may ask the user to touch a key.
const PROGRAM_LIMIT: Duration = Duration::from_secs(60);
/// For the address that only machines of Amazon's have.
const INSTANCE_LIMIT: Duration = Duration::from_secs(1);
const REMEDY: &str =
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK";

/// Returns the text of a file of profiles; an empty one where there is none.
async fn read(file: &Path) -> Result<String, NotSigned> {
    match fs::read_to_string(file).await {
        Ok(text) => Ok(text),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(String::new()),
        Err(error) => Err(refused(format!("{} cannot be read ({error}); correct the file", file.display()))),
    }
}

/// Finds credentials.
pub(super) async fn find(account: &Account, client: &reqwest::Client) -> Result<Credentials, NotSigned> {
    if account.profile.is_none()
        && let Some(credentials) = of_variables(account)
    {
        return Ok(credentials);
    }
    let named = account.profile.as_deref().or(account.variable("AWS_PROFILE"));
    let name = named.unwrap_or("default");
    let config = read(&account.file("AWS_CONFIG_FILE", "config")).await?;
    let credentials = read(&account.file("AWS_SHARED_CREDENTIALS_FILE", "credentials")).await?;
    let profiles = Profiles::parse(&config, &credentials);
    match profiles.find(name) {
        Some(profile) if holds_credentials(profile) => {
            return of_profile(account, client, &profiles, name, profile).await;
        }
        None if named.is_some() => {
            return Err(refused(format!(
                "there is no AWS profile `{name}`; correct AWS_PROFILE or `options.profile`"
            )));
        }
        Some(_) | None => {}
    }
    if let (Some(file), Some(role)) =
        (account.variable("AWS_WEB_IDENTITY_TOKEN_FILE"), account.variable("AWS_ROLE_ARN"))
    {
        let session = account.variable("AWS_ROLE_SESSION_NAME");
        return of_web_identity(account, client, Path::new(file), role, session).await;
    }
    if let Some(credentials) = of_container(account).await? {
        return Ok(credentials);
    }
    of_instance(account).await
}

fn of_variables(account: &Account) -> Option<Credentials> {
    Some(Credentials {
        access_key_id: account.variable("AWS_ACCESS_KEY_ID")?.to_owned(),
        secret_access_key: account.variable("AWS_SECRET_ACCESS_KEY")?.to_owned(),
        session_token: account.variable("AWS_SESSION_TOKEN").map(str::to_owned),
        expires_ms: None,
    })
}

fn holds_credentials(profile: &Profile) -> bool {
    ["aws_access_key_id", "role_arn", "sso_session", "sso_start_url", "credential_process"]
        .iter()
        .any(|key| profile.contains_key(*key))
}

async fn of_profile(
    account: &Account,
    client: &reqwest::Client,
    profiles: &Profiles,
    name: &str,
    profile: &Profile,
) -> Result<Credentials, NotSigned> {
    // The profiles from the named one to the one that has credentials of its own.
    let mut roles: Vec<&Profile> = Vec::new();
    let (mut name, mut profile) = (name, profile);
    while let (Some(_), Some(source)) = (profile.get("role_arn"), profile.get("source_profile")) {
        roles.push(profile);
        // A profile may be its own source: then its keys are meant.
        if source == name || roles.len() > MAX_ROLES {
            break;
        }
        name = source;
        profile = profiles.find(source).ok_or_else(|| {
            refused(format!("there is no AWS profile `{source}`, which `source_profile` names"))
        })?;
    }
    let is_own_source = roles.last().is_some_and(|role| std::ptr::eq(*role, profile));
    let mut credentials = of_source(account, client, profiles, name, profile, is_own_source).await?;
    for role in roles.into_iter().rev() {
        credentials = assume_role(account, client, role, &credentials).await?;
    }
    Ok(credentials)
}

/// Returns a profile's own credentials, or those of the place that it names.
async fn of_source(
    account: &Account,
    client: &reqwest::Client,
    profiles: &Profiles,
    name: &str,
    profile: &Profile,
    is_own_source: bool,
) -> Result<Credentials, NotSigned> {
    if let (Some(role), Some(file)) = (profile.get("role_arn"), profile.get("web_identity_token_file")) {
        let session = profile.get("role_session_name").map(String::as_str);
        return of_web_identity(account, client, &account.expand(file), role, session).await;
    }
    if let (Some(_), Some(place)) = (profile.get("role_arn"), profile.get("credential_source")) {
        let source = match place.as_str() {
            "Environment" => {
                of_variables(account).ok_or_else(|| refused(format!("the environment has none: {REMEDY}")))?
            }
            "EcsContainer" => {
                let found = of_container(account).await?;
                found.ok_or_else(|| refused(format!("the container has none: {REMEDY}")))?
            }
            _ => of_instance(account).await?,
        };
        return assume_role(account, client, profile, &source).await;
    }
    if let (Some(id), Some(secret)) = (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"))
    {
        return Ok(Credentials {
            access_key_id: id.clone(),
            secret_access_key: secret.clone(),
            session_token: profile.get("aws_session_token").cloned(),
            expires_ms: None,
        });
    }
    if !is_own_source && (profile.contains_key("sso_session") || profile.contains_key("sso_start_url")) {
        return sign_in::find(account, client, profiles, name, profile).await;
    }
    if let Some(command) = profile.get("credential_process") {
        return of_program(account, name, command).await;
    }
    Err(refused(format!("the AWS profile `{name}` has no credentials; {REMEDY}")))
}

/// Runs the program that a profile names for its credentials, with a shell as AWS's own programs do.
async fn of_program(account: &Account, name: &str, command: &str) -> Result<Credentials, NotSigned> {
    let spawn = Spawn {
        program: "/bin/sh".as_ref(),
        args: &["-c".into(), command.into()],
        directory: &account.home,
        environment: &BTreeMap::new(),
        without: &[],
        stdin: false,
        is_parent: true,
    };
    let program = || format!("the program of the AWS profile `{name}` (`credential_process`)");
    let printed = match timeout(PROGRAM_LIMIT, process::output(&spawn, MAX_BODY as u64)).await {
        Ok(Ok(printed)) => printed,
        Ok(Err(error)) => return Err(refused(format!("{} cannot be run ({error})", program()))),
        Err(_) => {
            return Err(refused(format!("{} did not end within {} s", program(), PROGRAM_LIMIT.as_secs())));
        }
    };
    let found = of_json(&String::from_utf8_lossy(&printed));
    found.ok_or_else(|| refused(format!("{} printed no credentials; run it by hand to see why", program())))
}

async fn of_web_identity(
    account: &Account,
    client: &reqwest::Client,
    file: &Path,
    role: &str,
    session: Option<&str>,
) -> Result<Credentials, NotSigned> {
    let token = fs::read_to_string(file).await;
    let token = token.map_err(|error| refused(format!("cannot read {} ({error})", file.display())))?;
    let fields = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session.unwrap_or("windlass")),
        ("WebIdentityToken", token.trim()),
    ];
    let request = client.post(token_service(account)?);
    let request = request.header("content-type", FORM).body(form(&fields));
    let answer = send(request, LIMIT, "AWS's token service").await?;
    of_xml(&answer)
        .ok_or_else(|| refused(format!("AWS's token service gave no credentials for the role {role}")))
}

async fn assume_role(
    account: &Account,
    client: &reqwest::Client,
    profile: &Profile,
    source: &Credentials,
) -> Result<Credentials, NotSigned> {
    let role = profile.get("role_arn").map(String::as_str).unwrap_or_default();
    if profile.contains_key("mfa_serial") {
        return Err(refused(format!(
            "the role {role} asks for a one-time code; run `aws sts assume-role` and set the variables that it gives"
        )));
    }
    let mut fields = vec![
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", profile.get("role_session_name").map_or("windlass", String::as_str)),
    ];
    for (key, field) in [("external_id", "ExternalId"), ("duration_seconds", "DurationSeconds")] {
        fields.extend(profile.get(key).map(|value| (field, value.as_str())));
    }
    let (url, body) = (token_service(account)?, form(&fields));
    let headers = [("content-type", FORM)];
    let signed = Request { method: "POST", url: &url, headers: &headers, body: body.as_bytes() };
    let scope = Scope { region: &account.region, service: "sts" };
    let headers = sigv4::sign(&signed, scope, source, clock::now_ms());
    let mut request = client.post(url.clone()).header("content-type", FORM).body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = send(request, LIMIT, "AWS's token service").await?;
    of_xml(&answer)
        .ok_or_else(|| refused(format!("AWS's token service gave no credentials for the role {role}")))
}

const FORM: &str = "application/x-www-form-urlencoded";

fn form(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", sigv4::encode(value))).collect();
    pairs.join("&")
}

fn token_service(account: &Account) -> Result<Url, NotSigned> {
    let default = || format!("https://sts.{}.{}", account.region, domain(&account.region));
    address(&account.variable("AWS_ENDPOINT_URL_STS").map_or_else(default, str::to_owned))
}

/// Returns the credentials of the container's own server; `None` outside of a container.
async fn of_container(account: &Account) -> Result<Option<Credentials>, NotSigned> {
    let relative = account.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let url = match (relative, account.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
        (Some(path), _) => address(&format!("http://169.254.170.2{path}"))?,
        (None, Some(full)) => address(full)?,
        (None, None) => return Ok(None),
    };
    const CONTAINERS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
    let host = url.host_str().unwrap_or_default();
    let is_near = ["localhost", "127.0.0.1", "[::1]"].contains(&host) || CONTAINERS.contains(&host);
    if url.scheme() != "https" && !is_near {
        return Err(refused(format!(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI names {host}, which is neither near nor encrypted"
        )));
    }
    let mut request = direct()?.get(url);
    let token = match account.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => {
            let token = fs::read_to_string(file).await;
            Some(token.map_err(|error| refused(format!("cannot read {file} ({error})")))?)
        }
        None => account.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
    };
    if let Some(token) = token {
        request = request.header("authorization", token.trim());
    }
    let answer = send(request, LIMIT, "the container's credentials").await?;
    of_json(&answer).map(Some).ok_or_else(|| refused("the container gave no AWS credentials"))
}

/// Returns the credentials of the machine, if it is one of Amazon's.
async fn of_instance(account: &Account) -> Result<Credentials, NotSigned> {
    let none = || refused(format!("no AWS credentials were found; {REMEDY}"));
    if account.variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(none());
    }
    let base = account.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or("http://169.254.169.254");
    let base = base.trim_end_matches('/');
    let client = direct()?;
    let asked = "the machine's credentials";
    let request = client.put(address(&format!("{base}/latest/api/token"))?);
    let request = request.header("x-aws-ec2-metadata-token-ttl-seconds", "21600");
    // Machines outside of Amazon's cloud do not answer.
    let token = send(request, INSTANCE_LIMIT, asked).await.map_err(|_| none())?;
    let get = |path: &str| {
        let url = address(&format!("{base}/latest/meta-data/iam/security-credentials/{path}"));
        url.map(|url| client.get(url).header("x-aws-ec2-metadata-token", token.trim()))
    };
    let roles = send(get("")?, INSTANCE_LIMIT, asked).await.map_err(|_| none())?;
    let role = roles.lines().next().map(str::trim).filter(|role| !role.is_empty()).ok_or_else(none)?;
    let answer = send(get(role)?, INSTANCE_LIMIT, asked).await?;
    of_json(&answer).ok_or_else(none)
}

/// Makes a client for addresses of the machine itself, which no proxy serves.
fn direct() -> Result<reqwest::Client, NotSigned> {
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder
        .build()
        .map_err(|error| refused(format!("the HTTP client cannot be set up ({})", cause::innermost(&error))))
}

fn of_json(text: &str) -> Option<Credentials> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        access_key_id: String,
        secret_access_key: String,
        #[serde(alias = "SessionToken")]
        token: Option<String>,
        expiration: Option<String>,
    }
    let it: Answer = serde_json::from_str(text).ok()?;
    Some(Credentials {
        access_key_id: it.access_key_id,
        secret_access_key: it.secret_access_key,
        session_token: it.token,
        expires_ms: it.expiration.as_deref().and_then(time),
    })
}

fn of_xml(text: &str) -> Option<Credentials> {
    Some(Credentials {
        access_key_id: tag(text, "AccessKeyId")?.to_owned(),
        secret_access_key: tag(text, "SecretAccessKey")?.to_owned(),
        session_token: tag(text, "SessionToken").map(str::to_owned),
        expires_ms: tag(text, "Expiration").and_then(time),
    })
}
