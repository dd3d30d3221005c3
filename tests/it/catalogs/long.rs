//! Modules that others published compile as with `puppet catalog compile`.

#![expect(clippy::disallowed_types, reason = "Puppet itself compiles the same code")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_catalogs::releases::diff_catalogs;
use muster_tests::tools::{is_skipped, puppet_directories};
use serde_json::{Map, Value, json};

use super::fixture::{ENVIRONMENT, Environment, TestNode};

const NODE: &str = "web1.acme.net";

/// Three published modules, with two that they need.
const MANIFEST: &str = r#"
class { 'ntp': servers => ['ntp1.acme.net', 'ntp2.acme.net'], restrict => ['127.0.0.1'] }
class { 'apache': default_vhost => false, mpm_module => 'prefork', serveradmin => 'root@acme.net' }
apache::vhost { 'www.acme.net':
  port          => 443,
  docroot       => '/srv/www',
  ssl           => true,
  ssl_cert      => '/etc/ssl/www.pem',
  ssl_key       => '/etc/ssl/www.key',
  serveraliases => ['acme.net', $facts['networking']['fqdn']],
  headers       => ['set X-Role web'],
  rewrites      => [{ 'rewrite_rule' => ['^/old$ /new [R=301,L]'] }],
}
class { 'mysql::server':
  root_password           => 'hunter2',
  remove_default_accounts => true,
  override_options        => { 'mysqld' => { 'max_connections' => 64 } },
}
mysql::db { 'shop': user => 'shop', password => 'secret', host => 'localhost', grant => ['SELECT', 'UPDATE'] }
concat { '/etc/issue.acme': ensure => present }
concat::fragment { 'issue': target => '/etc/issue.acme', content => inline_template('<%= @facts["os"]["name"] %>'), order => '01' }
file_line { 'shells': path => '/etc/shells', line => '/bin/zsh' }
$names = ['b', 'a', 'a'].unique.sort
notify { 'names': message => join($names, ',') }
"#;

fn facts() -> Value {
    json!({
        "os": {
            "name": "Debian", "family": "Debian", "architecture": "amd64", "hardware": "x86_64",
            "release": {"full": "12.5", "major": "12", "minor": "5"},
            "distro": {"codename": "bookworm", "id": "Debian", "release": {"full": "12.5", "major": "12"}},
            "selinux": {"enabled": false},
        },
        "osfamily": "Debian", "operatingsystem": "Debian", "operatingsystemrelease": "12.5",
        "operatingsystemmajrelease": "12", "lsbdistcodename": "bookworm", "lsbdistid": "Debian",
        "kernel": "Linux", "kernelversion": "6.1.0", "architecture": "amd64", "hardwaremodel": "x86_64",
        "networking": {"fqdn": NODE, "hostname": "web1", "domain": "acme.net", "ip": "192.0.2.7", "interfaces": {}},
        "fqdn": NODE, "hostname": "web1", "domain": "acme.net", "ipaddress": "192.0.2.7",
        "processors": {"count": 4}, "processorcount": 4, "memory": {"system": {"total_bytes": 8_589_934_592_u64}},
        "is_virtual": true, "virtual": "kvm", "root_home": "/root", "path": "/usr/sbin:/usr/bin:/sbin:/bin",
        "service_provider": "systemd", "package_provider": "apt", "puppetversion": "7.23.0", "clientversion": "7.23.0", "clientcert": NODE, "clientnoop": false,
        "id": "root", "identity": {"user": "root", "privileged": true}, "timezone": "UTC",
    })
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_tree(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// The catalog as `puppet catalog compile` makes it.
fn compile_with_puppet(environment: &Environment) -> Map<String, Value> {
    let base = environment.path().join("puppet");
    let yaml = base.join("vardir/yaml/facts");
    fs::create_dir_all(&yaml).unwrap();
    let text = format!("--- !ruby/object:Puppet::Node::Facts\nname: {NODE}\nvalues: {}\n", facts());
    fs::write(yaml.join(format!("{NODE}.yaml")), text).unwrap();
    let environments = environment.code_path().parent().unwrap().display().to_string();
    let output = Command::new("puppet")
        .args(["catalog", "compile", NODE, "--render-as", "json"])
        .args(["--facts_terminus", "yaml", "--node_terminus", "plain"])
        .args(["--environmentpath", &environments, "--environment", ENVIRONMENT])
        .args(["--basemodulepath", "/nonexistent"])
        .args(puppet_directories(&base))
        .arg(format!("--vardir={}", base.join("vardir").display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let start = text.find('{').unwrap_or_else(|| panic!("{text}{errors}"));
    serde_json::from_str(text.get(start..).unwrap())
        .unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn published_modules_make_the_catalog_of_puppet_catalog_compile() {
    if is_skipped("modules") {
        return;
    }
    let Some(environment) = Environment::create() else { return };
    let modules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/tools/modules");
    assert!(
        modules.is_dir(),
        "there are no published modules: run `make tools`, or set MUSTER_TESTS_WITHOUT=modules"
    );
    copy_tree(&modules, &environment.code_path().join("modules"));
    environment.write("manifests/site.pp", MANIFEST);
    let compiled = TestNode::new(NODE, facts()).compile(&environment.compiler()).await.unwrap();
    let ours = compiled.result.unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut theirs = compile_with_puppet(&environment);
    // Ours says which contents the sources have; that of `puppet catalog compile` does not.
    theirs.remove("metadata");
    let mut plain = ours.clone();
    plain.remove("metadata");
    plain.remove("recursive_metadata");
    assert_eq!(diff_catalogs(&plain, &theirs), []);
    for key in ["edges", "classes"] {
        let sorted = |catalog: &Map<String, Value>| {
            let list = catalog.get(key).unwrap().as_array().unwrap();
            let mut list: Vec<String> = list.iter().map(ToString::to_string).collect();
            list.sort();
            list
        };
        assert_eq!(sorted(&ours), sorted(&theirs), "{key}");
    }
    let count = ours.get("resources").unwrap().as_array().unwrap().len();
    assert!(count > 100, "{count} resources");
}
