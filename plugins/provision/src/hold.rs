//! Who has the node: a lock with a lease and a number, and the marks of a node that is done or has only begun.
//!
//! The number (*fence*) only grows, also over unlocking. A step that comes with an older one than the node has seen is refused: a
//! provisioner that was thought dead cannot go on where another one has taken over. Everything here blocks, and knows no Puppet.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::ActionError;
use muster_api::system::{Lock, StateDir, SystemError};
use muster_api::wire::status::{Reason, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The file that says that provisioning of this node has ended; in the daemon's state directory.
pub const DISABLED: &str = "provision.disabled";
/// The file that makes the daemon offer nothing but provisioning; in the same place.
pub const MARKER: &str = "provisioning";

const LOCK: &str = "provision.lock";
const FENCE: &str = "provision.fence";
const GUARD: &str = "provision.guard";
/// How long another step on these files may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest of them, in bytes.
const LARGEST: u64 = 4096;
/// Longest lease. One that seems longer comes from a clock that went wrong.
const LONGEST: u64 = 3600;

/// The files, in a directory.
#[derive(Debug)]
pub(crate) struct Hold {
    directory: PathBuf,
}

/// A lock as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) owner: String,
    pub(crate) fence: u64,
    /// In milliseconds since 1970.
    pub(crate) expires: u64,
}

/// The highest number so far, and whose it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Highest {
    owner: String,
    fence: u64,
}

/// How it is with the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The lock, if its lease has not ended.
    pub(crate) held: Option<Record>,
    /// Who had the highest number.
    pub(crate) owner: String,
    pub(crate) fence: u64,
}

/// Why somebody may not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldError {
    /// Another one has it.
    #[error("{} holds this node, with fence {}, for another {} s", held.owner, held.fence, left.as_secs() + 1)]
    Held { held: Record, left: Duration },
    /// A number that was overtaken.
    #[error(
        "fence {asked} is older than {seen}, which this node has seen: another provisioner has taken over"
    )]
    Fenced { asked: u64, seen: u64 },
    /// A number that nobody took the node with.
    #[error("this node was not locked with fence {asked}; take the lock first")]
    NotTaken { asked: u64 },
    /// The node is done.
    #[error(
        "provisioning of this node has ended; `rpc do provision reprovision` lets it begin anew"
    )]
    Disabled,
    /// The files.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<HoldError> for ActionError {
    fn from(error: HoldError) -> Self {
        let message = muster_api::system::error::chain(&error);
        match error {
            HoldError::Held { held, left } => Self {
                status: Status::Other,
                message,
                reason: Some(Reason::Busy {
                    retry_after_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
                }),
                data: Map::from_iter([
                    ("locked".to_owned(), Value::from(true)),
                    ("owner".to_owned(), held.owner.into()),
                    ("fence".to_owned(), held.fence.into()),
                    ("expires".to_owned(), (held.expires / 1000).into()),
                ]),
            },
            HoldError::Fenced { .. } | HoldError::NotTaken { .. } => {
                Self::denied(message, "provision.fence")
            }
            HoldError::Disabled => Self::denied(message, DISABLED),
            HoldError::System(_) => Self::failed(message),
        }
    }
}

