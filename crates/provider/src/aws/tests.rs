//! Credentials from each place, against servers on the loopback that check their requests.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use windlass_core::config::Environment;

use super::{Account, Credentials, NotSigned, chain};

fn account(home: &Path, profile: Option<&str>, variables: &[(&str, &str)]) -> Account {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let variables: BTreeMap<String, String> = variables.collect();
    Account::new(&Environment { trusts_projects: true, variables, home: home.to_owned() }, None, profile)
}

fn home(config: &str, credentials: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".aws/sso/cache")).unwrap();
    fs::write(home.path().join(".aws/config"), config).unwrap();
    fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
    home
}

fn keys(id: &str, secret: &str, token: Option<&str>, expires_ms: Option<i64>) -> Credentials {
    Credentials {
        access_key_id: id.to_owned(),
        secret_access_key: secret.to_owned(),
        session_token: token.map(str::to_owned),
        expires_ms,
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    // Fails if another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn find(account: &Account) -> Result<Credentials, NotSigned> {
    chain::find(account, &reqwest::Client::builder().no_proxy().build().unwrap()).await
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_counts_not_as_an_empty_one() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".aws/credentials")).unwrap();
    let error = run(find(&account(home.path(), None, &[]))).unwrap_err().to_string();
    let file = home.path().join(".aws/credentials");
    assert!(error.starts_with(&format!("{} cannot be read", file.display())), "{error}");
}

/// Answers requests one after another and returns these requests.
async fn serve(listener: TcpListener, answers: &[&str]) -> Vec<String> {
    serve_with("200 OK", listener, answers).await
}

async fn serve_with(status: &str, listener: TcpListener, answers: &[&str]) -> Vec<String> {
    let mut asked = Vec::new();
    for answer in answers {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&request).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                    asked.push(text);
                    break;
                }
            }
            assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0);
        }
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
            answer.len()
        );
        socket.write_all(answer.as_bytes()).await.unwrap();
    }
    asked
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

const STS: &str = "<R><Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s+/1</SecretAccessKey>\
    <SessionToken>tok==</SessionToken><Expiration>2026-11-22T10:00:00Z</Expiration></Credentials></R>";
const EXPIRES: Option<i64> = Some(1_795_341_600_000);
const METADATA: &str = r#"{"Code": "Success", "AccessKeyId": "ASIA2", "SecretAccessKey": "s2",
    "Token": "tok2", "Expiration": "2026-11-22T10:00:00Z"}"#;

#[test]
fn variables_come_before_profiles_unless_the_configuration_names_one() {
    let home = home(
        "",
        "[default]\naws_access_key_id = D\naws_secret_access_key = ds\n[work]\naws_access_key_id=W\naws_secret_access_key=ws # mine\naws_session_token=wt\n",
    );
    let variables =
        [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "es"), ("AWS_SESSION_TOKEN", "et")];
    let found =
        |profile, variables: &[(&str, &str)]| run(find(&account(home.path(), profile, variables))).unwrap();
    assert_eq!(found(None, &variables), keys("E", "es", Some("et"), None));
    assert_eq!(found(Some("work"), &variables), keys("W", "ws", Some("wt"), None));
    assert_eq!(found(None, &[("AWS_PROFILE", "work")]), keys("W", "ws", Some("wt"), None));
    assert_eq!(found(None, &[("AWS_ACCESS_KEY_ID", "E")]), keys("D", "ds", None, None));
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "[default]\naws_access_key_id=X\naws_secret_access_key=xs\n").unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    assert_eq!(found(None, &[("AWS_SHARED_CREDENTIALS_FILE", elsewhere)]), keys("X", "xs", None, None));
}

#[test]
fn the_region_is_that_of_the_configuration_the_environment_or_the_profile() {
    let home = home("[profile work]\nregion = eu-west-1\ns3 =\n  region = x\n", "");
    let region =
        |profile, variables: &[(&str, &str)]| account(home.path(), profile, variables).region().to_owned();
    assert_eq!(region(None, &[]), "us-east-1");
    assert_eq!(region(Some("work"), &[]), "eu-west-1");
    assert_eq!(region(Some("work"), &[("AWS_REGION", "eu-north-1")]), "eu-north-1");
    assert_eq!(region(None, &[("AWS_DEFAULT_REGION", "ap-south-1")]), "ap-south-1");
    assert_eq!(region(None, &[("AWS_REGION", "evil.example/")]), "us-east-1");
}

