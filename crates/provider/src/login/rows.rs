//! Logins by provider, as rows of data (facts: provider requests §8).

/// The authority that gives a provider's tokens.
#[derive(Debug, PartialEq, Eq)]
pub struct Issuer {
    pub provider: &'static str,
    /// The public id of the program that asks.
    pub client_id: &'static str,
    /// A variable that names another program, for instances of one's own.
    pub client_variable: Option<&'static str>,
    pub scope: &'static str,
    /// The address that gives tokens, with `${INSTANCE}` for the host of an instance.
    pub token_url: &'static str,
    pub encoding: Encoding,
    /// True if the id and itself as the password go into a header.
    pub has_basic_auth: bool,
    pub instance: Option<Instance>,
    pub grant: Grant,
}

/// The form of a request for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Form,
    Json,
}

/// The host of a service that runs in several places.
#[derive(Debug, PartialEq, Eq)]
pub struct Instance {
    /// The public one.
    pub default: Option<&'static str>,
    /// A variable that names it.
    pub variable: Option<&'static str>,
    /// Words for people, such as "domain of GitHub Enterprise".
    pub title: &'static str,
}

/// A grant's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// A token that is renewed by another one.
    Renewed,
    /// A token that does not expire.
    Lasting,
    /// A key like those that users make by hand, in this field of the answer.
    Key(&'static str),
}

/// A way to log in.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    pub title: &'static str,
    pub flow: Flow,
    pub issuer: &'static Issuer,
}

/// The steps of a login.
#[derive(Debug, PartialEq, Eq)]
pub enum Flow {
    /// The browser comes back with a code, which is exchanged for a token.
    Code { authorize: &'static str, extra: &'static [(&'static str, &'static str)], redirect: Redirect },
    /// The browser comes back with the token.
    Implicit { authorize: &'static str, redirect: Redirect },
    /// A page asks the user for a code that we show (RFC 8628).
    Device { start: &'static str, extra: &'static [(&'static str, &'static str)] },
    /// The same with OpenAI's names, which ends with a code to exchange.
    DeviceCode { start: &'static str, poll: &'static str, page: &'static str, redirect: &'static str },
}

/// The place on this machine that the browser comes back to.
#[derive(Debug, PartialEq, Eq)]
pub struct Redirect {
    pub host: &'static str,
    /// 0 for any.
    pub port: u16,
    pub path: &'static str,
}

impl Login {
    /// Returns the name by which `--method` calls it.
    pub fn method(&self) -> &'static str {
        match self.flow {
            Flow::Code { .. } | Flow::Implicit { .. } => "browser",
            Flow::Device { .. } | Flow::DeviceCode { .. } => "device",
        }
    }
}

/// Returns a provider's ways to log in, the preferred one first.
pub fn of(provider: &str) -> Vec<&'static Login> {
    LOGINS.iter().filter(|login| login.issuer.provider == provider).collect()
}

/// Returns the authority of a provider's tokens.
pub fn issuer(provider: &str) -> Option<&'static Issuer> {
    LOGINS.iter().map(|login| login.issuer).find(|issuer| issuer.provider == provider)
}

/// Returns every provider that has a login.
pub fn providers() -> Vec<&'static str> {
    let mut providers: Vec<&str> = LOGINS.iter().map(|login| login.issuer.provider).collect();
    providers.dedup();
    providers
}

