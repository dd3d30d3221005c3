//! The gateway for agents of Puppet: the requests of a whole fleet's runs at once.

#![expect(clippy::indexing_slicing, reason = "a missing sample ends the measurement")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Cursor, Error};
use std::sync::Arc;
use std::time::Instant;

use muster_bus::content::ContentStore;
use muster_catalogs::releases::ReleaseStore;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::puppet_ca::{self, PuppetCa};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, now};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::PluginList;
use muster_wire::catalog::release::{Promotion, Release, ReleaseNodes, ReleasedEntry};
use muster_wire::catalog::{
    CatalogAddress, CatalogSecrets, CatalogStatement, CompiledCatalog, catalog_key,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET};
use muster_wire::token::{ServiceRight, UserCredentials};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use uuid::Uuid;

use crate::measure::millis;
use crate::process::{mib, resident_memory, running_time};
use crate::report::{Figure, Section, Table, max, median};

const METHOD: &str = "Each node has a catalog of its own with 150 resources, ten of which are files of modules. At once, each client connects with TLS and a certificate \
of its own, and sends the requests of a run on one connection: node, plugins three times, the catalog with 60 KB of facts, ten contents, and a report of 50 KB. \
Clients, gateway and broker share the machine, and the clients take most of the processor time.";

const RESOURCES: usize = 150;
const FILES: usize = 10;
const FILE_BYTES: usize = 4 * 1024;
const PLUGINS: usize = 200;
const FACTS_BYTES: usize = 60_000;
const REPORT_BYTES: usize = 50_000;
const ENVIRONMENT: &str = "production";
/// Permitted memory of the daemon, in MiB.
const MAX_MEMORY_MIB: f64 = 300.0;

/// Measures the runs of this many nodes.
pub(crate) fn bench(nodes: usize) -> Section {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(nodes))
}

async fn measure(nodes: usize) -> Section {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let ca = PuppetCa::start().await;
    ca.enable_autosign();
    let names: Vec<Identity> =
        (0..nodes).map(|number| Identity::parse(&format!("n{number}.acme.net")).unwrap()).collect();
    release_catalogs(&organisation, &server, &names).await;
    let mut daemon = start_daemon(&organisation, &server, &ca);
    let port = await_port(&mut daemon).await;
    let pid = u32::try_from(daemon.pid()).unwrap();
    let clients: Vec<AgentClient> =
        names.iter().map(|name| AgentClient::new(&ca, name, port)).collect();
    let idle = (resident_memory(pid), running_time(pid));
    let started = Instant::now();
    let runs: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.run())).collect();
    let (mut times, mut failed): (BTreeMap<&str, Vec<f64>>, usize) = (BTreeMap::new(), 0);
    for run in runs {
        match run.await.unwrap() {
            Ok(run) => {
                for (what, time) in run {
                    times.entry(what).or_default().push(time);
                }
            }
            Err(error) => {
                eprintln!("gateway: {error}");
                failed += 1;
            }
        }
    }
    let peak = peak_memory(pid);
    let (took, used) = (started.elapsed(), running_time(pid).saturating_sub(idle.1));
    let mut section =
        Section::of(format!("The gateway: the runs of {nodes} agents at once"), METHOD);
    let mut table = Table::new(["request", "median ms", "99 %", "max"]);
    for (what, mut samples) in times {
        samples.sort_by(f64::total_cmp);
        let late = samples[samples.len() * 99 / 100];
        let figures = [median(&samples), late, max(&samples)].map(|time| format!("{time:.0}"));
        table.rows.push([what.to_owned()].into_iter().chain(figures).collect());
    }
    let mut totals = Table::new(["what", "value"]);
    for (what, value) in [
        ("seconds until all had ended", format!("{:.1}", took.as_secs_f64())),
        ("runs that failed", failed.to_string()),
        ("processor seconds of the daemon", format!("{:.1}", used.as_secs_f64())),
        ("memory of the daemon before, MiB", format!("{:.0}", mib(idle.0))),
        ("memory of the daemon at most, MiB", format!("{:.0}", mib(peak))),
    ] {
        totals.rows.push(vec![what.to_owned(), value]);
    }
    section.tables = vec![table, totals];
    let failed = f64::from(u32::try_from(failed).unwrap());
    section.figures.push(Figure::of("runs of agents that failed", failed, "").aim(0.0));
    let memory = Figure::of("the gateway with all agents: memory", mib(peak), "MiB");
    section.figures.push(memory.aim(MAX_MEMORY_MIB));
    section
}

