//! `rpc node add`: makes machines nodes of the fleet, over ssh.
//!
//! All machines are probed, then each gets credentials, then all are installed, and then asked whether they answer. A machine that fails does not
//! delay the others.

mod answers;
pub mod args;
mod credentials;
mod error;
pub mod install;
mod paste;

use std::io;
use std::path::Path;

use muster_display::count_text;
use muster_files::files;
use muster_organisation::machines::host::RemoteHost;

use crate::commands::node::add::args::NodeAddArgs;
use crate::commands::node::add::credentials::NodeIssuer;
use crate::commands::node::add::error::NodeAddError;
use crate::commands::node::add::install::MachineInstaller;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// Largest file with names of machines, in bytes.
const MAX_HOSTS_BYTES: u64 = 4 * 1024 * 1024;

pub async fn run(mut args: NodeAddArgs, cx: CommandContext<'_>) -> CommandResult {
    if let Some(file) = &args.hosts_file {
        args.hosts.extend(read_hosts(file)?);
    }
    let mut issuer = NodeIssuer::open(&args, cx)?;
    if !args.ssh {
        return Box::pin(paste::run(&args, issuer, cx)).await;
    }
    // Without a user, the new nodes could not be asked whether they run.
    cx.load_settings()?;
    let installer = MachineInstaller::new(&args, cx);
    let mut prepared = Vec::new();
    for machine in installer.probe_all(&args.hosts).await {
        match issuer.issue_script(&machine.name, machine.program.kind).await {
            Ok(script) => prepared.push((machine, script)),
            Err(error) => installer.report_failure(&machine.host, error),
        }
    }
    let published = issuer.publish_services().await?;
    if published != CommandExitCode::Passed {
        return Ok(published);
    }
    let started = installer.install_all(prepared).await;
    let answered = answers::await_nodes(&started, cx).await?;
    let total = args.hosts.len();
    cx.printer.print_message(format_args!(
        "{answered} of {} added",
        count_text(total, "machine", "machines")
    ));
    Ok(CommandExitCode::from_verdict(answered == total))
}

/// The machines in a file, one per line.
fn read_hosts(file: &Path) -> Result<Vec<RemoteHost>, NodeAddError> {
    let text = if file == Path::new("-") {
        files::read_bounded(io::stdin().lock(), file, MAX_HOSTS_BYTES)?
    } else {
        files::read_text(file, MAX_HOSTS_BYTES)?
    };
    let lines = text.lines().zip(1..).filter_map(|(line, number)| {
        let host = line.split('#').next().unwrap_or_default().trim();
        (!host.is_empty()).then_some((host, number))
    });
    let hosts = lines.map(|(host, line)| {
        host.parse().map_err(|source| NodeAddError::HostsFile {
            file: file.to_owned(),
            line,
            source,
        })
    });
    hosts.collect()
}
