//! A real `PuppetDB` takes what the sink sends: facts, a catalog and a changed one, inputs and reports.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fs;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::puppetdb::PuppetDb;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::{Value, json};

use crate::catalogs::fixture::Environment;

pub(super) const NODE: &str = "web1.acme.net";
pub(super) const TIMEOUT: Duration = Duration::from_mins(3);
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n";

/// What the terminus of Puppet Server handles specially: aliases, a path that is not the title, slashes at the end, chains, secrets, odd titles.
const MANIFEST: &str = r#"
class site::web (String $text) {
  file { '/etc/web/': ensure => directory }
  file { 'web.conf': path => '/etc/web/web.conf', content => "${text}\n", require => File['/etc/web'], tag => ['b', 'a'] }
  file { '/etc/web/secret': content => Sensitive('hidden value'), show_diff => false, subscribe => File['/etc/web/web.conf'] }
  notify { "odd] title[x 'q' \u{e9}": alias => 'odd' }
  notify { 'last': message => $facts['role'], require => [Notify["odd] title[x 'q' \u{e9}"], Class['site::base']] }
}
class site::base { notify { 'base': } ~> notify { 'after base': } }
include site::base
class { 'site::web': text => lookup('text') }
"#;

/// One host with all services, which is also the node.
pub(super) struct SinkHost {
    environment: Environment,
    pub(super) database: PuppetDb,
    organisation: Organisation,
    server: NatsServer,
    rpc: RpcCommand,
}

