//! `rpc broker config`: prints a configuration for nats-server, or writes it.

use std::path::PathBuf;

use crate::broker::conf::Conf;
use crate::cli::broker::Config;
use crate::error::Error;
use crate::exit::Exit;
use crate::files;
use crate::organisation::{Organisation, OrganisationError};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub fn run(args: &Config, organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    let own = organisation.layout().broker_config();
    let out: Option<PathBuf> = if args.write {
        Some(own.clone())
    } else {
        args.out.clone()
    };
    let mut conf = Conf::of(organisation);
    if out.as_ref() != Some(&own) {
        conf = conf.elsewhere(organisation)?;
    }
    if let Some(directory) = &args.jetstream_dir {
        conf.jetstream = Some(absolute(directory));
    }
    if let Some(port) = args.port {
        conf.port = i32::from(port);
    }
    match out {
        None => printer.text(conf.text())?,
        Some(path) => {
            files::replace(&path, conf.text().as_bytes()).map_err(OrganisationError::from)?;
            printer.say(format_args!("{GOOD}wrote{GOOD:#} {}", path.display()));
        }
    }
    Ok(Exit::Passed)
}

/// nats-server takes relative paths from wherever it is started.
fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
