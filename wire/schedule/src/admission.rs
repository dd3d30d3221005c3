//! What a node checks before it runs a scheduled request: the slot is one of the author's schedule, and it may start now. Nodes do not know seats.

use muster_base::format_rfc3339;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::compile::{CompiledSchedule, ScheduleTiming};

/// Accepted difference between the clocks of the scheduler and the node, in milliseconds.
pub const CLOCK_SKEW_MILLIS: Millis = 30_000;
/// Time that a request may take from its last permitted start to the node, in milliseconds.
pub const LAST_START_GRACE_MILLIS: Millis = 60_000;

/// First part of the digest of a request id: no other digest begins with it.
const REQUEST_ID_DOMAIN: &[u8] = b"muster.schedule.request.v1\0";
/// First part of the digest of a withdrawal's id.
const WITHDRAWAL_ID_DOMAIN: &[u8] = b"muster.schedule.withdrawal.v1\0";

/// Why a node refuses a scheduled request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// The time is not one of the schedule's.
    #[error("{} is not a time of the schedule", format_rfc3339(*.slot))]
    NotASlot {
        /// The slot of the request.
        slot: Millis,
    },
    /// The slot is in the future by this machine's clock.
    #[error(
        "the schedule's turn of {} has not begun by this node's clock, which shows {}",
        format_rfc3339(*.slot),
        format_rfc3339(*.now)
    )]
    TooEarly {
        /// The slot of the request.
        slot: Millis,
        /// The node's clock.
        now: Millis,
    },
    /// The slot's last start has passed.
    #[error(
        "the schedule's turn of {} ended at {}; this node's clock shows {}",
        format_rfc3339(*.slot),
        format_rfc3339(*.ended),
        format_rfc3339(*.now)
    )]
    TooLate {
        /// The slot of the request.
        slot: Millis,
        /// Its last start.
        ended: Millis,
        /// The node's clock.
        now: Millis,
    },
    /// No start is permitted now.
    #[error("{}", describe_closed(*.now, .blackout.as_deref()))]
    Closed {
        /// The node's clock.
        now: Millis,
        /// The reason of the blackout, if one is the cause.
        blackout: Option<String>,
    },
}

fn describe_closed(now: Millis, blackout: Option<&str>) -> String {
    let now = format_rfc3339(now);
    match blackout {
        Some("") => format!("{now} is in a blackout of the schedule"),
        Some(reason) => format!("{now} is in a blackout of the schedule: {reason}"),
        None => format!("{now} is outside the schedule's windows"),
    }
}

impl CompiledSchedule {
    /// Whether a node may start the request of a slot now.
    pub fn admits(&self, slot: Millis, now: Millis) -> Result<(), SlotRefusal> {
        if now.saturating_add(CLOCK_SKEW_MILLIS) < slot {
            return Err(SlotRefusal::TooEarly { slot, now });
        }
        let ended = self.last_admission(slot);
        if now > ended {
            return Err(SlotRefusal::TooLate { slot, ended, now });
        }
        if !self.is_slot(slot) {
            return Err(SlotRefusal::NotASlot { slot });
        }
        // The scheduler's clock may be before or after an edge of a window.
        let near =
            [now, now.saturating_add(CLOCK_SKEW_MILLIS), now.saturating_sub(CLOCK_SKEW_MILLIS)];
        if near.into_iter().any(|instant| self.is_open(instant)) {
            return Ok(());
        }
        let blackout = self.open_times.blackout_reason(now).map(str::to_owned);
        Err(SlotRefusal::Closed { now, blackout })
    }

    /// The last instant at which a node accepts a request of this slot.
    pub fn last_admission(&self, slot: Millis) -> Millis {
        match &self.timing {
            ScheduleTiming::Every(interval) => {
                let next = interval.next_after(slot);
                next.and_then(|next| interval.next_after(next)).unwrap_or(Millis::MAX)
            }
            ScheduleTiming::Cron(_) => slot
                .saturating_add(self.spread())
                .saturating_add(self.catch_up())
                .saturating_add(LAST_START_GRACE_MILLIS),
        }
    }
}

/// The id of the request of a grant to a node for a slot: a UUID of version 7 whose time is the slot. Two schedulers send the same id, so that the node's replay protection
/// refuses the second one.
pub fn slot_request_id(grant: Uuid, node: &Identity, slot: Millis) -> Uuid {
    let slot_bytes = slot.to_be_bytes();
    derive_id(slot, &[REQUEST_ID_DOMAIN, grant.as_bytes(), &slot_bytes, node.as_str().as_bytes()])
}

/// The id of the request that withdraws the turn with this id.
pub(crate) fn withdrawal_id(turn: Uuid, slot: Millis) -> Uuid {
    derive_id(slot, &[WITHDRAWAL_ID_DOMAIN, turn.as_bytes()])
}

fn derive_id(time: Millis, parts: &[&[u8]]) -> Uuid {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    let mut random = [0; 10];
    for (target, source) in random.iter_mut().zip(digest) {
        *target = source;
    }
    uuid::Builder::from_unix_timestamp_millis(time, &random).into_uuid()
}
