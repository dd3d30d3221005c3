//! Applies a catalog in graph order with Puppet 7's rules for skipping, failed dependencies and refreshes. A ledger on disk ensures that no
//! refresh is lost.
//!
//! - `evaluate`: one resource. `changes`: its changes. `select`: which resources are skipped, and why. `notify`: refreshes. `owed`: those of
//!   earlier runs. `generate`: generated resources.
//! - [`run_files`]: files that a run writes to the state directory.
//!
//! A run reports through [`RunEvent`]s. It prints nothing and takes no locks: see [`crate::lock`].

mod changes;
mod evaluate;
mod generate;
mod notify;
mod owed;
pub mod run_files;
mod run_log;
mod select;

use muster_base::since_epoch;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

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
use crate::resolved_catalog::{MemberId, ResolvedCatalog};
use crate::resource::capitalise_name;
use crate::resource_type::ResourceContext;
use crate::state_store::ResourceStateStore;
use crate::static_files::DEFAULT_CONTENT_DIRECTORY;

/// Directory of the contents of files in the state directory.
const CONTENT_DIRECTORY: &str = "content";

#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Report changes without making them; a resource's own `noop` takes precedence.
    pub noop: bool,
    /// Apply only resources with one of these tags; all if empty.
    pub tags: Vec<String>,
    /// Skip resources with one of these tags.
    pub skip_tags: Vec<String>,
    /// Apply only these resources, without their dependencies; all if empty.
    pub only: BTreeSet<String>,
    pub ignore_schedules: bool,
    /// Also log messages that Puppet omits by default.
    pub verbose: bool,
    /// UUID of the run.
    pub run_id: String,
    /// Directory, on the machine, of the contents of a static catalog's files, each named by its SHA-256; `content` in the state directory by default.
    pub content_directory: Option<PathBuf>,
    /// When set, the run stops after the current resource.
    pub cancel: CancelFlag,
}

/// Reasons why a run cannot start. Nothing has been changed on the machine.
#[derive(Debug, thiserror::Error)]
pub enum CatalogRunError {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The state directory is unusable, so pending refreshes could not be recorded.
    #[error("the state directory cannot be used")]
    State(#[from] SystemError),
}

/// Applies the catalog like [`apply_catalog`], and stores its text in the state directory for a replay of owed refreshes: before the first change,
/// because a run that is cut off owes refreshes too. A catalog that is rejected, or only planned, is not stored.
pub fn apply_stored_catalog(
    engine: &ResourceEngine,
    catalog: &Catalog,
    text: &[u8],
    state: &StateDir,
    options: &RunOptions,
    on_event: &mut dyn FnMut(&RunEvent),
) -> Result<RunReport, CatalogRunError> {
    run_catalog(engine, catalog, Some(text), state, options, on_event)
}

/// `on_event` receives every event as it happens. A read-only engine only plans, regardless of options and resources, and writes nothing to the state
/// directory.
pub fn apply_catalog(
    engine: &ResourceEngine,
    catalog: &Catalog,
    state: &StateDir,
    options: &RunOptions,
    on_event: &mut dyn FnMut(&RunEvent),
) -> Result<RunReport, CatalogRunError> {
    run_catalog(engine, catalog, None, state, options, on_event)
}

fn run_catalog(
    engine: &ResourceEngine,
    catalog: &Catalog,
    text: Option<&[u8]>,
    state: &StateDir,
    options: &RunOptions,
    on_event: &mut dyn FnMut(&RunEvent),
) -> Result<RunReport, CatalogRunError> {
    let resolved = ResolvedCatalog::new(engine, catalog)?;
    let ledger = if engine.is_read_only() {
        RefreshLedger::open_in_memory(state)?
    } else {
        RefreshLedger::open(state)?
    };
    let (state_store, warning) = ResourceStateStore::load(state)?;
    let contents = options.content_directory.clone();
    let contents =
        contents.unwrap_or_else(|| default_content_directory(engine.system(), state.path()));
    let mut run = CatalogRun {
        engine,
        cx: engine.resource_context(options.cancel.clone()).with_contents(contents),
        options,
        resolved,
        built: BuiltGraph::default(),
        traversal: None,
        progress: Vec::new(),
        ledger,
        state_store,
        builder: RunReportBuilder::default(),
        logged_failures: BTreeSet::new(),
        failed_to_generate: false,
        on_event,
    };
    if let Some(text) = text.filter(|_| !options.noop && !engine.is_read_only()) {
        state.replace_file(run_files::CATALOG_FILE, text)?;
    }
    run.emit_start(catalog);
    let warnings: Vec<String> = run.ledger.warnings().to_vec();
    for warning in catalog.warnings.iter().chain(&warnings).chain(&warning) {
        run.log_message(RunLogLevel::Warning, warning);
    }
    let completed = run.process_all_nodes();
    if let Err(error) = run.cx.sync_created_files() {
        run.log_message(RunLogLevel::Err, &format!("changed files may not be on disk: {error}"));
    }
    run.record_missing_reasons()?;
    let now = run.epoch_seconds();
    if engine.is_read_only() {
        return run.finish_run(completed);
    }
    run.state_store.save(state, now)?;
    let report = run.finish_run(completed)?;
    run_files::write_run_files(state, catalog, &report)?;
    Ok(report)
}

/// The directory, on the machine, in which a run with this state directory looks for contents by default. That in the state directory has a path on the machine
/// only below its root.
pub fn default_content_directory(system: &dyn System, state: &Path) -> PathBuf {
    let host_path = std::path::absolute(state.join(CONTENT_DIRECTORY)).unwrap_or_default();
    match host_path.strip_prefix(system.root()) {
        Ok(relative_path) => Path::new("/").join(relative_path),
        Err(_) => PathBuf::from(DEFAULT_CONTENT_DIRECTORY),
    }
}

#[derive(Debug, Default)]
struct NodeProgress {
    /// The resource was evaluated and failed.
    failed: bool,
    failed_to_restart: bool,
    /// Failed nodes that this one depends on, directly or transitively.
    failed_dependencies: BTreeSet<GraphNodeId>,
    /// Refreshes queued by other nodes.
    queue: Vec<notify::QueuedRefresh>,
    is_done: bool,
}

struct CatalogRun<'a> {
    engine: &'a ResourceEngine,
    cx: ResourceContext<'a>,
    options: &'a RunOptions,
    resolved: ResolvedCatalog,
    built: BuiltGraph,
    /// Current traversal; `None` before the first step.
    traversal: Option<GraphTraversal>,
    progress: Vec<NodeProgress>,
    ledger: RefreshLedger,
    state_store: ResourceStateStore,
    builder: RunReportBuilder,
    /// Failed resources already reported as a failed dependency.
    logged_failures: BTreeSet<GraphNodeId>,
    failed_to_generate: bool,
    on_event: &'a mut dyn FnMut(&RunEvent),
}

