//! Runs of the real agent: released catalogs are applied, and nothing else changes what the agent has.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::fixture::{GatewayFleet, LARGE_BYTES, MANIFEST, NODE};

#[tokio::test(flavor = "multi_thread")]
async fn unmodified_agent_applies_the_released_catalog_with_its_files_and_plugins() {
    let Some(mut fleet) = GatewayFleet::start().await else { return };
    let machine = fleet.machine(NODE);
    // Plugins of another server.
    machine.write("vardir/lib/facter/earlier.rb", "# earlier\n");
    machine.write("vardir/facts.d/earlier.yaml", "earlier: yes\n");
    let (code, log) = machine.run(&[]).await;
    assert!(
        code == 1 && log.contains(&format!("no catalog is released for {NODE}")),
        "{code}: {log}"
    );
    assert!(machine.path("vardir/lib/facter/earlier.rb").exists(), "{log}");
    assert!(machine.path("vardir/facts.d/earlier.yaml").exists(), "{log}");

    fleet.promote("r1").await;
    let (code, log) = machine.run(&[]).await;
    assert_eq!(code, 2, "{log}");
    assert!(!log.contains("on SERVER") && !log.contains("Could not"), "{log}");
    assert_eq!(fleet.read("plain"), "a tool of web1\n");
    assert_eq!(fleet.read("tree/one"), "1\n");
    assert_eq!(fleet.read("tree/below/large"), "x".repeat(LARGE_BYTES));
    assert_eq!(
        (fleet.read("stamp"), fleet.read("refreshes")),
        ("first".into(), "refreshed\n".into())
    );
    assert!(machine.path("vardir/lib/facter/tool.rb").exists(), "{log}");
    assert!(!machine.path("vardir/lib/facter/earlier.rb").exists(), "{log}");
    let fact = fs::metadata(machine.path("vardir/facts.d/site.sh")).unwrap();
    assert_eq!(fact.permissions().mode() & 0o777, 0o755);
    let (code, log) = machine.run(&[]).await;
    assert_eq!(code, 0, "{log}");

    // A promotion, not a compile, decides what the agent gets.
    fleet.environment.write("modules/tool/files/web1", "another tool\n");
    fleet.environment.write("manifests/site.pp", &MANIFEST.replace("'first'", "'second'"));
    fleet.promote("r2").await;
    let (code, log) = machine.run(&[]).await;
    assert_eq!(code, 2, "{log}");
    assert_eq!(
        (fleet.read("plain"), fleet.read("stamp")),
        ("another tool\n".into(), "second".into())
    );

    // Without the gateway, the agent has its cached catalog.
    fleet.host.kill_and_wait();
    fs::remove_file(fleet.managed("stamp")).unwrap();
    let (code, log) = machine.run(&["--use_cached_catalog"]).await;
    assert_eq!((code, fleet.read("stamp")), (2, "second".to_owned()), "{log}");
}
