//! A fleet of nodes with a simulated agent `puppet`: the real schema, real permits in the real store, and runs that
//! only take time.
//!
//! Like the real agent, it takes the node's lock before it requests a permit, keeps the result of each run under the
//! run's id, and continues a run after the caller has stopped waiting. The nodes themselves record when each run held a
//! permit, so that the measurement does not depend on the caller.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_api::{ActionError, ActionFuture, ActionHandler, Agent, CallContext, ddl};
use muster_calls::RolloutLimits;
use muster_calls::runs::{
    ConcurrencyStats, PermitInterval, PuppetRolloutEvent, PuppetRolloutSpec, measure_concurrency,
};
use muster_calls::{Client, DiscoveryWindow};
use muster_contract::puppet::{
    LastRunSummaryOutput, PuppetRunClass, PuppetRunOnceInput, PuppetRunOutcome, PuppetRunState,
    PuppetStatusOutput,
};
use muster_contract::read_values;
use muster_filter::NodeFilter;
use muster_puppet::permits::{PermitClient, PermitError, PermitRequest};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use rand::Rng;
use rand::rngs::StdRng;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::command::RpcCommand;
use crate::fleet::{NodeSetup, TestNode};
use crate::nats_server::NatsServer;
use crate::now;
use crate::organisation::{Organisation, connect};

/// The agent's actions.
const ACTIONS: [&str; 8] = [
    "status",
    "runonce",
    "runs",
    "enable",
    "disable",
    "last_run_summary",
    "last_run_report",
    "locks",
];

/// How a simulated node behaves.
#[derive(Debug, Clone)]
pub struct SimulatedBehaviour {
    /// Time between the request and the lock.
    pub delay: Duration,
    /// Duration of a run after it has a permit.
    pub work: Duration,
    /// The class that runs end with.
    pub class: &'static str,
    /// Why Puppet is disabled, if it is.
    pub disabled: Option<&'static str>,
    /// Does not reply, like a daemon that hangs.
    pub unresponsive: bool,
}

impl Default for SimulatedBehaviour {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            work: Duration::from_millis(50),
            class: "changed",
            disabled: None,
            unresponsive: false,
        }
    }
}

impl SimulatedBehaviour {
    /// The class that runs end with.
    fn class(&self) -> PuppetRunClass {
        serde_json::from_value(self.class.into()).unwrap()
    }

    /// Like [`Self::random`], with a delay that is not divided.
    pub fn random_with_full_delay(rng: &mut StdRng, scale: u32) -> Self {
        let behaviour = Self::random(rng, scale);
        Self { delay: behaviour.delay * scale, ..behaviour }
    }

    /// A random delay of up to 500 ms, and a random duration with a mean of 40 s and a maximum of 150 s, as measured on
    /// the machines of the article; both divided by `scale`.
    pub fn random(rng: &mut StdRng, scale: u32) -> Self {
        // Most runs are short, and a few are long.
        let part: f64 = rng.random_range(f64::EPSILON..1.0);
        let work = (10.0 - 32.0 * part.ln()).min(150.0);
        Self {
            delay: Duration::from_millis(rng.random_range(0..=500)) / scale,
            work: Duration::from_secs_f64(work) / scale,
            ..Self::default()
        }
    }
}

/// What nodes recorded.
#[derive(Debug, Default)]
pub struct RunRecords {
    /// The interval during which each run held its permit, on the clock that all nodes of this process share.
    pub spans: Vec<(Identity, PermitInterval)>,
    /// Nodes that hold a permit now.
    pub running: Vec<Identity>,
    /// Number of runs that each node started.
    pub run_counts: BTreeMap<Identity, usize>,
    /// The inputs of each request for a run.
    pub inputs: Vec<(Identity, Map<String, Value>)>,
}

