//! What the bucket `SCHEDULES` holds, by key.
//!
//! ```text
//! schedule.NAME        the signed schedule, and whether it is paused
//! turns.NAME.PART      the seat of each node, and its last turn, in 128 parts by a hash of the node's name
//! history.NAME         the last turns of all nodes
//! paused               whether all schedules are paused
//! leader               the leader lease
//! ```
//!
//! Callers' requests write the first and `paused`; the leader writes the others.

use std::collections::{BTreeMap, VecDeque};

use muster_bus::{BucketEntry, Bytes};
use muster_contract::schedule::{ScheduleEntry, SchedulePauseRow};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use serde::{Deserialize, Serialize};

use crate::node_progress::NodeProgress;

/// Number of parts in which the turns of a schedule are stored, so that each stays small with 50,000 nodes.
const TURN_PARTS: u16 = 128;
/// Most schedules. It limits the size of the bucket.
pub(crate) const MAX_SCHEDULES: usize = 256;
pub(crate) const MAX_HISTORY: usize = 500;
pub(crate) const PAUSED_KEY: &str = "paused";

/// Whether something is paused, and when it was resumed last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PauseState {
    /// Who paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<SchedulePauseRow>,
    /// When it was resumed last. Turns of the time before are not missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSchedule {
    /// The signed grant.
    pub(crate) grant: String,
    #[serde(default)]
    pub(crate) pause: PauseState,
    /// When a caller last asked to assign the seats by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rebalance: Option<Millis>,
}

/// What is known of the nodes of one part.
pub(crate) type TurnPart = BTreeMap<Identity, NodeProgress>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreKey {
    Schedule(SubjectName),
    Turns(SubjectName, u16),
    History(SubjectName),
    Paused,
}

impl StoreKey {
    /// Parses a key; `None` for any other one.
    pub(crate) fn parse(key: &str) -> Option<Self> {
        let mut words = key.split('.');
        let (kind, name, part) = (words.next()?, words.next(), words.next());
        let name = name.map(SubjectName::parse).transpose().ok()?;
        match (kind, name, part) {
            (PAUSED_KEY, None, None) => Some(Self::Paused),
            ("schedule", Some(name), None) => Some(Self::Schedule(name)),
            ("history", Some(name), None) => Some(Self::History(name)),
            ("turns", Some(name), Some(part)) => Some(Self::Turns(name, part.parse().ok()?)),
            _ => None,
        }
    }

    /// The key of the part that has this node.
    pub(crate) fn turns_of(schedule: &SubjectName, node: &Identity) -> Self {
        // FNV-1a: the same in each version and on each machine.
        let hash = node.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let part = u16::try_from(hash % u64::from(TURN_PARTS)).unwrap_or_default();
        Self::Turns(schedule.clone(), part)
    }

    pub(crate) fn all_of(schedule: &SubjectName) -> Vec<Self> {
        let parts = (0..TURN_PARTS).map(|part| Self::Turns(schedule.clone(), part));
        let others = [Self::Schedule(schedule.clone()), Self::History(schedule.clone())];
        others.into_iter().chain(parts).collect()
    }
}

impl std::fmt::Display for StoreKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Schedule(name) => write!(out, "schedule.{name}"),
            Self::Turns(name, part) => write!(out, "turns.{name}.{part}"),
            Self::History(name) => write!(out, "history.{name}"),
            Self::Paused => out.write_str(PAUSED_KEY),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ScheduleRecords {
    pub(crate) schedule: Option<StoredSchedule>,
    pub(crate) nodes: BTreeMap<Identity, NodeProgress>,
    pub(crate) history: VecDeque<ScheduleEntry>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StoredState {
    pub(crate) schedules: BTreeMap<SubjectName, ScheduleRecords>,
    /// Whether all schedules are paused.
    pub(crate) pause: PauseState,
}

impl StoredState {
    /// Names of removed schedules that still have stored turns: a leader wrote them during the removal.
    pub(crate) fn removed_schedules(&self) -> Vec<SubjectName> {
        let removed = self.schedules.iter().filter(|(_, records)| records.schedule.is_none());
        removed.map(|(name, _)| name.clone()).collect()
    }

    /// A value that cannot be read is logged and left out.
    pub(crate) fn apply(&mut self, entry: &BucketEntry) {
        let Some(key) = StoreKey::parse(&entry.key) else { return };
        let value = entry.value.as_ref();
        let applied = match key {
            StoreKey::Paused => read(value).map(|pause| self.pause = pause.unwrap_or_default()),
            StoreKey::Schedule(name) => read(value).map(|schedule: Option<StoredSchedule>| {
                if schedule.is_none() {
                    self.schedules.remove(&name);
                } else {
                    self.schedules.entry(name).or_default().schedule = schedule;
                }
            }),
            StoreKey::History(name) => read(value).map(|history: Option<VecDeque<_>>| {
                if let Some(records) = self.records_of(name, history.is_some()) {
                    records.history = history.unwrap_or_default();
                }
            }),
            StoreKey::Turns(name, part) => read(value).map(|nodes: Option<TurnPart>| {
                let key = StoreKey::Turns(name.clone(), part);
                if let Some(records) = self.records_of(name.clone(), nodes.is_some()) {
                    records.nodes.retain(|node, _| StoreKey::turns_of(&name, node) != key);
                    records.nodes.extend(nodes.unwrap_or_default());
                }
            }),
        };
        if let Err(error) = applied {
            tracing::warn!(key = entry.key, %error, "cannot read an entry of the bucket of schedules");
        }
    }

    /// Parts may be read before the schedule itself.
    fn records_of(&mut self, name: SubjectName, is_created: bool) -> Option<&mut ScheduleRecords> {
        if is_created {
            return Some(self.schedules.entry(name).or_default());
        }
        self.schedules.get_mut(&name)
    }
}

/// The value of an entry; `None` if it was deleted.
fn read<T: serde::de::DeserializeOwned>(value: Option<&Bytes>) -> serde_json::Result<Option<T>> {
    value.map(|value| serde_json::from_slice(value)).transpose()
}
