//! Puppetboard and pypuppetdb read a fleet from its directory, and a real `PuppetDB` that is sent the same fleet gives the same answers.

#![expect(clippy::disallowed_types, reason = "runs Puppetboard and curl")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use muster_tests::cluster::free_ports;
use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::Rpcd;
use muster_tests::tools::is_skipped;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::process::{Child, Command};

use super::puppetdb_sink::{NODE, SinkHost, TIMEOUT};
use crate::puppetdb_source::SourceClient;

/// Queries that both answer. The release of the catalog and the end of the run have times of their own there.
const QUERIES: [&str; 14] = [
    "facts[certname, name, value, environment] { name in ['role', 'odd', 'trusted'] }",
    "fact_contents[certname, path, value] { name = 'odd' }",
    "fact_paths { path ~> ['odd', '.*', '.*'] }",
    "inventory[certname, facts.role, trusted.certname] { facts.role = 'web' }",
    "environments { }",
    "resources[type, title, exported, file, line, environment, parameters] { }",
    "resources[type, count()] { tag = 'site' group by type }",
    "edges { }",
    "catalogs[certname, version, environment, catalog_uuid, code_id, producer, transaction_uuid] { }",
    "nodes[certname, latest_report_status, latest_report_noop, latest_report_noop_pending, facts_environment, catalog_environment, report_environment, cached_catalog_status] { }",
    "nodes[certname] { resources { type = 'Class' and title = 'Site::Web' } and facts { name = 'role' } }",
    "reports[certname, status, noop, noop_pending, configuration_version, puppet_version, report_format, transaction_uuid, catalog_uuid, environment, producer, type] { }",
    "events[certname, resource_type, resource_title, property, status, old_value, new_value, message, containing_class, containment_path, file, line, timestamp, name] { }",
    "events[status, count()] { resource_type = 'Notify' group by status }",
];

/// Prints what pypuppetdb reads, as JSON.
const PYTHON: &str = r#"
import json, sys
from pypuppetdb import connect
db = connect(host='127.0.0.1', port=int(sys.argv[1]))
name = sys.argv[2]
node = db.node(name)
catalog = db.catalog(name)
print(json.dumps({
    'version': db.current_version(),
    'nodes': [[found.name, found.status] for found in db.nodes(with_status=True)],
    'role': [fact.value for fact in node.facts(name='role')],
    'fact': [fact.node for fact in db.facts('role', 'web')],
    'files': sorted(file.name for file in node.resources('File')),
    'resource': node.resource('file', 'web.conf').parameters['path'],
    'catalog': [catalog.node, len(catalog.get_resources()) > 5, len(list(catalog.get_edges())) > 5],
    'reports': [[report.status, len(list(report.events())) > 0] for report in node.reports()],
    'counts': len(db.event_counts(summarize_by='certname')),
    'total': [len(list(db.nodes(limit=1, include_total=True))), db.total],
    'pql': [found.name for found in db.pql('nodes { certname ~ "^web" }')],
    'environments': db.environments(),
    'inventory': [found.facts['role'] for found in db.inventory()],
}))
"#;

/// A TCP port in front of a Unix socket, as a proxy of systemd has it.
async fn start_proxy(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(socket).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

/// A running Puppetboard, which ends with this.
struct Puppetboard {
    python: PathBuf,
    url: String,
    directory: TempDir,
    _child: Child,
}

impl Puppetboard {
    fn find_python() -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/puppetboard");
        let python = root.join("bin/python");
        if python.exists() {
            return Some(python);
        }
        assert!(
            is_skipped("puppetboard"),
            "there is no Puppetboard: run tools/fetch-puppetboard, or name it in MUSTER_TESTS_WITHOUT"
        );
        None
    }

    async fn start(python: PathBuf, database: u16) -> Self {
        let directory = TempDir::new().unwrap();
        let settings = format!(
            "PUPPETDB_HOST = '127.0.0.1'\nPUPPETDB_PORT = {database}\nSECRET_KEY = 'test'\nOFFLINE_MODE = True\n\
             ENABLE_CATALOG = True\nENABLE_CLASS = True\nWTF_CSRF_ENABLED = False\n"
        );
        std::fs::write(directory.path().join("settings.py"), settings).unwrap();
        let [port] = free_ports();
        let log = File::create(directory.path().join("log")).unwrap();
        let child = Command::new(&python)
            .args(["-m", "flask", "--app", "puppetboard.app", "run", "--port", &port.to_string()])
            .env("PUPPETBOARD_SETTINGS", directory.path().join("settings.py"))
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let board =
            Self { python, url: format!("http://127.0.0.1:{port}"), directory, _child: child };
        poll_until_ok("Puppetboard answers", TIMEOUT, async || {
            let (status, _) = board.get("/status", &[]).await;
            if status == "200" { Ok(()) } else { Err(board.log()) }
        })
        .await;
        board
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Status and text of a page.
    async fn get(&self, path: &str, arguments: &[&str]) -> (String, String) {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}"]).args(arguments);
        let output = command.arg(format!("{}{path}", self.url)).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    }

    /// Why a page does not have this text.
    async fn find_fault(&self, path: &str, arguments: &[&str], expected: &str) -> Option<String> {
        let (status, text) = self.get(path, arguments).await;
        let is_expected = status == "200" && text.contains(expected);
        (!is_expected).then(|| format!("{path}: {status}, without {expected:?}\n{text}"))
    }
}

