//! `rpc broker`: configures and runs nats-server.

pub mod args;
pub mod backup;
pub mod balance;
pub mod install;
pub mod status;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use muster_display::printer::GOOD;
use muster_organisation::{
    ClusterSettings, DEFAULT_MONITORING_PORT, LeafSettings, NatsServerConfig, Organisation,
    PACKAGE_STATE_DIRECTORY, ServerAddress,
};

use crate::commands::broker::args::{
    BrokerCommand, BrokerConfigArgs, BrokerRenameArgs, BrokerRunArgs,
};
use crate::session::broker_program;
use crate::session::broker_program::BrokerProgramError;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

pub async fn run(command: BrokerCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        BrokerCommand::Install(args) => install::run(&args, cx).await,
        BrokerCommand::Config(args) => print_config(&args, cx),
        BrokerCommand::Rename(args) => rename_broker(&args, cx),
        BrokerCommand::Status(args) => status::run(&args, cx).await,
        BrokerCommand::Balance(args) => balance::run(&args, cx).await,
        BrokerCommand::Backup(args) => backup::back_up(&args, cx).await,
        BrokerCommand::Restore(args) => backup::restore(&args, cx).await,
        BrokerCommand::Run(args) => run_server(&args, cx),
    }
}

/// Prints the configuration or writes it to a file. Outside the organisation's directory, it contains the account tokens.
fn print_config(args: &BrokerConfigArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    if let Some(directory) = &args.bundle {
        return write_bundle(&organisation, directory, args, cx);
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
    configure_server(&mut conf, &organisation, args)?;
    match out {
        None => cx.printer.print_text(conf.render_text())?,
        Some(path) => {
            conf.write_config(path)?;
            cx.printer.print_message(format_args!("{GOOD}wrote{GOOD:#} {}", path.display()));
        }
    }
    Ok(CommandExitCode::Passed)
}

/// Writes the files for the package `muster-broker`.
fn write_bundle(
    organisation: &Organisation,
    directory: &Path,
    args: &BrokerConfigArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let state = args.state_dir.as_deref().unwrap_or(Path::new(PACKAGE_STATE_DIRECTORY));
    let mut conf = NatsServerConfig::for_package(organisation, state)?;
    conf.monitoring_port = Some(DEFAULT_MONITORING_PORT);
    configure_server(&mut conf, organisation, args)?;
    conf.write_bundle(directory)?;
    cx.printer.print_message(format_args!("{GOOD}wrote{GOOD:#} {}", directory.display()));
    cx.printer.print_hint(
        "copy its files to /etc/muster-broker on the broker's machine, then run there: systemctl restart muster-broker",
    );
    Ok(CommandExitCode::Passed)
}

fn configure_server(
    conf: &mut NatsServerConfig<'_>,
    organisation: &Organisation,
    args: &BrokerConfigArgs,
) -> Result<()> {
    if let Some(port) = args.port {
        conf.port = i32::from(port);
    }
    if let Some(address) = args.listen {
        conf.host = address.to_string();
    }
    if args.name.is_some() {
        conf.monitoring_port = Some(DEFAULT_MONITORING_PORT);
    }
    if let Some(port) = args.monitoring_port {
        conf.monitoring_port = Some(port).filter(|port| *port > 0);
    }
    conf.server_name.clone_from(&args.name);
    conf.max_connections = args.max_connections;
    if let Some(name) = &args.cluster {
        // Servers of a cluster usually use one port for routes.
        let port = args.routes.first().and_then(|route| route.port);
        let default_listen = ServerAddress { host: conf.host.clone(), port };
        conf.cluster = Some(ClusterSettings {
            name: name.clone(),
            listen: args.cluster_listen.clone().unwrap_or(default_listen),
            routes: args.routes.clone(),
        });
    }
    conf.leaf_listen.clone_from(&args.leaf_listen);
    if let Some(name) = args.name.as_ref().filter(|_| !args.leafs.is_empty()) {
        let leaf = organisation.find_leaf(name)?.clone();
        if args.port.is_none() {
            conf.port = leaf.port().map_or(conf.port, i32::from);
        }
        conf.leaf = Some(LeafSettings { leaf, remotes: args.leafs.clone() });
    }
    Ok(())
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
        "give each server its new files and restart it, then run `rpc org push`: nodes and users try the new addresses, and use them if a server answers there",
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
