//! `rpc cp SOURCE TARGET`: copies a file to all matching nodes, or a file of nodes to this machine.

pub mod args;
mod location;
pub mod output;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use location::{CopyLocation, CopyLocationError};
use muster_calls::RolloutLimits;
use muster_client::BatchPace;
use muster_client::{FleetConnection, Located, RequestWords, TargetSelection};
use muster_contract::filecopy::FilecopyAgent;
use muster_contract::filecopy::{FilecopyBegin, FilecopyInspect};
use muster_ddl::Action;
use muster_ddl::AgentContract as _;
use muster_operations::copy::{
    CopyReport, FetchDestination, FetchRequest, LocalFile, LocalFileError, NodeCopyOutcome,
    PushRequest, fetch_file, push_file,
};

use crate::commands::copy::args::CopyArgs;
use crate::commands::copy::output::{CopyDirection, CopyView};
use crate::flags::filters::{ConditionArgs, FilterArgs};
use crate::flags::named_nodes::NodeNames;
use crate::report::progress::ProgressReporter;
use crate::report::rollout_preview::RolloutPreview;
use crate::request::chosen_nodes::find_chosen_nodes;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};
use crate::session::form::JsonForm;

#[derive(Debug, thiserror::Error)]
#[error("cannot use {} as the directory for the files of the nodes", path.display())]
struct FetchDirectoryError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl CommandError for FetchDirectoryError {}

impl CommandError for LocalFileError {}

/// The nodes of a copy, and how the result is shown.
struct PreparedCopy<'a> {
    target: TargetSelection,
    json: Option<JsonForm>,
    args: &'a CopyArgs,
    cx: CommandContext<'a>,
}

pub async fn run(args: CopyArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let source = CopyLocation::parse(&args.source_operand)?;
    let target = CopyLocation::parse(&args.target_operand)?;
    match (source, target) {
        (CopyLocation::Local(file), CopyLocation::Remote(node, path)) => {
            let path = with_file_name(path, &file)?;
            // Read before the nodes are looked for: it may be missing.
            let file = LocalFile::open(&file)?;
            let copy = PreparedCopy::new::<FilecopyBegin>(&args, node, json, cx)?;
            Box::pin(copy.push(&file, &path)).await
        }
        (CopyLocation::Remote(node, path), CopyLocation::Local(target)) => {
            check_fetch_flags(&args)?;
            if path.ends_with('/') {
                return Err(CopyLocationError::Directory(path).into());
            }
            let is_one = node.as_ref().is_some_and(|node| node.names().len() == 1);
            let destination = fetch_destination(is_one, &path, target)?;
            let copy = PreparedCopy::new::<FilecopyInspect>(&args, node.clone(), json, cx)?;
            Box::pin(copy.fetch(&path, node, &destination)).await
        }
        (CopyLocation::Local(_), CopyLocation::Local(_)) => Err(CopyLocationError::NoNodes.into()),
        _ => Err(CopyLocationError::TwoNodes.into()),
    }
}

/// The target path; below a directory, by its slash, with the name of the file.
fn with_file_name(path: String, file: &Path) -> Result<String, CopyLocationError> {
    if !path.ends_with('/') {
        return Ok(path);
    }
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| CopyLocationError::Directory(file.display().to_string()))?;
    Ok(path + name)
}

fn check_fetch_flags(args: &CopyArgs) -> Result<(), CopyLocationError> {
    if args.mode.is_some() || args.owner.is_some() || args.group.is_some() {
        return Err(CopyLocationError::LocalAttributes);
    }
    if args.pace.batches.limits() != RolloutLimits::default() {
        return Err(CopyLocationError::LocalBatches);
    }
    Ok(())
}

/// Where the files are written: for one named node the target itself or a file in it, otherwise a directory with a file for each node.
fn fetch_destination(
    is_one: bool,
    path: &str,
    target: PathBuf,
) -> Result<FetchDestination, FetchDirectoryError> {
    if is_one {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_directory = target.is_dir() || target.as_os_str().as_encoded_bytes().ends_with(b"/");
        return Ok(FetchDestination::File(if is_directory { target.join(name) } else { target }));
    }
    match std::fs::create_dir(&target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => {}
        Err(source) => return Err(FetchDirectoryError { path: target, source }),
        Ok(()) => {}
    }
    Ok(FetchDestination::Directory(target))
}