#[test]
fn a_sign_in_is_exchanged_for_the_credentials_of_its_role() {
    run(async {
        let (listener, url) = listen().await;
        let home = home(
            "[profile work]\nsso_session = corp\nsso_account_id = 1234\nsso_role_name = Dev\n\
             [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n",
            "",
        );
        let account = account(home.path(), Some("work"), &[("AWS_ENDPOINT_URL_SSO", &url)]);
        // AWS's own program names the file so: the hash of the session's name.
        let file = home.path().join(".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json");
        let error = find(&account).await.unwrap_err().to_string();
        assert!(error.contains("is not signed in; run `aws sso login --profile work`"), "{error}");
        fs::write(&file, r#"{"accessToken": "at", "expiresAt": "2020-01-01T00:00:00Z"}"#).unwrap();
        let error = find(&account).await.unwrap_err().to_string();
        assert!(error.contains("has ended; run `aws sso login --profile work`"), "{error}");
        fs::write(&file, r#"{"accessToken": "at", "expiresAt": "2999-01-01T00:00:00Z"}"#).unwrap();
        let answer = r#"{"roleCredentials": {"accessKeyId": "ASIA3", "secretAccessKey": "s3",
            "sessionToken": "tok3", "expiration": "1795341600000"}}"#;
        let answers = [answer];
        let (found, asked) = tokio::join!(find(&account), serve(listener, &answers));
        assert_eq!(found.unwrap(), keys("ASIA3", "s3", Some("tok3"), EXPIRES));
        assert!(
            asked[0].starts_with("GET /federation/credentials?role_name=Dev&account_id=1234 "),
            "{asked:?}"
        );
        assert!(asked[0].contains("x-amz-sso_bearer_token: at\r\n"), "{asked:?}");
    });
}

#[test]
fn a_sign_in_that_is_out_of_order_may_do_better_and_one_that_refuses_names_the_way_out() {
    run(async {
        let home = home(
            "[profile work]\nsso_session = corp\nsso_account_id = 1234\nsso_role_name = Dev\n\
             [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n",
            "",
        );
        let file = home.path().join(".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json");
        fs::write(&file, r#"{"accessToken": "at", "expiresAt": "2999-01-01T00:00:00Z"}"#).unwrap();
        let (closed, nowhere) = listen().await;
        drop(closed);
        let unreachable = account(home.path(), Some("work"), &[("AWS_ENDPOINT_URL_SSO", &nowhere)]);
        let error = find(&unreachable).await.unwrap_err();
        assert!(matches!(&error, NotSigned::Unavailable(_)), "{error:?}");
        for (status, is_refusal) in [("503 Busy", false), ("429 Slow Down", false), ("403 No", true)] {
            let (listener, url) = listen().await;
            let account = account(home.path(), Some("work"), &[("AWS_ENDPOINT_URL_SSO", &url)]);
            let (found, _) = tokio::join!(find(&account), serve_with(status, listener, &["no"]));
            let error = found.unwrap_err();
            assert_eq!(matches!(&error, NotSigned::Refused(_)), is_refusal, "{error:?}");
            let remedy = "; run `aws sso login --profile work`";
            assert_eq!(error.to_string().ends_with(remedy), is_refusal, "{error}");
        }
    });
}

#[test]
fn a_sign_in_that_ends_is_renewed_once_and_stored_for_everybody() {
    run(async {
        let (listener, url) = listen().await;
        let home = home(
            "[profile work]\nsso_session = corp\nsso_account_id = 1234\nsso_role_name = Dev\n\
             [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n",
            "",
        );
        let variables = [("AWS_ENDPOINT_URL_SSO", url.as_str()), ("AWS_ENDPOINT_URL_SSO_OIDC", &url)];
        let account = account(home.path(), Some("work"), &variables);
        let file = home.path().join(".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json");
        let ended = r#"{"accessToken": "old", "expiresAt": "2020-01-01T00:00:00Z", "refreshToken": "r1",
            "clientId": "c", "clientSecret": "cs", "region": "eu-west-1"}"#;
        fs::write(&file, ended).unwrap();
        let renewed =
            r#"{"accessToken": "new", "expiresIn": "28800", "refreshToken": "r2", "tokenType": "Bearer"}"#;
        let granted = r#"{"roleCredentials": {"accessKeyId": "ASIA3", "secretAccessKey": "s3",
            "sessionToken": "tok3", "expiration": 1795341600000}}"#;
        let answers = [renewed, granted, granted];
        let both = async { (find(&account).await, find(&account).await) };
        let ((first, second), asked) = tokio::join!(both, serve(listener, &answers));
        let expected = keys("ASIA3", "s3", Some("tok3"), EXPIRES);
        assert_eq!((first.unwrap(), second.unwrap()), (expected.clone(), expected));
        assert!(asked[0].starts_with("POST /token "), "{asked:?}");
        let (_, body) = asked[0].split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let expected = serde_json::json!({"clientId": "c", "clientSecret": "cs", "grantType": "refresh_token",
            "refreshToken": "r1"});
        assert_eq!(body, expected);
        assert!(asked[2].contains("x-amz-sso_bearer_token: new\r\n"), "{asked:?}");
        let stored: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!((&stored["refreshToken"], &stored["region"]), (&"r2".into(), &"eu-west-1".into()));
    });
}

