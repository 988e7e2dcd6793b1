//! Connections to the shared Postgres: their TLS, their limits, and the words for their failures.

use std::{error::Error, fs};

use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Timeouts};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use percent_encoding::percent_decode_str;
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tokio::sync::OnceCell;
use tokio_postgres::{
    AsyncMessage, Config, NoTls,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::storage::outlet::SharedError;

use super::{
    failure::{LIMIT, limited, refused, unreachable},
    schema::{self, quoted},
};

/// Connections of a process at most, beside the one that waits for notices.
const MAX_CONNECTIONS: usize = 6;
const MAX_URGENT: usize = 2;
/// Milliseconds that a statement may take.
const STATEMENT_LIMIT: &str = "10000";

/// The shared database and the schema in it.
pub struct Database {
    config: Config,
    tls: MakeRustlsConnect,
    pool: Pool,
    /// For the renewal of leases and the log, which wait for nothing else.
    urgent: Pool,
    schema: String,
    /// The fleet's key, once the schema is there.
    key: OnceCell<Vec<u8>>,
}

impl Database {
    /// Reads the address; nothing is connected yet.
    pub fn new(url: &str, schema: &str) -> Result<Self, SharedError> {
        check_schema(schema)?;
        let (config, root) = read_url(url)?;
        let tls = MakeRustlsConnect::new(tls(root.as_deref(), config.get_ssl_mode())?);
        let (pool, urgent) = (pool(&config, &tls, MAX_CONNECTIONS)?, pool(&config, &tls, MAX_URGENT)?);
        Ok(Self { config, tls, pool, urgent, schema: schema.to_owned(), key: OnceCell::new() })
    }

    /// Returns a connection to a schema that is up to date.
    pub async fn client(&self) -> Result<Client, SharedError> {
        self.key().await?;
        connection(&self.pool).await
    }

    /// Returns a connection for work that keeps the leases.
    pub async fn urgent(&self) -> Result<Client, SharedError> {
        self.key().await?;
        connection(&self.urgent).await
    }

    /// Returns the fleet's key.
    pub async fn key(&self) -> Result<&[u8], SharedError> {
        let prepare = async || {
            let mut client = connection(&self.pool).await?;
            limited(schema::prepare(&mut client, &self.schema)).await
        };
        self.key.get_or_try_init(prepare).await.map(Vec::as_slice)
    }

    /// Makes a connection of its own, for notices.
    pub async fn listening(&self) -> Result<(tokio_postgres::Client, Notices), SharedError> {
        let connecting = async {
            if self.config.get_ssl_mode() == SslMode::Disable {
                let (client, mut connection) = self.config.connect(NoTls).await?;
                let next = stream::poll_fn(move |cx| connection.poll_message(cx));
                return Ok((client, next.boxed()));
            }
            let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
            Ok((client, stream::poll_fn(move |cx| connection.poll_message(cx)).boxed()))
        };
        match tokio::time::timeout(LIMIT, connecting).await {
            Ok(connected) => connected.map_err(refused),
            Err(_elapsed) => Err(unreachable("it does not answer within 5 s".to_owned())),
        }
    }

    /// Puts the schema's name into a statement, in the place of `{s}`.
    pub fn sql(&self, statement: &str) -> String {
        statement.replace("{s}", &quoted(&self.schema))
    }

    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns a connection's address without its password, for people.
    pub fn shown(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", hosts.collect::<Vec<String>>().join(","))
    }
}

fn pool(config: &Config, tls: &MakeRustlsConnect, size: usize) -> Result<Pool, SharedError> {
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    // The connector asks for a host's name even where no TLS is spoken, and a socket has none.
    let manager = if config.get_ssl_mode() == SslMode::Disable {
        Manager::from_config(config.clone(), NoTls, manager)
    } else {
        Manager::from_config(config.clone(), tls.clone(), manager)
    };
    let limit = Some(LIMIT);
    Pool::builder(manager)
        .max_size(size)
        .timeouts(Timeouts { wait: limit, create: limit, recycle: limit })
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .build()
        .map_err(|error| setting(error.to_string()))
}

async fn connection(pool: &Pool) -> Result<Client, SharedError> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => refused(error),
        PoolError::Timeout(_) => unreachable("it does not answer within 5 s".to_owned()),
        other => unreachable(other.to_string()),
    })
}

/// The messages of a connection that waits for notices; it is driven by reading them.
pub type Notices = BoxStream<'static, Result<AsyncMessage, tokio_postgres::Error>>;

fn setting(reason: String) -> SharedError {
    SharedError::Setting { reason }
}

fn check_schema(name: &str) -> Result<(), SharedError> {
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    if !name.is_empty() && name.len() <= 40 && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(setting(format!("`schema` is `{name}`; use up to 40 small letters, digits and _")))
}

/// Reads a URL, and the file of root certificates that it names. Parameters of libpq that the library
/// does not know are translated: `verify-full` and `verify-ca` ask for TLS, which is always verified here.
fn read_url(url: &str) -> Result<(Config, Option<String>), SharedError> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut kept, mut root, mut mode) = (Vec::new(), None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            "sslrootcert" => root = Some(value),
            "sslmode" => mode = Some(value),
            _other => kept.push(pair),
        }
    }
    let whole = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    let mut config: Config = whole.parse().map_err(|error: tokio_postgres::Error| {
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        setting(format!(
            "`url` is no address of a Postgres ({error}{source}); write postgres://USER@HOST/DATABASE"
        ))
    })?;
    if config.get_hosts().is_empty() {
        return Err(setting("`url` names no host; write postgres://USER@HOST/DATABASE".to_owned()));
    }
    let is_near = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
    });
    config.ssl_mode(match mode.as_deref() {
        Some("disable") => SslMode::Disable,
        // Nobody listens on the way, and Debian's own certificate could not be verified.
        None if is_near && root.is_none() => SslMode::Disable,
        Some("prefer" | "allow") if is_near => SslMode::Prefer,
        // A password and texts are not sent in the clear unless somebody says so.
        Some("prefer" | "allow" | "require" | "verify-ca" | "verify-full") | None => SslMode::Require,
        Some(other) => return Err(setting(format!("`url` has the unknown sslmode `{other}`"))),
    });
    config.connect_timeout(LIMIT).tcp_user_timeout(LIMIT).keepalives_idle(LIMIT);
    if config.get_application_name().is_none() {
        config.application_name("windlass");
    }
    if config.get_options().is_none() {
        config.options(format!("-c statement_timeout={STATEMENT_LIMIT}"));
    }
    Ok((config, root))
}

fn tls(root: Option<&str>, mode: SslMode) -> Result<ClientConfig, SharedError> {
    let mut roots = RootCertStore::empty();
    match root {
        Some(file) => {
            let text = fs::read(file).map_err(|error| setting(format!("{file} cannot be read: {error}")))?;
            let found = pem::parse_many(text).map_err(|error| setting(format!("{file}: {error}")))?;
            for certificate in found.into_iter().filter(|it| it.tag() == "CERTIFICATE") {
                let added = roots.add(CertificateDer::from(certificate.into_contents()));
                added.map_err(|error| setting(format!("{file} has no usable certificate: {error}")))?;
            }
            if roots.is_empty() {
                return Err(setting(format!("{file} has no certificate")));
            }
        }
        None if mode == SslMode::Disable => {}
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let provider = rustls::crypto::ring::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| setting(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests;
