//! The certificate authority that commands with placeholders trust: the proxy speaks for their hosts by it.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{ids, lock::lock, private_file};

/// The file of the key and its certificate, below the directory that no command reads.
const KEY: &str = "proxy-authority.pem";
/// The file of certificates that commands trust.
const TRUSTED: &str = "proxy-authority.crt";
const NAME: &str = "windlass proxy of this user's commands";
/// Certificates of hosts that are kept.
const MAX_HOSTS: usize = 256;
/// The variables by which programs find the certificates that they trust.
const VARIABLES: [&str; 9] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// The authorities of this process, by the directories of their keys.
static KNOWN: Mutex<Vec<(PathBuf, Arc<Authority>)>> = Mutex::new(Vec::new());

/// See the module's comment.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// The machine's certificates and this one, for commands.
    trusted: PathBuf,
    machine: Vec<CertificateDer<'static>>,
    hosts: Mutex<HashMap<String, TlsAcceptor>>,
    connector: OnceLock<TlsConnector>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// Returns the authority of a user, which is made with the first use: its key lies in `hidden`, and the
    /// certificates for commands in `shown`. Does blocking reads.
    pub fn of(hidden: &Path, shown: &Path) -> io::Result<Arc<Self>> {
        let known = |known: &[(PathBuf, Arc<Self>)]| {
            known.iter().find(|(directory, _)| directory == hidden).map(|(_, it)| it.clone())
        };
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("the proxy's authority: {error}"));
        // Other callers wait until the authority is made.
        let mut all = lock(&KNOWN);
        if let Some(authority) = known(&all) {
            authority.show().map_err(named)?;
            return Ok(authority);
        }
        let made = Arc::new(Self::open(hidden, shown).map_err(named)?);
        all.push((hidden.to_owned(), made.clone()));
        Ok(made)
    }

    fn open(hidden: &Path, shown: &Path) -> io::Result<Self> {
        // Fails if another part of the process has installed one, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = hidden.join(KEY);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(hidden)?,
            read => read?,
        };
        let broken = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("{} is broken ({error}); remove it", file.display()))
        };
        let key = KeyPair::from_pem(&text).map_err(|error| broken(&error))?;
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| broken(&error))?;
        let machine = rustls_native_certs::load_native_certs().certs;
        let trusted = shown.join(TRUSTED);
        let made = Self {
            issuer: Issuer::new(parameters(), key),
            certificate,
            trusted,
            machine,
            hosts: Mutex::default(),
            connector: OnceLock::new(),
        };
        made.show()?;
        Ok(made)
    }

    /// Writes the certificates for commands, unless they are there.
    fn show(&self) -> io::Result<()> {
        show(&self.trusted, self.machine.iter().chain([&self.certificate]))
    }

    /// Returns the variables by which a command trusts the proxy.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let trusted = self.trusted.display().to_string();
        VARIABLES.iter().map(move |name| ((*name).to_owned(), trusted.clone()))
    }

    /// Returns the acceptor that speaks for a host to a command.
    pub(super) fn acceptor(&self, host: &str) -> io::Result<TlsAcceptor> {
        if let Some(acceptor) = lock(&self.hosts).get(host) {
            return Ok(acceptor.clone());
        }
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut parameters = CertificateParams::new(vec![name]).map_err(io::Error::other)?;
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private);
        let mut config = config.map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let mut hosts = lock(&self.hosts);
        if hosts.len() >= MAX_HOSTS {
            hosts.clear();
        }
        hosts.insert(host.to_owned(), acceptor.clone());
        Ok(acceptor)
    }

    /// Returns the connector that speaks to a host, which has to show a certificate that the machine trusts.
    pub(super) fn connector(&self) -> &TlsConnector {
        self.connector.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(self.machine.iter().cloned());
            let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            TlsConnector::from(Arc::new(config))
        })
    }
}

fn parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    parameters
}

/// Makes a key, and returns it with its certificate; a key that another process has made meanwhile is kept.
fn make(hidden: &Path) -> io::Result<String> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = parameters().self_signed(&key).map_err(io::Error::other)?;
    let text = format!("{}{}", key.serialize_pem(), certificate.pem());
    let file = hidden.join(KEY);
    // Whole from its first moment, and never in the place of another's.
    match drafted(hidden, KEY, &text, |draft| fs::hard_link(draft, &file)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => fs::read_to_string(&file),
    }
}

/// Writes a file of its own beside another one, has it put in its place, and leaves nothing of it behind.
fn drafted(
    directory: &Path,
    name: &str,
    text: &str,
    put: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let (draft, mut output) = private_file::create(directory, &format!("{name}.{}", ids::random(8)))?;
    let done = output.write_all(text.as_bytes()).and_then(|()| put(&draft));
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => done.and(Err(error)),
        Ok(()) | Err(_) => done,
    }
}

/// Writes certificates for commands, unless the file has them already.
fn show<'a>(file: &Path, certificates: impl Iterator<Item = &'a CertificateDer<'static>>) -> io::Result<()> {
    let pems: Vec<pem::Pem> = certificates.map(|it| pem::Pem::new("CERTIFICATE", it.as_ref())).collect();
    let text = pem::encode_many(&pems);
    if fs::read_to_string(file).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let directory = file.parent().unwrap_or(Path::new("/"));
    drafted(directory, TRUSTED, &text, |draft| fs::rename(draft, file))
}
