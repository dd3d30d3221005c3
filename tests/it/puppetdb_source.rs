//! A fleet whose directory answers in place of a `PuppetDB`, on the socket of its API.

#![expect(clippy::disallowed_types, reason = "runs curl")]
#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::{Value, json};
use tokio::process::Command;

const HOST: &str = "services.acme.net";
const NODE: &str = "web1.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\nexcluded_facts = [\"networking.interfaces\", \"mountpoints\"]\n";
const ENGINE: &str = "[plugins.puppetral]\ndeny_types = []\n[plugins.catalog]\nenabled = true\nstate_dir = \"../engine\"\npuppet_state = []\n";

/// An answer: its status, `X-Records`, and its document, or its text.
#[derive(Debug, PartialEq)]
pub(crate) struct SourceAnswer {
    pub(crate) status: u16,
    pub(crate) records: String,
    pub(crate) document: Value,
}

/// Asks a directory on its socket.
pub(crate) struct SourceClient(pub(crate) PathBuf);

impl SourceClient {
    pub(crate) async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> SourceAnswer {
        let parameters: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let arguments = parameters.iter().flat_map(|pair| ["--data-urlencode", pair]);
        self.ask(path, ["-G"].into_iter().chain(arguments)).await
    }

    async fn post(&self, path: &str, body: &str) -> SourceAnswer {
        self.ask(path, ["-H", "Content-Type: application/json", "--data-binary", body]).await
    }

    /// The document of a query that is answered.
    pub(crate) async fn query(&self, path: &str, query: &str) -> Value {
        let parameters = [("query", query)];
        let parameters = if query.is_empty() { &[][..] } else { &parameters[..] };
        let answer = self.get(&format!("/pdb/query/v4{path}"), parameters).await;
        assert_eq!(answer.status, 200, "{path} {query}: {answer:?}");
        answer.document
    }

    async fn ask<'a>(
        &self,
        path: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> SourceAnswer {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "30", "--unix-socket"]).arg(&self.0);
        command.args(["-w", "\n%header{x-records}\n%{http_code}"]).args(arguments);
        let output = command.arg(format!("http://directory{path}")).output().await.unwrap();
        assert!(output.status.success(), "{}", describe_output(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let (text, status) = text.rsplit_once('\n').unwrap();
        let (body, records) = text.rsplit_once('\n').unwrap();
        let document = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
        SourceAnswer { status: status.parse().unwrap(), records: records.to_owned(), document }
    }
}

/// A broker, a host with the directory and the history, and a node that has applied a catalog.
struct SourceFleet {
    client: SourceClient,
    _daemons: [Rpcd; 2],
    _server: NatsServer,
    _organisation: Organisation,
}

