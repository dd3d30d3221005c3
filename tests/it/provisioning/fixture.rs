//! A fixture with an organisation, masters with simulated authorities, machines to provision, and services that are
//! killed when they are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_calls::{Client, DiscoveryWindow};
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
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long provisioning may take before a test fails.
const PROVISIONING_TIMEOUT: Duration = Duration::from_mins(1);

/// A machine to provision, which outlives its daemons.
pub(super) struct ProvisionedMachine {
    name: String,
    pub(super) simulated: Arc<SimulatedMachine>,
    facts: Value,
    pub(super) node: Option<TestNode>,
}

pub(super) struct ProvisioningFixture {
    pub(super) organisation: Organisation,
    pub(super) server: Option<NatsServer>,
    pub(super) hook: Webhook,
    authorities: BTreeMap<String, Arc<SimulatedCa>>,
    masters: Vec<TestNode>,
    pub(super) machines: BTreeMap<String, ProvisionedMachine>,
}

impl ProvisioningFixture {
    pub(super) async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self {
            organisation,
            server: Some(server),
            hook: Webhook::start().await,
            authorities: BTreeMap::new(),
            masters: Vec::new(),
            machines: BTreeMap::new(),
        }
    }

    pub(super) fn server(&self) -> &NatsServer {
        self.server.as_ref().unwrap()
    }

    /// Adds a master in a region, with its own authority.
    pub(super) async fn add_master(&mut self, name: &str, region: &str) -> Arc<SimulatedCa> {
        let authority = Arc::new(SimulatedCa::default());
        let address = format!("192.0.2.{}", self.authorities.len() + 1);
        let mut setup = NodeSetup::new(self.organisation.node(name));
        setup.facts = json!({ "region": region, "address": address });
        setup.agents = vec![puppetca(&authority)];
        self.authorities.insert(address, Arc::clone(&authority));
        let node = TestNode::start(&self.organisation, self.server(), setup).await;
        self.masters.push(node);
        authority
    }

    /// Adds a machine to provision and starts its daemon.
    pub(super) async fn add_machine(&mut self, name: &str, region: &str) -> Arc<SimulatedMachine> {
        let machine = SimulatedMachine::new(Duration::from_millis(20));
        let entry = ProvisionedMachine {
            name: name.to_owned(),
            simulated: Arc::clone(&machine),
            facts: json!({ "region": region }),
            node: None,
        };
        self.machines.insert(name.to_owned(), entry);
        self.restart_daemon(name).await;
        machine
    }

    /// Starts a machine's daemon; a running one is killed first.
    pub(super) async fn restart_daemon(&mut self, name: &str) {
        let entry = self.machines.get_mut(name).unwrap();
        drop(entry.node.take());
        let mut setup = NodeSetup::new(self.organisation.node(&entry.name));
        setup.facts = entry.facts.clone();
        setup.agents = vec![provision(&entry.simulated, &self.authorities)];
        let server = self.server.as_ref().unwrap();
        let node = TestNode::start(&self.organisation, server, setup).await;
        entry.node = Some(node);
    }

    /// Asks for the retirement of a node in its record.
    pub(super) async fn request_retirement(&self, node: &str) {
        let store = self.open_record_store().await;
        let (node, anna) = (Identity::parse(node).unwrap(), Identity::parse("anna").unwrap());
        let retiring = store.edit_record(&node, |record| {
            record.request_retirement(&anna, muster_tests::now());
            Ok(true)
        });
        retiring.await.unwrap();
    }

    pub(super) fn options(&self) -> Options {
        serde_json::from_value(json!({
            "enabled": true,
            "criteria": ["region"],
            "address_fact": "address",
            "tries": 3,
            "backoff": 0,
            "discover_seconds": 1,
            "lease_millis": 4000,
            "notify": [{ "name": "hook", "kind": "webhook", "url": self.hook.url() }],
        }))
        .unwrap()
    }

    /// Starts a service on its own host. Dropping the result kills it.
    pub(super) async fn start_service(&self, host: &str, options: Options) -> RunningService {
        let signer = self.organisation.service(ServiceRight::Provision, "provisioner");
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
        RunningService { stop: stop.clone(), task: tokio::spawn(service.run_until_stopped(stop)) }
    }

    /// A client for calls.
    pub(super) async fn connect_caller(&self) -> Client {
        let signer = self.organisation.caller("anna");
        let bus = connect(self.server(), &signer).await;
        let collective = self.organisation.collective().clone();
        Client::new(bus, signer, self.organisation.trust(), collective, DiscoveryWindow::default())
    }

    pub(super) async fn open_record_store(&self) -> NodeRecordStore {
        let signer = self.organisation.service(ServiceRight::Provision, "observer");
        NodeRecordStore::open(&connect(self.server(), &signer).await)
    }

    /// Waits until `is_reached` holds for every machine; returns the records by name.
    pub(super) async fn await_records(
        &self,
        what: &str,
        is_reached: impl Fn(&NodeRecord) -> bool,
    ) -> BTreeMap<String, NodeRecord> {
        let store = self.open_record_store().await;
        poll_until_ok(what, PROVISIONING_TIMEOUT, async || {
            let mut found = BTreeMap::new();
            for name in self.machines.keys() {
                let node = Identity::parse(name).unwrap();
                let record = store.get(&node).await.unwrap();
                match record {
                    Some(record) if is_reached(&record) => drop(found.insert(name.clone(), record)),
                    other => return Err(other.map(|record| (record.state, record.current, record.error))),
                }
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn await_all_done(&self) -> BTreeMap<String, NodeRecord> {
        self.await_records("every node is done", |record| record.state == ProvisioningState::Done)
            .await
    }
}

/// A service; dropping it kills it.
pub(super) struct RunningService {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Drop for RunningService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningService {
    pub(super) async fn stop_and_wait(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap();
    }
}
