//! Tests the provisioner with real nodes on a real broker; Puppet and its authority are simulated
//! (`muster_tests::provisioning`). In [`killed_hosts`] and [`delivery`], nodes, masters and provisioners are processes.

mod delivery;
mod delivery_attacks;
mod fixture;
mod killed_hosts;
mod processes;
mod sinks;

use std::sync::Arc;
use std::time::Duration;

use muster_calls::Client;
use muster_contract::provisioner::ProvisioningState;
use muster_provisioner::Options;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::organisation::connect;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_tests::simulate_delay;
use muster_tests::tier::repetitions;
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use fixture::ProvisioningFixture;

/// A9.1, A9.2: each node gets the nearest master, its old certificate is revoked, one certificate is signed, Puppet
/// runs twice in order, the node is released, and one notification is sent. A master that is added later is used too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_1_a9_2_machines_are_provisioned_by_the_nearest_master() {
    let mut fixture = ProvisioningFixture::new().await;
    let (near, far) = (
        fixture.add_master("puppet-a.example.net", "a").await,
        fixture.add_master("puppet-b.example.net", "b").await,
    );
    let old = far.add_old_certificate("web1.example.net");
    let machines = [
        fixture.add_machine("web1.example.net", "a").await,
        fixture.add_machine("web2.example.net", "b").await,
    ];
    let service = fixture.start_service("prov1.example.net", fixture.options()).await;
    let done = fixture.await_all_done().await;
    let master = |name: &str| done[name].text_value("master").unwrap().to_owned();
    assert_eq!(master("web1.example.net"), "puppet-a.example.net");
    assert_eq!(master("web2.example.net"), "puppet-b.example.net");
    for machine in &machines {
        let disk = machine.disk();
        assert_eq!(disk.finished_runs, ["bootstrap", "production"]);
        assert!(disk.released && !disk.locked);
        assert_eq!(disk.refused, 0);
    }
    assert!(far.certificates().revoked.contains(&old));
    assert_eq!(done["web1.example.net"].values["revoked"], json!([format!("{old:04X}")]));
    assert!(near.certificates().signed.contains_key("web1.example.net"));

    let later = fixture.add_master("puppet-c.example.net", "c").await;
    fixture.add_machine("web3.example.net", "c").await;
    let done = fixture.await_all_done().await;
    assert_eq!(done["web3.example.net"].text_value("master"), Some("puppet-c.example.net"));
    let signatures = [near, far, later].map(|authority| authority.certificates().signatures);
    assert_eq!(signatures.iter().flatten().map(|(_, times)| times).sum::<usize>(), 3);
    assert_eq!(
        fixture.hook.nodes("done"),
        ["web1.example.net", "web2.example.net", "web3.example.net"]
    );
    service.stop_and_wait().await;
}

/// A fleet without Puppet: no master is needed, and each node is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_are_provisioned_without_puppet() {
    let mut fixture = ProvisioningFixture::new().await;
    let machine = fixture.add_machine("web1.example.net", "a").await;
    let options = Options { puppet: false, ..fixture.options() };
    let service = fixture.start_service("prov1.example.net", options).await;
    let done = fixture.await_all_done().await;
    assert_eq!(done["web1.example.net"].text_value("master"), None);
    let disk = machine.disk();
    assert!(disk.released && !disk.locked);
    assert_eq!(disk.finished_runs, Vec::<String>::new());
    assert_eq!(fixture.hook.nodes("done"), ["web1.example.net"]);

    // It has no certificate, so no master is needed to retire it either.
    fixture.request_retirement("web1.example.net").await;
    fixture
        .await_records("the node is retired", |record| record.state == ProvisioningState::Retired)
        .await;
    assert_eq!(fixture.hook.nodes("retired"), ["web1.example.net"]);
    service.stop_and_wait().await;
}

/// A9.3: a request that was replaced by one of another key is not signed, and the node is not retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_3_request_of_another_key_is_not_signed() {
    let mut fixture = ProvisioningFixture::new().await;
    let authority = fixture.add_master("puppet-a.example.net", "a").await;
    let machine = fixture.add_machine("web1.example.net", "a").await;
    machine.set_fault("request_certificate", Some("not yet"));
    let mut options = fixture.options();
    options.tries = 1000;
    let _service = fixture.start_service("prov1.example.net", options).await;
    fixture
        .await_records("the node waits for its request", |record| {
            record.error.as_deref().is_some_and(|error| error.contains("not yet"))
        })
        .await;
    authority.replace_request("web1.example.net");
    machine.set_fault("request_certificate", None);
    let failed = fixture
        .await_records("the node fails", |record| {
            record.state == ProvisioningState::Failed && record.settled
        })
        .await;
    let record = &failed["web1.example.net"];
    let error = record.error.as_deref().unwrap();
    assert!(error.contains("was not signed: its fingerprint is another one"), "{error}");
    assert!(authority.certificates().signed.is_empty());
    assert!(!machine.disk().locked, "the machine must be unlocked");
    assert_eq!(fixture.hook.nodes("failed"), ["web1.example.net"]);
}

