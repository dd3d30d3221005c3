//! The requests of one turn, as the service sends them and as nodes expect them: the turn itself, and its withdrawal.

use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::admission::{slot_request_id, withdrawal_id};
use crate::compile::{CompiledSchedule, ScheduleTiming, millis};

/// The agent and action of Puppet runs, which know permits.
const PUPPET_RUN: (&str, &str) = ("puppet", "runonce");
/// How long a Puppet run of a schedule waits for its permit by default, in seconds.
const DEFAULT_PERMIT_WAIT_SECONDS: u64 = 30 * 60;

/// The agent and action that withdraw a turn. The node decides the request as one of the schedule's author.
const WITHDRAWAL: (&str, &str) = ("rpcutil", "cancel");

/// A request of a schedule to one node: what it calls, with which inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRequest {
    /// The request's id. It is the same whichever instance sends it.
    pub id: Uuid,
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// The inputs.
    pub inputs: Map<String, Value>,
    /// The time limit, in milliseconds.
    pub timeout: Option<Millis>,
}

impl CompiledSchedule {
    /// The request that runs the turn of a slot on a node. `grant` is the id of the signed schedule.
    pub fn turn_request(&self, grant: Uuid, node: &Identity, slot: Millis) -> TurnRequest {
        let id = slot_request_id(grant, node, slot);
        TurnRequest {
            id,
            agent: self.spec.agent.to_string(),
            action: self.spec.action.to_string(),
            inputs: self.request_inputs(id),
            timeout: self.timeout_millis(),
        }
    }

    /// The request that cancels the turn of a slot on a node, unless its work has begun.
    pub fn withdrawal_request(grant: Uuid, node: &Identity, slot: Millis) -> TurnRequest {
        let turn = slot_request_id(grant, node, slot);
        let (agent, action) = WITHDRAWAL;
        let inputs = [("id", json!(turn)), ("waiting_only", json!(true))];
        TurnRequest {
            id: withdrawal_id(turn, slot),
            agent: agent.to_owned(),
            action: action.to_owned(),
            inputs: inputs.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
            timeout: None,
        }
    }

    /// Whether the action is a Puppet run.
    pub fn is_puppet_run(&self) -> bool {
        (self.spec.agent.as_str(), self.spec.action.as_str()) == PUPPET_RUN
    }

    /// The inputs of the request with this id. A Puppet run gets the id as its own, and takes a permit from the pool with the schedule's limit
    /// and priority; inputs that the author wrote go before.
    fn request_inputs(&self, id: Uuid) -> Map<String, Value> {
        if !self.is_puppet_run() {
            return self.spec.inputs.clone();
        }
        let mut inputs = Map::new();
        inputs.insert("run".to_owned(), json!(id));
        inputs.insert("priority".to_owned(), json!(self.spec.priority));
        inputs.insert("wait".to_owned(), json!(self.permit_wait_seconds()));
        inputs.extend(self.spec.limit.map(|limit| ("limit".to_owned(), json!(limit))));
        inputs.extend(self.spec.pool.as_ref().map(|pool| ("pool".to_owned(), json!(pool))));
        // The slot spreads the runs already.
        inputs.insert("splay".to_owned(), json!(false));
        inputs.extend(self.spec.inputs.clone());
        inputs
    }

    /// A run that waits longer would meet its next turn.
    fn permit_wait_seconds(&self) -> u64 {
        self.spec.every.unwrap_or(DEFAULT_PERMIT_WAIT_SECONDS).min(DEFAULT_PERMIT_WAIT_SECONDS)
    }

    /// The time limit of the request, if the schedule states one.
    pub fn timeout_millis(&self) -> Option<Millis> {
        self.spec.timeout.map(millis)
    }

    /// When turns begin, in words: `every 30 m 00 s`, `every 1 d 0 h (Europe/Berlin)`, `at 0 3 * * * (Europe/Berlin)`.
    pub fn describe_timing(&self) -> String {
        let zone = self.spec.time_zone.as_deref().unwrap_or("UTC");
        match (&self.timing, &self.spec.cron) {
            (ScheduleTiming::Every(interval), _) => {
                let every = format!("every {}", muster_base::format_millis(interval.length()));
                if interval.is_local() { format!("{every} ({zone})") } else { every }
            }
            (ScheduleTiming::Cron(_), cron) => {
                format!("at {} ({zone})", cron.as_deref().unwrap_or_default())
            }
        }
    }
}
