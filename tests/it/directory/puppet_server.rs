//! A real Puppet Server compiles a catalog with the module of `packaging/puppet`, and classifies the node with its external node classifier.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use muster_tests::puppetserver::{PuppetServer, SERVER_NAME, is_installed};
use muster_tests::tools;
use serde_json::{Value, json};

use super::fixture::FleetNode;
use super::http::HttpFleet;

/// As in the guide. The server gives its Ruby no variables of the environment, so the socket is an option.
const MANIFEST: &str = r#"
class role_balancer {
  $options = { 'socket' => '@SOCKET@' }
  $masters = search_nodes("{'facts.customer': '${facts['customer']}', classes: 'mysql::master'}", $options)
  notify { 'masters': message => $masters.join(' ') }
  notify { 'cpus': message => String(load_node($masters[-1], $options)['facts']['cpus']) }
  notify { 'rack': message => "rack ${rack}" }
  file { '/etc/haproxy/backends.cfg':
    content => epp('site/backends.epp', { 'nodes' => muster::nodes("{classes: common}", $options) }),
  }
}
"#;
const TEMPLATE: &str = "<%- | Array[Hash] $nodes | -%>\n<% $nodes.each |$node| { -%>\n\
    server <%= $node['identity'] %> <%= $node['facts']['rack']['name'] %> <%= $node['classes'].join(',') %> <%= $node['state'] %>\n<% } -%>\n";

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/puppet/muster")
}

/// A resource of a catalog.
fn parameter(catalog: &Value, kind: &str, title: &str, name: &str) -> Value {
    let resources = catalog["resources"].as_array().unwrap();
    let found = resources.iter().find(|one| one["type"] == kind && one["title"] == title);
    found.unwrap_or_else(|| panic!("no {kind}[{title}]: {catalog:#}"))["parameters"][name].clone()
}

/// Run by `make test-all`.
mod long {
    use super::{
        FleetNode, HttpFleet, MANIFEST, PuppetServer, SERVER_NAME, TEMPLATE, is_installed, json,
        module, parameter, symlink, tools,
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn puppetserver_compiles_and_classifies_with_the_directory() {
        if !is_installed() && tools::is_skipped("puppetserver") {
            return;
        }
        let fleet = HttpFleet::start().await;
        // The classifier takes classes and variables from the facts of the server's own node.
        let facts = r#"{"roles": ["role_balancer"], "rack": {"name": "r7"}}"#;
        let FleetNode { daemon: _node, .. } =
            fleet.fleet.start_node(SERVER_NAME, facts, "balancer\n");
        let mut names = crate::directory::http::NODES.to_vec();
        names.insert(3, SERVER_NAME);
        fleet.fleet.await_present(&names).await;

        let classifier = format!(
            "{} --socket {} --classes roles --parameter rack=rack.name",
            module().join("bin/enc").display(),
            fleet.socket().display(),
        );
        let settings = [("node_terminus", "exec"), ("external_nodes", classifier.as_str())];
        let Some(server) = PuppetServer::start_with(&settings).await else { return };
        std::fs::create_dir_all(server.path("modules/site/templates")).unwrap();
        std::fs::write(server.path("modules/site/templates/backends.epp"), TEMPLATE).unwrap();
        symlink(module(), server.path("modules/muster")).unwrap();
        server.write_manifest(&MANIFEST.replace("@SOCKET@", &fleet.socket().display().to_string()));

        let facts = json!({"customer": "acme"});
        let catalog = server.compile_own_catalog(&facts).await.unwrap();
        let message = |title: &str| parameter(&catalog, "Notify", title, "message");
        assert_eq!(message("masters"), "db1.acme.net db2.acme.net");
        assert_eq!(message("cpus"), "16");
        assert_eq!(message("rack"), "rack r7");
        let content = parameter(&catalog, "File", "/etc/haproxy/backends.cfg", "content");
        assert_eq!(
            content,
            "server db1.acme.net r1 common,mysql::master present\n\
             server db2.acme.net r1 common,mysql::master present\n\
             server web1.initech.net r1 common present\n"
        );

        // The next catalog has the present state of the directory.
        let node = &fleet.nodes[0];
        node.daemon.home().write("classes.txt", "common\n", 0o644);
        node.reload();
        let masters = muster_tests::poll_until_ok(
            "the catalog has the change",
            std::time::Duration::from_mins(1),
            async || {
                let catalog = server.compile_own_catalog(&facts).await?;
                let masters = parameter(&catalog, "File", "/etc/haproxy/backends.cfg", "content");
                let text = masters.as_str().unwrap_or_default().to_owned();
                if text.contains("server db1.acme.net r1 common present") {
                    Ok(text)
                } else {
                    Err(text)
                }
            },
        )
        .await;
        assert!(masters.contains("db2.acme.net r1 common,mysql::master"), "{masters}");

        // Without the directory there is no catalog: neither a node's classes nor its templates are empty.
        drop(fleet);
        let error = server.compile_own_catalog(&facts).await.unwrap_err();
        assert!(error.contains(SERVER_NAME), "{error}");
    }
}
