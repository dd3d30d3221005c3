//! The provisioner with real nodes on a real broker; Puppet and its authority are simulated (`muster_tests::provisioning`).

mod world;

use std::sync::Arc;
use std::time::Duration;

use muster_client::Client;
use muster_contract::provisioner::ProvisioningState;
use muster_provisioner::Options;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::organisation::connect;
use muster_tests::published::{SchemaMode, check_schema};
use muster_tests::simulate_delay;
use muster_wire::identity::Identity;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use world::World;

/// A9.1, A9.2: each node gets the master that is near, its old certificate is revoked everywhere, it is signed once, runs twice in
/// order, is an ordinary node then, and everybody who wants to know is told once. A master that came later is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_become_nodes_of_the_master_that_is_near() {
    let mut world = World::new().await;
    let (here, there) = (
        world.master("puppet-a.example.net", "a").await,
        world.master("puppet-b.example.net", "b").await,
    );
    let old = there.add_old_certificate("web1.example.net");
    let machines = [
        world.newcomer("web1.example.net", "a").await,
        world.newcomer("web2.example.net", "b").await,
    ];
    let service = world.service("prov1.example.net", world.options()).await;
    let done = world.all_done().await;
    let master = |name: &str| done[name].text_value("master").unwrap().to_owned();
    assert_eq!(master("web1.example.net"), "puppet-a.example.net");
    assert_eq!(master("web2.example.net"), "puppet-b.example.net");
    for machine in &machines {
        let disk = machine.disk();
        assert_eq!(disk.runs, ["bootstrap", "production"]);
        assert!(disk.released && !disk.locked);
        assert_eq!(disk.refused, 0);
    }
    assert!(there.certificates().revoked.contains(&old));
    assert_eq!(done["web1.example.net"].values["revoked"], json!([format!("{old:04X}")]));
    assert!(here.certificates().signed.contains_key("web1.example.net"));

    let later = world.master("puppet-c.example.net", "c").await;
    world.newcomer("web3.example.net", "c").await;
    let done = world.all_done().await;
    assert_eq!(done["web3.example.net"].text_value("master"), Some("puppet-c.example.net"));
    let signatures = [here, there, later].map(|authority| authority.certificates().signatures);
    assert_eq!(signatures.iter().flatten().map(|(_, times)| times).sum::<usize>(), 3);
    assert_eq!(
        world.hook.nodes("done"),
        ["web1.example.net", "web2.example.net", "web3.example.net"]
    );
    service.stop_and_wait().await;
}

/// A9.3: a request that somebody else has put in the node's place is not signed, and nobody tries again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_the_node_did_not_make_is_not_signed() {
    let mut world = World::new().await;
    let authority = world.master("puppet-a.example.net", "a").await;
    let machine = world.newcomer("web1.example.net", "a").await;
    machine.set_fault("request_certificate", Some("not yet"));
    let mut options = world.options();
    options.tries = 1000;
    let _service = world.service("prov1.example.net", options).await;
    world
        .until("it waits for its request", |record| {
            record.error.as_deref().is_some_and(|error| error.contains("not yet"))
        })
        .await;
    authority.replace_request("web1.example.net");
    machine.set_fault("request_certificate", None);
    let failed = world
        .until("it fails", |record| record.state == ProvisioningState::Failed && record.settled)
        .await;
    let record = &failed["web1.example.net"];
    let error = record.error.as_deref().unwrap();
    assert!(error.contains("was not signed: its fingerprint is another one"), "{error}");
    assert!(authority.certificates().signed.is_empty());
    assert!(!machine.disk().locked, "the machine was given back");
    assert_eq!(world.hook.nodes("failed"), ["web1.example.net"]);
}