/// Rows without order.
fn sorted(rows: &Value) -> Vec<String> {
    let mut rows: Vec<String> = rows.as_array().unwrap().iter().map(ToString::to_string).collect();
    rows.sort();
    rows
}

/// Compares the answers of both. A `PuppetDB` has what it was sent after some time.
async fn compare_with_puppetdb(host: &SinkHost, daemon: &Rpcd, client: &SourceClient) {
    for (stored, count) in [("catalogs { }", 1), ("reports { }", 1)] {
        host.await_rows(daemon, stored, count).await;
    }
    let mut faults = Vec::new();
    for query in QUERIES {
        let own = sorted(&client.query("", query).await);
        let theirs = sorted(&host.database.query(query).await.into());
        if own.is_empty() || own != theirs {
            faults.push(format!("{query}\nown: {own:#?}\ntheirs: {theirs:#?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_12_pypuppetdb_and_puppetboard_read_our_fleet() {
    let Some(python) = Puppetboard::find_python() else { return };
    let Some(host) = SinkHost::start().await else { return };
    let daemon = host.home().start();
    host.await_compiled().await;
    host.promote("r1").await;
    let socket = daemon.home().path("http.sock");
    let client = SourceClient(socket.clone());
    let hash = poll_until_ok("the report and the catalog are there", TIMEOUT, async || {
        let (reports, catalogs) =
            (client.query("/reports", "").await, client.query("/catalogs", "").await);
        match (reports[0]["hash"].as_str(), catalogs[0]["certname"].as_str()) {
            (Some(hash), Some(NODE)) => Ok(hash.to_owned()),
            _ => Err(format!("{reports} {catalogs} {}", daemon.log())),
        }
    })
    .await;
    let port = start_proxy(socket).await;
    let board = Puppetboard::start(python, port).await;
    let output = Command::new(&board.python)
        .args(["-c", PYTHON, &port.to_string(), NODE])
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!({
        "version": "7.12.0", "nodes": [[NODE, "changed"]], "role": ["web"], "fact": [NODE],
        "files": ["/etc/web/", "/etc/web/secret", "web.conf"], "resource": "/etc/web/web.conf",
        "catalog": [NODE, true, true], "reports": [["changed", true]], "counts": 1, "total": [1, 1],
        "pql": [NODE], "environments": [{"name": "production"}], "inventory": ["web"],
    });
    assert_eq!(read, expected);

    let (node, facts) = (format!("/node/{NODE}"), format!("/node/{NODE}/facts/json"));
    let (report, catalog) = (format!("/report/{NODE}/{hash}"), format!("/catalog/{NODE}"));
    let reports = format!("/reports/{NODE}/json");
    let mut faults = Vec::new();
    for (path, expected) in [
        ("/", NODE),
        ("/*/", NODE),
        ("/nodes", NODE),
        ("/nodes?status=changed", NODE),
        (&node, NODE),
        (&facts, "role"),
        ("/facts", "role"),
        ("/fact/role", "role"),
        ("/fact/role/json", NODE),
        ("/fact/role/web/json", NODE),
        ("/fact/odd.a.b/json", "recordsTotal"),
        ("/reports", "Configuration version"),
        ("/reports/json", &hash),
        (&reports, &hash),
        (&report, "File[web.conf]"),
        ("/catalogs", "Compile Time"),
        ("/catalogs/json", NODE),
        (&catalog, "web.conf"),
        ("/inventory/json", NODE),
        ("/daily_reports_chart.json", "\"changed\":1"),
        ("/classes/json", "Site::Web"),
        ("/failures", "Failures"),
        ("/radiator", "Changed"),
        ("/metrics", "num-resources"),
        ("/metric/puppetlabs.puppetdb.population:name=num-nodes", "Value"),
    ] {
        faults.extend(board.find_fault(path, &[], expected).await);
    }
    let query = "query=nodes[certname] { resources { type = \"File\" and title = \"web.conf\" } }";
    for (query, expected) in [(query, NODE), ("query=nodes[none] { }", "not a queryable object")] {
        let form = ["--data-urlencode", query, "-d", "endpoints=pql"];
        faults.extend(board.find_fault("/query", &form, expected).await);
    }
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), board.log());
    compare_with_puppetdb(&host, &daemon, &client).await;
}
