//! Applies a catalog: one resource after the other in the graph's order, with Puppet 7's rules for what is skipped, what fails
//! with whom, and who is refreshed; and with a ledger, so that no refresh is lost.
//!
//! - `evaluate`: one resource. `select`: who is skipped, and why. `notify`: who is refreshed. `generate`: what resources bring.
//! - [`files`]: what a run leaves in the state directory.
//!
//! A run says what it does as [`RunEvent`]s, one by one. It prints nothing, and takes no locks: see [`crate::lock`].

mod evaluate;
pub mod files;
mod generate;
mod notify;
mod select;
mod voice;

use std::collections::BTreeSet;
use std::time::{Instant, UNIX_EPOCH};

use muster_system::command::Cancel;
use muster_system::{StateDir, System, SystemError};

use crate::catalog::{Catalog, CatalogError};
use crate::engine::Engine;
use crate::graph::build::{Built, build};
use crate::graph::order::Walk;
use crate::graph::{Node, NodeId, cycle};
use crate::ledger::Ledger;
use crate::memory::Memory;
use crate::report::{Builder, End, Level, Report, RunEvent, Start, Status, stamp};
use crate::resource_type::Cx;
use crate::world::World;

/// How a catalog is to be applied.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Whether only to say what would change; a resource's own `noop` goes before it.
    pub noop: bool,
    /// Only resources with one of these tags; all when empty.
    pub tags: Vec<String>,
    /// No resources with one of these tags.
    pub skip_tags: Vec<String>,
    /// Only the resources of these references, with nothing that comes before them; all when empty.
    pub only: BTreeSet<String>,
    /// Whether schedules do not matter.
    pub ignore_schedules: bool,
    /// Whether to say also what is not worth a line of Puppet's log by default.
    pub verbose: bool,
    /// The identity of the run.
    pub run_id: String,
    /// Raised when the run is to stop after the resource at hand.
    pub cancel: Cancel,
}

/// Why a run could not begin. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The catalog is refused.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The state directory cannot be used, so that no refresh would be safe.
    #[error("the state directory cannot be used")]
    State(#[from] SystemError),
}

/// Applies the catalog and reports. `tell` hears everything as it happens. A read-only engine only plans, whatever the options and
/// the resources say, and leaves nothing in the state directory.
pub fn apply(
    engine: &Engine,
    catalog: &Catalog,
    state: &StateDir,
    options: &RunOptions,
    tell: &mut dyn FnMut(&RunEvent),
) -> Result<Report, RunError> {
    let world = World::new(engine, catalog)?;
    let ledger = if engine.is_read_only() {
        Ledger::view(state)?
    } else {
        Ledger::open(state)?
    };
    let (memory, warning) = Memory::load(state)?;
    let mut run = Run {
        engine,
        cx: engine.context(options.cancel.clone()),
        options,
        world,
        built: Built::default(),
        walk: None,
        notes: Vec::new(),
        ledger,
        memory,
        builder: Builder::default(),
        told_failures: BTreeSet::new(),
        failed_to_generate: false,
        tell,
    };
    run.begin(catalog);
    let warnings: Vec<String> = run.ledger.warnings().to_vec();
    for warning in catalog.warnings.iter().chain(&warnings).chain(&warning) {
        run.say(Level::Warning, warning);
    }
    let completed = run.everything();
    if let Err(error) = run.cx.settle() {
        run.say(
            Level::Err,
            &format!("what was made may not be on the disk: {error}"),
        );
    }
    run.explain_debts()?;
    let now = run.now();
    if engine.is_read_only() {
        return run.end(completed);
    }
    run.memory.save(state, now)?;
    let report = run.end(completed)?;
    files::leave(state, catalog, &report)?;
    Ok(report)
}

/// What the run knows of a node.
#[derive(Debug, Default)]
struct Note {
    /// Of a resource that had its turn.
    failed: bool,
    failed_to_restart: bool,
    /// Nodes that failed and that this one depends on, near or far.
    failed_dependencies: BTreeSet<NodeId>,
    /// What others have to tell it.
    queue: Vec<notify::Queued>,
    /// Whether its turn has come.
    is_done: bool,
}

/// A run that goes on.
struct Run<'a> {
    engine: &'a Engine,
    cx: Cx<'a>,
    options: &'a RunOptions,
    world: World,
    built: Built,
    /// Where the run is; `None` before the first step.
    walk: Option<Walk>,
    notes: Vec<Note>,
    ledger: Ledger,
    memory: Memory,
    builder: Builder,
    /// Failed resources that were named as somebody's dependency already.
    told_failures: BTreeSet<NodeId>,
    failed_to_generate: bool,
    tell: &'a mut dyn FnMut(&RunEvent),
}