/// The most memory that a process has had, in bytes.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Stores a catalog for each node, and promotes them.
async fn release_catalogs(organisation: &Organisation, server: &NatsServer, names: &[Identity]) {
    let compiler = organisation.service(ServiceRight::Compile, "compiler1");
    let bus = connect(server, &compiler).await;
    let catalogs = bus.bucket(CATALOGS_BUCKET.name);
    let content = ContentStore::new(bus.bucket(CONTENT_BUCKET.name));
    let store = ReleaseStore::new(catalogs.clone(), content.clone());
    let put =
        async |text: String| content.put_file(Cursor::new(text.into_bytes()), None).await.unwrap();
    for number in 0..FILES {
        put(file_text(number)).await;
    }
    let plugin = put("# a plugin\n".to_owned()).await;
    let plugins = (0..PLUGINS).map(|number| (format!("lib/puppet/functions/f{number}.rb"), plugin));
    let plugins = PluginList::new(plugins.collect()).unwrap().to_bytes().unwrap();
    let plugins = put(String::from_utf8(plugins).unwrap()).await;
    let mut nodes = ReleaseNodes::new();
    for name in names {
        let mut catalog = catalog_of(name);
        let address = CatalogAddress::of_catalog(&mut catalog);
        address.name_catalog(&mut catalog);
        let statement = CatalogStatement {
            compiler: compiler.identity().clone(),
            node: name.clone(),
            environment: ENVIRONMENT.to_owned(),
            code: "1".to_owned(),
            address,
            compiled_at: now(),
        };
        let key = compiler.public_key();
        let body = CompiledCatalog::new(statement, &catalog, &CatalogSecrets::default(), &key);
        let bytes = body.unwrap().sign(&compiler).unwrap();
        catalogs.put(&catalog_key(name, address), bytes.into()).await.unwrap();
        nodes.insert(name.clone(), address);
    }
    let author = organisation.caller("anna");
    let release = Release {
        name: SubjectName::parse("r1").unwrap(),
        author: author.identity().clone(),
        environment: ENVIRONMENT.to_owned(),
        code: "1".to_owned(),
        created_at: now(),
        nodes: names.len(),
        list: store.store_list(&nodes).await.unwrap(),
        plugins: Some(plugins),
    };
    let release = release.sign(&author).unwrap();
    let promotion = Promotion {
        id: Uuid::now_v7(),
        author: author.identity().clone(),
        collective: organisation.collective().clone(),
        release: Release::address_of(&release),
        filter: muster_filter::NodeFilter::default(),
        issued_at: now(),
        apply: None,
    };
    let entry = ReleasedEntry { promotion: promotion.sign(&author).unwrap(), release };
    store.promote(&entry, &promotion, names.iter().cloned()).await.unwrap();
}

fn file_text(number: usize) -> String {
    format!("{number}\n").repeat(FILE_BYTES / 2)
}

fn catalog_of(name: &Identity) -> Map<String, Value> {
    let resources = (0..RESOURCES).map(|number| {
        json!({
            "type": "File", "title": format!("/etc/app/{number}.conf"), "kind": "compilable_type",
            "tags": ["file", "class", "app"], "file": "/etc/puppet/app.pp", "line": number, "exported": false,
            "parameters": {"ensure": "file", "mode": "0644", "content": format!("{name} {number}\n")},
        })
    });
    let metadata = (0..FILES).map(|number| {
        let hash = ContentAddress::of(file_text(number).as_bytes());
        let entry = json!({
            "path": "/x", "relative_path": null, "links": "manage", "owner": 0, "group": 0, "mode": 420,
            "type": "file", "destination": null, "source": "puppet:///modules/app/x",
            "checksum": {"type": "sha256", "value": format!("{{sha256}}{hash}")},
            "content_uri": format!("puppet:///sha256/{hash}"),
        });
        (format!("/etc/app/{number}"), entry)
    });
    let catalog = json!({
        "name": name, "environment": ENVIRONMENT, "catalog_format": 2, "code_id": null, "tags": [], "classes": ["app"],
        "edges": [], "resources": resources.collect::<Value>(), "metadata": metadata.collect::<Map<_, _>>(),
    });
    catalog.as_object().cloned().unwrap()
}