/// The simulated Puppet of one node.
#[derive(Debug)]
struct SimulatedPuppet {
    node: Identity,
    permits: PermitClient,
    behaviour: Mutex<SimulatedBehaviour>,
    lock: tokio::sync::Mutex<()>,
    runs: Mutex<BTreeMap<Uuid, watch::Receiver<PuppetRunOutcome>>>,
    records: Arc<Mutex<RunRecords>>,
}

/// One action of the agent.
struct SimulatedAction(Arc<SimulatedPuppet>, &'static str);

impl ActionHandler for SimulatedAction {
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(async move {
            if self.0.behaviour().unresponsive {
                std::future::pending::<()>().await;
            }
            match self.1 {
                "status" => Ok(self.0.status()),
                "runonce" => runonce(&self.0, cx, input).await,
                "enable" => Ok(self.0.enable(None, &input)),
                "disable" => Ok(self.0.enable(Some("disabled by a test"), &input)),
                "last_run_summary" => Ok(self.0.summary()),
                other => Err(ActionError::failed(format!("{other} is not simulated"))),
            }
        })
    }
}

impl SimulatedPuppet {
    fn behaviour(&self) -> SimulatedBehaviour {
        self.behaviour.lock().unwrap().clone()
    }

    fn status(&self) -> Map<String, Value> {
        let SimulatedBehaviour { disabled, .. } = self.behaviour();
        let runs = self.runs.lock().unwrap();
        let current = runs.iter().find_map(|(run, outcome)| {
            let state = outcome.borrow().state;
            (!state.is_over()).then(|| (run.to_string(), state.as_str().to_owned()))
        });
        let status = match (&disabled, &current) {
            (Some(_), _) => "disabled",
            (None, Some(_)) => "applying a catalog",
            (None, None) => "stopped",
        };
        let (run, state) = current.unzip();
        to_object(&PuppetStatusOutput {
            applying: run.is_some(),
            enabled: disabled.is_none(),
            status: status.into(),
            disable_message: disabled.unwrap_or_default().into(),
            lastrun: now() / 1000 - 600,
            since_lastrun: 600,
            message: format!("Currently {status}").into(),
            holder: if run.is_some() { "ours" } else { "none" }.to_owned(),
            run,
            run_state: state,
            engine: "puppet".to_owned(),
            ..PuppetStatusOutput::default()
        })
    }

    fn enable(
        &self,
        message: Option<&'static str>,
        input: &Map<String, Value>,
    ) -> Map<String, Value> {
        let changed = self.behaviour().disabled != message;
        if input.get("noop") != Some(&json!(true)) {
            self.behaviour.lock().unwrap().disabled = message;
        }
        let current = self.behaviour().disabled;
        let (enabled, status) = (current.is_none(), current.unwrap_or("enabled"));
        let mut data =
            to_object(&json!({"status": status, "enabled": enabled, "changed": changed}));
        if let Some(message) = message {
            data.insert("disable_message".to_owned(), message.into());
        }
        data
    }

    /// The duration of the last run is the configured duration.
    fn summary(&self) -> Map<String, Value> {
        let duration = self.behaviour().work.as_secs_f64();
        to_object(&LastRunSummaryOutput {
            out_of_sync_resources: Some(3),
            failed_resources: Some(0),
            corrected_resources: Some(0),
            changed_resources: Some(3),
            total_resources: Some(61),
            config_retrieval_time: Some(duration / 8.0),
            total_time: Some(duration),
            lastrun: Some(now() / 1000 - 600),
            since_lastrun: Some(600),
            config_version: Some("1".to_owned()),
            type_distribution: BTreeMap::from([("File".to_owned(), 61)]),
            class: Some(self.behaviour().class()),
            environment: Some("production".to_owned()),
            cached_catalog_status: Some("not_used".to_owned()),
            ..LastRunSummaryOutput::default()
        })
    }

    fn record(&self, update: impl FnOnce(&mut RunRecords)) {
        update(&mut self.records.lock().unwrap());
    }

