//! A Postgres of the test's own: a new cluster in a temporary directory, run by an ordinary user.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{agent::DEADLINE, skip::skipped};

/// The user that the server runs as where the tests run as root, which it refuses.
const USER: &str = "postgres";

/// A running server. It ends with this value, or with the test's process.
pub struct Postgres {
    root: TempDir,
    programs: PathBuf,
    pub port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// Starts a server; `None` where there is no Postgres, which is said.
    pub async fn start() -> Option<Self> {
        Self::start_with(&["fsync=off"]).await
    }

    /// Starts a server with settings.
    pub async fn start_with(settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            skipped("there is no Postgres");
            return None;
        };
        let root = tempfile::Builder::new().prefix("windlass-pg-").tempdir().unwrap();
        if is_root() {
            let status = Command::new("chown").arg(USER).arg(root.path()).status().unwrap();
            assert!(status.success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut postgres = Self { root, programs, port, server: None };
        let data = postgres.data();
        let made = postgres
            .program("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut text = format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n",
            postgres.root.path().display()
        );
        for setting in settings {
            text.push_str(&format!("{setting}\n"));
        }
        let path = data.join("postgresql.conf");
        fs::write(&path, fs::read_to_string(&path).unwrap() + &text).unwrap();
        postgres.begin().await;
        Some(postgres)
    }

    /// Starts a server that speaks TLS, with this certificate and its key.
    pub async fn start_with_tls(certificate: &str, key: &str) -> Option<Self> {
        let files = tempfile::Builder::new().prefix("windlass-pg-tls-").tempdir().unwrap();
        let [certificate_file, key_file] = ["server.crt", "server.key"].map(|name| files.path().join(name));
        fs::write(&certificate_file, certificate).unwrap();
        fs::write(&key_file, key).unwrap();
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            let chown = Command::new("chown").arg("-R").arg(USER).arg(files.path()).status().unwrap();
            assert!(chown.success());
        }
        let settings = [
            "fsync=off".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file='{}'", certificate_file.display()),
            format!("ssl_key_file='{}'", key_file.display()),
        ];
        // The files are read when it starts.
        Self::start_with(&settings.each_ref().map(String::as_str)).await
    }

    /// Starts a server that has everything that this one has committed, and may take over.
    pub async fn standby(&self) -> Self {
        let root = tempfile::Builder::new().prefix("windlass-pg-").tempdir().unwrap();
        if is_root() {
            assert!(Command::new("chown").arg(USER).arg(root.path()).status().unwrap().success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut standby = Self { root, programs: self.programs.clone(), port, server: None };
        let from = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let copied = standby
            .program("pg_basebackup")
            .args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "-d", &from, "-D"])
            .arg(standby.data())
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let path = standby.data().join("postgresql.conf");
        let sockets =
            format!("\nport = {port}\nunix_socket_directories = '{}'\n", standby.root.path().display());
        fs::write(&path, fs::read_to_string(&path).unwrap() + &sockets).unwrap();
        standby.begin().await;
        self.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.query("SELECT pg_reload_conf()");
        standby
    }

    /// Has a standby take over.
    pub fn promote(&self) {
        assert_eq!(self.query("SELECT pg_promote()"), ["t"]);
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
            command.args(["--pdeathsig", "KILL"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir(self.root.path()).env("HOME", self.root.path()).env("LC_ALL", "C.UTF-8");
        command
    }

    /// Starts the server, after [`Postgres::stop`] too.
    pub async fn begin(&mut self) {
        let log = fs::File::create(self.root.path().join("log")).unwrap();
        let mut server = self.program("postgres");
        server.arg("-D").arg(self.data()).stdout(Stdio::null()).stderr(log);
        self.server = Some(server.spawn().unwrap());
        let ready = async {
            while !self.is_ready() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ready = tokio::time::timeout(DEADLINE, ready).await;
        assert!(ready.is_ok(), "{}", fs::read_to_string(self.root.path().join("log")).unwrap());
    }

    fn is_ready(&self) -> bool {
        let port = self.port.to_string();
        let mut asked = Command::new(self.programs.join("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-p", &port]).status().unwrap().success()
    }

    /// Ends the server at once, as a failing machine would.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
            // Its children end with it; SIGKILL would leave them.
            let _ = kill(pid, Signal::SIGQUIT);
            let _ = server.wait();
        }
    }

    /// Stops everything that the server does, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        let server = self.server.as_ref().unwrap().id();
        let signal = if is_frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
        for pid in children(server).into_iter().chain([server]) {
            let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal);
        }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the setting of a node with this name.
    pub fn shared(&self, name: &str, ack: &str) -> Value {
        json!({"url": self.url(), "name": name, "ack": ack, "lease": 2000})
    }

    /// Runs a statement and returns its rows, their columns separated by `|`.
    pub fn query(&self, statement: &str) -> Vec<String> {
        let output = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement, &self.url()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.freeze(false);
        }
        self.stop();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|it| it.parse().unwrap()).collect()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns the directory of the server's programs, which Debian keeps off the path.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|it| it.path().join("bin")).filter(|it| it.join("initdb").is_file()).max();
    let on_path = || {
        let path = std::env::var("PATH").unwrap();
        std::env::split_paths(&path)
            .find(|it| it.join("initdb").is_file())
            .map(|it| Path::new(&it).to_owned())
    };
    found.or_else(on_path)
}
