//! The ledger of one run of Puppet: notes become entries, on the disk before the next line is read.
//!
//! The same log may be read twice, by a daemon that was started anew: what is owed already is not entered again.

use std::path::PathBuf;

use muster_api::system::{StateDir, System, SystemError};
use muster_engine::ledger::{Certainty, Debt, Ledger};
use serde_json::Value;

use super::follow::{Follower, Note};
use super::relations::Relations;
use super::trace::{Line, Step};

/// Largest catalog that is read, in bytes.
pub(crate) const CATALOG: u64 = 64 * 1024 * 1024;

/// Ledger, catalog and what is known of the run.
#[derive(Debug)]
pub(crate) struct Books {
    ledger: Ledger,
    run: String,
    follower: Follower,
    /// Where the catalog will be, once the run has it; the node's own path.
    catalog: Option<PathBuf>,
    relations: Option<Relations>,
    now: i64,
}

impl Books {
    pub(crate) fn open(
        engine: &StateDir,
        run: String,
        is_noop: bool,
        catalog: Option<PathBuf>,
    ) -> Result<Self, SystemError> {
        Ok(Self {
            ledger: Ledger::open(engine)?,
            run,
            follower: Follower::new(is_noop),
            catalog,
            relations: None,
            now: 0,
        })
    }

    /// Takes in a line.
    pub(crate) fn hear(&mut self, line: &Line, system: &dyn System) -> Result<(), SystemError> {
        if self.relations.is_none() && line.step() == Step::Started {
            self.relations = Some(self.read_relations(system));
        }
        let relations = self.relations.get_or_insert_default();
        let notes = self.follower.hear(line, relations);
        if line.step() == Step::Applying {
            // Read again: the lines before came without a catalog.
            self.relations = None;
        }
        self.enter(notes, system)
    }

    /// The run is over. `replayed` are the targets that it was to pay.
    pub(crate) fn end(
        &mut self,
        replayed: &[String],
        system: &dyn System,
    ) -> Result<(), SystemError> {
        let relations = self.relations.take().unwrap_or_default();
        let mut notes = self.follower.end(&relations);
        notes.extend(self.follower.deaf(replayed));
        self.enter(notes, system)
    }

    fn read_relations(&self, system: &dyn System) -> Relations {
        let read = |path: &PathBuf| catalog(system, path);
        let document = self.catalog.as_ref().and_then(read);
        Relations::of(&document.unwrap_or_default())
    }

    fn enter(&mut self, notes: Vec<Note>, system: &dyn System) -> Result<(), SystemError> {
        if !notes.is_empty() {
            self.now = seconds(system);
        }
        for note in notes {
            match note {
                Note::Owed {
                    source,
                    target,
                    is_certain,
                } => self.owe(&source, &target, is_certain)?,
                Note::Paid { target } => self.ledger.paid(&target)?,
                Note::Tried { target, reason } => {
                    self.ledger.begin(&target)?;
                    self.ledger.explain(&target, &reason)?;
                }
                Note::Kept { target, reason } => self.ledger.explain(&target, reason)?,
            }
        }
        Ok(())
    }

    fn owe(&mut self, source: &str, target: &str, is_certain: bool) -> Result<(), SystemError> {
        let same = |debt: &&Debt| debt.source == source && debt.target == target;
        let known = self.ledger.debts().find(same);
        match known.map(|debt| (debt.id, debt.certainty)) {
            Some((id, Certainty::Uncertain)) if is_certain => return self.ledger.confirm(&[id]),
            Some(_) => return Ok(()),
            None => {}
        }
        let targets = [(target.to_owned(), String::new())];
        let intent = self
            .ledger
            .intend(&self.run, source, "", self.now, &targets)?;
        if is_certain {
            self.ledger.made(&intent)?;
        }
        Ok(())
    }
}

/// A catalog of the node; what is none is nothing.
pub(crate) fn catalog(system: &dyn System, path: &std::path::Path) -> Option<Value> {
    let bytes = system.read(path, CATALOG).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Who is owed a refresh, each once, in the order of the oldest debts.
pub(crate) fn owed(engine: &StateDir) -> Result<Vec<String>, SystemError> {
    let mut targets: Vec<String> = Vec::new();
    for debt in Ledger::peek(engine)? {
        if !targets.contains(&debt.target) {
            targets.push(debt.target);
        }
    }
    Ok(targets)
}

fn seconds(system: &dyn System) -> i64 {
    let since = system.now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
