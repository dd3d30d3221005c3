//! An organisation whose machines want to be nodes: masters with authorities, newcomers, and services that are killed when they are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_client::{Client, DiscoveryWindow};
use muster_contract::provisioner::ProvisioningState;
use muster_provisioner::record::NodeRecord;
use muster_provisioner::store::NodeRecordStore;
use muster_provisioner::{Options, ProvisionerService};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::provisioning::{SimulatedCa, SimulatedMachine, provision, puppetca};
use muster_tests::webhook::Webhook;
use muster_wire::identity::Identity;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(1);

/// A newcomer: a machine that outlives its daemons.
pub(super) struct Newcomer {
    name: String,
    pub(super) machine: Arc<SimulatedMachine>,
    facts: Value,
    pub(super) node: Option<TestNode>,
}

pub(super) struct World {
    pub(super) organisation: Organisation,
    pub(super) server: Option<NatsServer>,
    pub(super) hook: Webhook,
    authorities: BTreeMap<String, Arc<SimulatedCa>>,
    masters: Vec<TestNode>,
    pub(super) newcomers: BTreeMap<String, Newcomer>,
}

impl World {
    pub(super) async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self {
            organisation,
            server: Some(server),
            hook: Webhook::start().await,
            authorities: BTreeMap::new(),
            masters: Vec::new(),
            newcomers: BTreeMap::new(),
        }
    }

    pub(super) fn server(&self) -> &NatsServer {
        self.server.as_ref().unwrap()
    }

    /// A master in a region, with an authority of its own.
    pub(super) async fn master(&mut self, name: &str, region: &str) -> Arc<SimulatedCa> {
        let authority = Arc::new(SimulatedCa::default());
        let address = format!("192.0.2.{}", self.authorities.len() + 1);
        let mut blueprint = NodeSetup::new(self.organisation.node(name));
        blueprint.facts = json!({ "region": region, "address": address });
        blueprint.agents = vec![puppetca(&authority)];
        self.authorities.insert(address, Arc::clone(&authority));
        let node = TestNode::start(&self.organisation, self.server(), blueprint).await;
        self.masters.push(node);
        authority
    }

    /// A machine that wants to be a node.
    pub(super) async fn newcomer(&mut self, name: &str, region: &str) -> Arc<SimulatedMachine> {
        let machine = SimulatedMachine::new(Duration::from_millis(20));
        let newcomer = Newcomer {
            name: name.to_owned(),
            machine: Arc::clone(&machine),
            facts: json!({ "region": region }),
            node: None,
        };
        self.newcomers.insert(name.to_owned(), newcomer);
        self.boot(name).await;
        machine
    }

    /// Starts a newcomer's daemon; one that runs is killed before.
    pub(super) async fn boot(&mut self, name: &str) {
        let newcomer = self.newcomers.get_mut(name).unwrap();
        drop(newcomer.node.take());
        let mut blueprint = NodeSetup::new(self.organisation.node(&newcomer.name));
        blueprint.facts = newcomer.facts.clone();
        blueprint.agents = vec![provision(&newcomer.machine, &self.authorities)];
        let server = self.server.as_ref().unwrap();
        let node = TestNode::start(&self.organisation, server, blueprint).await;
        newcomer.node = Some(node);
    }

    pub(super) fn options(&self) -> Options {
        serde_json::from_value(json!({
            "enabled": true,
            "criteria": ["region"],
            "address_fact": "address",
            "tries": 3,
            "backoff": 0,
            "discover_seconds": 1,
            "lease_millis": 1500,
            "notify": [{ "name": "hook", "kind": "webhook", "url": self.hook.url() }],
        }))
        .unwrap()
    }

    /// A service on a host of its own. Dropping what is given kills it.
    pub(super) async fn service(&self, host: &str, options: Options) -> Running {
        let signer = self.organisation.service("provisioner");
        let bus = connect(self.server(), &signer).await;
        let client = Client::new(
            bus.clone(),
            signer,
            self.organisation.trust(),
            self.organisation.collective().clone(),
            DiscoveryWindow::default(),
        );
        let system = Arc::new(RealSystem::new("/".into()));
        let host = Identity::parse(host).unwrap();
        let service = ProvisionerService::new(host, bus, client, options, system).unwrap();
        let stop = CancellationToken::new();
        Running { stop: stop.clone(), task: tokio::spawn(service.run_until_stopped(stop)) }
    }

    /// Somebody who asks.
    pub(super) async fn caller(&self) -> Client {
        let signer = self.organisation.caller("anna");
        let bus = connect(self.server(), &signer).await;
        let collective = self.organisation.collective().clone();
        Client::new(bus, signer, self.organisation.trust(), collective, DiscoveryWindow::default())
    }

    pub(super) async fn store(&self) -> NodeRecordStore {
        let signer = self.organisation.service("observer");
        NodeRecordStore::open(&connect(self.server(), &signer).await)
    }

    /// Waits until every newcomer is where it should be; gives what is known of each.
    pub(super) async fn until(
        &self,
        what: &str,
        is_so: impl Fn(&NodeRecord) -> bool,
    ) -> BTreeMap<String, NodeRecord> {
        let store = self.store().await;
        poll_until_ok(what, PATIENCE, async || {
            let mut found = BTreeMap::new();
            for name in self.newcomers.keys() {
                let node = Identity::parse(name).unwrap();
                let record = store.get(&node).await.unwrap();
                match record {
                    Some(record) if is_so(&record) => drop(found.insert(name.clone(), record)),
                    other => return Err(other.map(|record| (record.state, record.current, record.error))),
                }
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn all_done(&self) -> BTreeMap<String, NodeRecord> {
        self.until("every node is done", |record| record.state == ProvisioningState::Done).await
    }
}

/// A service that is killed when it is dropped.
pub(super) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    pub(super) async fn stopped(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap();
    }
}
