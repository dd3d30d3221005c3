//! A broker, a host with compiler and gateway, Puppet's authority, and machines with the real `puppet agent`.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::puppet_ca::{self, PuppetCa};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::tools::{find_tool, puppet_directories};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::token::{ServiceRight, UserCredentials};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::catalogs::fixture::Environment;

pub(super) const NODE: &str = "web1.acme.net";
pub(super) const OTHER: &str = "web2.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);

pub(super) const MANIFEST: &str = r#"
$base = "${facts['scratch']}/${trusted['hostname']}"
file { $base: ensure => directory }
file { "${base}/plain": source => "puppet:///modules/tool/${trusted['hostname']}" }
file { "${base}/tree": ensure => directory, source => 'puppet:///modules/tool/tree', recurse => true, mode => '0640' }
exec { 'note': command => "/bin/sh -c 'echo refreshed >>${base}/refreshes'", refreshonly => true, subscribe => File["${base}/plain"] }
stamp { "${base}/stamp": text => 'first' }
"#;
const TYPE: &str = "Puppet::Type.newtype(:stamp) do\n  newparam(:path, namevar: true)\n  newproperty(:text)\nend\n";
const PROVIDER: &str = "Puppet::Type.type(:stamp).provide(:ruby) do\n  \
    def text\n    File.exist?(resource[:path]) ? File.read(resource[:path]) : :absent\n  end\n  \
    def text=(value)\n    File.write(resource[:path], value)\n  end\nend\n";
/// More than one chunk.
pub(super) const LARGE_BYTES: usize = 1_300_000;

/// A fleet of two nodes, the first of which is the host of the services.
pub(super) struct GatewayFleet {
    pub(super) environment: Environment,
    rpc: RpcCommand,
    pub(super) ca: PuppetCa,
    pub(super) host: Rpcd,
    pub(super) port: u16,
    _other: Rpcd,
    _server: NatsServer,
}

impl GatewayFleet {
    /// `None` if this run skips the tests that need Puppet.
    pub(super) async fn start() -> Option<Self> {
        Self::start_with(None).await
    }