#[test]
fn a_program_of_a_profile_prints_its_credentials() {
    let home = home(
        "[profile program]\ncredential_process = printf '{\"Version\": 1, \"AccessKeyId\": \"P\", \
         \"SecretAccessKey\": \"ps\", \"SessionToken\": \"pt\", \"Expiration\": \"2026-11-22T10:00:00Z\"}'\n",
        "",
    );
    let found = run(find(&account(home.path(), Some("program"), &[]))).unwrap();
    assert_eq!(found, keys("P", "ps", Some("pt"), EXPIRES));
}

#[test]
fn roles_are_assumed_one_after_another() {
    run(async {
        let (listener, url) = listen().await;
        let home = home(
            "[profile a]\nrole_arn = arn:aws:iam::1:role/A\nsource_profile = b\nexternal_id = x y\n\
             [profile b]\nrole_arn = arn:aws:iam::1:role/B\nsource_profile = c\n",
            "[c]\naws_access_key_id = C\naws_secret_access_key = cs\n",
        );
        let account = account(home.path(), Some("a"), &[("AWS_ENDPOINT_URL_STS", &url)]);
        let answers = [STS, STS];
        let (found, asked) = tokio::join!(find(&account), serve(listener, &answers));
        assert_eq!(found.unwrap(), keys("ASIA1", "s+/1", Some("tok=="), EXPIRES));
        assert!(asked[0].contains("Credential=C/"), "{asked:?}");
        assert!(asked[0].contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2FB"), "{asked:?}");
        assert!(asked[1].contains("Credential=ASIA1/"), "{asked:?}");
        assert!(asked[1].contains("x-amz-security-token: tok==\r\n"), "{asked:?}");
        assert!(asked[1].ends_with("RoleSessionName=windlass&ExternalId=x%20y"), "{asked:?}");
    });
}

#[test]
fn a_web_identity_is_exchanged_without_a_signature() {
    run(async {
        let (listener, url) = listen().await;
        let home = home("", "");
        let file = home.path().join("token");
        fs::write(&file, "jwt.x.y\n").unwrap();
        let variables = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/R"),
            ("AWS_ENDPOINT_URL_STS", &url),
        ];
        let account = account(home.path(), None, &variables);
        assert!(account.has_credentials());
        let answers = [STS];
        let (found, asked) = tokio::join!(find(&account), serve(listener, &answers));
        assert_eq!(found.unwrap(), keys("ASIA1", "s+/1", Some("tok=="), EXPIRES));
        assert!(asked[0].contains("Action=AssumeRoleWithWebIdentity") && asked[0].ends_with("=jwt.x.y"));
        assert!(!asked[0].contains("authorization"), "{asked:?}");
    });
}

