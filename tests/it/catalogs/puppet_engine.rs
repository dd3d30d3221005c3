//! A release that an unmodified Puppet applies, with sources, secrets and a type of a module; and the commands that look into what is stored.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::stores::CONTENT_BUCKET;
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::Value;

use super::fixture::Environment;

const NODE: &str = "web1.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);

const MANIFEST: &str = r#"
$base = $facts['scratch']
file { "${base}/plain": source => ["puppet:///modules/tool/${trusted['hostname']}", 'puppet:///modules/tool/plain'] }
file { "${base}/tree": ensure => directory, source => 'puppet:///modules/tool/tree', recurse => true, mode => '0640' }
file { "${base}/secret": content => Sensitive('TEXT secret'), mode => '0600' }
exec { 'note': command => "/bin/sh -c 'echo refreshed >>${base}/refreshes'", refreshonly => true, subscribe => File["${base}/plain"] }
stamp { "${base}/stamp": text => 'TEXT' }
"#;
const TYPE: &str = "Puppet::Type.newtype(:stamp) do\n  newparam(:path, namevar: true)\n  newproperty(:text)\nend\n";
const PROVIDER: &str = "require_relative '../../../tool/reader'\nPuppet::Type.type(:stamp).provide(:ruby) do\n  \
    def text = Reader.read(resource[:path])\n  def text=(value)\n    File.write(resource[:path], value)\n  end\nend\n";
/// A file that the provider finds by its place.
const READER: &str =
    "module Reader\n  def self.read(path) = File.exist?(path) ? File.read(path) : :absent\nend\n";

struct PuppetNode {
    environment: Environment,
    server: NatsServer,
    organisation: Organisation,
    rpc: RpcCommand,
    _daemon: Rpcd,
}

