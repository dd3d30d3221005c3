//! Reports to nodes that wait for runs of others: evaluates their conditions when records change, and sends signed requests. Every instance does, because a
//! second report changes nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use muster_calls::{CallTarget, Client, RpcCall};
use muster_contract::again::{
    AgainMissingInput, AgainNoteMissing, AgainRelease, AgainReleaseInput,
};
use muster_wire::identity::{Identity, NameError, SubjectName};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::barrier_schedule::{BarrierReport, BarrierSchedule};
use crate::barriers::{BarrierVerdict, WaitingNode};
use crate::state::DirectoryHandle;

/// Shortest time between two evaluations.
const EVALUATION_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two evaluations: reports that were lost are repeated.
const MAX_EVALUATION_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which an evaluation goes on with the other filters the next time.
const EVALUATION_TIME: Duration = Duration::from_millis(250);
/// Most reports that wait for their replies. The others follow.
const MAX_REPORTS: usize = 64;
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

type CreateClient = Box<dyn Fn(SubjectName) -> Client + Send + Sync>;

/// Evaluates the conditions of all nodes, and sends what it finds.
pub struct BarrierService {
    handle: DirectoryHandle,
    create_client: CreateClient,
    clients: HashMap<SubjectName, Client>,
    schedule: BarrierSchedule,
    /// The filter after which the last evaluation ended.
    cursor: Option<Arc<str>>,
}

impl std::fmt::Debug for BarrierService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BarrierService").finish_non_exhaustive()
    }
}

impl BarrierService {
    /// Clients sign as the service.
    pub fn new(handle: DirectoryHandle, create_client: CreateClient) -> Self {
        let (clients, schedule) = (HashMap::new(), BarrierSchedule::default());
        Self { handle, create_client, clients, schedule, cursor: None }
    }

    pub async fn run_until_stopped(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.run() => {}
        }
    }

    async fn run(mut self) {
        let mut sending = JoinSet::new();
        loop {
            while sending.try_join_next().is_some() {}
            let change = self.handle.read().last_change();
            let room = MAX_REPORTS.saturating_sub(sending.len());
            for report in self.find_due_reports(Instant::now(), room) {
                self.send_report(report, &mut sending);
            }
            sleep(EVALUATION_INTERVAL).await;
            // A timeout is no change; what was lost is sent again.
            let _ = timeout(MAX_EVALUATION_INTERVAL, self.handle.wait_for_change(change)).await;
        }
    }

    fn find_due_reports(&mut self, now: Instant, room: usize) -> Vec<BarrierReport> {
        let mut waiting = {
            let state = self.handle.read();
            // An instance that does not know all nodes would release too early.
            if !state.can_evaluate() {
                return Vec::new();
            }
            state.waiting_nodes(now)
        };
        let all = waiting.values().flatten().cloned().collect();
        let admitted = self.schedule.admit(all, now);
        waiting.values_mut().for_each(Vec::clear);
        for one in admitted {
            waiting.entry(Arc::clone(&one.barrier.filter)).or_default().push(one);
        }
        // The filters after the cursor first.
        let cursor = self.cursor.take();
        let is_later = |filter: &Arc<str>| cursor.as_ref().is_none_or(|cursor| filter > cursor);
        let (later, earlier): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(filter, _)| is_later(filter));
        let mut reports = Vec::new();
        for (filter, nodes) in later.into_iter().chain(earlier) {
            self.evaluate_filter(&filter, nodes, now, room, &mut reports);
            if now.elapsed() > EVALUATION_TIME || reports.len() >= room {
                self.cursor = Some(filter);
                break;
            }
        }
        reports
    }

    fn evaluate_filter(
        &mut self,
        filter: &str,
        nodes: Vec<WaitingNode>,
        now: Instant,
        room: usize,
        reports: &mut Vec<BarrierReport>,
    ) {
        if nodes.is_empty() {
            return;
        }
        let Some(runs) = self.handle.read().last_runs(filter, now) else { return };
        for waiting in nodes {
            let verdict = runs.evaluate(&waiting.node, waiting.barrier.after);
            if reports.len() < room && self.schedule.take_due(&waiting, &verdict, now) {
                reports.push(BarrierReport { waiting, verdict });
            }
        }
    }

    fn send_report(&mut self, report: BarrierReport, sending: &mut JoinSet<()>) {
        let BarrierReport { waiting, verdict } = report;
        let node = waiting.node.clone();
        match self.build_call(&waiting, verdict) {
            Ok((client, call)) => drop(sending.spawn(call_node(client, call, node))),
            Err(error) => {
                tracing::warn!(%node, %error, "cannot report about a condition of a node");
            }
        }
    }

    fn build_call(
        &mut self,
        waiting: &WaitingNode,
        verdict: BarrierVerdict,
    ) -> Result<(Client, RpcCall), NameError> {
        let collective = waiting.collectives.first().map(String::as_str).unwrap_or_default();
        let collective = SubjectName::parse(collective)?;
        let create = || (self.create_client)(collective.clone());
        let client = self.clients.entry(collective.clone()).or_insert_with(create).clone();
        let id = waiting.barrier.id.to_string();
        let target = CallTarget::Nodes([waiting.node.clone()].into());
        let mut call = match verdict {
            BarrierVerdict::Holds => {
                RpcCall::of_action::<AgainRelease>(&AgainReleaseInput { id }, target)?
            }
            BarrierVerdict::Missing { count, names } => {
                let input = AgainMissingInput { id, count, nodes: names };
                RpcCall::of_action::<AgainNoteMissing>(&input, target)?
            }
        };
        (call.timeout, call.wait) = (Some(REPORT_TIMEOUT), REPORT_TIMEOUT * 2);
        Ok((client, call))
    }
}

/// Sends one report. A failure is logged: it is sent again while the node waits.
async fn call_node(client: Client, call: RpcCall, node: Identity) {
    let action = call.action.clone();
    let mut problem = Some("no reply".to_owned());
    let called = client.run_call(call, |answer| {
        problem = (!answer.is_ok()).then(|| answer.reply.statusmsg.raw().to_owned());
    });
    let problem = match called.await {
        Ok(_) => problem,
        Err(error) => Some(error.to_string()),
    };
    match problem {
        None => tracing::debug!(%node, %action, "reported about a condition of a node"),
        Some(problem) => {
            tracing::warn!(%node, %action, problem, "cannot report about a condition of a node");
        }
    }
}
