//! Writes the ledger of one Puppet run: events become entries, which are on disk before the next line is read.
//!
//! A restarted daemon may read the same log twice; a refresh that is already owed is not entered again.

use muster_api::base::since_epoch;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_api::system::{StateDir, System, SystemResult};
use muster_engine::ledger::{OwedRefresh, RefreshCertainty, RefreshLedger, SourceChange};
use muster_engine::report::parse_timestamp;
use serde_json::Value;

use super::interpreter::{RefreshEvent, TraceInterpreter};
use super::relations::CatalogRelations;
use super::trace::{TraceEvent, TraceLine};

pub(crate) const MAX_CATALOG_BYTES: u64 = 64 * 1024 * 1024;

/// The ledger, the catalog and the interpreter's state for one run.
#[derive(Debug)]
pub(crate) struct RefreshTracker {
    ledger: RefreshLedger,
    run: String,
    interpreter: TraceInterpreter,
    /// Path of the catalog once the run has it, or of the directory in which it is the only one; a path of the node.
    catalog: Option<PathBuf>,
    relations: Option<CatalogRelations>,
    /// Time of the events being applied, in seconds since the epoch.
    now: i64,
    /// Whether the log is read after a restart of the daemon. Other runs may have written to the ledger since.
    is_resumed: bool,
}

impl RefreshTracker {
    pub(crate) fn open(
        engine: &StateDir,
        run: String,
        is_noop: bool,
        catalog: Option<PathBuf>,
        is_resumed: bool,
    ) -> SystemResult<Self> {
        Ok(Self {
            ledger: RefreshLedger::open(engine)?,
            run,
            interpreter: TraceInterpreter::new(is_noop),
            catalog,
            relations: None,
            now: 0,
            is_resumed,
        })
    }

    pub(crate) fn process_line(
        &mut self,
        line: &TraceLine,
        system: &dyn System,
    ) -> SystemResult<()> {
        if self.relations.is_none() && line.classify_line() == TraceEvent::Started {
            let relations = self.read_relations(system);
            self.compare_catalog(&relations, system)?;
            self.relations = Some(relations);
        }
        // Lines before the first resource need no relations.
        let none = CatalogRelations::default();
        let relations = self.relations.as_ref().unwrap_or(&none);
        let event = self.interpreter.process_line(line, relations);
        if line.classify_line() == TraceEvent::Applying {
            // Read the catalog at the next resource: before, the file may have been that of an earlier run. Puppet does not log this line if the
            // catalog has no version.
            self.relations = None;
        }
        let logged_at = line.time.as_deref().and_then(parse_timestamp);
        self.now = logged_at.filter(|_| self.is_resumed).unwrap_or_else(|| unix_seconds(system));
        self.apply_events(event)
    }

    /// `replayed`: the targets that the run was to refresh.
    pub(crate) fn finish_run(
        &mut self,
        replayed: &[String],
        system: &dyn System,
    ) -> SystemResult<()> {
        let relations = self.relations.take().unwrap_or_default();
        let mut events = self.interpreter.finish_run(&relations);
        events.extend(self.interpreter.unrefreshable_targets(replayed));
        self.relations = Some(relations);
        if !self.is_resumed {
            self.now = unix_seconds(system);
        }
        self.apply_events(events)
    }

    fn read_relations(&self, system: &dyn System) -> CatalogRelations {
        let read = |path: &PathBuf| read_catalog(system, path);
        let document = self.catalog.as_ref().and_then(read);
        CatalogRelations::from_catalog(&document.unwrap_or_default())
    }

