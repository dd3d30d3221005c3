//! `rpcd again`: asks for another run of Puppet, in an exec resource of a manifest or by an operator on the node.
//!
//! Writes a file that the daemon reads, and ends. It needs no daemon, no broker, and leaves no process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use muster_base::unix_millis_now;
use muster_puppet::again::again_directory;
use muster_puppet::again::plan::barrier::BarrierCondition;
use muster_puppet::again::plan::request::AgainRequest;
use muster_puppet::again::requester::find_requesting_run;
use muster_puppet::again::spool::{HandedOver, RequestSpool};
use uuid::Uuid;

use crate::commands::local_command::{load_config, print_line, state_directory};

/// Longest text of a request, in characters.
const MAX_TEXT_CHARS: usize = 256;
/// How long a run waits for other nodes without `--timeout`: twice the interval of Puppet's runs.
const DEFAULT_TIMEOUT_SECONDS: u64 = 3600;

/// What `rpcd again` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rpcd again
             in an exec resource that is notified when more work is left
  rpcd again --name vol1 --delta 120
             two minutes after the end of the run that asks, at the earliest
  rpcd again --when gluster --timeout 3600
             when each other node with the class gluster has finished a run, too
  rpcd again --cancel
             cancel the run that was asked for

All requests of a run ask for one further run. The command returns as soon as
the request is on disk.
Exit codes: 0 requested, 1 the request failed, 2 wrong arguments.")]
pub struct AgainArgs {
    /// Name of the request: the resource is Exec[again], or Exec[again-delta-NAME] with a name
    #[arg(long)]
    name: Option<String>,
    /// Why another run is needed
    #[arg(long, value_name = "TEXT", default_value = "the manifest has more work")]
    reason: String,
    /// Shortest delay after the run that asks; a random time is added
    #[arg(long, visible_alias = "min-delay", value_name = "SECONDS", default_value_t = 0)]
    delta: u64,
    /// Longest delay, without the limits of the node and the fleet
    #[arg(long, value_name = "SECONDS")]
    max_delay: Option<u64>,
    /// A name under which the run can be cancelled
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// When the request expires
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<u64>,
    /// Wait until each other node that matches has finished a run of Puppet after this one; needs the directory
    #[arg(long, value_name = "QUERY")]
    when: Option<String>,
    /// Run after this time even if not all nodes of --when have run [default: 3600]
    #[arg(long, value_name = "SECONDS", requires = "when")]
    timeout: Option<u64>,
    /// Count the delay from now, not from the end of the run that asks
    #[arg(long)]
    start_timer_now: bool,
    /// Only record that another run was asked for
    #[arg(long)]
    noop: bool,
    /// Cancel the run that was asked for, of a group with --group
    #[arg(long, conflicts_with_all = ["name", "delta", "max_delay", "deadline", "start_timer_now", "noop", "when"])]
    cancel: bool,
    /// The state directory of the daemon; default: the one in its configuration
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

pub fn ask_for_run(args: &AgainArgs, config_file: &Path) -> anyhow::Result<ExitCode> {
    let config = load_config(config_file);
    let state = state_directory(args.state_dir.as_ref(), config.as_ref());
    let spool = RequestSpool::new(&again_directory(&state));
    if args.cancel {
        let (id, group) = (Uuid::now_v7(), args.group.clone());
        spool.hand_over(&HandedOver::Cancel { id, group, by: "rpcd again --cancel".to_owned() })?;
        print_line("the run that was asked for is cancelled, if it has not begun");
        return Ok(ExitCode::SUCCESS);
    }
    let request = build_request(args)?;
    let text =
        if request.noop { "would run Puppet again" } else { "Puppet runs again after this run" };
    spool.hand_over(&HandedOver::Request { request: Box::new(request) })?;
    print_line(text);
    Ok(ExitCode::SUCCESS)
}

fn build_request(args: &AgainArgs) -> anyhow::Result<AgainRequest> {
    for (option, text) in [
        ("--reason", Some(&args.reason)),
        ("--name", args.name.as_ref()),
        ("--group", args.group.as_ref()),
    ] {
        let Some(text) = text else { continue };
        if text.chars().count() > MAX_TEXT_CHARS || text.chars().any(char::is_control) {
            bail!("{option} has more than {MAX_TEXT_CHARS} characters, or control characters");
        }
    }
    if let Some(max) = args.max_delay.filter(|max| *max < args.delta) {
        bail!("--max-delay {max} is less than --delta {}", args.delta);
    }
    let when = match &args.when {
        Some(query) => {
            let timeout = args.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
            if let Some(deadline) = args.deadline.filter(|deadline| *deadline <= timeout) {
                bail!("--deadline {deadline} is not more than the --timeout of --when, {timeout}");
            }
            Some(BarrierCondition::parse(query, timeout).context("--when")?)
        }
        None => None,
    };
    let millis = |seconds: u64| seconds.saturating_mul(1000);
    let now = unix_millis_now();
    let run = find_requesting_run(std::process::id());
    Ok(AgainRequest {
        id: Uuid::now_v7(),
        requester: match &args.name {
            Some(name) => format!("Exec[again-delta-{name}]"),
            None => "Exec[again]".to_owned(),
        },
        reason: args.reason.clone(),
        min_delay: millis(args.delta),
        max_delay: args.max_delay.map(millis),
        group: args.group.clone(),
        not_before: None,
        deadline: args.deadline.map(|seconds| now.saturating_add(millis(seconds))),
        start_timer_now: args.start_timer_now,
        noop: args.noop || run.as_ref().is_some_and(|run| run.is_noop),
        requested_at: now,
        process: run.map(|run| run.process),
        when,
    })
}
