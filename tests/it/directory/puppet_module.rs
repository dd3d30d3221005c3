//! The Puppet module of `packaging/puppet`: its functions in the real `puppet apply`, and its external node classifier.

#![expect(clippy::disallowed_types, reason = "runs Puppet")]

use std::path::{Path, PathBuf};
use std::process::Output;

use muster_tests::command::describe_output;
use muster_tests::tools;
use tempfile::TempDir;
use tokio::process::Command;

use super::http::HttpFleet;

/// As in the guide: the names of nodes, full hashes in a template, and a fact of another node.
const MANIFEST: &str = r#"
$customer = 'acme'
$masters = search_nodes("{'facts.customer': '${customer}', classes: 'mysql::master'}")
notice("masters: ${masters.join(' ')}")
notice("cpus: ${load_node('db2.acme.net')['facts']['cpus']}")
$pool = muster::nodes("{classes: common}")
notice(inline_epp('<% $pool.each |$node| { %><%= $node["identity"] %>=<%= $node["facts"]["rack"]["name"] %> <% } %>', { 'pool' => $pool }))
notice("none: ${search_nodes("{classes: nosuch}").length}")
"#;

pub(super) fn module_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/puppet")
}

/// `puppet apply` with directories of its own.
pub(super) async fn apply(fleet: &HttpFleet, arguments: &[&str]) -> Output {
    let scratch = TempDir::new().unwrap();
    let mut command = Command::new("puppet");
    command.args(["apply", "--color=false", "--modulepath"]).arg(module_path());
    command.args(tools::puppet_directories(scratch.path()));
    command.args(arguments).env("MUSTER_DIRECTORY_SOCKET", fleet.socket());
    command.output().await.unwrap_or_else(|error| {
        panic!("puppet: {error}: run tools/fetch-puppet, or name it in MUSTER_TESTS_WITHOUT")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_node_classifier_gives_puppet_classes_and_variables() {
    if tools::is_skipped("puppet") {
        return;
    }
    let fleet = HttpFleet::start().await;
    let program = module_path().join("muster/bin/enc");
    let classifier =
        format!("{} --parameter rack=rack.name --parameter customer", program.display());
    let (terminus, nodes) = ("--node_terminus=exec", format!("--external_nodes={classifier}"));
    let arguments = [
        "--certname=db1.acme.net",
        terminus,
        &nodes,
        "-e",
        "notice(\"rack ${rack} of ${customer}\")",
    ];
    let output = apply(&fleet, &arguments).await;
    let text = describe_output(&output);
    assert!(output.status.success() && text.contains("rack r1 of acme"), "{text}");

    let classify = async |socket: PathBuf, arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).env("MUSTER_DIRECTORY_SOCKET", socket);
        command.output().await.unwrap()
    };
    let known = classify(
        fleet.socket(),
        &["--classes", "customer", "--environment", "customer", "db2.acme.net"],
    );
    let known = String::from_utf8(known.await.stdout).unwrap();
    assert_eq!(known, "---\nclasses:\n- acme\nparameters: {}\nenvironment: acme\n");
    let unknown = classify(fleet.socket(), &["--classes", "customer", "db9.acme.net"]).await;
    assert_eq!(String::from_utf8(unknown.stdout).unwrap(), "---\nclasses: []\nparameters: {}\n");
    let unreachable = classify("/nosuch.sock".into(), &["db1.acme.net"]).await;
    assert!(!unreachable.status.success() && unreachable.stdout.is_empty());
}

/// Run by `make test-all`.
mod long {
    use super::{HttpFleet, MANIFEST, apply, describe_output, tools};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn functions_read_the_directory_while_puppet_compiles() {
        if tools::is_skipped("puppet") {
            return;
        }
        let fleet = HttpFleet::start().await;
        let output = apply(&fleet, &["-e", MANIFEST]).await;
        let text = describe_output(&output);
        assert!(output.status.success(), "{text}");
        for expected in [
            "masters: db1.acme.net db2.acme.net",
            "cpus: 16",
            "db1.acme.net=r1 db2.acme.net=r1 web1.initech.net=r1",
            "none: 0",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        for (manifest, expected) in [
            ("search_nodes(\"{ $where: 1 }\")", "refused the request: q: "),
            ("load_node('db9.acme.net')", "knows no node db9.acme.net"),
            (
                "search_nodes('{}', { 'socket' => '/nosuch.sock' })",
                "cannot read the directory at /nosuch.sock",
            ),
            ("search_nodes('{}', { 'port' => 1 })", "unknown option port"),
        ] {
            let output = apply(&fleet, &["-e", manifest]).await;
            let text = describe_output(&output);
            assert!(!output.status.success() && text.contains(expected), "{manifest}: {text}");
        }
    }
}

/// Manifests of other modules that have `motd::register` and `prompt::register`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defines_of_other_modules_write_the_fragments() {
    if tools::is_skipped("puppet") {
        return;
    }
    let fleet = HttpFleet::start().await;
    let manifest = "motd::register { 'Apache Web Server': }\n\
                    motd::register { 'header': order => '01', content => \"{{ facts.customer }}\\n\" }\n\
                    prompt::register { 'web': order => 20 }\n";
    let output = apply(&fleet, &["--noop", "-e", manifest]).await;
    let text = describe_output(&output);
    assert!(output.status.success(), "{text}");
    for file in ["motd.d/10_Apache Web Server", "motd.d/01_header", "prompt.d/20_web"] {
        assert!(text.contains(&format!("File[/etc/muster/{file}]")), "{file}: {text}");
    }
}
