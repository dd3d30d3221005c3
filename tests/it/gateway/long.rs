//! The way back: a real Puppet Server after the gateway, with the same agent.

use std::fs;
use std::path::Path;

use muster_tests::puppetserver::{PuppetServer, SERVER_NAME};

use super::fixture::{GatewayFleet, MANIFEST, NODE};

/// Files of a tree, copied.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_returns_to_a_puppet_server_without_losing_plugins_or_state() {
    let Some(server) = PuppetServer::start().await else { return };
    let tls = [
        server.path(&format!("ssl/certs/{SERVER_NAME}.pem")),
        server.path(&format!("ssl/private_keys/{SERVER_NAME}.pem")),
        server.path("ssl/certs/ca.pem"),
        server.path("ca/ca_crl.pem"),
    ];
    let Some(fleet) = GatewayFleet::start_with(Some(&tls)).await else { return };
    fleet.promote("r1").await;
    let by_gateway = fleet.machine_of(NODE, [fleet.port, server.port()]);
    let by_server = fleet.machine_of(NODE, [server.port(); 2]);
    let (_, log) = by_gateway.run(&[]).await;
    assert!(log.contains("has not been signed yet"), "{log}");
    server.sign_request(NODE).await;
    let (code, log) = by_gateway.run(&[]).await;
    assert_eq!(code, 2, "{log}");

    // The same code on the server: nothing differs, so nothing is changed, fetched or removed.
    let environment = server.path("code/environments/production");
    copy_tree(&fleet.environment.code_path().join("modules"), &environment.join("modules"));
    let base = fleet.environment.path().join("managed").display().to_string();
    server.write_manifest(&MANIFEST.replace("${facts['scratch']}", &base));
    let (code, log) = by_server.run(&[]).await;
    assert_eq!(code, 0, "{log}");
    let (code, log) = by_gateway.run(&[]).await;
    assert_eq!(code, 0, "{log}");
    assert!(!log.contains("Facter/tool.rb]/ensure") && !log.contains("removed"), "{log}");
    assert!(by_server.path("vardir/lib/facter/tool.rb").exists(), "{log}");
    assert_eq!(fleet.read("refreshes"), "refreshed\n");
}