impl CatalogRun<'_> {
    fn system(&self) -> &dyn System {
        self.cx.system
    }

    fn epoch_seconds(&self) -> i64 {
        let since = since_epoch(self.system().now());
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }

    fn current_timestamp(&self) -> String {
        format_timestamp(self.system().now())
    }

    fn emit_start(&mut self, catalog: &Catalog) {
        let members = self.resolved.in_order();
        let start = RunStart {
            host: catalog.name.clone(),
            time: self.current_timestamp(),
            configuration_version: catalog.version.clone(),
            transaction_uuid: self.options.run_id.clone(),
            environment: catalog.environment.clone(),
            noop: self.options.noop,
            catalog_uuid: catalog.uuid.clone(),
            code_id: catalog.code_id.clone(),
            resources: members.filter(|(_, member)| member.resource.is_some()).count(),
        };
        self.emit_event(&RunEvent::Start(start));
    }

    /// Returns the seconds spent; `Err` if dependency cycles prevent the run.
    fn process_all_nodes(&mut self) -> Result<f64, f64> {
        let started = Instant::now();
        self.generate_before_run();
        self.built = build_graph(self.engine, &self.resolved);
        self.progress.resize_with(self.built.graph.len(), NodeProgress::default);
        if self.report_cycles() {
            return Err(started.elapsed().as_secs_f64());
        }
        self.queue_owed_refreshes();
        self.traversal = Some(GraphTraversal::new(&self.built.graph));
        while let Some(node) = self.traversal.as_mut().and_then(GraphTraversal::next) {
            self.process_node(node);
            if let Some(traversal) = &mut self.traversal {
                traversal.finish_node(&self.built.graph, node);
            }
        }
        Ok(started.elapsed().as_secs_f64())
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
        if let Some(progress) = self.progress.get_mut(node) {
            progress.is_done = true;
        }
    }

    /// Fails every resource on a dependency cycle and logs each cycle; returns whether there was one.
    fn report_cycles(&mut self) -> bool {
        let cycles = cycle::find_cycles(&self.built.graph);
        if cycles.is_empty() {
            return false;
        }
        let (noun, count) = (if cycles.len() == 1 { "cycle" } else { "cycles" }, cycles.len());
        let mut message = format!("Found {count} dependency {noun}:");
        for group in &cycles {
            let path = cycle::shortest_cycle_path(&self.built.graph, &self.resolved, group);
            message.extend(["\n(", &path.join(" => "), ")"]);
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
        let message =
            "Failed to apply catalog: One or more resource dependency cycles detected in graph";
        self.log_message(RunLogLevel::Err, message);
        true
    }

    fn finish_run(mut self, completed: Result<f64, f64>) -> Result<RunReport, CatalogRunError> {
        let (Ok(seconds) | Err(seconds)) = completed;
        if completed.is_ok() {
            let message = format!("Applied catalog in {seconds:.2} seconds");
            self.log_message(RunLogLevel::Notice, &message);
        }
        let end = RunEnd {
            time: self.current_timestamp(),
            transaction_completed: completed.is_ok(),
            failed_to_generate: self.failed_to_generate,
            transaction_evaluation: seconds,
            total: seconds,
            pending_refreshes: self.ledger.owed_refreshes().cloned().collect(),
        };
        self.emit_event(&RunEvent::End(end));
        // The builder has a report once it has received both the start and the end event.
        self.builder.into_report().ok_or_else(|| {
            CatalogRunError::Catalog(CatalogError::Key {
                location: "the run".to_owned(),
                key: "start".to_owned(),
                problem: "event is missing".to_owned(),
            })
        })
    }

    fn new_status(&self, member: MemberId) -> Option<ResourceStatus> {
        let member = self.resolved.get_member(member)?;
        let resource = member.resource.as_ref()?;
        Some(ResourceStatus {
            title: resource.title.clone(),
            file: member.file.clone(),
            line: member.line,
            resource: resource.reference(),
            resource_type: capitalise_name(&resource.type_name),
            containment_path: member.path.clone(),
            tags: member.tags.clone(),
            time: self.current_timestamp(),
            ..ResourceStatus::default()
        })
    }
}
