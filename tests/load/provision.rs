//! How fast newcomers become nodes: real daemons, a real broker, the real service; Puppet and its authority are simulated, and take no
//! time. What is left is ours: about a dozen signed and verified questions for each node, and every step written down twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use muster_api::system::real::RealSystem;
use muster_client::{Client, Window};
use muster_provisioner::record::State;
use muster_provisioner::store::{Store, readable};
use muster_provisioner::{Options, Service};
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::provisioning::{Authority, Machine, provision, puppetca};
use muster_wire::identity::Identity;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Daemons that start at once.
const STARTING: usize = 16;

/// `load provision`.
#[derive(Args)]
pub(crate) struct Provision {
    /// How many newcomers there are, each a measurement
    #[arg(long, value_delimiter = ',', default_value = "100,1000")]
    nodes: Vec<usize>,
}

/// Measures and prints.
pub(crate) fn bench(wanted: &Provision) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("newcomers  time to nodes  nodes per second  signed");
    for &nodes in &wanted.nodes {
        let (took, signed) = runtime.block_on(measure(nodes));
        let rate = f64::from(u32::try_from(nodes).unwrap()) / took.as_secs_f64();
        println!(
            "{nodes:>9}  {:>11.2} s  {rate:>16.0}  {signed:>6}",
            took.as_secs_f64()
        );
    }
}

async fn measure(nodes: usize) -> (Duration, usize) {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.storing_broker().await;
    let authority = Arc::new(Authority::default());
    let address = "192.0.2.1";
    let mut blueprint = Blueprint::new(organisation.node("puppet.example.net"));
    blueprint.facts = json!({ "region": "a", "address": address });
    blueprint.agents = vec![puppetca(&authority)];
    let _master = TestNode::start(&organisation, &server, blueprint).await;
    let masters = BTreeMap::from([(address.to_owned(), Arc::clone(&authority))]);
    let machines: Vec<Arc<Machine>> = (0..nodes).map(|_| Arc::default()).collect();
    let newcomers = machines.iter().enumerate().map(|(number, machine)| {
        let mut blueprint = Blueprint::new(organisation.node(&format!("web{number}.example.net")));
        blueprint.facts = json!({ "region": "a" });
        blueprint.agents = vec![provision(machine, &masters)];
        TestNode::start(&organisation, &server, blueprint)
    });
    let _newcomers: Vec<TestNode> = stream::iter(newcomers)
        .buffer_unordered(STARTING)
        .collect()
        .await;
    let took = until_done(&organisation, &server, nodes).await;
    let done = machines.iter().filter(|machine| machine.disk().released);
    assert_eq!(done.count(), nodes, "a machine is no node yet");
    let certificates = authority.certificates();
    assert!(certificates.signatures.values().all(|times| *times == 1));
    (took, certificates.signed.len())
}

/// From the service's start to the last node's arrival.
async fn until_done(organisation: &Organisation, server: &NatsServer, nodes: usize) -> Duration {
    let signer = organisation.service("observer");
    let store = Store::open(&connect(server, &signer).await).await.unwrap();
    let mut watch = store.watch().await.unwrap();
    let signer = organisation.service("provisioner");
    let bus = connect(server, &signer).await;
    let collective = organisation.collective().clone();
    let trust = organisation.trust();
    let client = Client::new(bus.clone(), signer, trust, collective, Window::default());
    let options: Options = serde_json::from_value(json!({
        "enabled": true, "criteria": ["region"], "address_fact": "address", "workers": 50,
    }))
    .unwrap();
    let host = Identity::parse("prov1.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let service = Service::new(host, bus, client, options, system).unwrap();
    let stop = CancellationToken::new();
    let begun = Instant::now();
    let serving = tokio::spawn(service.serve(stop.clone()));
    let mut done = std::collections::BTreeSet::new();
    while done.len() < nodes {
        let entry = watch.next().await.unwrap().unwrap();
        let record = readable(&entry).unwrap();
        assert_ne!(record.state, State::Failed, "{:?}", record.error);
        if record.state == State::Done {
            done.insert(record.identity);
        }
    }
    let took = begun.elapsed();
    stop.cancel();
    serving.await.unwrap();
    took
}