/// Returns a host as users write it, an address or a name, in its plain form.
pub fn host(written: &str) -> String {
    let written = written.trim();
    let rest = written.split_once("://").map_or(written, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_ascii_lowercase()
}

const CHATGPT: Issuer = Issuer {
    provider: "openai",
    client_id: "app_EMoamEEZ73f0CkXaXp7hrann",
    client_variable: None,
    scope: "openid profile email offline_access",
    token_url: "https://auth.openai.com/oauth/token",
    encoding: Encoding::Form,
    has_basic_auth: false,
    instance: None,
    grant: Grant::Renewed,
};

const COPILOT: Issuer = Issuer {
    provider: "github-copilot",
    client_id: "Ov23li8tweQw6odWQebz",
    client_variable: None,
    scope: "read:user",
    token_url: "https://${INSTANCE}/login/oauth/access_token",
    encoding: Encoding::Json,
    has_basic_auth: false,
    instance: Some(Instance {
        default: Some("github.com"),
        variable: None,
        title: "domain of GitHub Enterprise",
    }),
    grant: Grant::Lasting,
};

const GITLAB: Issuer = Issuer {
    provider: "gitlab",
    client_id: "1d89f9fdb23ee96d4e603201f6861dab6e143c5c3c00469a018a2d94bdc03d4e",
    client_variable: Some("GITLAB_OAUTH_CLIENT_ID"),
    scope: "api",
    token_url: "https://${INSTANCE}/oauth/token",
    encoding: Encoding::Form,
    has_basic_auth: false,
    instance: Some(Instance {
        default: Some("gitlab.com"),
        variable: Some("GITLAB_INSTANCE_URL"),
        title: "host of the GitLab instance",
    }),
    grant: Grant::Renewed,
};

const XAI: Issuer = Issuer {
    provider: "xai",
    client_id: "b1a00492-073a-47ea-816f-4c329264a828",
    client_variable: None,
    scope: "openid profile email offline_access grok-cli:access api:access",
    token_url: "https://auth.x.ai/oauth2/token",
    encoding: Encoding::Form,
    has_basic_auth: false,
    instance: None,
    grant: Grant::Renewed,
};

const POE: Issuer = Issuer {
    provider: "poe",
    client_id: "client_728290227fc048cc9262091a1ea197ea",
    client_variable: None,
    scope: "apikey:create",
    token_url: "https://api.poe.com/token",
    encoding: Encoding::Form,
    has_basic_auth: false,
    instance: None,
    grant: Grant::Key("api_key"),
};

const DIGITALOCEAN: Issuer = Issuer {
    provider: "digitalocean",
    client_id: "b1a6c5158156caac821fd1b30253ca8acb52454a48fa744420e41889cb589f82",
    client_variable: None,
    scope: "genai:read inference:query",
    token_url: "https://cloud.digitalocean.com/v1/oauth/token",
    encoding: Encoding::Form,
    has_basic_auth: false,
    instance: None,
    grant: Grant::Key("access_token"),
};

const SNOWFLAKE: Issuer = Issuer {
    provider: "snowflake-cortex",
    client_id: "LOCAL_APPLICATION",
    client_variable: None,
    scope: "refresh_token",
    token_url: "https://${INSTANCE}.snowflakecomputing.com/oauth/token-request",
    encoding: Encoding::Form,
    has_basic_auth: true,
    instance: Some(Instance {
        default: None,
        variable: Some("SNOWFLAKE_ACCOUNT"),
        title: "Snowflake account",
    }),
    grant: Grant::Renewed,
};

const LOGINS: [Login; 8] = [
    Login {
        title: "ChatGPT Plus, Pro or Business, in the browser",
        flow: Flow::Code {
            authorize: "https://auth.openai.com/oauth/authorize",
            extra: &[
                ("id_token_add_organizations", "true"),
                ("codex_cli_simplified_flow", "true"),
                ("originator", "windlass"),
            ],
            redirect: Redirect { host: "localhost", port: 1455, path: "/auth/callback" },
        },
        issuer: &CHATGPT,
    },
    Login {
        title: "ChatGPT Plus, Pro or Business, in a browser elsewhere",
        flow: Flow::DeviceCode {
            start: "https://auth.openai.com/api/accounts/deviceauth/usercode",
            poll: "https://auth.openai.com/api/accounts/deviceauth/token",
            page: "https://auth.openai.com/codex/device",
            redirect: "https://auth.openai.com/deviceauth/callback",
        },
        issuer: &CHATGPT,
    },
    Login {
        title: "GitHub Copilot",
        flow: Flow::Device { start: "https://${INSTANCE}/login/device/code", extra: &[] },
        issuer: &COPILOT,
    },
    Login {
        title: "GitLab Duo",
        flow: Flow::Code {
            authorize: "https://${INSTANCE}/oauth/authorize",
            extra: &[],
            redirect: Redirect { host: "127.0.0.1", port: 8080, path: "/callback" },
        },
        issuer: &GITLAB,
    },
    Login {
        title: "SuperGrok",
        flow: Flow::Device {
            start: "https://auth.x.ai/oauth2/device/code",
            extra: &[("referrer", "windlass")],
        },
        issuer: &XAI,
    },
    Login {
        title: "Poe",
        flow: Flow::Code {
            authorize: "https://poe.com/oauth/authorize",
            extra: &[],
            redirect: Redirect { host: "127.0.0.1", port: 0, path: "/callback" },
        },
        issuer: &POE,
    },
    Login {
        title: "DigitalOcean",
        flow: Flow::Implicit {
            authorize: "https://cloud.digitalocean.com/v1/oauth/authorize",
            redirect: Redirect { host: "localhost", port: 1456, path: "/auth/callback" },
        },
        issuer: &DIGITALOCEAN,
    },
    Login {
        title: "Snowflake",
        flow: Flow::Code {
            authorize: "https://${INSTANCE}.snowflakecomputing.com/oauth/authorize",
            extra: &[],
            redirect: Redirect { host: "127.0.0.1", port: 0, path: "/callback" },
        },
        issuer: &SNOWFLAKE,
    },
];