    /// With the certificate, the key, the authority and the revocations of another authority.
    pub(super) async fn start_with(tls: Option<&[PathBuf; 4]>) -> Option<Self> {
        let environment = Environment::create()?;
        for host in ["web1", "web2"] {
            environment
                .write(&format!("modules/tool/files/{host}"), &format!("a tool of {host}\n"));
        }
        environment.write("modules/tool/files/tree/one", "1\n");
        environment.write("modules/tool/files/tree/below/large", &"x".repeat(LARGE_BYTES));
        environment.write("modules/tool/lib/puppet/type/stamp.rb", TYPE);
        environment.write("modules/tool/lib/puppet/provider/stamp/ruby.rb", PROVIDER);
        environment.write(
            "modules/tool/lib/facter/tool.rb",
            "Facter.add(:tool) { setcode { 'known' } }\n",
        );
        environment.write("modules/tool/facts.d/site.sh", "#!/bin/sh\necho site=external\n");
        let program = environment.code_path().join("modules/tool/facts.d/site.sh");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        environment.write("manifests/site.pp", MANIFEST);
        fs::create_dir(environment.path().join("managed")).unwrap();
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("anna"), "");
        let ca = PuppetCa::start().await;
        ca.enable_autosign();
        let fleet = FleetParts {
            environment: &environment,
            organisation: &organisation,
            server: &server,
            ca: &ca,
        };
        let other = fleet.home(OTHER).start();
        let mut host = fleet.start_host(tls);
        let port = await_port(&mut host).await;
        Some(Self { environment, rpc, ca, host, port, _other: other, _server: server })
    }

    /// A machine with Puppet.
    pub(super) fn machine(&self, name: &str) -> PuppetMachine {
        self.machine_of(name, [self.port, self.ca.port()])
    }

    /// The same with the ports of its server and of its authority.
    pub(super) fn machine_of(&self, name: &str, servers: [u16; 2]) -> PuppetMachine {
        PuppetMachine {
            name: name.to_owned(),
            home: self.environment.path().join("machines").join(name),
            servers,
        }
    }

    /// Compiles the present code, and releases it.
    pub(super) async fn promote(&self, name: &str) {
        poll_until_ok("the nodes are compiled", TIMEOUT, async || {
            let output = self.rpc.run(&["catalog", "list", "-j"]).await;
            let document: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let rows = document["nodes"].as_array().cloned().unwrap_or_default();
            let is_done = rows.len() == 2 && rows.iter().all(|row| row["state"] == "compiled");
            if is_done { Ok(()) } else { Err(format!("{document:#}")) }
        })
        .await;
        self.text(&["compile", "--environment", "production"]).await;
        self.text(&["release", "create", "--environment", "production"]).await;
        self.text(&["release", "promote", name, "--all", "--no-apply", "-y"]).await;
    }

    async fn text(&self, words: &[&str]) -> String {
        let output = self.rpc.run(words).await;
        assert!(output.status.success(), "{words:?}: {}", describe_output(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn managed(&self, name: &str) -> PathBuf {
        self.environment.path().join("managed/web1").join(name)
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.managed(name)).unwrap_or_default()
    }

    /// Makes the revocations of the authority known to the gateway.
    pub(super) fn write_revocations(&self) {
        self.host.home().write("crl.pem", &self.ca.revocation_list(), 0o644);
    }

    /// A certificate of the authority for this name, and its key.
    pub(super) fn certificate(&self, name: &str) -> ClientCertificate {
        let (request, key) = puppet_ca::request(name, &[]);
        assert_eq!(self.ca.submit(name, &request).0, 200);
        ClientCertificate {
            certificate: self.ca.certificate(name).unwrap(),
            key: key.serialize_pem(),
        }
    }

    /// A connection to the gateway.
    pub(super) async fn connect(
        &self,
        client: Option<&ClientCertificate>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        let ca = fs::read(self.ca.path("ca.pem")).unwrap();
        roots.add(CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends bytes on a connection of their own, and returns what comes until the server closes it.
    pub(super) async fn exchange(
        &self,
        client: Option<&ClientCertificate>,
        request: &[u8],
    ) -> std::io::Result<String> {
        let mut stream = self.connect(client).await?;
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await;
        match read.unwrap() {
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }

    /// The status and the body of a GET.
    pub(super) async fn get(&self, client: &ClientCertificate, target: &str) -> (u16, String) {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = self.exchange(Some(client), head.as_bytes()).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

/// A certificate and its key, PEM.
pub(super) struct ClientCertificate {
    certificate: String,
    key: String,
}

struct FleetParts<'a> {
    environment: &'a Environment,
    organisation: &'a Organisation,
    server: &'a NatsServer,
    ca: &'a PuppetCa,
}

impl FleetParts<'_> {
    fn home(&self, node: &str) -> DaemonHome {
        let more = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n[plugins.release]\nenabled = true\n";
        let url = self.server.url();
        let home = DaemonHome::new(self.organisation, &self.organisation.node(node), &url, more);
        let base = self.environment.path().join("managed").display().to_string();
        home.write("facts.d/site.json", &json!({"scratch": base}).to_string(), 0o644);
        home
    }

    fn start_host(&self, tls: Option<&[PathBuf; 4]>) -> Rpcd {
        let home = self.home(NODE);
        for (right, name) in
            [(ServiceRight::Compile, "compiler1"), (ServiceRight::Gateway, "gateway1")]
        {
            let service = self.organisation.service(right, name);
            let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
            home.write(&format!("{name}.creds"), &creds.to_text(), 0o600);
        }
        home.write("crl.pem", &self.ca.revocation_list(), 0o644);
        let own = || {
            let [certificate, key, ca] =
                ["server.pem", "server.key", "ca.pem"].map(|name| self.ca.path(name));
            [certificate, key, ca, home.path("crl.pem")]
        };
        let [certificate, key, ca, crl] = tls.cloned().unwrap_or_else(own);
        let options = format!(
            "[log]\nformat = \"json\"\n[plugins.compiler]\nenabled = true\ncredentials = \"../compiler1.creds\"\ndirectory = \"{}\"\n\
             [plugins.compiler.environments.production]\ndirectory = \"{}\"\n\
             [plugins.gateway]\nenabled = true\ncredentials = \"../gateway1.creds\"\nlisten = \"127.0.0.1:0\"\n\
             certificate = \"{}\"\nkey = \"{}\"\nca = \"{}\"\ncrl = \"{}\"\n",
            self.environment.path().join("state").display(),
            self.environment.code_path().display(),
            certificate.display(),
            key.display(),
            ca.display(),
            crl.display(),
        );
        home.write("conf.d/services.toml", &options, 0o644);
        home.start()
    }
}

/// The port of the gateway, from the log.
pub(super) async fn await_port(host: &mut Rpcd) -> u16 {
    let mut found = None;
    await_state("the gateway listens", || {
        assert!(host.is_running(), "rpcd ended: {}", host.log());
        let lines = host.log_lines();
        let message = "serving released catalogs to Puppet agents";
        let entry = lines.iter().find(|line| line["fields"]["message"] == message);
        found = entry
            .and_then(|line| line["fields"]["address"].as_str()?.rsplit_once(':')?.1.parse().ok());
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Directories of a machine's Puppet.
pub(super) struct PuppetMachine {
    name: String,
    home: PathBuf,
    servers: [u16; 2],
}

impl PuppetMachine {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `puppet agent --test`; returns its exit code and output.
    #[expect(clippy::disallowed_types, reason = "starts the real agent")]
    pub(super) async fn run(&self, more: &[&str]) -> (i32, String) {
        let [server, ca] = self.servers.map(|port| port.to_string());
        let output = tokio::process::Command::new(find_tool("puppet"))
            .args(["agent", "--test", "--color=false", "--server=localhost"])
            .args(["--ca_server=localhost", "--keylength=2048", "--waitforcert=0"])
            .args([format!("--serverport={server}"), format!("--ca_port={ca}")])
            .arg(format!("--certname={}", self.name))
            .args(puppet_directories(&self.home))
            .args(more)
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        (output.status.code().unwrap_or(-1), text)
    }
}
