//! `rpc demo status`: what runs, and how much memory it takes.

use std::path::Path;

use super::process::Process;
use super::record::Record;
use crate::commands::table::table;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs it. Ends with [`Exit::Local`] if something that was started is gone.
pub fn run(directory: &Path, printer: &Printer) -> Result<Exit, Error> {
    let record = Record::load(directory)?;
    let mut rows = Vec::new();
    if let Some(broker) = &record.broker {
        rows.push(row("broker", broker.process, broker.url.clone()));
    }
    for node in &record.nodes {
        let (name, place) = match node.in_memory {
            Some(count) => (format!("{count} virtual nodes"), directory.join(&node.name)),
            None => (node.name.clone(), directory.join("nodes").join(&node.name)),
        };
        rows.push(row(&name, node.process, place.display().to_string()));
    }
    for line in table(["NAME", "PID", "STATE", "MEMORY", "WHERE"], &rows) {
        printer.line(line)?;
    }
    let whole = record.nodes_first().iter().all(Process::is_alive);
    if rows.is_empty() || !whole {
        printer.warn("not everything runs; `rpc demo down` cleans up");
        return Ok(Exit::Local);
    }
    Ok(Exit::Passed)
}

fn row(name: &str, process: Process, place: String) -> [String; 5] {
    let state = if process.is_alive() {
        "running"
    } else {
        "gone"
    };
    [
        name.to_owned(),
        process.pid.to_string(),
        state.to_owned(),
        memory(process),
        place,
    ]
}

/// The process's share of memory in MiB, if it runs and may be looked at.
fn memory(process: Process) -> String {
    let bytes = process.is_alive().then(|| process.memory()).flatten();
    bytes.map_or_else(
        || "-".to_owned(),
        |bytes| format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20),
    )
}
