//! The time to provision machines with real daemons, a real broker and the real service; Puppet and its authority are
//! simulated and take no time. The remaining cost is about a dozen signed and verified requests per node, and two
//! writes per step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ed25519_dalek::{Signer as _, SigningKey};
use futures_util::{StreamExt as _, stream};
use muster_api::system::real::RealSystem;
use muster_calls::{Client, DiscoveryWindow};
use muster_contract::provisioner::ProvisioningState;
use muster_provisioner::store::{NodeRecordStore, decode_if_readable};
use muster_provisioner::{Options, ProvisionerService};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::provisioning::{SimulatedCa, SimulatedMachine, provision, puppetca};
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::report::{Figure, Section, Table};

/// Number of daemons that start concurrently.
const CONCURRENT_STARTS: usize = 16;

const METHOD: &str = "Real daemons, a real broker, the real service; Puppet and its authority are simulated and take no time. A bare exchange is one \
signature and its verification; the cost of a machine is stated as a multiple of it.";
/// Number of bare exchanges that are timed.
const EXCHANGES: u32 = 2000;

/// Measures with fleets of these sizes.
pub(crate) fn bench(sizes: &[usize]) -> Section {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut section = Section::of("Provisioning of machines", METHOD);
    let mut table =
        Table::new(["machines", "s until all are nodes", "nodes per second", "x bare exchange"]);
    for &nodes in sizes {
        eprintln!("{nodes} machines to provision");
        let exchange = time_bare_exchange();
        let elapsed = runtime.block_on(measure(nodes));
        let count = f64::from(u32::try_from(nodes).unwrap());
        let ratio = elapsed.as_secs_f64() / count / exchange.as_secs_f64();
        table.rows.push(vec![
            nodes.to_string(),
            format!("{:.2}", elapsed.as_secs_f64()),
            format!("{:.0}", count / elapsed.as_secs_f64()),
            format!("{ratio:.0}"),
        ]);
        let name = format!("each of {nodes} newcomers x a bare exchange");
        section.figures.push(Figure::ratio(name, ratio).within(0.5));
    }
    section.tables.push(table);
    section
}

/// The time for a signature and its verification.
fn time_bare_exchange() -> Duration {
    let key = SigningKey::from_bytes(&[7; 32]);
    let message = [b'm'; 500];
    let started = Instant::now();
    for _ in 0..EXCHANGES {
        let signature = key.sign(&message);
        key.verifying_key().verify_strict(&message, &signature).unwrap();
    }
    started.elapsed() / EXCHANGES
}

async fn measure(nodes: usize) -> Duration {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let authority = Arc::new(SimulatedCa::default());
    let address = "192.0.2.1";
    let mut setup = NodeSetup::new(organisation.node("puppet.example.net"));
    setup.facts = json!({ "region": "a", "address": address });
    setup.agents = vec![puppetca(&authority)];
    let _master = TestNode::start(&organisation, &server, setup).await;
    let masters = BTreeMap::from([(address.to_owned(), Arc::clone(&authority))]);
    let machines: Vec<Arc<SimulatedMachine>> = (0..nodes).map(|_| Arc::default()).collect();
    let starting_nodes = machines.iter().enumerate().map(|(number, machine)| {
        let mut setup = NodeSetup::new(organisation.node(&format!("web{number}.example.net")));
        setup.facts = json!({ "region": "a" });
        setup.agents = vec![provision(machine, &masters)];
        TestNode::start(&organisation, &server, setup)
    });
    let _nodes: Vec<TestNode> =
        stream::iter(starting_nodes).buffer_unordered(CONCURRENT_STARTS).collect().await;
    let elapsed = await_done(&organisation, &server, nodes).await;
    let done = machines.iter().filter(|machine| machine.disk().released);
    assert_eq!(done.count(), nodes, "a machine has not become a node");
    let certificates = authority.certificates();
    assert!(certificates.signatures.values().all(|times| *times == 1));
    elapsed
}

/// The time from the start of the service until the last node is done.
async fn await_done(organisation: &Organisation, server: &NatsServer, nodes: usize) -> Duration {
    let signer = organisation.service(ServiceRight::Provision, "observer");
    let store = NodeRecordStore::open(&connect(server, &signer).await);
    let mut watch = store.watch_nodes().await.unwrap();
    let signer = organisation.service(ServiceRight::Provision, "provisioner");
    let bus = connect(server, &signer).await;
    let collective = organisation.collective().clone();
    let trust = organisation.trust();
    let client = Client::new(bus.clone(), signer, trust, collective, DiscoveryWindow::default());
    let options: Options = serde_json::from_value(json!({
        "enabled": true, "criteria": ["region"], "address_fact": "address", "workers": 50,
    }))
    .unwrap();
    let host = Identity::parse("prov1.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let service = ProvisionerService::new(host, bus, client, options, system).unwrap();
    let stop = CancellationToken::new();
    let started = Instant::now();
    let service_task = tokio::spawn(service.run_until_stopped(stop.clone()));
    let mut done = std::collections::BTreeSet::new();
    while done.len() < nodes {
        let entry = watch.next().await.unwrap().unwrap();
        let record = decode_if_readable(&entry).unwrap();
        assert_ne!(record.state, ProvisioningState::Failed, "{:?}", record.error);
        if record.state == ProvisioningState::Done {
            done.insert(record.identity);
        }
    }
    let elapsed = started.elapsed();
    stop.cancel();
    service_task.await.unwrap();
    elapsed
}
