//! `rpc demo`: runs a broker and some nodes on this machine, each node with a scratch root, for trying out commands.
//!
//! ```text
//! DIR/.muster-demo    marks the directory as one of a demonstration
//! DIR/demo.json       processes that were started
//! DIR/rpc.toml        configuration of the client, with its credentials in the same directory
//! DIR/guest/          the same for a second user, who may only read
//! DIR/org/            the organisation
//! DIR/nodes/NAME/     a node: rpcd.toml, facts, classes, policies, state, and root/, its scratch root
//! DIR/virtual/        with --virtual: the process that runs many nodes
//! DIR/provisioner/    the files with which the provisioner enrols machines
//! DIR/code/           with --catalogs: the code that one node compiles
//! DIR/log/            logs of all processes
//! ```

mod add;
pub mod args;
mod broker;
mod catalogs;
mod central;
mod contexts;
mod error;
mod fleet;
mod machine;
mod node;
mod policies;
mod process;
mod ready;
mod record;
mod services;
mod steps;
mod up;
mod virtual_nodes;

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_display::printer::{GOOD, OutputPrinter};
use muster_display::table::Table;
use process::DemoProcess;
use record::DemoRecord;

use crate::commands::demo::args::{DemoCommand, DemoDirectoryArgs};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::environment::ProcessEnvironment;

pub use error::DemoError;

/// Time for a node to finish its running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn run(command: DemoCommand, cx: CommandContext<'_>) -> CommandResult {
    let directory = |args: &DemoDirectoryArgs| demo_directory(args, cx.environment);
    match command {
        DemoCommand::Up(args) => up::run(&args, directory(&args.demo)?, cx).await,
        DemoCommand::Add(args) => add::run(&directory(&args)?, cx).await,
        DemoCommand::Status(args) => show_status(&directory(&args)?, cx.printer),
        DemoCommand::Down(args) => stop_demo(&directory(&args)?, cx).await,
    }
}

fn demo_directory(
    args: &DemoDirectoryArgs,
    environment: &ProcessEnvironment,
) -> Result<PathBuf, DemoError> {
    let default_directory =
        || environment.cache_home.as_ref().map(|cache| cache.join("muster/demo"));
    let directory =
        args.directory.clone().or_else(default_directory).ok_or(DemoError::NoDirectory)?;
    Ok(std::path::absolute(&directory).unwrap_or(directory))
}

/// Returns [`CommandExitCode::Local`] if a started process has exited.
fn show_status(directory: &Path, printer: &OutputPrinter) -> CommandResult {
    let record = DemoRecord::load(directory)?;
    let mut table = Table::new(["NAME", "PID", "STATE", "MEMORY", "WHERE"]);
    if let Some(broker) = &record.broker {
        table.row(process_row("broker", broker.process, broker.url.clone()));
    }
    for node in &record.nodes {
        let (name, path) = match node.virtual_count {
            Some(count) => (format!("{count} virtual nodes"), directory.join(&node.name)),
            None => (node.name.clone(), directory.join("nodes").join(&node.name)),
        };
        table.row(process_row(&name, node.process, path.display().to_string()));
    }
    printer.print_text(table.render(printer.screen().table_width))?;
    if !record.is_running() {
        printer.print_warning("not all processes are running; run `rpc demo down` to clean up");
        return Ok(CommandExitCode::Local);
    }
    Ok(CommandExitCode::Passed)
}

fn process_row(name: &str, process: DemoProcess, path: String) -> [String; 5] {
    let state = if process.is_alive() { "running" } else { "exited" };
    [name.to_owned(), process.pid.to_string(), state.to_owned(), memory_text(process), path]
}

/// Memory of the process in MiB, if it runs and is readable.
fn memory_text(process: DemoProcess) -> String {
    let bytes = process.is_alive().then(|| process.memory_bytes()).flatten();
    let text =
        bytes.map(|bytes| format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20));
    text.unwrap_or_else(|| "-".to_owned())
}

/// Stops all processes, nodes before the broker, and removes the directory.
async fn stop_demo(directory: &Path, cx: CommandContext<'_>) -> CommandResult {
    let CommandContext { environment, printer, .. } = cx;
    let record = DemoRecord::load(directory)?;
    let nodes: Vec<_> = record.nodes.iter().map(|node| node.process).collect();
    process::stop_processes(&nodes, STOP_TIMEOUT).await?;
    // Services and jobs that the nodes started. No more are started, now that the nodes have stopped.
    let started = process::find_root_processes(&record::scratch_roots(directory));
    process::stop_processes(&started, STOP_TIMEOUT).await?;
    let broker: Vec<_> = record.broker.iter().map(|broker| broker.process).collect();
    process::stop_processes(&broker, STOP_TIMEOUT).await?;
    contexts::remove_contexts(directory, environment, printer);
    record::remove_directory(directory)?;
    printer.print_message(format_args!(
        "{GOOD}down{GOOD:#}: all processes are stopped, and {} is removed",
        directory.display()
    ));
    Ok(CommandExitCode::Passed)
}
