//! A real Puppet Server in directories of its own on a free loopback port, and machines beside it that run the real `puppet agent`.
//!
//! It takes half a minute to start and half a gigabyte to live: a test binary starts one, if any. Debian's packages are what it knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

/// What is started.
const JAR: &str = "/usr/share/puppetserver/puppetserver.jar";
/// Where the package keeps what we take over from it.
const PACKAGED: &str = "/etc/puppet/puppetserver";
/// The name in the server's own certificate.
const NAME: &str = "puppet.example.net";
/// How long it may take to start on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_mins(12);

/// What nodes become. The name says what goes wrong: `fail...`, `mixed...`, `broken...`.
const PRODUCTION: &str = r#"
$base = "@OUT@/${trusted['certname']}"
file { $base: ensure => directory }
case $trusted['certname'] {
  /^fail/: { exec { '/bin/false': } }
  /^mixed/: {
    exec { '/bin/false': }
    file { "${base}/motd": content => "half of it\n" }
  }
  /^broken/: { fail('there is no catalog for this node') }
  default: { file { "${base}/motd": content => "welcome\n" } }
}
"#;
/// What their first run does.
const BOOTSTRAP: &str = r#"
$base = "@OUT@/${trusted['certname']}"
file { $base: ensure => directory }
file { "${base}/bootstrapped": content => "yes\n" }
"#;

/// A running server, ended with its owner.
#[derive(Debug)]
pub struct PuppetServer {
    child: Child,
    directory: TempDir,
    port: u16,
}

impl PuppetServer {
    /// Starts it and waits until it answers; `None`, with a word why, where it is not installed. A test run must have it, or name it in `MUSTER_TESTS_WITHOUT`.
    pub async fn start() -> Option<Self> {
        if !is_installed() {
            assert!(
                crate::tools::is_left_out("puppetserver"),
                "puppetserver is not installed: run tools/fetch-puppetserver, or name it in MUSTER_TESTS_WITHOUT"
            );
            say("skipped: puppetserver is not installed; tools/fetch-puppetserver installs it");
            return None;
        }
        let directory = TempDir::new().unwrap();
        let port = free_port();
        let child = spawn(directory.path(), port);
        let mut server = Self { child, directory, port };
        let deadline = Instant::now() + PATIENCE;
        while fs::read_to_string(server.path("ready")).unwrap_or_default() != "1" {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "puppetserver ended: {}", server.log());
            assert!(Instant::now() < deadline, "puppetserver does not start: {}", server.log());
            sleep(Duration::from_millis(100)).await;
        }
        Some(server)
    }

    /// A file or directory of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The address as clients write it.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where catalogs write: a directory for each name.
    pub fn out(&self, name: &str) -> PathBuf {
        self.path("out").join(name)
    }

    /// The section `[plugins.puppetca]` of a node that administers its authority, with the server's own certificate.
    pub fn options(&self) -> Value {
        json!({
            "enabled": true, "backend": "api", "url": self.url(), "ca": self.path("ssl/certs/ca.pem"),
            "cert": self.path(&format!("ssl/certs/{NAME}.pem")),
            "key": self.path(&format!("ssl/private_keys/{NAME}.pem")),
            "cadir": self.path("ca"), "arguments": ["--config", self.path("conf/puppet.conf")],
        })
    }

    /// The serial numbers in its revocation list, in upper-case hexadecimal.
    pub fn revoked(&self) -> Vec<String> {
        let text = fs::read(self.path("ca/ca_crl.pem")).unwrap();
        let blocks: Vec<Pem> = Pem::iter_from_buffer(&text).map(Result::unwrap).collect();
        let serials = |block: &Pem| -> Vec<String> {
            let (_, list) = CertificateRevocationList::from_der(&block.contents).unwrap();
            let revoked = list.iter_revoked_certificates();
            revoked.map(|it| format!("{:X}", it.serial())).collect()
        };
        blocks.iter().flat_map(serials).collect()
    }

    /// The arguments that make `puppet` a machine of its own, called so, of this server. Its directories are below the server's.
    pub fn machine(&self, name: &str) -> Vec<String> {
        let home = self.path("nodes").join(name);
        let mut words = Vec::new();
        // Each has to be named: some stay the machine's own otherwise.
        for (flag, place) in [
            ("confdir", "conf"),
            ("codedir", "code"),
            ("vardir", "var"),
            ("rundir", "run"),
            ("logdir", "log"),
            ("publicdir", "public"),
            ("ssldir", "ssl"),
        ] {
            let place = home.join(place);
            fs::create_dir_all(&place).unwrap();
            words.extend([format!("--{flag}"), place.display().to_string()]);
        }
        let port = self.port.to_string();
        for (flag, value) in [
            ("certname", name),
            ("server", "localhost"),
            ("serverport", &port),
            ("ca_port", &port),
            // Made in no time, also on a busy machine.
            ("keylength", "2048"),
        ] {
            words.extend([format!("--{flag}"), value.to_owned()]);
        }
        words
    }

    /// What it said.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap_or_default();
        format!("{}{}", read("log/puppetserver.log"), read("stdout"))
    }
}

impl Drop for PuppetServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(20_000);
            say(&format!("---- puppetserver ----\n{}", log.get(from..).unwrap_or(&log)));
        }
    }
}

/// Whether the machine has everything.
pub fn is_installed() -> bool {
    [JAR, PACKAGED, "/usr/bin/java", "/usr/bin/puppet"].iter().all(|path| Path::new(path).exists())
}

/// Which nobody has at this moment.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Writes what it compiles, and starts it: `tools/puppetserver` becomes the server.
#[expect(clippy::disallowed_types, reason = "the harness starts the server")]
fn spawn(home: &Path, port: u16) -> Child {
    for (environment, manifest) in [("production", PRODUCTION), ("bootstrap", BOOTSTRAP)] {
        let manifest = manifest.replace("@OUT@", &home.join("out").display().to_string());
        let directory = home.join(format!("code/environments/{environment}/manifests"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("site.pp"), manifest).unwrap();
    }
    fs::create_dir(home.join("out")).unwrap();
    let log = fs::File::create(home.join("stdout")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/puppetserver");
    std::process::Command::new(script)
        .arg(home)
        .arg(port.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("tools/puppetserver can be started")
}

/// A word to whoever reads the output of the tests.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn say(line: &str) {
    eprintln!("{line}");
}
