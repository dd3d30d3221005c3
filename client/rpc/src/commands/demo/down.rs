//! `rpc demo down`: stops exactly what `up` started, nodes first, and removes what it made.

use std::path::Path;
use std::time::Duration;

use super::process;
use super::record::{self, Record};
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::{GOOD, Printer};

/// How long a node may take to finish what it does.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it.
pub async fn run(directory: &Path, printer: &Printer) -> Result<Exit, Error> {
    let record = Record::load(directory)?;
    let nodes: Vec<_> = record.nodes.iter().map(|node| node.process).collect();
    process::stop(&nodes, PATIENCE).await?;
    let broker: Vec<_> = record.broker.iter().map(|broker| broker.process).collect();
    process::stop(&broker, PATIENCE).await?;
    record::remove(directory)?;
    printer.say(format_args!(
        "{GOOD}down{GOOD:#}: everything is stopped, and {} is gone",
        directory.display()
    ));
    Ok(Exit::Passed)
}