impl SinkHost {
    /// `None` if this run skips the tests that need Puppet or a `PuppetDB`.
    pub(super) async fn start() -> Option<Self> {
        let environment = Environment::create()?;
        let database = PuppetDb::start().await?;
        let mut organisation = Organisation::new(&["muster"]);
        organisation.list_services(ServiceRight::History, &["history1"]);
        let server = organisation.start_broker_with_stores().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("anna"), "");
        let host = Self { environment, database, organisation, server, rpc };
        host.environment.write("manifests/site.pp", MANIFEST);
        let hiera = "version: 5\nhierarchy: [{name: common, path: common.yaml, data_hash: yaml_data, datadir: data}]\n";
        host.environment.write("hiera.yaml", hiera);
        host.write_text("first");
        Some(host)
    }

    fn write_text(&self, text: &str) {
        self.environment.write("data/common.yaml", &format!("text: {text}\n"));
    }

    pub(super) fn home(&self) -> DaemonHome {
        let node = self.organisation.node(NODE);
        let home = DaemonHome::new(&self.organisation, &node, &self.server.url(), REGISTRATION);
        fs::create_dir_all(home.path("root/etc")).unwrap();
        home.write("conf.d/root.toml", "[paths]\nroot = \"../root\"\n", 0o644);
        home.write(
            "facts.d/site.json",
            r#"{"role": "web", "odd": {"a.b": [1, 2.5, null, "\u0000"]}}"#,
            0o644,
        );
        let services = [
            (ServiceRight::Directory, "directory1"),
            (ServiceRight::Compile, "compiler1"),
            (ServiceRight::History, "history1"),
        ];
        for (right, name) in services {
            let service = self.organisation.service(right, name);
            let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
            home.write(&format!("{name}.creds"), &creds.to_text(), 0o600);
        }
        let options = format!(
            "[plugins.release]\nenabled = true\n\
             [plugins.catalog]\nenabled = true\nstate_dir = \"../engine\"\npuppet_state = []\n\
             [plugins.directory]\nenabled = true\ncredentials = \"../directory1.creds\"\n\
             [plugins.directory.http]\nsocket = \"../http.sock\"\npuppetdb = true\n\
             [plugins.history]\nenabled = true\ncredentials = \"../history1.creds\"\ndirectory = \"{index}\"\n\
             [plugins.puppetdb]\nenabled = true\nurl = \"{url}\"\ndirectory = \"{sink}\"\n\
             [plugins.compiler]\nenabled = true\ncredentials = \"../compiler1.creds\"\ndirectory = \"{state}\"\n\
             [plugins.compiler.environments.production]\ndirectory = \"{code}\"\n",
            index = home.path("index").display(),
            url = self.database.url(),
            sink = home.path("sink").display(),
            state = self.environment.path().join("state").display(),
            code = self.environment.code_path().display(),
        );
        home.write("conf.d/services.toml", &options, 0o644);
        home
    }

    async fn run(&self, words: &[&str]) {
        let output = self.rpc.run(words).await;
        assert!(output.status.success(), "{words:?}: {}", describe_output(&output));
    }

    pub(super) async fn await_compiled(&self) {
        poll_until_ok("the node is compiled", TIMEOUT, async || {
            let output = self.rpc.run(&["catalog", "environments", "-j"]).await;
            let found: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let compiled = &found["environments"][0]["compiled"];
            if compiled == 1 { Ok(()) } else { Err(format!("{found:#}")) }
        })
        .await;
    }

    /// Compiles, releases and promotes what the environment has now; the node applies it.
    pub(super) async fn promote(&self, release: &str) {
        self.run(&["compile", "--environment", "production"]).await;
        let words = ["release", "create", "--environment", "production"];
        self.run(&words).await;
        self.run(&["release", "promote", release, "--all", "-y"]).await;
    }

    /// The answer to a query, once it has this many rows.
    pub(super) async fn await_rows(&self, daemon: &Rpcd, pql: &str, count: usize) -> Vec<Value> {
        poll_until_ok("PuppetDB has the rows", TIMEOUT, async || {
            let rows = self.database.query(pql).await;
            assert!(self.database.discarded().is_empty(), "{}", self.database.log());
            if rows.len() == count {
                Ok(rows)
            } else {
                Err(format!("{pql}: {rows:?}\n{}", daemon.log()))
            }
        })
        .await
    }

    /// Waits until this is an input of the stored catalog. PQL has no name for inputs.
    async fn await_input(&self, kind: &str, name: &str) {
        let query = json!(["and", ["=", "type", kind], ["=", "name", name]]).to_string();
        poll_until_ok("PuppetDB has the input", TIMEOUT, async || {
            let rows = self.database.query_entity("catalog-input-contents", &query).await;
            if rows.len() == 1 { Ok(()) } else { Err(format!("{kind} {name}: {rows:?}")) }
        })
        .await;
    }

    /// The parameters of a resource in the stored catalog.
    async fn parameters(&self, daemon: &Rpcd, kind: &str, title: &str) -> Value {
        let pql = format!("resources[parameters] {{ type = '{kind}' and title = '{title}' }}");
        self.await_rows(daemon, &pql, 1).await[0]["parameters"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_12_puppetdb_stores_facts_catalogs_inputs_and_reports() {
    let Some(host) = SinkHost::start().await else { return };
    let daemon = host.home().start();
    let facts = host
        .await_rows(
            &daemon,
            "facts[name, value] { name in ['role', 'odd', 'trusted'] order by name }",
            3,
        )
        .await;
    assert_eq!(facts[0]["value"], json!({"a.b": [1, 2.5, null, "\u{fffd}"]}));
    assert_eq!(facts[1]["value"], "web");
    assert_eq!(
        (&facts[2]["value"]["certname"], &facts[2]["value"]["hostname"]),
        (&json!(NODE), &json!("web1"))
    );
    host.await_compiled().await;

    host.promote("r1").await;
    let catalogs = "catalogs[version, catalog_uuid, environment, producer] { }";
    let first = host.await_rows(&daemon, catalogs, 1).await;
    assert_eq!(
        (&first[0]["environment"], &first[0]["producer"]),
        (&json!("production"), &json!("muster"))
    );
    let content = host.parameters(&daemon, "File", "web.conf").await;
    assert_eq!((&content["content"], &content["tag"]), (&json!("first\n"), &json!(["a", "b"])));
    let secret = host.parameters(&daemon, "File", "/etc/web/secret").await;
    assert_eq!((&secret["content"], &secret["show_diff"]), (&Value::Null, &json!(false)));
    let edges = "edges[source_title, target_title, relationship] { relationship in ['required-by', 'subscription-of', 'notifies'] order by relationship, source_title }";
    let edges = host.await_rows(&daemon, edges, 5).await;
    let has_edge = |source: &str, target: &str, relationship: &str| {
        let edge =
            json!({"source_title": source, "target_title": target, "relationship": relationship});
        assert!(edges.contains(&edge), "{edge} is not in {edges:#?}");
    };
    has_edge("/etc/web/", "web.conf", "required-by");
    has_edge("web.conf", "/etc/web/secret", "subscription-of");
    has_edge("odd] title[x 'q' \u{e9}", "last", "required-by");
    has_edge("Site::Base", "last", "required-by");
    has_edge("base", "after base", "notifies");
    for (kind, name) in [("hiera", "text"), ("fact", "facts.role")] {
        host.await_input(kind, name).await;
    }

    // The run of the node, with its resources.
    let reports = "reports[status, puppet_version, noop, transaction_uuid, catalog_uuid] { order by producer_timestamp }";
    let report = host.await_rows(&daemon, reports, 1).await;
    assert_eq!((&report[0]["status"], &report[0]["noop"]), (&json!("changed"), &json!(false)));
    assert_eq!(report[0]["catalog_uuid"], first[0]["catalog_uuid"], "the run names its catalog");
    let event = "events[new_value, old_value, status, containing_class] { resource_title = 'web.conf' and property = 'ensure' }";
    let event = host.await_rows(&daemon, event, 1).await;
    assert_eq!(
        (&event[0]["old_value"], &event[0]["status"]),
        (&json!("absent"), &json!("success"))
    );

    // A changed catalog takes the place of the first one.
    host.write_text("second");
    host.promote("r2").await;
    host.await_rows(&daemon, reports, 2).await;
    poll_until_ok("the second catalog is stored", TIMEOUT, async || {
        let content = host.parameters(&daemon, "File", "web.conf").await["content"].clone();
        if content == "second\n" { Ok(()) } else { Err(content) }
    })
    .await;
    let second = host.await_rows(&daemon, catalogs, 1).await;
    assert_ne!(first[0]["catalog_uuid"], second[0]["catalog_uuid"]);
    let nodes = "nodes[certname, latest_report_status, facts_environment] { report_timestamp is not null and catalog_timestamp is not null }";
    let nodes = host.await_rows(&daemon, nodes, 1).await;
    assert_eq!(nodes[0]["certname"], NODE);
    let letters = fs::read_dir(daemon.home().path("sink/dead")).unwrap().count();
    assert_eq!(letters, 0, "{}", daemon.log());

    // A command that PuppetDB cannot process is found where none of ours is.
    let broken = "command=replace_facts&version=5&certname=broken.acme.net&producer-timestamp=2026-01-01T00:00:00.000Z";
    host.database.send_command(broken, "{}").await;
    poll_until_ok("the broken command is discarded", TIMEOUT, async || {
        let discarded = host.database.discarded();
        if discarded.is_empty() { Err(host.database.log()) } else { Ok(()) }
    })
    .await;
}
