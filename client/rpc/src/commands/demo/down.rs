//! `rpc demo down`: stops the processes that `up` started, nodes first, and removes the directory.

use std::path::Path;
use std::time::Duration;

use super::process;
use super::record::{self, DemoRecord};
use crate::commands::context::{CommandExitCode, CommandResult};
use crate::printer::{GOOD, OutputPrinter};

/// Time for a node to finish its running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the command.
pub async fn run(directory: &Path, printer: &OutputPrinter) -> CommandResult {
    let record = DemoRecord::load(directory)?;
    let nodes: Vec<_> = record.nodes.iter().map(|node| node.process).collect();
    process::stop_processes(&nodes, STOP_TIMEOUT).await?;
    let broker: Vec<_> = record.broker.iter().map(|broker| broker.process).collect();
    process::stop_processes(&broker, STOP_TIMEOUT).await?;
    record::remove_directory(directory)?;
    printer.print_message(format_args!(
        "{GOOD}down{GOOD:#}: all processes are stopped, and {} is removed",
        directory.display()
    ));
    Ok(CommandExitCode::Passed)
}
