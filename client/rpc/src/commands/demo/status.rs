//! `rpc demo status`: lists the processes and their memory.

use std::path::Path;

use super::process::DemoProcess;
use super::record::DemoRecord;
use crate::commands::context::{CommandExitCode, CommandResult};
use crate::commands::table::format_table;
use crate::printer::OutputPrinter;

/// Runs the command. Returns [`CommandExitCode::Local`] if a started process has exited.
pub fn run(directory: &Path, printer: &OutputPrinter) -> CommandResult {
    let record = DemoRecord::load(directory)?;
    let mut rows = Vec::new();
    if let Some(broker) = &record.broker {
        rows.push(process_row("broker", broker.process, broker.url.clone()));
    }
    for node in &record.nodes {
        let (name, path) = match node.virtual_count {
            Some(count) => (format!("{count} virtual nodes"), directory.join(&node.name)),
            None => (node.name.clone(), directory.join("nodes").join(&node.name)),
        };
        rows.push(process_row(&name, node.process, path.display().to_string()));
    }
    printer.print_text(format_table(["NAME", "PID", "STATE", "MEMORY", "WHERE"], &rows))?;
    let all_alive = record.nodes_first().iter().all(DemoProcess::is_alive);
    if rows.is_empty() || !all_alive {
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