    /// Simulates a run from the request to its end; publishes each change of its outcome.
    async fn run(
        &self,
        run: Uuid,
        input: &PuppetRunOnceInput,
        updates: &watch::Sender<PuppetRunOutcome>,
        cancel: &CancellationToken,
    ) {
        let behaviour = self.behaviour();
        let class = behaviour.class();
        let SimulatedBehaviour { delay, work, disabled, .. } = behaviour;
        let end = |state, class: PuppetRunClass, error: Option<&str>, so_far: PuppetRunOutcome| {
            updates.send_replace(PuppetRunOutcome {
                state,
                error: error.map(str::to_owned),
                reason: error.map(|_| class.clone()),
                summary: Some(format!("ended as {}", class.as_str())),
                finished_at: so_far.finished_at.or_else(|| Some(now())),
                class: Some(class),
                ..so_far
            });
        };
        let base_outcome = |state| base_outcome(run, state);
        crate::simulate_delay(delay).await;
        if let Some(message) = disabled {
            let state = PuppetRunState::Refused;
            return end(state, PuppetRunClass::Disabled, Some(message), base_outcome(state));
        }
        let _lock = self.lock.lock().await;
        updates.send_replace(base_outcome(PuppetRunState::WaitingPermit));
        let limit = input.limit;
        let limit = limit.and_then(|limit| NonZeroU32::new(u32::try_from(limit).ok()?));
        let pool = input.pool.as_deref().unwrap_or("puppet");
        let (pool_name, timeout) = (SubjectName::parse(pool).unwrap(), Duration::from_mins(10));
        let request = match limit {
            Some(limit) => PermitRequest::new(pool_name, limit, run, timeout),
            None => PermitRequest::without_limit(pool_name, run, timeout),
        };
        let rollout = input.rollout.as_deref().map(|rollout| Uuid::parse_str(rollout).unwrap());
        let request = PermitRequest { rollout, ..request };
        let permit = match self.permits.acquire_permit(request, cancel).await {
            Ok(permit) => permit,
            Err(error) => {
                let error = format_error(&error);
                let state = PuppetRunState::Refused;
                return end(state, PuppetRunClass::NoPermit, Some(&error), base_outcome(state));
            }
        };
        let started = now();
        self.record(|records| {
            records.running.push(self.node.clone());
            *records.run_counts.entry(self.node.clone()).or_default() += 1;
        });
        updates.send_replace(base_outcome(PuppetRunState::Starting));
        tokio::task::yield_now().await;
        updates.send_replace(base_outcome(PuppetRunState::Applying));
        let fenced = tokio::select! {
            () = crate::simulate_delay(work) => false,
            () = permit.lost_token().cancelled() => true,
        };
        let finished = now();
        self.record(|records| {
            records.running.retain(|node| *node != self.node);
            let span = PermitInterval { start: started, end: finished };
            records.spans.push((self.node.clone(), span));
        });
        let (fence, pool_highest) = (permit.fence(), permit.highest_count() as u64);
        permit.release().await;
        let failed = class.as_str().contains("failed");
        let ran = PuppetRunOutcome {
            total: Some(61),
            changed: Some(u64::from(class.as_str().contains("changed")) * 3),
            failed: Some(u64::from(failed)),
            started_at: Some(started),
            finished_at: Some(finished),
            duration: Some(work.as_secs_f64()),
            pool: Some(pool.to_owned()),
            fence: Some(fence),
            pool_highest: Some(pool_highest),
            ..base_outcome(PuppetRunState::Finished)
        };
        if fenced {
            let (class, error) = (PuppetRunClass::Fenced, "the permit was lost");
            end(PuppetRunState::Aborted, class, Some(error), ran);
        } else {
            let error = failed.then_some("something failed");
            end(PuppetRunState::Finished, class, error, ran);
        }
    }
}