/// A9.5: one machine hangs, nineteen become nodes; the one fails with a reason, is given back, what was signed for it is revoked, and it
/// succeeds when it is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_fails_stops_nobody_and_can_be_tried_again() {
    let mut world = World::new().await;
    let authority = world.master("puppet-a.example.net", "a").await;
    for number in 0..20 {
        world.newcomer(&format!("web{number}.example.net"), "a").await;
    }
    let bad = Arc::clone(&world.newcomers["web7.example.net"].machine);
    bad.set_fault("run_puppet", Some("the catalog does not compile"));
    let _service = world.service("prov1.example.net", world.options()).await;
    let known = world
        .until("all are done or failed", |record| {
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
    assert_eq!(world.hook.nodes("failed"), ["web7.example.net"]);
    assert_eq!(world.hook.nodes("done").len(), 19);

    bad.set_fault("run_puppet", None);
    let store = world.store().await;
    let node = Identity::parse("web7.example.net").unwrap();
    let anna = Identity::parse("anna").unwrap();
    let retried =
        store.edit_record(&node, |record| Ok(record.request_retry(&anna, muster_tests::now())));
    retried.await.unwrap();
    world.all_done().await;
    assert!(authority.certificates().signed.contains_key("web7.example.net"));
    assert_eq!(world.hook.nodes("done").len(), 20);
}

/// A9.5: a machine that hangs in a step is given up after the time that the step has, and keeps nobody from arriving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_hangs_is_given_up_and_the_others_arrive() {
    let mut world = World::new().await;
    world.master("puppet-a.example.net", "a").await;
    for number in 0..4 {
        world.newcomer(&format!("web{number}.example.net"), "a").await;
    }
    world.newcomers["web2.example.net"].machine.set_fault("bootstrap_puppet", Some("hang"));
    let mut options = world.options();
    options.steps = serde_json::from_value(json!([
        { "name": "bootstrap", "timeout": 2, "tries": 1 }
    ]))
    .unwrap();
    let _service = world.service("prov1.example.net", options).await;
    let known = world
        .until("all are done or failed", |record| {
            record.state == ProvisioningState::Done || record.settled
        })
        .await;
    let stuck: Vec<&String> = known
        .iter()
        .filter(|(_, record)| record.state == ProvisioningState::Failed)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(stuck, ["web2.example.net"]);
    assert!(!world.newcomers["web2.example.net"].machine.disk().locked);
}

/// A daemon that is killed at its work says nothing, and a run of Puppet may take an hour: that it was killed is found out sooner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_in_a_step_is_asked_again() {
    let mut world = World::new().await;
    world.master("puppet-a.example.net", "a").await;
    let machine = world.newcomer("web1.example.net", "a").await;
    machine.set_fault("run_puppet", Some("hang"));
    // No other host takes over, and no step has a time of its own.
    let options = world.options();
    let _service = world.service("prov1.example.net", options).await;
    world
        .until("the last run is under way", |record| {
            let current = record.current.as_ref();
            current
                .is_some_and(|current| current.underway && current.step.to_string() == "final_run")
        })
        .await;
    machine.set_fault("run_puppet", None);
    world.boot("web1.example.net").await;
    world.all_done().await;
}

/// A9.4: with the lease that is usual, another host leads within twenty seconds of its leader's death.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_leads_soon_after_the_leader_has_died() {
    let mut world = World::new().await;
    world.master("puppet-a.example.net", "a").await;
    world.newcomer("web1.example.net", "a").await;
    let options = Options { lease_millis: Options::default().lease_millis, ..world.options() };
    let first = world.service("prov1.example.net", options.clone()).await;
    world.all_done().await;
    let _second = world.service("prov2.example.net", options).await;
    let killed = std::time::Instant::now();
    drop(first);
    world.newcomer("web2.example.net", "a").await;
    world.all_done().await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(20), "it took {took:?}");
}

/// A9.9, A9.11: who is done is left alone until it is put back; who is retired has its certificate revoked, and everybody is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_put_back_and_another_retired() {
    let mut world = World::new().await;
    let authority = world.master("puppet-a.example.net", "a").await;
    let machine = world.newcomer("web1.example.net", "a").await;
    let _service = world.service("prov1.example.net", world.options()).await;
    let first = world.all_done().await["web1.example.net"].id;
    let serial = authority.certificates().signed["web1.example.net"].0;
    assert_eq!(machine.disk().runs.len(), 2);

    let client = world.caller().await;
    ask(&client, "web1.example.net", "provision", "reprovision").await;
    let again = world
        .until("it is done once more", |record| {
            record.state == ProvisioningState::Done && record.id != first
        })
        .await;
    assert_eq!(machine.disk().runs.len(), 4);
    assert!(authority.certificates().revoked.contains(&serial));
    assert_eq!(world.hook.nodes("done").len(), 2);

    let serial = authority.certificates().signed["web1.example.net"].0;
    let store = world.store().await;
    let node = Identity::parse("web1.example.net").unwrap();
    let anna = Identity::parse("anna").unwrap();
    let retiring = store.edit_record(&node, |record| {
        record.request_retirement(&anna, muster_tests::now());
        Ok(true)
    });
    retiring.await.unwrap();
    world.until("it is retired", |record| record.state == ProvisioningState::Retired).await;
    assert!(authority.certificates().revoked.contains(&serial));
    assert_eq!(world.hook.nodes("retired"), ["web1.example.net"]);
    assert_eq!(again.len(), 1);
}