#[test]
fn a_container_is_asked_with_its_token_and_only_nearby() {
    run(async {
        let (listener, url) = listen().await;
        let home = home("", "");
        let url = format!("{url}/v1/credentials");
        let variables = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc"),
        ];
        let account = account(home.path(), None, &variables);
        let answers = [METADATA];
        let (found, asked) = tokio::join!(find(&account), serve(listener, &answers));
        assert_eq!(found.unwrap(), keys("ASIA2", "s2", Some("tok2"), EXPIRES));
        assert!(
            asked[0].starts_with("GET /v1/credentials ") && asked[0].contains("authorization: Basic abc")
        );
        let elsewhere = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://elsewhere.example/")];
        let error =
            find(&super::tests::account(home.path(), None, &elsewhere)).await.unwrap_err().to_string();
        assert!(error.contains("neither near nor encrypted"), "{error}");
    });
}

#[test]
fn an_instance_is_asked_for_a_token_first() {
    run(async {
        let (listener, url) = listen().await;
        let home = home("", "");
        let account = account(home.path(), None, &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)]);
        let answers = ["imds-token", "role-1\n", METADATA];
        let (found, asked) = tokio::join!(find(&account), serve(listener, &answers));
        assert_eq!(found.unwrap(), keys("ASIA2", "s2", Some("tok2"), EXPIRES));
        assert!(asked[0].starts_with("PUT /latest/api/token "), "{asked:?}");
        assert!(asked[2].starts_with("GET /latest/meta-data/iam/security-credentials/role-1 "), "{asked:?}");
        assert!(asked[2].contains("x-aws-ec2-metadata-token: imds-token\r\n"), "{asked:?}");
    });
}

#[test]
fn what_is_missing_is_said_with_the_way_out() {
    let home = home(
        "[profile empty]\nregion = eu-west-1\n[profile program]\ncredential_process = /bin/x\n\
         [profile code]\nrole_arn = r\nsource_profile = keys\nmfa_serial = m\n\
         [profile keys]\naws_access_key_id = k\naws_secret_access_key = s\n\
         [profile lost]\nrole_arn = r\nsource_profile = gone\n",
        "",
    );
    let off = [("AWS_EC2_METADATA_DISABLED", "true")];
    let none = "no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or \
        AWS_BEARER_TOKEN_BEDROCK";
    for (profile, expected) in [
        (None, none),
        (Some("empty"), none),
        (Some("nobody"), "there is no AWS profile `nobody`; correct AWS_PROFILE or `options.profile`"),
        (Some("lost"), "there is no AWS profile `gone`, which `source_profile` names"),
        (
            Some("program"),
            "the program of the AWS profile `program` (`credential_process`) printed no credentials",
        ),
        (Some("code"), "the role r asks for a one-time code"),
    ] {
        let error = run(find(&account(home.path(), profile, &off))).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{profile:?}: {error}");
    }
}

#[test]
fn credentials_are_kept_until_shortly_before_their_end() {
    run(async {
        let (listener, url) = listen().await;
        let home = home("", "");
        let account = account(home.path(), None, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]);
        let http = reqwest::Client::new();
        let lasting = METADATA.replace("2026-11-22", "2999-01-01");
        let answers = [METADATA, &lasting, &lasting];
        let asks = async {
            let sign =
                async || account.sign(&http, "https://bedrock-mantle.x.api.aws/v1", b"{}").await.unwrap();
            // Those of the past are not kept, the others are until they are refused.
            for _ in 0..3 {
                let signed = sign().await;
                assert!(signed[0].1.contains("/us-east-1/bedrock-mantle/aws4_request"), "{signed:?}");
            }
            account.forget();
            sign().await;
        };
        let ((), asked) = tokio::join!(asks, serve(listener, &answers));
        assert_eq!(asked.len(), 3);
        let shown = format!("{account:?} {:?}", account.fetched.lock().unwrap());
        assert!(!shown.contains("s2") && !shown.contains("tok2"), "{shown}");
    });
}