async fn runonce(
    sim: &Arc<SimulatedPuppet>,
    cx: &CallContext,
    input: Map<String, Value>,
) -> Result<Map<String, Value>, ActionError> {
    sim.record(|records| records.inputs.push((sim.node.clone(), input.clone())));
    let input: PuppetRunOnceInput = read_values(&input).unwrap();
    if input.server.is_some() {
        return Err(ActionError::invalid_input(
            "server: another server than the configured one is not allowed here",
        ));
    }
    let run = input.run.as_deref();
    let run = run.map_or_else(Uuid::now_v7, |run| Uuid::parse_str(run).unwrap());
    let (mut listening, attached) = start_run(sim, run, input);
    loop {
        let outcome = listening.borrow_and_update().clone();
        cx.emit_event(json!({"state": outcome.state, "run": run}));
        if outcome.state.is_over() {
            return to_action_result(PuppetRunOutcome { attached, ..outcome });
        }
        listening.changed().await.unwrap();
    }
}

/// Starts the run, unless a run with this id exists.
fn start_run(
    sim: &Arc<SimulatedPuppet>,
    run: Uuid,
    input: PuppetRunOnceInput,
) -> (watch::Receiver<PuppetRunOutcome>, bool) {
    let mut runs = sim.runs.lock().unwrap();
    if let Some(known) = runs.get(&run) {
        return (known.clone(), true);
    }
    let (updates, listening) = watch::channel(base_outcome(run, PuppetRunState::WaitingLock));
    runs.insert(run, listening.clone());
    let sim = Arc::clone(sim);
    tokio::spawn(async move {
        let never = CancellationToken::new();
        sim.run(run, &input, &updates, &never).await;
        // Keeps the result available for later requests.
        updates.closed().await;
    });
    (listening, false)
}

fn to_action_result(outcome: PuppetRunOutcome) -> Result<Map<String, Value>, ActionError> {
    let data = to_object(&outcome);
    match outcome.class {
        Some(PuppetRunClass::Clean | PuppetRunClass::Changed) => Ok(data),
        class => {
            let class = class.as_ref().map_or("", PuppetRunClass::as_str);
            Err(ActionError::failed(format!("the run ended as {class}")).with_data(data))
        }
    }
}

/// The outcome of a run that has reached this state.
fn base_outcome(run: Uuid, state: PuppetRunState) -> PuppetRunOutcome {
    PuppetRunOutcome {
        run: run.to_string(),
        state,
        noop: Some(false),
        initiated_at: now() / 1000,
        ..PuppetRunOutcome::default()
    }
}

