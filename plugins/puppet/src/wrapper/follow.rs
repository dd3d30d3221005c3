//! Follows a run of Puppet by its log: who owes whom a refresh, and who got one.
//!
//! Pure: lines go in, [`Note`]s for the ledger come out. What a run forgets without a word is found at its end: containers that
//! were changed inside and told nobody, and whoever was at work when the run broke off.

use std::collections::BTreeSet;

use super::relations::{Relations, key};
use super::replay;
use super::trace::{Line, Step};

/// Types of Puppet's own that refresh nothing, whoever tells them to.
const DEAF: [&str; 13] = [
    "File",
    "Filebucket",
    "Group",
    "Notify",
    "Resources",
    "Schedule",
    "Stage",
    "Tidy",
    "User",
    "Cron",
    "Host",
    "Ssh_authorized_key",
    "Sshkey",
];

/// What a line means for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The target is owed a refresh.
    Owed {
        /// Who was changed.
        source: String,
        /// Who is to be refreshed.
        target: String,
        /// Whether the change was made for certain.
        is_certain: bool,
    },
    /// The target was refreshed, or needs it no more.
    Paid {
        /// Who.
        target: String,
    },
    /// A refresh of the target was begun and failed.
    Tried {
        /// Who.
        target: String,
        /// Puppet's words.
        reason: String,
    },
    /// The target could not be refreshed in this run.
    Kept {
        /// Who.
        target: String,
        /// Why.
        reason: &'static str,
    },
}

/// What is known of a run so far.
#[derive(Debug, Default)]
pub struct Follower {
    /// Whether nothing is changed in this run.
    is_noop: bool,
    turn: Option<Turn>,
    changed: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// Who told whom, as keys.
    scheduled: BTreeSet<(String, String)>,
    /// Containers that were told, and have not passed it on yet.
    due: BTreeSet<String>,
    /// Whether the resource that stands for what earlier runs owe had its turn.
    replayed: bool,
}

/// The turn of one resource or container.
#[derive(Debug)]
struct Turn {
    place: String,
    reference: String,
    said_noop: bool,
    said_real: bool,
}

impl Follower {
    /// At the beginning of a run; `is_noop` when all of it is only told.
    pub fn new(is_noop: bool) -> Self {
        Self {
            is_noop,
            ..Self::default()
        }
    }

    /// What a line means.
    pub fn hear(&mut self, line: &Line, relations: &Relations) -> Vec<Note> {
        if self.is_noop {
            return Vec::new();
        }
        let step = line.step();
        if step == Step::Other {
            return Vec::new();
        }
        let reference = self.reference(&line.source, relations);
        match step {
            Step::Started => {
                self.turn = Some(Turn {
                    place: line.source.clone(),
                    reference,
                    said_noop: false,
                    said_real: false,
                });
                Vec::new()
            }
            Step::Evaluated => {
                self.turn = None;
                self.replayed |= reference == replay::reference();
                let passed_on = self.due.remove(&key(&reference));
                note(passed_on.then_some(Note::Paid { target: reference }))
            }
            Step::Scheduled { target } => self.scheduled(&reference, &target, relations),
            Step::Triggered => {
                self.real();
                self.changed.insert(reference.clone());
                note(Some(Note::Paid { target: reference }))
            }
            Step::Needless => note(Some(Note::Paid { target: reference })),
            Step::WouldTrigger => {
                self.noop();
                note(Some(Note::Kept {
                    target: reference,
                    reason: "noop",
                }))
            }
            Step::RefreshFailed { reason } => {
                self.failed.insert(reference.clone());
                note(Some(Note::Tried {
                    target: reference,
                    reason,
                }))
            }
            Step::Unscheduled => {
                self.due.remove(&key(&reference));
                note(Some(Note::Kept {
                    target: reference,
                    reason: "it was skipped, or something that it needs failed",
                }))
            }
            Step::Noop => {
                self.noop();
                Vec::new()
            }
            Step::Failed => {
                self.failed.insert(reference);
                Vec::new()
            }
            Step::Said => {
                let of_turn = |turn: &Turn| line.source.strip_prefix(turn.place.as_str()).is_some();
                if self.turn.as_ref().is_some_and(of_turn) {
                    self.real();
                    self.changed.insert(reference);
                }
                Vec::new()
            }
            Step::Applying | Step::Other => Vec::new(),
        }
    }

    /// The run is over, in whatever way: what it forgot without a word.
    pub fn end(&mut self, relations: &Relations) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.is_noop {
            return notes;
        }
        if let Some(turn) = self.turn.take() {
            let source = turn.reference;
            for giver in std::iter::once(source.clone()).chain(relations.containers(&source)) {
                let told = |target: &String| self.is_told(&giver, target);
                let targets = relations.targets(&giver);
                notes.extend(
                    targets
                        .into_iter()
                        .filter(|target| !told(target))
                        .map(|target| Note::Owed {
                            source: source.clone(),
                            target,
                            is_certain: false,
                        }),
                );
            }
        }
        for source in self.changed.difference(&self.failed) {
            for container in relations.containers(source) {
                let targets = relations.targets(&container);
                let missed = targets
                    .into_iter()
                    .filter(|target| !self.is_told(&container, target));
                notes.extend(missed.map(|target| Note::Owed {
                    source: container.clone(),
                    target,
                    is_certain: true,
                }));
            }
        }
        notes.retain(|note| !matches!(note, Note::Owed { target, .. } if is_deaf(target)));
        notes
    }

    /// Of the targets of a replay, those that cannot be refreshed at all: the run told nobody that they are to be.
    pub fn deaf(&self, targets: &[String]) -> Vec<Note> {
        let source = replay::reference();
        let is_deaf = |target: &&String| self.replayed && !self.is_told(&source, target);
        let paid = |target: &String| Note::Paid {
            target: target.clone(),
        };
        targets.iter().filter(is_deaf).map(paid).collect()
    }

    fn is_told(&self, source: &str, target: &str) -> bool {
        self.scheduled.contains(&(key(source), key(target)))
    }

    fn scheduled(&mut self, source: &str, target: &str, relations: &Relations) -> Vec<Note> {
        let only_noop = |turn: &Turn| turn.said_noop && !turn.said_real;
        if self.turn.as_ref().is_some_and(only_noop) {
            return Vec::new();
        }
        self.scheduled.insert((key(source), key(target)));
        if relations.is_container(target) || target.starts_with("Class[") {
            self.due.insert(key(target));
        }
        if source == replay::reference() {
            return Vec::new();
        }
        note(Some(Note::Owed {
            source: source.to_owned(),
            target: spelled(target, relations),
            is_certain: true,
        }))
    }

    /// The resource that speaks: what is said of a property is said of its resource.
    fn reference(&self, place: &str, relations: &Relations) -> String {
        if let Some(turn) = &self.turn
            && place.starts_with(&turn.place)
        {
            return turn.reference.clone();
        }
        spelled(&relations.resource_of(place), relations)
    }

    fn real(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.said_real = true;
        }
    }

    fn noop(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.said_noop = true;
        }
    }
}

fn spelled(reference: &str, relations: &Relations) -> String {
    relations.spelled(reference).unwrap_or(reference).to_owned()
}

fn is_deaf(target: &str) -> bool {
    let (type_name, _) = target.split_once('[').unwrap_or_default();
    DEAF.contains(&type_name)
}

fn note(note: Option<Note>) -> Vec<Note> {
    note.into_iter().collect()
}