/// A9.5: one machine fails and nineteen become nodes; the failure is reported with its reason, the machine is unlocked,
/// its certificate is revoked, and a retry succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_node_does_not_block_others_and_can_be_retried() {
    let mut fixture = ProvisioningFixture::new().await;
    let authority = fixture.add_master("puppet-a.example.net", "a").await;
    for number in 0..20 {
        fixture.add_machine(&format!("web{number}.example.net"), "a").await;
    }
    let bad = Arc::clone(&fixture.machines["web7.example.net"].simulated);
    bad.set_fault("run_puppet", Some("the catalog does not compile"));
    let _service = fixture.start_service("prov1.example.net", fixture.options()).await;
    let known = fixture
        .await_records("all are done or failed", |record| {
            record.state == ProvisioningState::Done || record.settled
        })
        .await;
    let failed: Vec<&String> = known
        .iter()
        .filter(|(_, record)| record.state == ProvisioningState::Failed)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(failed, ["web7.example.net"]);
    let record = &known["web7.example.net"];
    assert!(record.compensated);
    assert!(record.error.as_deref().unwrap().contains("does not compile"));
    assert!(!authority.certificates().signed.contains_key("web7.example.net"));
    assert_eq!(fixture.hook.nodes("failed"), ["web7.example.net"]);
    assert_eq!(fixture.hook.nodes("done").len(), 19);

    bad.set_fault("run_puppet", None);
    let store = fixture.open_record_store().await;
    let node = Identity::parse("web7.example.net").unwrap();
    let anna = Identity::parse("anna").unwrap();
    let retried =
        store.edit_record(&node, |record| Ok(record.request_retry(&anna, muster_tests::now())));
    retried.await.unwrap();
    fixture.await_all_done().await;
    assert!(authority.certificates().signed.contains_key("web7.example.net"));
    assert_eq!(fixture.hook.nodes("done").len(), 20);
}

/// A9.5: of 20 machines one hangs in a step; it fails after the step's timeout, and the other 19 become nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_5_hanging_node_times_out_and_others_are_provisioned() {
    let mut fixture = ProvisioningFixture::new().await;
    fixture.add_master("puppet-a.example.net", "a").await;
    for number in 0..20 {
        fixture.add_machine(&format!("web{number}.example.net"), "a").await;
    }
    fixture.machines["web2.example.net"].simulated.set_fault("bootstrap_puppet", Some("hang"));
    let mut options = fixture.options();
    options.steps = serde_json::from_value(json!([
        { "name": "bootstrap", "timeout": 2, "tries": 1 }
    ]))
    .unwrap();
    let _service = fixture.start_service("prov1.example.net", options).await;
    let known = fixture
        .await_records("all are done or failed", |record| {
            record.state == ProvisioningState::Done || record.settled
        })
        .await;
    let timed_out: Vec<&String> = known
        .iter()
        .filter(|(_, record)| record.state == ProvisioningState::Failed)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(timed_out, ["web2.example.net"]);
    let done = known.values().filter(|record| record.state == ProvisioningState::Done);
    assert_eq!(done.count(), 19);
    assert!(!fixture.machines["web2.example.net"].simulated.disk().locked);
}

/// A killed daemon sends no message, and a Puppet run may take an hour: the provisioner detects the restart before
/// that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_is_repeated_after_the_nodes_daemon_was_killed() {
    let mut fixture = ProvisioningFixture::new().await;
    fixture.add_master("puppet-a.example.net", "a").await;
    let machine = fixture.add_machine("web1.example.net", "a").await;
    machine.set_fault("run_puppet", Some("hang"));
    // There is no second host, and no step has a timeout of its own. The daemon may need a while to start.
    let options = Options { backoff: 1, tries: Options::default().tries, ..fixture.options() };
    let _service = fixture.start_service("prov1.example.net", options).await;
    fixture
        .await_records("the last run is in progress", |record| {
            let current = record.current.as_ref();
            current
                .is_some_and(|current| current.underway && current.step.to_string() == "final_run")
        })
        .await;
    machine.set_fault("run_puppet", None);
    fixture.restart_daemon("web1.example.net").await;
    fixture.await_all_done().await;
}