fn to_object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value).unwrap() {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn format_error(error: &PermitError) -> String {
    muster_api::base::error_chain(error)
}

/// A node with a simulated Puppet.
#[derive(Debug)]
pub struct SimulatedNode {
    /// The daemon.
    pub node: TestNode,
    sim: Arc<SimulatedPuppet>,
}

impl SimulatedNode {
    /// Sets the behaviour from now on.
    pub fn set_behaviour(&self, behaviour: SimulatedBehaviour) {
        *self.sim.behaviour.lock().unwrap() = behaviour;
    }
}

/// A fleet of simulated nodes, with a broker and a caller.
#[derive(Debug)]
pub struct SimulatedFleet {
    /// The organisation.
    pub organisation: Organisation,
    /// The broker, with the fleet's stores.
    pub server: NatsServer,
    /// The nodes by name.
    pub nodes: BTreeMap<Identity, SimulatedNode>,
    /// The real `rpc`.
    pub rpc: RpcCommand,
    caller: Signer,
    records: Arc<Mutex<RunRecords>>,
}

impl SimulatedFleet {
    /// A fleet of nodes with these names and the default behaviour.
    pub async fn start<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let records = Arc::new(Mutex::new(RunRecords::default()));
        let mut nodes = BTreeMap::new();
        for name in names {
            let node = Self::node(&organisation, &server, name, &records).await;
            nodes.insert(node.sim.node.clone(), node);
        }
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "confirm = \"never\"");
        Self { organisation, server, nodes, rpc, caller, records }
    }

    /// A fleet of this size.
    pub async fn with_size(count: usize) -> Self {
        let names: Vec<String> = (1..=count).map(|n| format!("node{n:03}.example.net")).collect();
        Self::start(names.iter().map(String::as_str)).await
    }

    async fn node(
        organisation: &Organisation,
        server: &NatsServer,
        name: &str,
        records: &Arc<Mutex<RunRecords>>,
    ) -> SimulatedNode {
        let signer = organisation.node(name);
        let mut setup = NodeSetup::new(signer);
        let sim = Arc::new(SimulatedPuppet {
            node: setup.signer.identity().clone(),
            permits: setup.permits.clone(),
            behaviour: Mutex::default(),
            lock: tokio::sync::Mutex::default(),
            runs: Mutex::default(),
            records: Arc::clone(records),
        });
        let mut agent = Agent::builder(ddl::builtin_agent("puppet").unwrap()).unwrap();
        for action in ACTIONS {
            agent = agent.with_handler(action, Arc::new(SimulatedAction(Arc::clone(&sim), action)));
        }
        setup.agents = vec![agent.build().unwrap()];
        let node = TestNode::start(organisation, server, setup).await;
        SimulatedNode { node, sim }
    }

    /// Sets the behaviour of this node from now on.
    pub fn set_behaviour(&self, node: &str, behaviour: SimulatedBehaviour) {
        let node: Identity = node.parse().unwrap();
        self.nodes.get(&node).unwrap().set_behaviour(behaviour);
    }

    /// Calls `read` with what the nodes have recorded so far.
    pub fn with_records<T>(&self, read: impl FnOnce(&RunRecords) -> T) -> T {
        read(&self.records.lock().unwrap())
    }

    /// Deletes what the nodes have recorded.
    pub fn clear_records(&self) {
        *self.records.lock().unwrap() = RunRecords::default();
    }

    /// Concurrency statistics of the intervals that the nodes recorded.
    pub fn concurrency_stats(&self) -> ConcurrencyStats {
        let spans = self.with_records(|records| {
            records.spans.iter().map(|(_, span)| *span).collect::<Vec<_>>()
        });
        measure_concurrency(&spans).expect("no run was recorded")
    }

    /// Runs Puppet once on every node through the client library, which `rpc` also uses; every run must succeed.
    pub async fn run_all(&self, pool: &str, limit: usize) {
        let client = self.client().await;
        let runs = self.nodes.keys().map(|node| (node.clone(), Uuid::now_v7()));
        let mut rollout = client.start_puppet_rollout(PuppetRolloutSpec {
            runs: runs.collect(),
            filter: NodeFilter::default(),
            data: to_object(&json!({"limit": limit, "pool": pool})),
            rollout: Some(Uuid::now_v7()),
            limits: RolloutLimits { concurrency: Some(limit), ..RolloutLimits::default() },
            silence: Duration::from_mins(1),
            timeout: None,
            wait: Duration::from_mins(10),
            ttl: Duration::from_mins(1),
        });
        let mut ended = 0;
        while let Some(event) = rollout.next().await {
            match event {
                PuppetRolloutEvent::Ended { node, outcome, .. } => {
                    assert!(outcome.ok, "{node}: {outcome:?}");
                    ended += 1;
                }
                PuppetRolloutEvent::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
        assert_eq!(ended, self.nodes.len());
    }

    /// A client of the library, in this process.
    pub async fn client(&self) -> Client {
        let bus = connect(&self.server, &self.caller).await;
        let collective = self.organisation.collective().clone();
        Client::new(
            bus,
            self.caller.clone(),
            self.organisation.trust(),
            collective,
            DiscoveryWindow::default(),
        )
    }
}