impl SourceFleet {
    async fn start() -> Self {
        let mut organisation = Organisation::new(&["muster"]);
        organisation.list_services(ServiceRight::History, &["history1"]);
        let server = organisation.start_broker_with_stores().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        let home = |name: &str, more: &str| {
            let more = format!("{REGISTRATION}{more}");
            DaemonHome::new(&organisation, &organisation.node(name), &server.url(), &more)
        };
        let host = home(HOST, "");
        for (right, name) in
            [(ServiceRight::History, "history1"), (ServiceRight::Directory, "directory1")]
        {
            let service = organisation.service(right, name);
            let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
            host.write(&format!("{name}.creds"), &creds.to_text(), 0o600);
        }
        let options = format!(
            "[plugins.directory]\nenabled = true\ncredentials = \"../directory1.creds\"\n\
             [plugins.directory.http]\nsocket = \"../http.sock\"\npuppetdb = true\n\
             [plugins.history]\nenabled = true\ncredentials = \"../history1.creds\"\ndirectory = \"{}\"\n",
            host.path("index").display(),
        );
        host.write("conf.d/services.toml", &options, 0o644);
        let node = home(NODE, ENGINE);
        let facts = r#"{"role": "web", "cpus": 4, "disks": [{"name": "sda", "size.gb": 1.5}]}"#;
        node.write("facts.d/site.json", facts, 0o644);
        let resource = json!({"type": "Notify", "title": "hello", "tags": [], "exported": false});
        let catalog = json!({
            "name": NODE, "version": 7, "environment": "production", "catalog_format": 1,
            "resources": [resource], "edges": [], "classes": [],
        });
        node.write("catalog.json", &catalog.to_string(), 0o644);
        let file = format!("file={}", node.path("catalog.json").display());
        let client = SourceClient(host.path("http.sock"));
        let daemons = [host.start(), node.start()];
        poll_until_ok("the nodes are present", TIMEOUT, async || {
            let output = rpc.run(&["nodes", "-j"]).await;
            let found: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let count = found["nodes"].as_array().map_or(0, Vec::len);
            if count == 2 { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        let output = rpc.run(&["do", "catalog", "apply", &file, "-I", NODE]).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        let fleet =
            Self { client, _daemons: daemons, _server: server, _organisation: organisation };
        poll_until_ok("the report is there", TIMEOUT, async || {
            let reports = fleet.client.query("/reports", "").await;
            if reports.as_array().unwrap().len() == 1 { Ok(()) } else { Err(reports) }
        })
        .await;
        fleet
    }

    /// One column of the answer, sorted.
    async fn column(&self, path: &str, query: &str, name: &str) -> Vec<String> {
        let rows = self.client.query(path, query).await;
        let rows = rows.as_array().unwrap().iter();
        let mut values: Vec<String> = rows
            .map(|row| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned))
            .collect();
        values.sort();
        values
    }
}

fn keys(row: &Value) -> BTreeSet<&str> {
    row.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn puppetdb_pages_show_nodes_and_facts() {
    let fleet = SourceFleet::start().await;
    let client = &fleet.client;
    assert_eq!(fleet.column("/nodes", "", "certname").await, [HOST, NODE]);
    let node = client.query(&format!("/nodes/{NODE}"), "").await;
    let expected = [
        "certname",
        "deactivated",
        "expired",
        "catalog_timestamp",
        "facts_timestamp",
        "report_timestamp",
        "catalog_environment",
        "facts_environment",
        "report_environment",
        "latest_report_status",
        "latest_report_noop",
        "latest_report_noop_pending",
        "latest_report_hash",
        "latest_report_job_id",
        "latest_report_corrective_change",
        "cached_catalog_status",
    ];
    assert_eq!(keys(&node), expected.into_iter().collect());
    assert_eq!(node["latest_report_status"], "changed", "{node}");
    assert_eq!(node["facts_environment"], "production");
    let unknown = client.get("/pdb/query/v4/nodes/none.acme.net", &[]).await;
    let error = json!({"error": "No information is known about node none.acme.net"});
    assert_eq!((unknown.status, unknown.document), (404, error));

    let role =
        json!([{"certname": NODE, "environment": "production", "name": "role", "value": "web"}]);
    for path in [
        "/facts/role",
        "/facts/role/web",
        &format!("/nodes/{NODE}/facts/role"),
        "/environments/production/facts/role",
    ] {
        assert_eq!(client.query(path, "").await, role, "{path}");
    }
    assert_eq!(fleet.column("/facts/cpus/4", "", "value").await, ["4"]);
    assert_eq!(client.query("/facts/role/db", "").await, json!([]));
    let names = client.query("/fact-names", "").await;
    assert!(
        ["role", "trusted", "kernel"]
            .iter()
            .all(|name| names.as_array().unwrap().contains(&json!(name))),
        "{names}"
    );
    let path = json!(["disks", 0, "size.gb"]);
    let content = client.query("/fact-contents", r#"["~>", "path", ["disks", 0, "size.*"]]"#).await;
    let expected = json!([{"certname": NODE, "environment": "production", "name": "disks", "path": path, "value": 1.5}]);
    assert_eq!(content, expected);
    let paths = client.query("/fact-paths", r#"["=", "path", ["disks", 0, "size.gb"]]"#).await;
    assert_eq!(paths, json!([{"name": "disks", "path": path, "type": "float"}]));
    assert_eq!(client.query("/environments", "").await, json!([{"name": "production"}]));
    let inventory = client.query("/inventory", r#"["=", "facts.role", "web"]"#).await;
    assert_eq!(
        (&inventory[0]["trusted"]["certname"], inventory.as_array().unwrap().len()),
        (&json!(NODE), 1)
    );

    for query in [
        r#"["=", ["fact", "role"], "web"]"#,
        r#"["in", "certname", ["extract", "certname", ["select_facts", ["and", ["=", "name", "role"], ["=", "value", "web"]]]]]"#,
        r#"["in", "certname", ["from", "reports", ["extract", "certname", ["=", "status", "changed"]]]]"#,
        r#"["subquery", "fact_contents", ["and", ["=", "path", ["disks", 0, "name"]], ["=", "value", "sda"]]]"#,
        r#"["and", ["in", "certname", ["array", ["web1.acme.net", "none"]]], ["~", "certname", "^web"]]"#,
        r#"["=", "latest_report_status", "changed"]"#,
        r#"["null?", "report_timestamp", false]"#,
    ] {
        assert_eq!(fleet.column("/nodes", query, "certname").await, [NODE], "{query}");
    }
    for query in [
        "nodes[certname] { facts { name = 'cpus' and value > 3 } }",
        "inventory[certname] { facts.disks[0].name = 'sda' }",
        r#"["from", "nodes", ["extract", ["certname"], ["~", "certname", "^web"]]]"#,
    ] {
        assert_eq!(client.query("", query).await, json!([{"certname": NODE}]), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn puppetdb_pages_show_reports_and_refuse_what_is_invalid() {
    let fleet = SourceFleet::start().await;
    let client = &fleet.client;
    let report = client.query("/reports", "").await[0].clone();
    let hash = report["hash"].as_str().unwrap().to_owned();
    assert_eq!((&report["certname"], &report["status"]), (&json!(NODE), &json!("changed")));
    assert_eq!((&report["configuration_version"], &report["type"]), (&json!("7"), &json!("agent")));
    let href = format!("/pdb/query/v4/reports/{hash}/events");
    assert_eq!(report["resource_events"]["href"], href);
    let node = client.query(&format!("/nodes/{NODE}"), "").await;
    assert_eq!(node["latest_report_hash"], hash.as_str());
    for query in [
        format!(r#"["=", "hash", "{hash}"]"#),
        r#"["=", "latest_report?", true]"#.to_owned(),
        r#"[">", "end_time", "2026-01-01"]"#.to_owned(),
    ] {
        assert_eq!(fleet.column("/reports", &query, "hash").await, [hash.as_str()], "{query}");
    }
    let events = client.query(&format!("/reports/{hash}/events"), "").await;
    let expected = json!({"type": "Notify", "title": "hello", "status": "success", "report": hash, "certname": NODE});
    let event = &events[0];
    let found = json!({"type": event["resource_type"], "title": event["resource_title"], "status": event["status"], "report": event["report"], "certname": event["certname"]});
    assert_eq!(found, expected);
    assert_eq!(client.query("/events", r#"["=", "resource_title", "hello"]"#).await, events);
    let metrics = client.query(&format!("/reports/{hash}/metrics"), "").await;
    assert!(
        metrics.as_array().unwrap().iter().any(|metric| metric["category"] == "resources"),
        "{metrics}"
    );
    assert_eq!(client.query(&format!("/reports/{hash}/logs"), "").await, report["logs"]["data"]);
    let statuses = client
        .query(
            "/reports",
            r#"["extract", [["function", "count"], "status"], ["group_by", "status"]]"#,
        )
        .await;
    assert_eq!(statuses, json!([{"count": 1, "status": "changed"}]));
    let latest = [("summarize_by", "certname"), ("query", r#"["=", "latest_report?", true]"#)];
    let counts = client.get("/pdb/query/v4/event-counts", &latest).await;
    let expected = json!([{"subject_type": "certname", "subject": {"title": NODE}, "failures": 0, "successes": 1, "noops": 0, "skips": 0}]);
    assert_eq!(counts.document, expected);
    let parameters = [
        ("summarize_by", "resource"),
        ("count_by", "certname"),
        ("counts_filter", r#"[">", "successes", 0]"#),
    ];
    let counts = client.get("/pdb/query/v4/aggregate-event-counts", &parameters).await;
    let expected = json!([{"summarize_by": "resource", "failures": 0, "successes": 1, "noops": 0, "skips": 0, "total": 1}]);
    assert_eq!(counts.document, expected);

    // This host has no compiler.
    for path in
        ["/catalogs", "/resources", "/resources/File", "/resources/File//etc/motd", "/edges"]
    {
        assert_eq!(client.query(path, "").await, json!([]), "{path}");
    }
    assert_eq!(client.get(&format!("/pdb/query/v4/catalogs/{NODE}"), &[]).await.status, 404);

    let paging = [
        ("order_by", r#"[{"field": "certname", "order": "desc"}]"#),
        ("limit", "1"),
        ("offset", "1"),
        ("include_total", "true"),
    ];
    let page = client.get("/pdb/query/v4/nodes", &paging).await;
    assert_eq!((page.records.as_str(), &page.document[0]["certname"]), ("2", &json!(HOST)));
    let body =
        json!({"query": "nodes[certname] { }", "order_by": [{"field": "certname"}], "limit": 1});
    let posted = client.post("/pdb/query/v4", &body.to_string()).await;
    assert_eq!((posted.status, posted.document), (200, json!([{"certname": HOST}])));
    let body = json!({"query": ["=", "certname", NODE]}).to_string();
    assert_eq!(client.post("/pdb/query/v4/nodes", &body).await.document[0]["certname"], NODE);

    let version = client.get("/pdb/meta/v1/version", &[]).await;
    assert_eq!(version.document, json!({"version": "7.12.0"}));
    assert!(client.get("/pdb/meta/v1/server-time", &[]).await.document["server_time"].is_string());
    let name = "puppetlabs.puppetdb.population:name=num-nodes";
    let metric = client.get(&format!("/metrics/v2/read/{name}"), &[]).await;
    assert_eq!(metric.document["value"]["Value"], 2);
    let metric = client.get(&format!("/metrics/v1/mbeans/{name}"), &[]).await;
    assert_eq!(metric.document, json!({"Value": 2}));

    for (path, parameters, expected) in [
        ("/nodes", [("query", r#"["=", "none", 1]"#)], "not a queryable object"),
        ("/nodes", [("query", "[\"=\"")], "Malformed JSON for query"),
        ("/nodes", [("limit", "many")], "expected a number"),
        ("/nodes", [("colour", "red")], "Unsupported query parameter 'colour'"),
        ("", [("query", "nodes { certname ")], "PQL parse error"),
        ("", [("query", r#"["=", "certname", "a"]"#)], "without an entity"),
        ("/event-counts", [("query", "")], "summarize_by"),
    ] {
        let answer = client.get(&format!("/pdb/query/v4{path}"), &parameters).await;
        let text = answer.document.as_str().unwrap_or_default();
        assert!(answer.status == 400 && text.contains(expected), "{path}: {answer:?}");
    }
    assert_eq!(client.post("/pdb/query/v4/nodes", "{").await.status, 400);
    assert_eq!(client.post("/v1/nodes", "{}").await.status, 405);
    assert_eq!(client.post("/pdb/query/v4/nodes", &" ".repeat(70_000)).await.status, 413);
    assert_eq!(client.get("/pdb/query/v4/none", &[]).await.status, 404);
}