impl PuppetNode {
    /// A node that compiles, and applies what it compiled with Puppet. `None` if this run skips the tests that need Puppet.
    async fn start() -> Option<Self> {
        let environment = Environment::create()?;
        environment.write("modules/tool/files/plain", "a tool\n");
        environment.write("modules/tool/files/tree/one", "1\n");
        environment.write("modules/tool/files/tree/below/two", "2\n");
        environment.write("modules/tool/lib/puppet/type/stamp.rb", TYPE);
        environment.write("modules/tool/lib/puppet/provider/stamp/ruby.rb", PROVIDER);
        environment.write("modules/tool/lib/tool/reader.rb", READER);
        environment.write("manifests/site.pp", &MANIFEST.replace("TEXT", "first"));
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("anna"), "");
        let base = environment.path().join("managed");
        fs::create_dir(&base).unwrap();
        let daemon = start_daemon(&environment, &organisation, &server.url());
        Some(Self { environment, server, organisation, rpc, _daemon: daemon })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.environment.path().join("managed").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    async fn text(&self, words: &[&str]) -> String {
        let output = self.rpc.run(words).await;
        assert!(output.status.success(), "{words:?}: {}", describe_output(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a release, once the node is compiled with the present code.
    async fn release(&self) {
        poll_until_ok("the node is compiled", TIMEOUT, async || {
            let output = self.rpc.run(&["catalog", "list", "-j"]).await;
            let document: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let row = &document["nodes"][0];
            if row["state"] == "compiled" { Ok(()) } else { Err(format!("{row:#}")) }
        })
        .await;
        self.text(&["compile", "--environment", "production"]).await;
        self.text(&["release", "create", "--environment", "production"]).await;
    }
}

fn start_daemon(environment: &Environment, organisation: &Organisation, url: &str) -> Rpcd {
    let more = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n";
    let home = DaemonHome::new(organisation, &organisation.node(NODE), url, more);
    let service = organisation.service(ServiceRight::Compile, "compiler1");
    let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
    home.write("service.creds", &creds.to_text(), 0o600);
    let base = environment.path().join("managed").display().to_string();
    home.write("facts.d/site.json", &serde_json::json!({"scratch": base}).to_string(), 0o644);
    let puppet = environment.path().join("puppet");
    let mut options = format!(
        "[plugins.compiler]\nenabled = true\ncredentials = \"../service.creds\"\ndirectory = \"{}\"\n\
         [plugins.compiler.environments.production]\ndirectory = \"{}\"\n\
         [plugins.release]\nenabled = true\nengine = \"puppet\"\n[plugins.puppet]\ncertname = \"{NODE}\"\n",
        environment.path().join("state").display(),
        environment.code_path().display(),
    );
    for name in ["confdir", "codedir", "vardir", "ssldir", "rundir", "logdir", "publicdir"] {
        let path = puppet.join(name);
        fs::create_dir_all(&path).unwrap();
        writeln!(options, "{name} = \"{}\"", path.display()).unwrap();
    }
    home.write("conf.d/compiler.toml", &options, 0o644);
    home.start()
}

#[tokio::test(flavor = "multi_thread")]
async fn release_is_applied_by_an_unmodified_puppet_with_the_plugins_of_its_modules() {
    let Some(node) = PuppetNode::start().await else { return };
    node.release().await;
    let plan = node.rpc.read_document("muster.release.plan.v1", &["release", "plan", "r1"]).await;
    assert_eq!(plan["groups"][0]["nodes"][0], NODE, "{plan:#}");
    assert!(!node.path("plain").exists());
    let promoted = node.text(&["release", "promote", "r1", "--all", "-y"]).await;
    assert_eq!(node.read("plain"), "a tool\n", "{promoted}");
    assert_eq!((node.read("tree/one"), node.read("tree/below/two")), ("1\n".into(), "2\n".into()));
    assert_eq!((node.read("secret"), node.read("stamp")), ("first secret".into(), "first".into()));
    assert_eq!(node.read("refreshes"), "refreshed\n");
    // It is a run like others: with a record, and the lock and ledger of all.
    let runs = node.rpc.read_document("muster.request.v1", &["do", "puppet", "runs"]).await;
    let run = &runs["replies"][0]["data"]["runs"][0];
    assert_eq!((&run["state"], &run["class"]), (&"finished".into(), &"changed".into()), "{runs:#}");
    let again = ["do", "release", "apply", "-y"];
    let again = node.rpc.read_document("muster.request.v1", &again).await;
    let data = &again["replies"][0]["data"];
    assert_eq!((&data["status"], &data["changed"]), (&"unchanged".into(), &0.into()), "{again:#}");

    // What failed is said with Puppet's words, and nothing of it is a secret.
    node.environment.write("modules/tool/files/tree/one", "one\n");
    node.environment.write("manifests/site.pp", &MANIFEST.replace("TEXT", "second"));
    node.release().await;
    node.text(&["release", "promote", "r2", "--all", "-y"]).await;
    assert_eq!((node.read("tree/one"), node.read("stamp")), ("one\n".into(), "second".into()));
    let failing = format!("{MANIFEST}exec {{ '/bin/false': }}\n").replace("TEXT", "third");
    node.environment.write("manifests/site.pp", &failing);
    node.release().await;
    let failed = node.rpc.run(&["release", "promote", "r3", "--all", "-y"]).await;
    let failed = describe_output(&failed);
    assert!(failed.contains("/bin/false") && !failed.contains("third secret"), "{failed}");

    // Back from the disk of the node: its files are not in the broker any more.
    let administrator = connect(&node.server, &node.organisation.administrator()).await;
    let bucket = administrator.bucket(CONTENT_BUCKET.name);
    let keys: Vec<String> =
        bucket.list(">").await.unwrap().into_iter().map(|entry| entry.key).collect();
    bucket.delete_keys(&keys).await.unwrap();
    let back = node.rpc.run(&["release", "rollback", "r2", "--all", "-y"]).await;
    assert_eq!(node.read("secret"), "second secret", "{}", describe_output(&back));
    assert_eq!(node.read("stamp"), "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_files_are_listed_verified_and_collected_and_inputs_are_checked() {
    let Some(node) = PuppetNode::start().await else { return };
    node.release().await;
    let listed = node.rpc.read_document("muster.content.v1", &["content", "list"]).await;
    let files = listed["files"].as_array().unwrap();
    // Three files of sources, three plugins and their list, and the list of the release in two parts.
    assert_eq!(files.len(), 9, "{listed:#}");
    assert!(node.text(&["content", "list"]).await.contains("9 files, "));
    let verified = ["content", "verify"];
    let verified = node.rpc.read_document("muster.content.verified.v1", &verified).await;
    assert_eq!((&verified["files"], &verified["defects_total"]), (&9.into(), &0.into()));
    // All of it is younger than a day.
    let collected = node.rpc.read_document("muster.content.collected.v1", &["content", "gc"]).await;
    assert_eq!((&collected["deleted_files"], &collected["kept_files"]), (&0.into(), &9.into()));

    let check = ["compile", "--check-inputs"];
    let checked = node.rpc.read_document("muster.compile.check.v1", &check).await;
    let row = &checked["nodes"][0];
    assert_eq!(
        (&row["missed"], &row["unsteady"]),
        (&Vec::<Value>::new().into(), &Vec::<Value>::new().into()),
        "{row:#}"
    );
    assert!(row["altered"].as_u64().unwrap() > 20, "{row:#}");
    // The time is an input that cannot be compared.
    let manifest = "notify { 'now': message => String(Timestamp.new()) }\n";
    node.environment.write("manifests/site.pp", manifest);
    node.text(&["compile", "--environment", "production"]).await;
    let unsteady = poll_until_ok("the new code is checked", TIMEOUT, async || {
        let output = node.rpc.run(&[&check[..], &["-j"]].concat()).await;
        let found: Value =
            serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
        let names = found["nodes"][0]["unsteady"].clone();
        if names == serde_json::json!(["Notify[now]"]) {
            Ok(output)
        } else {
            Err(format!("{found:#}"))
        }
    })
    .await;
    assert!(unsteady.status.success());

    let administrator = connect(&node.server, &node.organisation.administrator()).await;
    let bucket = administrator.bucket(CONTENT_BUCKET.name);
    let key = format!("file.{}", files[0]["file"].as_str().unwrap());
    bucket.put(&key, "\0altered".into()).await.unwrap();
    let damaged = node.rpc.run(&["content", "verify"]).await;
    assert_eq!(damaged.status.code(), Some(2), "{}", describe_output(&damaged));
    assert!(
        describe_output(&damaged).contains("1 missing or altered"),
        "{}",
        describe_output(&damaged)
    );
}
