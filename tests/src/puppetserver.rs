//! A real Puppet Server in its own directories on a free loopback port, and machines that run the real `puppet agent`.
//!
//! It takes 30 s to start and uses 0.5 GB, so a test binary starts at most one. Supports the packages of Debian only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::poll_until_ok;

/// The program.
const JAR: &str = "/usr/share/puppetserver/puppetserver.jar";
/// The directory of the package's configuration, parts of which are reused.
const PACKAGED: &str = "/etc/puppet/puppetserver";
/// The certname of the server's own certificate.
pub const SERVER_NAME: &str = "puppet.example.net";
/// How long the start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(12);

/// The manifest of the environment `production`. The node's name selects the fault: `fail...`, `mixed...`, `broken...`.
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
/// The manifest of the first run.
const BOOTSTRAP: &str = r#"
$base = "@OUT@/${trusted['certname']}"
file { $base: ensure => directory }
file { "${base}/bootstrapped": content => "yes\n" }
"#;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct PuppetServer {
    child: Child,
    directory: TempDir,
    port: u16,
}

impl PuppetServer {
    /// Starts the server and waits until it answers. Returns `None` if it is not installed and `MUSTER_TESTS_WITHOUT`
    /// names it; fails the test if it is not installed otherwise.
    pub async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    /// Like [`Self::start`], with further settings of the section `[server]`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Option<Self> {
        if !is_installed() {
            assert!(
                crate::tools::is_skipped("puppetserver"),
                "puppetserver is not installed: run tools/fetch-puppetserver, or name it in MUSTER_TESTS_WITHOUT"
            );
            print_line(
                "skipped: puppetserver is not installed; tools/fetch-puppetserver installs it",
            );
            return None;
        }
        let directory = TempDir::new().unwrap();
        let port = free_port();
        let child = spawn(directory.path(), port, settings);
        let mut server = Self { child, directory, port };
        poll_until_ok("puppetserver is ready", START_TIMEOUT, async || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "puppetserver ended: {}", server.log());
            let is_ready = fs::read_to_string(server.path("ready")).is_ok_and(|text| text == "1");
            if is_ready { Ok(()) } else { Err(server.log()) }
        })
        .await;
        Some(server)
    }

    /// Replaces the manifest of the environment `production`; the next catalog is compiled from it.
    pub fn write_manifest(&self, manifest: &str) {
        let path = self.path("code/environments/production/manifests/site.pp");
        fs::write(path, manifest).unwrap();
    }

    /// Signs the certificate request of a machine, over HTTP with the server's own certificate.
    #[expect(clippy::disallowed_types, reason = "the harness speaks HTTP")]
    pub async fn sign_request(&self, name: &str) {
        let output = tokio::process::Command::new("curl")
            .args(["-sS", "-f", "-X", "PUT", "-H", "Content-Type: application/json"])
            .args(["--data-binary", r#"{"desired_state":"signed"}"#, "--cacert"])
            .arg(self.path("ssl/certs/ca.pem"))
            .arg("--cert")
            .arg(self.path(&format!("ssl/certs/{SERVER_NAME}.pem")))
            .arg("--key")
            .arg(self.path(&format!("ssl/private_keys/{SERVER_NAME}.pem")))
            .arg(format!("{}/puppet-ca/v1/certificate_status/{name}", self.url()))
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// The catalog of the server's own node, compiled with these facts.
    #[expect(clippy::disallowed_types, reason = "the harness speaks HTTP")]
    pub async fn compile_own_catalog(&self, facts: &Value) -> Result<Value, String> {
        let timestamp = "2026-11-21T22:31:24.123456+00:00";
        let facts = json!({"name": SERVER_NAME, "values": facts, "timestamp": timestamp});
        let mut command = tokio::process::Command::new("curl");
        command.args(["-sS", "-X", "POST", "-H", "Accept: application/json", "--cacert"]);
        command.arg(self.path("ssl/certs/ca.pem"));
        command.arg("--cert").arg(self.path(&format!("ssl/certs/{SERVER_NAME}.pem")));
        command.arg("--key").arg(self.path(&format!("ssl/private_keys/{SERVER_NAME}.pem")));
        command.args(["-d", "environment=production", "-d", "facts_format=application/json"]);
        command.arg("--data-urlencode").arg(format!("facts={facts}"));
        command.arg(format!("{}/puppet/v3/catalog/{SERVER_NAME}", self.url()));
        let output = command.output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let catalog: Value = serde_json::from_str(&text)
            .map_err(|_| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
        if catalog.get("resources").is_some_and(Value::is_array) { Ok(catalog) } else { Err(text) }
    }

    /// The path of a file or directory of the server.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The process of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory that the catalogs of this name write to.
    pub fn out(&self, name: &str) -> PathBuf {
        self.path("out").join(name)
    }

    /// The section `[plugins.puppetca]` of a node that administers the server's authority with the server's own
    /// certificate.
    pub fn options(&self) -> Value {
        json!({
            "enabled": true, "backend": "api", "url": self.url(), "ca": self.path("ssl/certs/ca.pem"),
            "cert": self.path(&format!("ssl/certs/{SERVER_NAME}.pem")),
            "key": self.path(&format!("ssl/private_keys/{SERVER_NAME}.pem")),
            "cadir": self.path("ca"), "arguments": ["--config", self.path("conf/puppet.conf")],
        })
    }

    /// The serial numbers in the revocation list, in upper-case hexadecimal.
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

    /// Arguments that make `puppet` a separate machine with this name and this server. Its directories are below the
    /// server's.
    pub fn agent_arguments(&self, name: &str) -> Vec<String> {
        let home = self.path("nodes").join(name);
        let mut arguments = Vec::new();
        // Every directory must be set; the others would be those of the host.
        for (flag, path) in [
            ("confdir", "conf"),
            ("codedir", "code"),
            ("vardir", "var"),
            ("rundir", "run"),
            ("logdir", "log"),
            ("publicdir", "public"),
            ("ssldir", "ssl"),
        ] {
            let path = home.join(path);
            fs::create_dir_all(&path).unwrap();
            arguments.extend([format!("--{flag}"), path.display().to_string()]);
        }
        let port = self.port.to_string();
        for (flag, value) in [
            ("certname", name),
            ("server", "localhost"),
            ("serverport", &port),
            ("ca_port", &port),
            // A short key is generated quickly, even on a busy machine.
            ("keylength", "2048"),
        ] {
            arguments.extend([format!("--{flag}"), value.to_owned()]);
        }
        arguments
    }

    /// The server's log and output.
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
            print_line(&format!("---- puppetserver ----\n{}", log.get(from..).unwrap_or(&log)));
        }
    }
}

/// Whether all required programs are installed.
pub fn is_installed() -> bool {
    [JAR, PACKAGED, "/usr/bin/java", "/usr/bin/puppet"].iter().all(|path| Path::new(path).exists())
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Writes the manifests and starts the server; `tools/puppetserver` becomes the server process.
#[expect(clippy::disallowed_types, reason = "the harness starts the server")]
fn spawn(home: &Path, port: u16, settings: &[(&str, &str)]) -> Child {
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
        .args(settings.iter().map(|(name, value)| format!("{name} = {value}")))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("tools/puppetserver can be started")
}

/// Prints a line to the output of the tests.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn print_line(line: &str) {
    eprintln!("{line}");
}
