//! A fleet of nodes with a simulated agent `puppet`: the real schema, real permits of the real store, and runs that only take time.
//!
//! Like the real agent it takes the node's own lock before it asks for a permit, keeps the result of each run under the run's
//! identity, and goes on with a run whoever has stopped waiting for it. When runs held their permits is noted by the nodes
//! themselves, so that whoever asks has no part in the proof.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_api::{ActionError, ActionFuture, ActionHandler, Agent, CallContext, ddl};
use muster_client::RolloutLimits;
use muster_client::runs::{
    ConcurrencyStats, PermitInterval, PuppetRolloutEvent, PuppetRolloutSpec, measure_concurrency,
};
use muster_client::{Client, DiscoveryWindow};
use muster_contract::puppet::{
    LastRunSummaryOutput, PuppetRunClass, PuppetRunOnceInput, PuppetRunOutcome, PuppetRunState,
    PuppetStatusOutput,
};
use muster_contract::read_values;
use muster_permits::{PermitClient, PermitError, PermitRequest};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use rand::Rng;
use rand::rngs::StdRng;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::command::Command;
use crate::fleet::{Blueprint, TestNode};
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

/// What a node will do.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// How long it takes between the request and the lock.
    pub delay: Duration,
    /// How long a run takes once it has its permit.
    pub work: Duration,
    /// How runs end: the agent's class.
    pub class: &'static str,
    /// Why Puppet is disabled, if it is.
    pub disabled: Option<&'static str>,
    /// It answers nothing, as a daemon that hangs.
    pub deaf: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            work: Duration::from_millis(50),
            class: "changed",
            disabled: None,
            deaf: false,
        }
    }
}

impl Behaviour {
    /// How runs end, as a class.
    fn class(&self) -> PuppetRunClass {
        serde_json::from_value(self.class.into()).unwrap()
    }

    /// A delay of up to 500 ms, and work of 40 s in the mean and 150 s at the most, as the article's machines had it; both divided by
    /// this.
    pub fn draw(lots: &mut StdRng, scale: u32) -> Self {
        // Most runs are short, and a few are long.
        let part: f64 = lots.random_range(f64::EPSILON..1.0);
        let work = (10.0 - 32.0 * part.ln()).min(150.0);
        Self {
            delay: Duration::from_millis(lots.random_range(0..=500)) / scale,
            work: Duration::from_secs_f64(work) / scale,
            ..Self::default()
        }
    }
}

/// What nodes noted.
#[derive(Debug, Default)]
pub struct Notes {
    /// From when to when each run held its permit, by the clock that all nodes of this process share.
    pub spans: Vec<(Identity, PermitInterval)>,
    /// Who holds one now.
    pub running: Vec<Identity>,
    /// How often each node began.
    pub begun: BTreeMap<Identity, usize>,
    /// The inputs of each request for a run.
    pub asked: Vec<(Identity, Map<String, Value>)>,
}

/// One node's Puppet.
#[derive(Debug)]
struct Sim {
    node: Identity,
    desk: PermitClient,
    behaviour: Mutex<Behaviour>,
    lock: tokio::sync::Mutex<()>,
    runs: Mutex<BTreeMap<Uuid, watch::Receiver<PuppetRunOutcome>>>,
    notes: Arc<Mutex<Notes>>,
}

/// One action of it.
struct Act(Arc<Sim>, &'static str);

impl ActionHandler for Act {
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(async move {
            if self.0.behaviour().deaf {
                std::future::pending::<()>().await;
            }
            match self.1 {
                "status" => Ok(self.0.status()),
                "runonce" => runonce(&self.0, cx, input).await,
                "enable" => Ok(self.0.enable(None)),
                "disable" => Ok(self.0.enable(Some("disabled by a test"))),
                "last_run_summary" => Ok(self.0.summary()),
                other => Err(ActionError::failed(format!("{other} is not simulated"))),
            }
        })
    }
}

impl Sim {
    fn behaviour(&self) -> Behaviour {
        self.behaviour.lock().unwrap().clone()
    }

    fn status(&self) -> Map<String, Value> {
        let Behaviour { disabled, .. } = self.behaviour();
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
        object(&PuppetStatusOutput {
            applying: run.is_some(),
            enabled: disabled.is_none(),
            status: status.to_owned(),
            disable_message: disabled.unwrap_or_default().to_owned(),
            lastrun: now() / 1000 - 600,
            since_lastrun: 600,
            message: format!("Currently {status}"),
            holder: if run.is_some() { "ours" } else { "none" }.to_owned(),
            run,
            run_state: state,
            engine: "puppet".to_owned(),
            ..PuppetStatusOutput::default()
        })
    }

    fn enable(&self, message: Option<&'static str>) -> Map<String, Value> {
        self.behaviour.lock().unwrap().disabled = message;
        let (enabled, status) = (message.is_none(), message.unwrap_or("enabled"));
        let mut data = object(&json!({"status": status, "enabled": enabled}));
        if let Some(message) = message {
            data.insert("disable_message".to_owned(), message.into());
        }
        data
    }