    /// Flags the entries whose target has another definition in this catalog, and drops those whose target left it long ago.
    fn compare_catalog(
        &mut self,
        relations: &CatalogRelations,
        system: &dyn System,
    ) -> SystemResult<()> {
        if relations.is_empty() {
            return Ok(());
        }
        let owed: Vec<OwedRefresh> = self.ledger.owed_refreshes().cloned().collect();
        let is_missing = |owed: &&OwedRefresh| relations.catalog_spelling(&owed.target).is_none();
        let (missing, present): (Vec<&OwedRefresh>, Vec<&OwedRefresh>) =
            owed.iter().partition(is_missing);
        for owed in present {
            let is_changed = owed.has_other_definition(relations.definition(&owed.target));
            self.ledger.record_target_changed(&[owed.id], is_changed)?;
        }
        let missing: BTreeSet<String> = missing.iter().map(|owed| owed.target.clone()).collect();
        for target in &missing {
            self.ledger.record_reason(target, "it is not in the catalog")?;
        }
        for OwedRefresh { target, source, run, .. } in
            self.ledger.expire_missing(unix_seconds(system), &missing)?
        {
            tracing::warn!(
                target,
                source,
                run,
                "dropped a refresh whose target left the catalog 30 days ago"
            );
        }
        Ok(())
    }

    fn apply_events(&mut self, events: impl IntoIterator<Item = RefreshEvent>) -> SystemResult<()> {
        for event in events {
            match event {
                RefreshEvent::Owed { source, target, is_certain } => {
                    self.record_owed_refresh(&source, &target, is_certain)?;
                }
                RefreshEvent::Refreshed { target } if self.is_resumed => {
                    self.ledger.mark_refreshed_at(&target, &self.run, self.now)?;
                }
                RefreshEvent::Refreshed { target } => self.ledger.mark_refreshed(&target)?,
                RefreshEvent::Failed { target, reason } => {
                    self.ledger.begin_refresh(&target)?;
                    self.ledger.record_reason(&target, &reason)?;
                }
                RefreshEvent::NotRefreshed { target, reason } => {
                    self.ledger.record_reason(&target, reason)?;
                }
            }
        }
        Ok(())
    }

    fn record_owed_refresh(
        &mut self,
        source: &str,
        target: &str,
        is_certain: bool,
    ) -> SystemResult<()> {
        let is_same = |owed: &&OwedRefresh| owed.source == source && owed.target == target;
        let existing = self.ledger.owed_refreshes().find(is_same);
        match existing.map(|owed| (owed.id, owed.certainty)) {
            Some((id, RefreshCertainty::Uncertain)) if is_certain => {
                return self.ledger.confirm_owed(&[id]);
            }
            Some(_) => return Ok(()),
            None => {}
        }
        let definition = self.relations.as_ref().map_or("", |known| known.definition(target));
        let targets = [(target.to_owned(), definition.to_owned())];
        let change = SourceChange {
            run: self.run.clone(),
            source: source.to_owned(),
            time: self.now,
            ..SourceChange::default()
        };
        let intent = self.ledger.record_intent(&change, &targets)?;
        if is_certain {
            self.ledger.mark_change_made(&intent)?;
        }
        Ok(())
    }
}

/// Reads a catalog of the node, or the only one of a directory; `None` if it is missing or invalid.
pub(crate) fn read_catalog(system: &dyn System, path: &Path) -> Option<Value> {
    let path = find_catalog_file(system, path.to_owned())?;
    let bytes = system.read_file(&path, MAX_CATALOG_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The catalog at a path; in a directory, the only one. `None` if a directory has none or several.
pub(crate) fn find_catalog_file(system: &dyn System, path: PathBuf) -> Option<PathBuf> {
    let Ok(mut files) = system.read_dir(&path) else { return Some(path) };
    files.retain(|name| Path::new(name).extension().is_some_and(|kind| kind == "json"));
    match files.as_slice() {
        [only] => Some(path.join(only)),
        _ => None,
    }
}

/// Targets that are owed a refresh, without duplicates, oldest entry first.
pub(crate) fn owed_targets(engine: &StateDir) -> SystemResult<Vec<String>> {
    let mut targets: Vec<String> = Vec::new();
    for owed in RefreshLedger::read_owed(engine)? {
        if !targets.contains(&owed.target) {
            targets.push(owed.target);
        }
    }
    Ok(targets)
}

fn unix_seconds(system: &dyn System) -> i64 {
    i64::try_from(since_epoch(system.now()).as_secs()).unwrap_or(i64::MAX)
}
