//! Applies a catalog: one resource after the other in the graph's order, with Puppet 7's rules for what is skipped, what fails
//! with whom, and who is refreshed; and with a ledger, so that no refresh is lost.
//!
//! - `evaluate`: one resource. `select`: who is skipped, and why. `notify`: who is refreshed. `generate`: what resources bring.
//! - [`run_files`]: what a run leaves in the state directory.
//!
//! A run says what it does as [`RunEvent`]s, one by one. It prints nothing, and takes no locks: see [`crate::lock`].

mod evaluate;
mod generate;
mod notify;
pub mod run_files;
mod run_log;
mod select;

use std::collections::BTreeSet;
use std::time::{Instant, UNIX_EPOCH};

use muster_system::command::CancelFlag;
use muster_system::{StateDir, System, SystemError};

use crate::catalog::{Catalog, CatalogError};
use crate::engine::ResourceEngine;
use crate::graph::build::{BuiltGraph, build_graph};
use crate::graph::order::GraphTraversal;
use crate::graph::{GraphNode, GraphNodeId, cycle};
use crate::ledger::RefreshLedger;
use crate::report::{
    ResourceStatus, RunEnd, RunEvent, RunLogLevel, RunReport, RunReportBuilder, RunStart,
    format_timestamp,
};
use crate::resolved_catalog::ResolvedCatalog;
use crate::resource_type::ResourceContext;
use crate::state_store::ResourceStateStore;

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
    pub cancel: CancelFlag,
}

/// Why a run could not begin. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum CatalogRunError {
    /// The catalog is refused.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The state directory cannot be used, so that no refresh would be safe.
    #[error("the state directory cannot be used")]
    State(#[from] SystemError),
}

/// Applies the catalog and reports. `tell` hears everything as it happens. A read-only engine only plans, whatever the options and
/// the resources say, and leaves nothing in the state directory.
pub fn apply_catalog(
    engine: &ResourceEngine,
    catalog: &Catalog,
    state: &StateDir,
    options: &RunOptions,
    tell: &mut dyn FnMut(&RunEvent),
) -> Result<RunReport, CatalogRunError> {
    let world = ResolvedCatalog::new(engine, catalog)?;
    let ledger = if engine.is_read_only() {
        RefreshLedger::open_in_memory(state)?
    } else {
        RefreshLedger::open(state)?
    };
    let (memory, warning) = ResourceStateStore::load(state)?;
    let mut run = CatalogRun {
        engine,
        cx: engine.resource_context(options.cancel.clone()),
        options,
        world,
        built: BuiltGraph::default(),
        walk: None,
        notes: Vec::new(),
        ledger,
        memory,
        builder: RunReportBuilder::default(),
        told_failures: BTreeSet::new(),
        failed_to_generate: false,
        tell,
    };
    run.emit_start(catalog);
    let warnings: Vec<String> = run.ledger.warnings().to_vec();
    for warning in catalog.warnings.iter().chain(&warnings).chain(&warning) {
        run.log_message(RunLogLevel::Warning, warning);
    }
    let completed = run.process_all_nodes();
    if let Err(error) = run.cx.sync_created_files() {
        run.log_message(
            RunLogLevel::Err,
            &format!("what was made may not be on the disk: {error}"),
        );
    }
    run.record_missing_reasons()?;
    let now = run.epoch_seconds();
    if engine.is_read_only() {
        return run.finish_run(completed);
    }
    run.memory.save(state, now)?;
    let report = run.finish_run(completed)?;
    run_files::write_run_files(state, catalog, &report)?;
    Ok(report)
}

/// What the run knows of a node.
#[derive(Debug, Default)]
struct NodeProgress {
    /// Of a resource that had its turn.
    failed: bool,
    failed_to_restart: bool,
    /// Nodes that failed and that this one depends on, near or far.
    failed_dependencies: BTreeSet<GraphNodeId>,
    /// What others have to tell it.
    queue: Vec<notify::QueuedRefresh>,
    /// Whether its turn has come.
    is_done: bool,
}

/// A run that goes on.
struct CatalogRun<'a> {
    engine: &'a ResourceEngine,
    cx: ResourceContext<'a>,
    options: &'a RunOptions,
    world: ResolvedCatalog,
    built: BuiltGraph,
    /// Where the run is; `None` before the first step.
    walk: Option<GraphTraversal>,
    notes: Vec<NodeProgress>,
    ledger: RefreshLedger,
    memory: ResourceStateStore,
    builder: RunReportBuilder,
    /// Failed resources that were named as somebody's dependency already.
    told_failures: BTreeSet<GraphNodeId>,
    failed_to_generate: bool,
    tell: &'a mut dyn FnMut(&RunEvent),
}