/// `rpc provision` asks any host of the service: shows where nodes stand, takes wishes, and asks before it retires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rpc_shows_where_nodes_stand_and_takes_wishes() {
    let mut world = World::new().await;
    let authority = world.master("puppet-a.example.net", "a").await;
    let machine = world.newcomer("web1.example.net", "a").await;
    machine.set_fault("run_puppet", Some("the catalog does not compile"));
    let signer = world.organisation.caller("anna");
    let rpc = RpcCommand::new(world.server(), &world.organisation, &signer, "");
    let nobody = rpc.run(&["provision", "status"]).await;
    assert_eq!(nobody.status.code(), Some(1), "{}", describe_output(&nobody));

    let desk = muster_provisioner::ProvisionerHandle::default();
    let service = world.organisation.service("provisioner");
    desk.connect(connect(world.server(), &service).await);
    let mut host = NodeSetup::new(world.organisation.node("prov1.example.net"));
    host.agents = vec![muster_provisioner::build_agent(&desk).unwrap()];
    let _host = TestNode::start(&world.organisation, world.server(), host).await;
    let _service = world.service("prov1.example.net", world.options()).await;
    world.until("it fails", |record| record.settled).await;
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

    let asked = rpc.run(&["provision", "retire", "web1.example.net"]).await;
    assert_eq!(asked.status.code(), Some(4), "{}", describe_output(&asked));
    assert!(authority.certificates().signed.contains_key("web1.example.net"));
    let retired = rpc.run(&["provision", "retire", "web1.example.net", "--yes"]).await;
    assert_eq!(retired.status.code(), Some(0), "{}", describe_output(&retired));
    world.until("it is retired", |record| record.state == ProvisioningState::Retired).await;
    assert!(authority.certificates().signed.is_empty());
    let unknown = rpc.run(&["provision", "retry", "nobody.example.net"]).await;
    assert_eq!(unknown.status.code(), Some(2), "{}", describe_output(&unknown));
}

async fn ask(client: &Client, node: &str, agent: &str, action: &str) {
    let node = Identity::parse(node).unwrap();
    let aim = muster_client::CallTarget::Nodes([node].into());
    let call = muster_client::RpcCall::new(agent, action, aim).unwrap();
    let balance = client.run_call(call, |_| ()).await.unwrap();
    assert_eq!(balance.ok, 1, "{balance:?}");
}

/// A9.4: whatever is killed in whatever moment - services, newcomers' daemons, the broker - every machine becomes a node, no request is
/// signed twice, nobody is told twice, and a new leader is there within the time that is promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kills_lose_nothing_and_do_nothing_twice() {
    let seed = std::env::var("PROVISION_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    let mut random = StdRng::seed_from_u64(seed);
    let mut kills = 0;
    let mut round = 0;
    while kills < 100 {
        round += 1;
        let mut world = World::new().await;
        let authority = world.master("puppet-a.example.net", "a").await;
        for number in 0..8 {
            world.newcomer(&format!("web{number}.example.net"), "a").await;
        }
        let mut options = world.options();
        // A killed daemon or broker is no failure of the node; it is tried until it is back.
        options.tries = 1000;
        options.workers = 4;
        options.lease_millis = 600;
        let mut services = [
            world.service("prov1.example.net", options.clone()).await,
            world.service("prov2.example.net", options.clone()).await,
        ];
        for _ in 0..25 {
            simulate_delay(Duration::from_millis(random.random_range(20..250))).await;
            kills += 1;
            match random.random_range(0..10) {
                0..5 => {
                    let which = random.random_range(0..2);
                    let host = ["prov1.example.net", "prov2.example.net"][which];
                    services[which] = world.service(host, options.clone()).await;
                }
                5..9 => {
                    let name = format!("web{}.example.net", random.random_range(0..8));
                    world.boot(&name).await;
                }
                _ => {
                    let server = world.server.take().unwrap();
                    world.server = Some(server.restart().await);
                }
            }
        }
        let done = world.all_done().await;
        assert_eq!(done.len(), 8, "seed {seed}, round {round}");
        let certificates = authority.certificates();
        assert_eq!(certificates.signed.len(), 8, "seed {seed}");
        assert!(
            certificates.signatures.values().all(|times| *times == 1),
            "seed {seed}: {:?}",
            certificates.signatures
        );
        assert!(certificates.revoked.is_empty(), "seed {seed}");
        let describe_output = world.hook.nodes("done");
        assert_eq!(describe_output, done.keys().cloned().collect::<Vec<_>>(), "seed {seed}");
        for newcomer in world.newcomers.values() {
            let disk = newcomer.machine.disk();
            assert!(disk.released, "seed {seed}: {disk:?}");
            assert!(disk.runs.contains(&"production".to_owned()), "seed {seed}: {disk:?}");
        }
    }
}