/// A9.4: with the default lease, another host takes over within 20 s of the leader's death.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_takes_over_soon_after_the_leader_died() {
    let mut fixture = ProvisioningFixture::new().await;
    fixture.add_master("puppet-a.example.net", "a").await;
    fixture.add_machine("web1.example.net", "a").await;
    let options = Options { lease_millis: Options::default().lease_millis, ..fixture.options() };
    let first = fixture.start_service("prov1.example.net", options.clone()).await;
    fixture.await_all_done().await;
    let _second = fixture.start_service("prov2.example.net", options).await;
    let killed = std::time::Instant::now();
    drop(first);
    fixture.add_machine("web2.example.net", "a").await;
    fixture.await_all_done().await;
    let elapsed = killed.elapsed();
    assert!(elapsed < Duration::from_secs(20), "took {elapsed:?}");
}

/// A9.9, A9.11: a provisioned node is not touched until it is reprovisioned; the certificate of a retired node is
/// revoked, and a notification is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_9_a9_11_reprovisions_a_node_and_retires_it() {
    let mut fixture = ProvisioningFixture::new().await;
    let authority = fixture.add_master("puppet-a.example.net", "a").await;
    let machine = fixture.add_machine("web1.example.net", "a").await;
    let _service = fixture.start_service("prov1.example.net", fixture.options()).await;
    let first = fixture.await_all_done().await["web1.example.net"].id;
    let serial = authority.certificates().signed["web1.example.net"].0;
    assert_eq!(machine.disk().finished_runs.len(), 2);

    let client = fixture.connect_caller().await;
    call_action(&client, "web1.example.net", "provision", "reprovision").await;
    let again = fixture
        .await_records("the node is done again", |record| {
            record.state == ProvisioningState::Done && record.id != first
        })
        .await;
    assert_eq!(machine.disk().finished_runs.len(), 4);
    assert!(authority.certificates().revoked.contains(&serial));
    assert_eq!(fixture.hook.nodes("done").len(), 2);

    let serial = authority.certificates().signed["web1.example.net"].0;
    fixture.request_retirement("web1.example.net").await;
    fixture
        .await_records("the node is retired", |record| record.state == ProvisioningState::Retired)
        .await;
    assert!(authority.certificates().revoked.contains(&serial));
    assert_eq!(fixture.hook.nodes("retired"), ["web1.example.net"]);
    assert_eq!(again.len(), 1);
}

/// `rpc provision` calls any host of the service: it shows states, accepts requests, and asks for confirmation before
/// it retires a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rpc_provision_shows_states_and_accepts_requests() {
    let mut fixture = ProvisioningFixture::new().await;
    let authority = fixture.add_master("puppet-a.example.net", "a").await;
    let machine = fixture.add_machine("web1.example.net", "a").await;
    machine.set_fault("run_puppet", Some("the catalog does not compile"));
    let signer = fixture.organisation.caller("anna");
    let rpc = RpcCommand::new(fixture.server(), &fixture.organisation, &signer, "");
    let without_service = rpc.run(&["provision", "status"]).await;
    assert_eq!(without_service.status.code(), Some(1), "{}", describe_output(&without_service));

    let provisioner = muster_provisioner::ProvisionerHandle::default();
    let service = fixture.organisation.service(ServiceRight::Provision, "provisioner");
    provisioner.connect(connect(fixture.server(), &service).await);
    let mut host = NodeSetup::new(fixture.organisation.node("prov1.example.net"));
    host.agents = vec![muster_provisioner::build_agent(&provisioner).unwrap()];
    let _host = TestNode::start(&fixture.organisation, fixture.server(), host).await;
    let _service = fixture.start_service("prov1.example.net", fixture.options()).await;
    fixture.await_records("the node fails", |record| record.settled).await;
    let (document, code) = rpc.run_json(&["provision", "status"]).await;
    assert_eq!(code, 2, "{document:#}");
    check_schema("muster.provision.v1", &document, SchemaMode::Strict).unwrap();
    assert_eq!(document["counts"], json!({ "failed": 1 }));
    assert_eq!(document["leader"], "prov1.example.net");
    let one = rpc.run(&["provision", "status", "web1.example.net"]).await;
    assert!(describe_output(&one).contains("does not compile"), "{}", describe_output(&one));

    machine.set_fault("run_puppet", None);
    let retried = rpc.run(&["provision", "retry", "web1.example.net"]).await;
    assert_eq!(retried.status.code(), Some(0), "{}", describe_output(&retried));
    let watched = rpc.run(&["provision", "watch"]).await;
    assert_eq!(watched.status.code(), Some(0), "{}", describe_output(&watched));
    assert!(
        describe_output(&watched).contains("web1.example.net  done"),
        "{}",
        describe_output(&watched)
    );

    let unconfirmed = rpc.run(&["provision", "retire", "web1.example.net", "--keep-tokens"]).await;
    assert_eq!(unconfirmed.status.code(), Some(4), "{}", describe_output(&unconfirmed));
    assert!(authority.certificates().signed.contains_key("web1.example.net"));
    // Without the organisation's keys the token cannot be revoked, and nothing is done.
    let keyless = rpc.run(&["provision", "retire", "web1.example.net", "--yes"]).await;
    assert_eq!(keyless.status.code(), Some(1), "{}", describe_output(&keyless));
    assert!(describe_output(&keyless).contains("--keep-tokens"), "{}", describe_output(&keyless));
    assert!(authority.certificates().signed.contains_key("web1.example.net"));
    let keeping = ["provision", "retire", "web1.example.net", "--keep-tokens", "--yes"];
    let retired = rpc.run(&keeping).await;
    assert_eq!(retired.status.code(), Some(0), "{}", describe_output(&retired));
    fixture
        .await_records("the node is retired", |record| record.state == ProvisioningState::Retired)
        .await;
    assert!(authority.certificates().signed.is_empty());
    let unknown = rpc.run(&["provision", "retry", "nobody.example.net"]).await;
    assert_eq!(unknown.status.code(), Some(2), "{}", describe_output(&unknown));
}

