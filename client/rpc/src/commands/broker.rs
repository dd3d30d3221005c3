//! `rpc broker`: configures and runs nats-server.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use muster_organisation::{NatsServerConfig, Organisation};
use muster_secret::files;

use crate::broker_program;
use crate::broker_program::BrokerProgramError;
use crate::cli::broker::{BrokerCommand, BrokerConfigArgs, BrokerRenameArgs, BrokerRunArgs};
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::printer::GOOD;

/// Runs one of the commands.
pub fn run(command: BrokerCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        BrokerCommand::Config(args) => print_config(&args, cx),
        BrokerCommand::Rename(args) => rename_broker(&args, cx),
        BrokerCommand::Run(args) => run_server(&args, cx),
    }
}

/// Prints the configuration or writes it to a file. Outside the organisation's directory, it contains the account tokens.
fn print_config(args: &BrokerConfigArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    if let Some(directory) = &args.bundle {
        return write_bundle(&organisation, directory, args.port, cx);
    }
    let default_path = organisation.layout().broker_config();
    let out = if args.write { Some(&default_path) } else { args.out.as_ref() };
    let mut conf = NatsServerConfig::for_organisation(&organisation);
    if out != Some(&default_path) {
        conf = conf.with_embedded_accounts()?;
    }
    if let Some(directory) = &args.jetstream_dir {
        conf.jetstream = Some(absolute_path(directory));
    }
    if let Some(port) = args.port {
        conf.port = i32::from(port);
    }
    match out {
        None => cx.printer.print_text(conf.render_text())?,
        Some(path) => {
            files::replace_public(path, conf.render_text().as_bytes())?;
            cx.printer.print_message(format_args!("{GOOD}wrote{GOOD:#} {}", path.display()));
        }
    }
    Ok(CommandExitCode::Passed)
}

/// Writes the files for the package `muster-broker`.
fn write_bundle(
    organisation: &Organisation,
    directory: &Path,
    port: Option<u16>,
    cx: CommandContext<'_>,
) -> CommandResult {
    let mut conf = NatsServerConfig::for_package(organisation)?;
    if let Some(port) = port {
        conf.port = i32::from(port);
    }
    conf.write_bundle(directory)?;
    cx.printer.print_message(format_args!("{GOOD}wrote{GOOD:#} {}", directory.display()));
    cx.printer.print_hint(
        "copy its files to /etc/muster-broker on the broker's machine, then run there: systemctl restart muster-broker",
    );
    Ok(CommandExitCode::Passed)
}

/// Makes a path absolute, because nats-server resolves relative paths from its working directory.
fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Issues the broker a certificate for these host names and changes its addresses.
fn rename_broker(args: &BrokerRenameArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut organisation = cx.open_organisation(&args.organisation)?;
    let lock = organisation.lock()?;
    organisation.rename_broker(&lock, &args.hosts)?;
    let urls = organisation.profile().broker.urls.join(", ");
    cx.printer
        .print_message(format_args!("{GOOD}renamed{GOOD:#} the broker; its addresses are {urls}"));
    cx.printer.print_hint(
        "restart the broker, and write the new addresses to the configurations of nodes and users",
    );
    Ok(CommandExitCode::Passed)
}

/// Replaces this process by nats-server, so that signals and exit codes are those of the broker. Returns only if the exec fails.
#[expect(clippy::disallowed_types, reason = "replaces this process; starts no other process")]
fn run_server(args: &BrokerRunArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    let path = broker_program::find_nats_server(cx.environment)?;
    let config = organisation.layout().broker_config();
    cx.printer.print_detail(format_args!("{} --config {}", path.display(), config.display()));
    let mut server = std::process::Command::new(&path);
    let source = server.arg("--config").arg(config).args(&args.arguments).exec();
    Err(BrokerProgramError::Run { path, source }.into())
}