/// The filters, with the named nodes. Both at once are refused, because several names are alternatives.
fn node_filters(
    filters: &FilterArgs,
    node: Option<NodeNames>,
) -> Result<FilterArgs, CopyLocationError> {
    let mut filters = filters.clone();
    if let Some(node) = node {
        let is_free = filters.conditions == ConditionArgs::default()
            && filters.nodes.is_none()
            && filters.method.is_none();
        if !is_free {
            return Err(CopyLocationError::NamedNode(node));
        }
        filters.conditions.identities.extend_from_slice(node.names());
    }
    Ok(filters)
}

impl<'a> PreparedCopy<'a> {
    /// Prepares a copy that begins with the action `A`.
    fn new<A: Action<Agent = FilecopyAgent>>(
        args: &'a CopyArgs,
        node: Option<NodeNames>,
        json: Option<JsonForm>,
        cx: CommandContext<'a>,
    ) -> Result<Self> {
        let filters = node_filters(&args.filters, node)?;
        let target = cx.read_target(&filters)?.with_agent(FilecopyAgent::NAME)?;
        let schemas = cx.load_configured_schemas()?;
        let (_, schema) = schemas.find_action(&RequestWords::of_action::<A>())?;
        target.check_required_filter(schema, cx.settings()?)?;
        Ok(Self { target, json, args, cx })
    }

    async fn push(self, file: &LocalFile, path: &str) -> CommandResult {
        let (fleet, found) = self.find_nodes().await?;
        let (limits, pause) = (self.args.pace.batches.limits(), self.args.pace.pause());
        let what = format!("{} to {path}", file.path.display());
        let preview =
            RolloutPreview { request: ("copy", &what), nodes: &found.nodes, limits, pause };
        let conditions = (false, found.nodes.len(), self.args.yes);
        self.cx.confirm_request(conditions, || preview.render_text()).await?;
        let request = PushRequest {
            file,
            path,
            mode: self.args.mode.as_deref(),
            owner: self.args.owner.as_deref(),
            group: self.args.group.as_deref(),
            pace: BatchPace { limits, pause },
        };
        let progress = self.progress_reporter();
        let report = push_file(&fleet, &request, found, &progress).await?;
        let local = file.path.display().to_string();
        self.print(&report, CopyDirection::ToNodes, (&local, path))
    }

    async fn fetch(
        self,
        path: &str,
        named: Option<NodeNames>,
        destination: &FetchDestination,
    ) -> CommandResult {
        let (fleet, found) = self.find_nodes().await?;
        if let (Some(name), FetchDestination::File(file), 2..) =
            (named, destination, found.nodes.len())
        {
            let count = found.nodes.len();
            return Err(CopyLocationError::SeveralNodes { count, name, file: file.clone() }.into());
        }
        let progress = self.progress_reporter();
        let request = FetchRequest { path, destination };
        let report = fetch_file(&fleet, request, found, &progress).await?;
        let local = match destination {
            FetchDestination::File(path) | FetchDestination::Directory(path) => path,
        };
        self.print(&report, CopyDirection::FromNodes, (&local.display().to_string(), path))
    }

    async fn find_nodes(&self) -> Result<(FleetConnection, Located)> {
        let progress = self.progress_reporter();
        find_chosen_nodes(&self.target, &self.args.pace, &progress, self.cx).await
    }

    fn progress_reporter(&self) -> ProgressReporter<'a> {
        let is_shown = self.json.is_none() && !self.args.no_progress;
        ProgressReporter::new(self.cx.printer, is_shown)
    }

    fn print(
        &self,
        report: &CopyReport,
        direction: CopyDirection,
        (local, path): (&str, &str),
    ) -> CommandResult {
        let view = CopyView { report, direction, local, path };
        if let Some(form) = &self.json {
            self.cx.print_json(&view.document(), form)?;
        } else if report.nodes.is_empty() {
            self.cx.report_no_nodes(&self.target);
        } else {
            self.cx.printer.print_text(view.render_nodes())?;
            self.cx.printer.print_message(view.render_totals());
        }
        // Names on the command line are known only once their nodes have replied.
        let (mut replied, mut silent) = (BTreeSet::new(), BTreeSet::new());
        for (node, result) in &report.nodes {
            match result.outcome {
                NodeCopyOutcome::NoReply(_) => silent.insert(node.clone()),
                NodeCopyOutcome::NotCompleted => false,
                _ => replied.insert(node.clone()),
            };
        }
        self.cx.remember_found(&self.target, &replied);
        self.cx.suggest_nodes(&silent);
        let code = CommandExitCode::from(report.outcome());
        if code != CommandExitCode::Passed && view.can_be_resumed() {
            let hint = "run the same command again to continue with the parts that nodes lack";
            self.cx.printer.print_hint(hint);
        }
        Ok(code)
    }
}