async fn call_action(client: &Client, node: &str, agent: &str, action: &str) {
    let node = Identity::parse(node).unwrap();
    let target = muster_calls::CallTarget::Nodes([node].into());
    let call = muster_calls::RpcCall::new(agent, action, target).unwrap();
    let stats = client.run_call(call, |_| ()).await.unwrap();
    assert_eq!(stats.ok, 1, "{stats:?}");
}

/// A9.4: services, daemons and the broker are killed at random times. Every machine becomes a node, no request is
/// signed twice, no notification is sent twice, and a new leader takes over in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_kills_lose_and_repeat_nothing() {
    let seed = std::env::var("PROVISION_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut kills = 0;
    let mut round = 0;
    while kills < repetitions(100) {
        round += 1;
        let mut fixture = ProvisioningFixture::new().await;
        let authority = fixture.add_master("puppet-a.example.net", "a").await;
        for number in 0..8 {
            fixture.add_machine(&format!("web{number}.example.net"), "a").await;
        }
        let mut options = fixture.options();
        // A killed daemon or broker is not a failure of the node: the step is retried until it returns.
        options.tries = 1000;
        options.workers = 4;
        options.lease_millis = 600;
        let mut services = [
            fixture.start_service("prov1.example.net", options.clone()).await,
            fixture.start_service("prov2.example.net", options.clone()).await,
        ];
        for _ in 0..repetitions(100).min(25) {
            simulate_delay(Duration::from_millis(rng.random_range(20..250))).await;
            kills += 1;
            match rng.random_range(0..10) {
                0..5 => {
                    let which = rng.random_range(0..2);
                    let host = ["prov1.example.net", "prov2.example.net"][which];
                    services[which] = fixture.start_service(host, options.clone()).await;
                }
                5..9 => {
                    let name = format!("web{}.example.net", rng.random_range(0..8));
                    fixture.restart_daemon(&name).await;
                }
                _ => {
                    let server = fixture.server.take().unwrap();
                    fixture.server = Some(server.restart().await);
                }
            }
        }
        let done = fixture.await_all_done().await;
        assert_eq!(done.len(), 8, "seed {seed}, round {round}");
        let certificates = authority.certificates();
        assert_eq!(certificates.signed.len(), 8, "seed {seed}");
        assert!(
            certificates.signatures.values().all(|times| *times == 1),
            "seed {seed}: {:?}",
            certificates.signatures
        );
        assert!(certificates.revoked.is_empty(), "seed {seed}");
        let notified = fixture.hook.nodes("done");
        assert_eq!(notified, done.keys().cloned().collect::<Vec<_>>(), "seed {seed}");
        for machine in fixture.machines.values() {
            let disk = machine.simulated.disk();
            assert!(disk.released, "seed {seed}: {disk:?}");
            assert!(disk.finished_runs.contains(&"production".to_owned()), "seed {seed}: {disk:?}");
        }
    }
}
