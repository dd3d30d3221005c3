//! `rpc completion` prints a shell's completion script, `rpc complete` returns candidates to it, and `rpc man` writes the manual pages.
//! All are generated from the command definitions; names of nodes, classes and facts come from a cache of recently seen names. Sends no requests to
//! nodes, because the shell is waiting; only the directory is asked for names of nodes.

pub mod args;
pub mod engine;
pub mod line;
pub mod script;
pub mod sources;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Command;
use muster_client::jobs::{JobHeader, JobStore};
use muster_client::{
    AgentSchemas, ContextStore, DEFAULT_CONTEXT, DdlCache, FleetConnection, RpcSettings,
    TargetSelection, find_registered_prefix,
};
use muster_display::node_count_text;
use tokio::time::timeout;

use crate::commands::completion::args::{CompleteArgs, CompletionArgs, ManPagesArgs};
use crate::commands::completion::engine::{CompletionCandidate, complete_word};
use crate::commands::completion::line::CompletionLine;
use crate::commands::completion::script::completion_script;
use crate::commands::completion::sources::CompletionSources;
use crate::outcome::error::ResultWriteError;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::seen_names::SeenNamesCache;

const MAX_OFFERED_JOBS: usize = 50;
/// Maximum number of nodes that the directory is asked for.
const MAX_OFFERED_NODES: usize = 500;
/// Time for the connection and the answer of the directory.
const DIRECTORY_PATIENCE: Duration = Duration::from_millis(300);

pub fn run(args: &CompletionArgs, cx: CommandContext<'_>) -> CommandResult {
    cx.printer.print_text(completion_script(args.shell))?;
    Ok(CommandExitCode::Passed)
}

/// Prints completion candidates; `root` defines the command line. Ignores errors of the configuration, which other commands report.
pub async fn answer_shell(
    args: &CompleteArgs,
    mut root: Command,
    cx: CommandContext<'_>,
) -> CommandResult {
    let line = CompletionLine::from_shell(args.shell, &args.words);
    let config = line.option_value(&["-c", "--config"]).map(PathBuf::from);
    let context = line.option_value(&["--context"]);
    let cx = CommandContext {
        config: config.as_deref().or(cx.config),
        context: context.or(cx.context),
        ..cx
    };
    let settings = cx.settings().ok();
    let mut schemas = AgentSchemas::load(settings).or_else(|_| AgentSchemas::load(None))?;
    if let Some(settings) = settings {
        schemas.add_cached(DdlCache::for_settings(settings).load_all());
    }
    let mut seen = cx.seen_names();
    root.build();
    let complete = |seen: &SeenNamesCache| {
        let jobs = || job_candidates(settings, cx);
        let sources =
            CompletionSources::new(&schemas.store, seen, jobs).with_contexts(context_names(cx));
        let candidates = complete_word(&root, &sources, &line.before, &line.current);
        (candidates, sources.are_nodes_wanted())
    };
    let (mut candidates, are_nodes_wanted) = complete(&seen);
    if are_nodes_wanted && let Some(settings) = settings {
        let known = registered_names(settings, &line.current).await;
        if !known.is_empty() {
            seen.extend(SeenNamesCache { nodes: known, ..SeenNamesCache::default() });
            (candidates, _) = complete(&seen);
        }
    }
    cx.printer.print_text(line.render_answer(args.shell, &candidates))?;
    Ok(CommandExitCode::Passed)
}

/// The names with this beginning that the directory knows; none if it does not answer while a user waits, or there is an error.
async fn registered_names(settings: &RpcSettings, prefix: &str) -> BTreeSet<String> {
    let find = async {
        let target = TargetSelection::default();
        let fleet = FleetConnection::connect(settings, &target).await.ok()?;
        find_registered_prefix(&fleet, prefix, MAX_OFFERED_NODES).await.ok()
    };
    timeout(DIRECTORY_PATIENCE, find).await.ok().flatten().unwrap_or_default()
}

fn context_names(cx: CommandContext<'_>) -> Vec<String> {
    let store = ContextStore::new(cx.environment.config_home.as_deref());
    let contexts = store.and_then(|store| store.list()).unwrap_or_default();
    let names = contexts.into_iter().map(|context| context.name.to_string());
    names.chain([DEFAULT_CONTEXT.to_owned()]).collect()
}

/// The newest jobs of the configured fleet; without one, of every fleet.
fn job_candidates(
    settings: Option<&RpcSettings>,
    cx: CommandContext<'_>,
) -> Vec<CompletionCandidate> {
    let fleet = settings.and_then(RpcSettings::fleet_key);
    let headers = JobStore::new(cx.environment.state_home.as_deref())
        .and_then(|store| store.recent_headers(MAX_OFFERED_JOBS))
        .unwrap_or_default();
    let account = |job: &JobHeader| job.fleet.as_ref().map(|fleet| fleet.account);
    let is_ours = |job: &JobHeader| fleet.is_none() || account(job) == fleet;
    let candidate = |job: JobHeader| {
        let name = job.name.map_or_else(String::new, |name| format!("{name}: "));
        let nodes = node_count_text(job.nodes.len());
        let help = format!("{name}{} {} on {nodes}", job.agent, job.action);
        CompletionCandidate::new(job.id, Some(help))
    };
    headers.into_iter().filter(is_ours).map(candidate).collect()
}

pub fn write_man_pages(args: &ManPagesArgs, root: Command) -> CommandResult {
    let failed = |source: io::Error| ResultWriteError::File(args.directory.clone(), source);
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(root.disable_help_subcommand(true), &args.directory)
        .map_err(failed)?;
    Ok(CommandExitCode::Passed)
}