    /// Its work is what the last run took.
    fn summary(&self) -> Map<String, Value> {
        let took = self.behaviour().work.as_secs_f64();
        object(&LastRunSummaryOutput {
            out_of_sync_resources: Some(3),
            failed_resources: Some(0),
            corrected_resources: Some(0),
            changed_resources: Some(3),
            total_resources: Some(61),
            config_retrieval_time: Some(took / 8.0),
            total_time: Some(took),
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

    fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock().unwrap());
    }

    /// A run from the request to its end; sends each change of its outcome.
    async fn run(
        &self,
        run: Uuid,
        input: &PuppetRunOnceInput,
        updates: &watch::Sender<PuppetRunOutcome>,
        cancel: &CancellationToken,
    ) {
        let behaviour = self.behaviour();
        let class = behaviour.class();
        let Behaviour { delay, work, disabled, .. } = behaviour;
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
        let base = |state| base(run, state);
        crate::let_pass(delay).await;
        if let Some(message) = disabled {
            let state = PuppetRunState::Refused;
            return end(state, PuppetRunClass::Disabled, Some(message), base(state));
        }
        let _lock = self.lock.lock().await;
        updates.send_replace(base(PuppetRunState::WaitingPermit));
        let limit = input.limit;
        let limit = limit.and_then(|limit| NonZeroU32::new(u32::try_from(limit).ok()?));
        let pool = input.pool.as_deref().unwrap_or("puppet");
        let permit = match limit {
            None => None,
            Some(limit) => {
                let pool = SubjectName::parse(pool).unwrap();
                let ask = PermitRequest::new(pool, limit, run, Duration::from_mins(10));
                match self.desk.acquire_permit(ask, cancel).await {
                    Ok(permit) => Some(permit),
                    Err(error) => {
                        let error = chain(&error);
                        let state = PuppetRunState::Refused;
                        return end(state, PuppetRunClass::NoPermit, Some(&error), base(state));
                    }
                }
            }
        };
        let started = now();
        self.note(|notes| {
            notes.running.push(self.node.clone());
            *notes.begun.entry(self.node.clone()).or_default() += 1;
        });
        updates.send_replace(base(PuppetRunState::Starting));
        tokio::task::yield_now().await;
        updates.send_replace(base(PuppetRunState::Applying));
        let lost = async {
            match &permit {
                Some(permit) => permit.lost_token().cancelled().await,
                None => std::future::pending().await,
            }
        };
        let fenced = tokio::select! {
            () = crate::let_pass(work) => false,
            () = lost => true,
        };
        let finished = now();
        self.note(|notes| {
            notes.running.retain(|node| *node != self.node);
            let span = PermitInterval { start: started, end: finished };
            notes.spans.push((self.node.clone(), span));
        });
        let fence = permit.as_ref().map(muster_permits::Permit::fence);
        if let Some(permit) = permit {
            permit.release().await;
        }
        let failed = class.as_str().contains("failed");
        let ran = PuppetRunOutcome {
            total: Some(61),
            changed: Some(u64::from(class.as_str().contains("changed")) * 3),
            failed: Some(u64::from(failed)),
            started_at: Some(started),
            finished_at: Some(finished),
            duration: Some(work.as_secs_f64()),
            pool: Some(pool.to_owned()),
            fence,
            ..base(PuppetRunState::Finished)
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
    sim: &Arc<Sim>,
    cx: &CallContext,
    input: Map<String, Value>,
) -> Result<Map<String, Value>, ActionError> {
    sim.note(|notes| notes.asked.push((sim.node.clone(), input.clone())));
    let input: PuppetRunOnceInput = read_values(&input).unwrap();
    if input.server.is_some() {
        return Err(ActionError::invalid_input(
            "server: another server than the configured one is not allowed here",
        ));
    }
    let run = input.run.as_deref();
    let run = run.map_or_else(Uuid::now_v7, |run| Uuid::parse_str(run).unwrap());
    let (mut listening, attached) = begin(sim, run, input);
    loop {
        let outcome = listening.borrow_and_update().clone();
        cx.emit_event(json!({"state": outcome.state, "run": run}));
        if outcome.state.is_over() {
            return answer(PuppetRunOutcome { attached, ..outcome });
        }
        listening.changed().await.unwrap();
    }
}

/// Begins the run, unless there is one of that identity.
fn begin(
    sim: &Arc<Sim>,
    run: Uuid,
    input: PuppetRunOnceInput,
) -> (watch::Receiver<PuppetRunOutcome>, bool) {
    let mut runs = sim.runs.lock().unwrap();
    if let Some(known) = runs.get(&run) {
        return (known.clone(), true);
    }
    let (updates, listening) = watch::channel(base(run, PuppetRunState::WaitingLock));
    runs.insert(run, listening.clone());
    let sim = Arc::clone(sim);
    tokio::spawn(async move {
        let never = CancellationToken::new();
        sim.run(run, &input, &updates, &never).await;
        // A later request gets the result.
        updates.closed().await;
    });
    (listening, false)
}

fn answer(outcome: PuppetRunOutcome) -> Result<Map<String, Value>, ActionError> {
    let data = object(&outcome);
    match outcome.class {
        Some(PuppetRunClass::Clean | PuppetRunClass::Changed) => Ok(data),
        class => {
            let class = class.as_ref().map_or("", PuppetRunClass::as_str);
            Err(ActionError::failed(format!("the run ended as {class}")).with_data(data))
        }
    }
}

/// The outputs of a run that has come so far.
fn base(run: Uuid, state: PuppetRunState) -> PuppetRunOutcome {
    PuppetRunOutcome {
        run: run.to_string(),
        state,
        noop: Some(false),
        initiated_at: now() / 1000,
        ..PuppetRunOutcome::default()
    }
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value).unwrap() {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn chain(error: &PermitError) -> String {
    muster_api::base::error_chain(error)
}

/// A node with a simulated Puppet.
#[derive(Debug)]
pub struct SimNode {
    /// The daemon.
    pub node: TestNode,
    sim: Arc<Sim>,
}

impl SimNode {
    /// What it does from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.sim.behaviour.lock().unwrap() = behaviour;
    }
}

/// The fleet, and whoever asks it.
#[derive(Debug)]
pub struct SimFleet {
    /// The organisation.
    pub organisation: Organisation,
    /// The broker, with the fleet's stores.
    pub server: NatsServer,
    /// The nodes by name.
    pub nodes: BTreeMap<Identity, SimNode>,
    /// The real `rpc`.
    pub desk: Command,
    caller: Signer,
    notes: Arc<Mutex<Notes>>,
}

impl SimFleet {
    /// A fleet of nodes of these names, each as it is by default.
    pub async fn start<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.storing_broker().await;
        let book = Arc::new(Mutex::new(Notes::default()));
        let mut nodes = BTreeMap::new();
        for name in names {
            let node = Self::node(&organisation, &server, name, &book).await;
            nodes.insert(node.sim.node.clone(), node);
        }
        let caller = organisation.caller("rip");
        let desk = Command::new(&server, &organisation, &caller, "confirm = \"never\"");
        Self { organisation, server, nodes, desk, caller, notes: book }
    }

    /// So many nodes.
    pub async fn of(count: usize) -> Self {
        let names: Vec<String> = (1..=count).map(|n| format!("node{n:03}.example.net")).collect();
        Self::start(names.iter().map(String::as_str)).await
    }

    async fn node(
        organisation: &Organisation,
        server: &NatsServer,
        name: &str,
        notes: &Arc<Mutex<Notes>>,
    ) -> SimNode {
        let signer = organisation.node(name);
        let mut blueprint = Blueprint::new(signer);
        let sim = Arc::new(Sim {
            node: blueprint.signer.identity().clone(),
            desk: blueprint.permits.clone(),
            behaviour: Mutex::default(),
            lock: tokio::sync::Mutex::default(),
            runs: Mutex::default(),
            notes: Arc::clone(notes),
        });
        let mut agent = Agent::builder(ddl::builtin_agent("puppet").unwrap()).unwrap();
        for action in ACTIONS {
            agent = agent.with_handler(action, Arc::new(Act(Arc::clone(&sim), action)));
        }
        blueprint.agents = vec![agent.build().unwrap()];
        let node = TestNode::start(organisation, server, blueprint).await;
        SimNode { node, sim }
    }

    /// What this node does from now on.
    pub fn behave(&self, node: &str, behaviour: Behaviour) {
        let node: Identity = node.parse().unwrap();
        self.nodes.get(&node).unwrap().behave(behaviour);
    }

    /// Looks at what nodes have noted so far.
    pub fn notes<T>(&self, look: impl FnOnce(&Notes) -> T) -> T {
        look(&self.notes.lock().unwrap())
    }

    /// Forgets what nodes have noted.
    pub fn forget(&self) {
        *self.notes.lock().unwrap() = Notes::default();
    }

    /// What the nodes' own notes prove.
    pub fn proof(&self) -> ConcurrencyStats {
        let spans =
            self.notes(|notes| notes.spans.iter().map(|(_, span)| *span).collect::<Vec<_>>());
        measure_concurrency(&spans).expect("somebody ran")
    }

    /// Lets every node run once, through the client library, which is what `rpc` uses; all of them must succeed.
    pub async fn run_all(&self, pool: &str, limit: usize) {
        let client = self.client().await;
        let runs = self.nodes.keys().map(|node| (node.clone(), Uuid::now_v7()));
        let mut campaign = client.start_puppet_rollout(PuppetRolloutSpec {
            runs: runs.collect(),
            data: object(&json!({"limit": limit, "pool": pool})),
            limits: RolloutLimits { concurrency: Some(limit), ..RolloutLimits::default() },
            silence: Duration::from_mins(1),
            timeout: None,
            wait: Duration::from_mins(10),
            ttl: Duration::from_mins(1),
        });
        let mut ended = 0;
        while let Some(news) = campaign.next().await {
            match news {
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