impl Hold {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Takes the node, or goes on holding it. A lease that has ended is taken over with a higher number.
    pub(crate) fn take(
        &self,
        owner: &str,
        lease: Duration,
        fence: Option<u64>,
        now: SystemTime,
    ) -> Result<Record, HoldError> {
        let (files, _guard) = self.open()?;
        if files.contains(DISABLED) {
            return Err(HoldError::Disabled);
        }
        let (current, highest) = (record(&files)?, highest(&files)?);
        let seen = highest
            .fence
            .max(current.as_ref().map_or(0, |lock| lock.fence));
        let live = current.as_ref().filter(|lock| left(lock, now).is_some());
        let wanted = match (live, fence) {
            (Some(held), _) if held.owner != owner => return Err(busy(held, now)),
            (Some(held), None) => held.fence,
            (None, None) => seen.saturating_add(1),
            (_, Some(fence)) => fence,
        };
        if wanted < seen || (wanted == seen && seen > 0 && highest.owner != owner) {
            let asked = wanted;
            return Err(HoldError::Fenced { asked, seen });
        }
        let new = Record {
            owner: owner.to_owned(),
            fence: wanted,
            expires: milliseconds(now)
                .saturating_add(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        };
        // First the number: whatever happens in between, it is used up.
        let highest = Highest {
            owner: owner.to_owned(),
            fence: wanted,
        };
        files.replace(FENCE, &json(&highest))?;
        if current.is_some() || !files.create_new(LOCK, &json(&new))? {
            // Under the guard nobody else can have made it since: it is one that cannot be read, or ours to replace.
            files.replace(LOCK, &json(&new))?;
        }
        Ok(new)
    }

    /// Gives the node back. Tells whether there was a lock.
    pub(crate) fn give_back(
        &self,
        fence: Option<u64>,
        force: bool,
        now: SystemTime,
    ) -> Result<bool, HoldError> {
        let (files, _guard) = self.open()?;
        let Some(lock) = record(&files)? else {
            // Also one that cannot be read.
            let is_there = files.contains(LOCK);
            files.remove(LOCK)?;
            return Ok(is_there);
        };
        if !force {
            admitted(Some(&lock), lock.fence, fence, now)?;
        }
        files.remove(LOCK)?;
        Ok(true)
    }

    /// Whether a step with this number may be done now.
    pub(crate) fn admit(&self, fence: Option<u64>, now: SystemTime) -> Result<(), HoldError> {
        let (files, _guard) = self.open()?;
        if files.contains(DISABLED) {
            return Err(HoldError::Disabled);
        }
        admit(&files, fence, now)
    }

    /// Marks the node as done; with `unlock` the lock goes as well. Tells whether it was not done before. May be repeated.
    pub(crate) fn finish(
        &self,
        fence: Option<u64>,
        unlock: bool,
        now: SystemTime,
    ) -> Result<bool, HoldError> {
        let (files, _guard) = self.open()?;
        let changed = !files.contains(DISABLED);
        admit(&files, fence, now)?;
        if changed {
            let since = Map::from_iter([("since".to_owned(), (milliseconds(now) / 1000).into())]);
            files.replace(DISABLED, &json(&since))?;
        }
        files.remove(MARKER)?;
        if unlock {
            files.remove(LOCK)?;
        }
        Ok(changed)
    }

    /// Lets the node be provisioned once more. Tells whether it was done.
    pub(crate) fn begin_anew(&self) -> Result<bool, HoldError> {
        let (files, _guard) = self.open()?;
        let changed = files.contains(DISABLED);
        files.remove(DISABLED)?;
        Ok(changed)
    }

    /// Who has it.
    pub(crate) fn look(&self, now: SystemTime) -> Result<Look, HoldError> {
        let files = StateDir::open(&self.directory)?;
        let (current, highest) = (record(&files)?, highest(&files)?);
        let seen = highest
            .fence
            .max(current.as_ref().map_or(0, |lock| lock.fence));
        let held = current.filter(|lock| left(lock, now).is_some());
        Ok(Look {
            owner: held
                .as_ref()
                .map_or(highest.owner, |lock| lock.owner.clone()),
            held,
            fence: seen,
        })
    }

    /// Whether the node is done, and whether it offers nothing but provisioning.
    pub(crate) fn marks(&self) -> (bool, bool) {
        let is_there = |name: &str| self.directory.join(name).exists();
        (is_there(DISABLED), is_there(MARKER))
    }

    /// Nobody else changes these files while the guard lives.
    pub(crate) fn open(&self) -> Result<(StateDir, Box<dyn Lock>), SystemError> {
        let files = StateDir::open(&self.directory)?;
        let guard = files.lock(GUARD, PATIENCE)?;
        Ok((files, guard))
    }
}

fn admit(files: &StateDir, fence: Option<u64>, now: SystemTime) -> Result<(), HoldError> {
    let (current, highest) = (record(files)?, highest(files)?);
    let seen = highest
        .fence
        .max(current.as_ref().map_or(0, |lock| lock.fence));
    admitted(current.as_ref(), seen, fence, now)
}

/// Whether a number is good for a step: that of the lock, or where there is none, the highest. Without a lock none is needed.
fn admitted(
    current: Option<&Record>,
    seen: u64,
    fence: Option<u64>,
    now: SystemTime,
) -> Result<(), HoldError> {
    let live = current.filter(|lock| left(lock, now).is_some());
    match (live, fence) {
        (Some(held), None) => Err(busy(held, now)),
        (_, Some(asked)) if asked < seen => Err(HoldError::Fenced { asked, seen }),
        (_, Some(asked)) if asked > seen => Err(HoldError::NotTaken { asked }),
        _ => Ok(()),
    }
}

fn busy(held: &Record, now: SystemTime) -> HoldError {
    HoldError::Held {
        held: held.clone(),
        left: left(held, now).unwrap_or_default(),
    }
}

/// How long the lease still lasts; `None` when it has ended.
fn left(lock: &Record, now: SystemTime) -> Option<Duration> {
    let left = lock.expires.checked_sub(milliseconds(now))?;
    (left > 0 && left <= LONGEST * 1000).then(|| Duration::from_millis(left))
}

fn record(files: &StateDir) -> Result<Option<Record>, SystemError> {
    let text = files.read(LOCK, LARGEST)?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn highest(files: &StateDir) -> Result<Highest, SystemError> {
    let text = files.read(FENCE, LARGEST)?;
    let read = text.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(read.unwrap_or_default())
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn milliseconds(now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::{Duration, SystemTime};

    use super::{DISABLED, Hold, HoldError, LOCK, MARKER};

    const LEASE: Duration = Duration::from_mins(2);

    fn hold() -> (tempfile::TempDir, Hold) {
        let directory = tempfile::tempdir().unwrap();
        let hold = Hold::new(directory.path().to_owned());
        (directory, hold)
    }

    /// A9.7: whoever of two comes first has it, and the other one is told who.
    #[test]
    fn two_who_race_a_thousand_times_leave_one_owner_each_time() {
        let (_directory, hold) = hold();
        let barrier = Barrier::new(2);
        let now = SystemTime::now();
        for round in 0..1000 {
            let attempt = |owner: &str| {
                // Two objects on the same files, as two processes would have.
                let hold = Hold::new(hold.directory.clone());
                barrier.wait();
                hold.take(owner, LEASE, None, now)
            };
            let (one, two) = std::thread::scope(|scope| {
                let one = scope.spawn(|| attempt("one"));
                let two = attempt("two");
                (one.join().unwrap(), two)
            });
            let (winner, loser) = match (one, two) {
                (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
                other => panic!("round {round}: {other:?}"),
            };
            let HoldError::Held { held, .. } = loser else {
                panic!("round {round}: {loser:?}");
            };
            assert_eq!(held, winner);
            assert_eq!(winner.fence, round + 1);
            assert!(hold.give_back(Some(winner.fence), false, now).unwrap());
        }
    }

    #[test]
    fn a_lease_that_has_ended_is_taken_over_and_the_old_owner_is_refused() {
        let (_directory, hold) = hold();
        let now = SystemTime::now();
        let first = hold.take("one", LEASE, None, now).unwrap();
        assert!(matches!(
            hold.take("two", LEASE, Some(9), now),
            Err(HoldError::Held { .. })
        ));
        // It goes on holding it with the same number.
        let later = now + LEASE / 2;
        let again = hold.take("one", LEASE, Some(first.fence), later).unwrap();
        assert_eq!(again.fence, first.fence);
        assert!(again.expires > first.expires);
        hold.admit(Some(first.fence), later).unwrap();
        let ended = later + LEASE;
        // Nobody else has come: the step may still be done.
        hold.admit(Some(first.fence), ended).unwrap();
        let second = hold.take("two", LEASE, None, ended).unwrap();
        assert_eq!(second.fence, first.fence + 1);
        assert!(matches!(
            hold.admit(Some(first.fence), ended),
            Err(HoldError::Fenced { asked: 1, seen: 2 })
        ));
        assert!(matches!(
            hold.take("one", LEASE, Some(first.fence), ended + LEASE),
            Err(HoldError::Fenced { .. })
        ));
        assert!(matches!(
            hold.give_back(Some(first.fence), false, ended),
            Err(HoldError::Fenced { .. })
        ));
        assert!(matches!(
            hold.admit(Some(7), ended),
            Err(HoldError::NotTaken { asked: 7 })
        ));
        assert!(matches!(
            hold.admit(None, ended),
            Err(HoldError::Held { .. })
        ));
    }

    #[test]
    fn numbers_outlive_locks_and_a_lock_that_is_not_there_is_given_back() {
        let (directory, hold) = hold();
        let now = SystemTime::now();
        assert!(!hold.give_back(None, false, now).unwrap());
        hold.take("one", LEASE, Some(40), now).unwrap();
        assert!(hold.give_back(Some(40), false, now).unwrap());
        assert!(!hold.give_back(Some(40), false, now).unwrap());
        hold.admit(None, now).unwrap();
        assert!(matches!(
            hold.admit(Some(39), now),
            Err(HoldError::Fenced { .. })
        ));
        // Another owner needs a higher number; the same one may come back with its own.
        assert!(matches!(
            hold.take("two", LEASE, Some(40), now),
            Err(HoldError::Fenced { .. })
        ));
        assert_eq!(hold.take("one", LEASE, Some(40), now).unwrap().fence, 40);
        assert!(hold.give_back(None, true, now).unwrap());
        assert_eq!(hold.take("two", LEASE, None, now).unwrap().fence, 41);
        // A lock that nobody can read holds nobody up.
        hold.give_back(None, true, now).unwrap();
        std::fs::write(directory.path().join(LOCK), "garbage").unwrap();
        assert_eq!(hold.take("three", LEASE, None, now).unwrap().fence, 42);
        let look = hold.look(now).unwrap();
        assert_eq!((look.owner.as_str(), look.fence), ("three", 42));
        assert!(look.held.is_some());
    }

    #[test]
    fn a_node_that_is_done_is_done_until_it_begins_anew() {
        let (directory, hold) = hold();
        let now = SystemTime::now();
        std::fs::write(directory.path().join(MARKER), "").unwrap();
        assert_eq!(hold.marks(), (false, true));
        let lock = hold.take("one", LEASE, None, now).unwrap();
        assert!(matches!(
            hold.finish(Some(0), true, now),
            Err(HoldError::Fenced { .. })
        ));
        assert!(hold.finish(Some(lock.fence), true, now).unwrap());
        assert!(!directory.path().join(LOCK).exists());
        assert_eq!(hold.marks(), (true, false));
        // The answer was lost: it is asked once more.
        assert!(!hold.finish(Some(lock.fence), true, now).unwrap());
        assert!(matches!(
            hold.admit(Some(lock.fence), now),
            Err(HoldError::Disabled)
        ));
        assert!(matches!(
            hold.take("two", LEASE, None, now),
            Err(HoldError::Disabled)
        ));
        assert!(hold.begin_anew().unwrap());
        assert!(!hold.begin_anew().unwrap());
        assert!(!directory.path().join(DISABLED).exists());
        assert_eq!(hold.take("two", LEASE, None, now).unwrap().fence, 2);
    }
}