impl CatalogRun<'_> {
    fn system(&self) -> &dyn System {
        self.cx.system
    }

    /// Seconds since the epoch.
    fn epoch_seconds(&self) -> i64 {
        let since = self.system().now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        })
    }

    fn current_timestamp(&self) -> String {
        format_timestamp(self.system().now())
    }

    fn emit_start(&mut self, catalog: &Catalog) {
        let start = RunStart {
            host: catalog.name.clone(),
            time: self.current_timestamp(),
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
        self.emit_event(&RunEvent::Start(start));
    }

    /// Sees to every node; false when the run had to be given up before everybody had a turn.
    fn process_all_nodes(&mut self) -> Result<f64, f64> {
        let began = Instant::now();
        self.generate_before_run();
        self.built = build_graph(self.engine, &self.world);
        self.notes
            .resize_with(self.built.graph.len(), NodeProgress::default);
        if self.report_cycles() {
            return Err(began.elapsed().as_secs_f64());
        }
        self.queue_owed_refreshes();
        self.walk = Some(GraphTraversal::new(&self.built.graph));
        while let Some(node) = self.walk.as_mut().and_then(GraphTraversal::next) {
            self.process_node(node);
            if let Some(walk) = &mut self.walk {
                walk.finish_node(&self.built.graph, node);
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    fn process_node(&mut self, node: GraphNodeId) {
        match self.built.graph.get_node(node).cloned() {
            Some(GraphNode::Resource(member)) => {
                self.generate_with_resource(node, member);
                self.process_resource(node, member);
            }
            Some(GraphNode::Anchor(anchor)) => self.process_anchor(node, &anchor),
            None => {}
        }
        if let Some(note) = self.notes.get_mut(node) {
            note.is_done = true;
        }
    }

    /// Fails everything that waits for itself, and tells the way round.
    fn report_cycles(&mut self) -> bool {
        let cycles = cycle::find_cycles(&self.built.graph);
        if cycles.is_empty() {
            return false;
        }
        let (noun, count) = (
            if cycles.len() == 1 { "cycle" } else { "cycles" },
            cycles.len(),
        );
        let mut message = format!("Found {count} dependency {noun}:");
        for group in &cycles {
            let path = cycle::shortest_cycle_path(&self.built.graph, &self.world, group);
            message.push_str("\n(");
            message.push_str(&path.join(" => "));
            message.push(')');
        }
        self.log_message(RunLogLevel::Err, &message);
        for node in cycles.into_iter().flatten() {
            let Some(GraphNode::Resource(member)) = self.built.graph.get_node(node) else {
                continue;
            };
            if let Some(mut status) = self.new_status(*member) {
                let event = self.error_event("resource is part of a dependency cycle");
                status.add_event(event);
                self.emit_event(&RunEvent::Resource(Box::new(status)));
            }
        }
        self.log_message(
            RunLogLevel::Err,
            "Failed to apply catalog: One or more resource dependency cycles detected in graph",
        );
        true
    }

    fn finish_run(mut self, completed: Result<f64, f64>) -> Result<RunReport, CatalogRunError> {
        let (is_complete, seconds) = match completed {
            Ok(seconds) => (true, seconds),
            Err(seconds) => (false, seconds),
        };
        if is_complete {
            self.log_message(
                RunLogLevel::Notice,
                &format!("Applied catalog in {seconds:.2} seconds"),
            );
        }
        let end = RunEnd {
            time: self.current_timestamp(),
            transaction_completed: is_complete,
            failed_to_generate: self.failed_to_generate,
            transaction_evaluation: seconds,
            total: seconds,
            pending_refreshes: self.ledger.owed_refreshes().cloned().collect(),
        };
        self.emit_event(&RunEvent::End(end));
        // The builder has a report once it has heard the start and the end.
        self.builder.into_report().ok_or_else(|| {
            CatalogRunError::Catalog(CatalogError::Key {
                place: "the run".to_owned(),
                key: "start".to_owned(),
                problem: "was not told".to_owned(),
            })
        })
    }
}

/// The fresh status of a resource whose turn has come.
impl CatalogRun<'_> {
    fn new_status(&self, member: crate::resolved_catalog::MemberId) -> Option<ResourceStatus> {
        let member = self.world.get_member(member)?;
        let resource = member.resource.as_ref()?;
        Some(ResourceStatus {
            title: resource.title.clone(),
            file: member.file.clone(),
            line: member.line,
            resource: resource.reference(),
            resource_type: crate::resource::format_reference(&resource.type_name, "")
                .trim_end_matches("[]")
                .to_owned(),
            provider_used: None,
            containment_path: member.path.clone(),
            evaluation_time: None,
            tags: member.tags.clone(),
            time: self.current_timestamp(),
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