fn start_daemon(organisation: &Organisation, server: &NatsServer, ca: &PuppetCa) -> Rpcd {
    let node = organisation.node("gateway.acme.net");
    let home = DaemonHome::new(organisation, &node, &server.url(), "");
    let service = organisation.service(ServiceRight::Gateway, "gateway1");
    let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
    home.write("service.creds", &creds.to_text(), 0o600);
    home.write("crl.pem", &ca.revocation_list(), 0o644);
    let mut options = "[log]\nformat = \"json\"\n[plugins.gateway]\nenabled = true\ncredentials = \"../service.creds\"\n\
        listen = \"127.0.0.1:0\"\ncrl = \"../crl.pem\"\n"
        .to_owned();
    for (key, file) in [("certificate", "server.pem"), ("key", "server.key"), ("ca", "ca.pem")] {
        writeln!(options, "{key} = \"{}\"", ca.path(file).display()).unwrap();
    }
    home.write("conf.d/gateway.toml", &options, 0o644);
    home.start()
}

async fn await_port(daemon: &mut Rpcd) -> u16 {
    let mut found = None;
    await_state("the gateway listens", || {
        assert!(daemon.is_running(), "rpcd ended: {}", daemon.log());
        let lines = daemon.log_lines();
        let entry = lines
            .iter()
            .find(|line| line["fields"]["message"] == "serving released catalogs to Puppet agents");
        let address = entry.and_then(|line| line["fields"]["address"].as_str());
        found = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// What a run asks for, in its order.
struct AgentClient {
    name: Identity,
    connector: TlsConnector,
    port: u16,
}

type AgentConnection = BufReader<TlsStream<TcpStream>>;

impl AgentClient {
    fn new(ca: &PuppetCa, name: &Identity, port: u16) -> Self {
        let (request, key) = puppet_ca::request(name.as_str(), &[]);
        ca.submit(name.as_str(), &request);
        let certificate = ca.certificate(name.as_str()).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let authority = std::fs::read(ca.path("ca.pem")).unwrap();
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        Self { name: name.clone(), connector: TlsConnector::from(Arc::new(config)), port }
    }

    /// Sends the requests of a run; returns the time of each.
    async fn run(self) -> Result<Vec<(&'static str, f64)>, Error> {
        let mut times = Vec::new();
        let started = Instant::now();
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(Error::other)?;
        let mut stream = BufReader::new(self.connector.connect(name, stream).await?);
        times.push(("1 connection", millis(started.elapsed())));
        let list = "file_metadatas/plugins?recurse=true&ignore=.svn&checksum_type=sha256";
        let node = &self.name;
        let facts = "f".repeat(FACTS_BYTES);
        let report = "r".repeat(REPORT_BYTES);
        let content = |number: usize| {
            let hash = ContentAddress::of(file_text(number).as_bytes());
            ("5 content", "GET", format!("static_file_content/sha256/{hash}?code_id="), "")
        };
        let mut requests = vec![
            ("2 node", "GET", format!("node/{node}"), ""),
            ("3 plugins", "GET", "file_metadatas/plugins?recurse=false".to_owned(), ""),
            ("3 plugins", "GET", "file_metadatas/pluginfacts?recurse=true".to_owned(), ""),
            ("3 plugins", "GET", list.to_owned(), ""),
            ("4 catalog", "POST", format!("catalog/{node}"), facts.as_str()),
        ];
        requests.extend((0..FILES).map(content));
        requests.push(("6 report", "PUT", format!("report/{node}"), &report));
        for (what, method, target, body) in requests {
            let started = Instant::now();
            send(&mut stream, method, &target, body).await?;
            times.push((what, millis(started.elapsed())));
        }
        Ok(times)
    }
}

async fn send(
    stream: &mut AgentConnection,
    method: &str,
    target: &str,
    body: &str,
) -> Result<(), Error> {
    let length = body.len();
    let head = format!(
        "{method} /puppet/v3/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    let answer = String::from_utf8(answer).map_err(Error::other)?;
    let length = answer.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.and_then(|length| length.parse().ok()).unwrap_or_default();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(Error::other(format!("{target}: {answer}{}", String::from_utf8_lossy(&body))))
    }
}
