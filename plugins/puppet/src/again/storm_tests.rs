//! The storm of many nodes whose manifests ask at once: the real planner and the real rule of permits, with a simulated clock and simulated runs.

use std::collections::BTreeMap;

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};

use crate::permits::pool::PermitPool;
use crate::permits::{ClaimRecord, PermitKeyKind, WaitRecord};
use uuid::Uuid;

use crate::again::plan::event::{AgainEvent, EndedRun};
use crate::again::plan::next::NextStep;
use crate::again::plan::state::AgainState;
use crate::again::plan::tests::{NOW, ended, mix, request, run_number};
use crate::again::policy::AgainPolicy;
use crate::again::tests::SimulatedBucket;

const NODES: u32 = 500;
/// Nodes of a rollout that runs at the same time.
const ROLLOUT: u32 = 100;
const LIMIT: u32 = 20;
/// Time of a step of the simulation.
const STEP: Millis = 100;

/// A run that holds a permit.
struct SimulatedRun {
    node: Identity,
    begin: Millis,
    end: Millis,
}

/// The pool of runs, and the runs that hold permits.
struct RunPool {
    bucket: SimulatedBucket,
    name: SubjectName,
    running: Vec<SimulatedRun>,
    /// All runs that have begun.
    begun: Vec<(Identity, Millis)>,
    released: usize,
}

impl RunPool {
    fn new() -> Self {
        let name = SubjectName::parse("puppet").unwrap();
        let bucket = SimulatedBucket { pool: PermitPool::new(name.clone()), revision: 0 };
        Self { bucket, name, running: Vec::new(), begun: Vec::new(), released: 0 }
    }

    fn wait(&mut self, node: &Identity, priority: i8, at: Millis) {
        let (pool, run, lease) = (self.name.clone(), Uuid::nil(), 60_000);
        let wait = WaitRecord { pool, run, priority, limit: LIMIT, lease, rollout: None };
        self.bucket.put(PermitKeyKind::Wait, node, serde_json::to_vec(&wait).ok(), at);
    }

    /// Releases the permits of runs that have ended; returns their nodes.
    fn end_runs(&mut self, at: Millis) -> Vec<Identity> {
        let ended = self.running.extract_if(.., |run| run.end <= at);
        let nodes: Vec<Identity> = ended.map(|run| run.node).collect();
        self.released += nodes.len();
        for node in &nodes {
            self.bucket.put(PermitKeyKind::Claim, node, None, at);
        }
        nodes
    }

    /// Begins the runs whose turn it is; returns their nodes. A run takes one or two seconds.
    fn begin_runs(&mut self, at: Millis) -> Vec<Identity> {
        let mut nodes = Vec::new();
        for waiting in self.bucket.pool.waiting_members(at) {
            let node = waiting.node;
            if !self.bucket.pool.is_turn_of(&node, at) {
                break;
            }
            let (pool, run, priority, lease) =
                (self.name.clone(), Uuid::nil(), waiting.priority, 60_000);
            let claim = ClaimRecord { pool, run, priority, limit: LIMIT, lease, occupied: false };
            self.bucket.put(PermitKeyKind::Claim, &node, serde_json::to_vec(&claim).ok(), at);
            self.bucket.put(PermitKeyKind::Wait, &node, None, at);
            let end = at + 1000 + mix(self.bucket.revision) % 1000;
            self.running.push(SimulatedRun { node: node.clone(), begin: at, end });
            self.begun.push((node.clone(), at));
            nodes.push(node);
        }
        assert!(self.running.len() <= LIMIT as usize, "{} runs overlap", self.running.len());
        assert!(self.running.iter().all(|run| run.begin <= at && at < run.end));
        nodes
    }
}

/// A node of the storm, with its planner.
struct StormNode {
    state: AgainState,
    is_waiting: bool,
}

impl StormNode {
    /// Fifty resources asked in a run that ended now, each for a delay of two seconds.
    fn after_run(number: u32, policy: &AgainPolicy) -> Self {
        let mut state = AgainState::default();
        for resource in 0..50 {
            let mut request = request(u128::from(number) * 100 + resource);
            request.min_delay = 2000;
            let (request, during) = (Box::new(request), Some(run_number(1)));
            state.apply(&AgainEvent::Requested { at: NOW, request, during, seed: 1 }, policy);
        }
        let run = Box::new(EndedRun { digest: Some("before".to_owned()), ..ended(1) });
        let seed = mix(u64::from(number));
        state.apply(&AgainEvent::RunEnded { at: NOW, run, seed }, policy);
        Self { state, is_waiting: false }
    }
}

/// A rollout runs at the same time. A bin of one second has at most three times the mean of starts while the storm lasts.
#[test]
fn storm_of_five_hundred_nodes_runs_each_once_within_the_limit_and_an_operator_does_not_wait() {
    let policy = AgainPolicy::default();
    let name =
        |kind: &str, number| Identity::parse(&format!("{kind}{number}.example.net")).unwrap();
    let mut nodes: BTreeMap<Identity, StormNode> = (0..NODES)
        .map(|number| (name("n", number), StormNode::after_run(number, &policy)))
        .collect();
    let mut pool = RunPool::new();
    for number in 0..ROLLOUT {
        pool.wait(&name("rollout", number), 0, NOW);
    }
    let operator = name("operator", 1);
    let mut releases_before_operator = None;
    let mut at = NOW;
    while pool.begun.len() < (NODES + ROLLOUT + 1) as usize || !pool.running.is_empty() {
        assert!(at < NOW + 600_000, "{} runs have begun", pool.begun.len());
        for node in pool.end_runs(at) {
            let Some(storm) = nodes.get_mut(&node) else { continue };
            let number = storm.state.running.as_ref().unwrap().run.as_u128();
            let run = Box::new(EndedRun { digest: Some("after".to_owned()), ..ended(number) });
            storm.state.apply(&AgainEvent::RunEnded { at, run, seed: 2 }, &policy);
        }
        for (node, storm) in &mut nodes {
            if !storm.is_waiting && storm.state.next_step(&policy, at) == NextStep::Start {
                storm.is_waiting = true;
                pool.wait(node, 0, at);
            }
        }
        if at == NOW + 10_000 {
            pool.wait(&operator, 100, at);
            releases_before_operator = Some(pool.released);
        }
        for node in pool.begin_runs(at) {
            if node == operator {
                let releases = pool.released - releases_before_operator.unwrap();
                assert!(releases <= 2, "the operator waited for {releases} releases");
            }
            if let Some(storm) = nodes.get_mut(&node) {
                let run = Uuid::from_u128(u128::from(at) << 32 | u128::from(pool.bucket.revision));
                storm.state.apply(&AgainEvent::Started { at, run }, &policy);
                storm.is_waiting = false;
            }
        }
        at += STEP;
    }
    for (node, storm) in &nodes {
        assert_eq!(storm.state.next_step(&policy, at), NextStep::Idle, "{node}");
        assert_eq!(pool.begun.iter().filter(|(begun, _)| begun == node).count(), 1, "{node}");
        assert_eq!((storm.state.history.len(), storm.state.history[0].requests), (1, 50));
    }
    let mut bins = BTreeMap::<Millis, usize>::new();
    for (_, begin) in &pool.begun {
        *bins.entry((begin - NOW) / 1000).or_default() += 1;
    }
    let last = pool.begun.iter().map(|(_, begin)| begin).max().unwrap();
    let seconds = usize::try_from((last - NOW) / 1000 + 1).unwrap();
    let mean = pool.begun.len().div_ceil(seconds);
    assert!(bins.values().all(|count| *count <= 3 * mean), "mean {mean}: {bins:?}");
}
