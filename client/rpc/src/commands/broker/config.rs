//! `rpc broker config`: prints or writes a configuration for nats-server.

use std::path::PathBuf;

use crate::broker::conf::NatsServerConfig;
use crate::cli::broker::BrokerConfigArgs;
use crate::commands::context::{CommandExitCode, CommandResult};
use crate::files;
use crate::organisation::{Organisation, OrganisationError};
use crate::printer::{GOOD, OutputPrinter};

/// Runs the command.
pub fn run(
    args: &BrokerConfigArgs,
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    let default_path = organisation.layout().broker_config();
    let out: Option<PathBuf> =
        if args.write { Some(default_path.clone()) } else { args.out.clone() };
    let mut conf = NatsServerConfig::for_organisation(organisation);
    if out.as_ref() != Some(&default_path) {
        conf = conf.with_embedded_accounts(organisation)?;
    }
    if let Some(directory) = &args.jetstream_dir {
        conf.jetstream = Some(absolute_path(directory));
    }
    if let Some(port) = args.port {
        conf.port = i32::from(port);
    }
    match out {
        None => printer.print_text(conf.render_text())?,
        Some(path) => {
            files::replace_public(&path, conf.render_text().as_bytes())
                .map_err(OrganisationError::from)?;
            printer.print_message(format_args!("{GOOD}wrote{GOOD:#} {}", path.display()));
        }
    }
    Ok(CommandExitCode::Passed)
}

/// Makes a path absolute, because nats-server resolves relative paths from its working directory.
fn absolute_path(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