impl Run<'_> {
    fn system(&self) -> &dyn System {
        self.cx.system
    }

    /// Seconds since the epoch.
    fn now(&self) -> i64 {
        let since = self.system().now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        })
    }

    fn stamp(&self) -> String {
        stamp(self.system().now())
    }

    fn begin(&mut self, catalog: &Catalog) {
        let start = Start {
            host: catalog.name.clone(),
            time: self.stamp(),
            configuration_version: catalog.version.clone(),
            transaction_uuid: self.options.run_id.clone(),
            environment: catalog.environment.clone(),
            noop: self.options.noop,
            catalog_uuid: catalog.uuid.clone(),
            code_id: catalog.code_id.clone(),
            resources: self
                .world
                .in_order()
                .filter(|(_, member)| member.resource.is_some())
                .count(),
        };
        self.emit(&RunEvent::Start(start));
    }

    /// Sees to every node; false when the run had to be given up before everybody had a turn.
    fn everything(&mut self) -> Result<f64, f64> {
        let began = Instant::now();
        self.generate_before();
        self.built = build(self.engine, &self.world);
        self.notes
            .resize_with(self.built.graph.len(), Note::default);
        if self.refuse_cycles() {
            return Err(began.elapsed().as_secs_f64());
        }
        self.queue_debts();
        self.walk = Some(Walk::new(&self.built.graph));
        while let Some(node) = self.walk.as_mut().and_then(Walk::next) {
            self.step(node);
            if let Some(walk) = &mut self.walk {
                walk.finish(&self.built.graph, node);
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    fn step(&mut self, node: NodeId) {
        match self.built.graph.node(node).cloned() {
            Some(Node::Resource(member)) => {
                self.generate_with(node, member);
                self.resource(node, member);
            }
            Some(Node::Anchor(anchor)) => self.anchor(node, &anchor),
            None => {}
        }
        if let Some(note) = self.notes.get_mut(node) {
            note.is_done = true;
        }
    }

    /// Fails everything that waits for itself, and tells the way round.
    fn refuse_cycles(&mut self) -> bool {
        let cycles = cycle::cycles(&self.built.graph);
        if cycles.is_empty() {
            return false;
        }
        let (noun, count) = (
            if cycles.len() == 1 { "cycle" } else { "cycles" },
            cycles.len(),
        );
        let mut message = format!("Found {count} dependency {noun}:");
        for group in &cycles {
            let path = cycle::path(&self.built.graph, &self.world, group);
            message.push_str("\n(");
            message.push_str(&path.join(" => "));
            message.push(')');
        }
        self.say(Level::Err, &message);
        for node in cycles.into_iter().flatten() {
            let Some(Node::Resource(member)) = self.built.graph.node(node) else {
                continue;
            };
            if let Some(mut status) = self.status(*member) {
                let event = self.error_event("resource is part of a dependency cycle");
                status.add(event);
                self.emit(&RunEvent::Resource(Box::new(status)));
            }
        }
        self.say(
            Level::Err,
            "Failed to apply catalog: One or more resource dependency cycles detected in graph",
        );
        true
    }

    fn end(mut self, completed: Result<f64, f64>) -> Result<Report, RunError> {
        let (is_complete, seconds) = match completed {
            Ok(seconds) => (true, seconds),
            Err(seconds) => (false, seconds),
        };
        if is_complete {
            self.say(
                Level::Notice,
                &format!("Applied catalog in {seconds:.2} seconds"),
            );
        }
        let end = End {
            time: self.stamp(),
            transaction_completed: is_complete,
            failed_to_generate: self.failed_to_generate,
            transaction_evaluation: seconds,
            total: seconds,
            pending_refreshes: self.ledger.debts().cloned().collect(),
        };
        self.emit(&RunEvent::End(end));
        // The builder has a report once it has heard the start and the end.
        self.builder.report().ok_or_else(|| {
            RunError::Catalog(CatalogError::Key {
                place: "the run".to_owned(),
                key: "start".to_owned(),
                problem: "was not told".to_owned(),
            })
        })
    }
}

/// The fresh status of a resource whose turn has come.
impl Run<'_> {
    fn status(&self, member: crate::world::MemberId) -> Option<Status> {
        let member = self.world.get(member)?;
        let resource = member.resource.as_ref()?;
        Some(Status {
            title: resource.title.clone(),
            file: member.file.clone(),
            line: member.line,
            resource: resource.reference(),
            resource_type: crate::resource::reference(&resource.type_name, "")
                .trim_end_matches("[]")
                .to_owned(),
            provider_used: None,
            containment_path: member.path.clone(),
            evaluation_time: None,
            tags: member.tags.clone(),
            time: self.stamp(),
            failed: false,
            failed_to_restart: false,
            changed: false,
            out_of_sync: false,
            skipped: false,
            change_count: 0,
            out_of_sync_count: 0,
            events: Vec::new(),
            corrective_change: false,
            restarted: false,
        })
    }
}
