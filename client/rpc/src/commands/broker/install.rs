//! `rpc broker install`: makes a machine the host of the broker: program, configuration, unit. Then pushes the account's token.

use std::path::Path;
use std::time::{Duration, Instant};

use muster_base::unix_millis_now;
use muster_display::printer::GOOD;
use muster_organisation::machines::script::{InstalledProgram, broker_script};
use muster_organisation::machines::source::ChosenProgram;
use muster_organisation::{
    DEFAULT_MONITORING_PORT, MissingStores, NatsServerConfig, Organisation,
    PACKAGE_STATE_DIRECTORY, PushError, StoreOptions,
};
use tokio::time::sleep;

use crate::commands::broker::args::BrokerInstallArgs;
use crate::commands::org::push;
use crate::session::broker_program::find_nats_server;
use crate::session::context::{CommandContext, CommandError, CommandResult, Result};
use crate::session::remote_machine::{RemoteMachineError, probe, run_script};
use crate::session::remote_shell::RemoteShell;

/// How long the server may take to accept the account's token.
const START_LIMIT: Duration = Duration::from_mins(1);
const START_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
pub enum BrokerInstallError {
    #[error("cannot install the broker on {host}")]
    Machine { host: String, source: RemoteMachineError },
    #[error("{host} is a machine with the architecture {architecture}, and this machine's nats-server is for {own}", own = std::env::consts::ARCH)]
    Architecture { host: String, architecture: String },
    #[error("the broker was installed, but did not accept the account's token within {} s", START_LIMIT.as_secs())]
    NotStarted(#[source] PushError),
}

impl CommandError for BrokerInstallError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Machine { source, .. } => source.hints(),
            Self::NotStarted(_) => vec![
                "see `journalctl -u muster-broker` on its machine; then run the command again"
                    .to_owned(),
            ],
            Self::Architecture { .. } => Vec::new(),
        }
    }
}

pub async fn run(args: &BrokerInstallArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    let shell = match &args.host {
        Some(host) => RemoteShell::Ssh(&host.destination, &args.login),
        None => RemoteShell::Local,
    };
    let host = args
        .host
        .as_ref()
        .map_or_else(|| "this machine".to_owned(), |host| host.destination.clone());
    let file = find_nats_server(cx.environment)?;
    let program = ChosenProgram { kind: InstalledProgram::Program, file };
    let failed = |source| BrokerInstallError::Machine { host: host.clone(), source };
    let probe = probe(shell).await.map_err(failed)?;
    if probe.architecture != std::env::consts::ARCH {
        let architecture = probe.architecture;
        return Err(BrokerInstallError::Architecture { host, architecture }.into());
    }
    let script = install_script(&organisation)?;
    run_script(shell, &script, &program).await.map_err(failed)?;
    cx.printer.print_message(format_args!("{GOOD}installed{GOOD:#} the broker on {host}"));
    await_broker(&organisation).await?;
    let options = StoreOptions { replicas: None, missing: MissingStores::CreateNew };
    push::push_all(organisation, options, cx.printer).await
}

fn install_script(organisation: &Organisation) -> Result<String> {
    let state = Path::new(PACKAGE_STATE_DIRECTORY);
    let mut config = NatsServerConfig::for_package(organisation, state)?;
    config.monitoring_port = Some(DEFAULT_MONITORING_PORT);
    let files = config.bundle_files()?;
    let account = organisation.profile().system_account;
    Ok(broker_script(account, &files, InstalledProgram::Program))
}

/// Pushes the account's token until the broker has started, at most for the limit.
async fn await_broker(organisation: &Organisation) -> Result<(), BrokerInstallError> {
    let started = Instant::now();
    loop {
        match organisation.push_tokens(unix_millis_now()).await {
            Ok(()) => return Ok(()),
            Err(error) if started.elapsed() > START_LIMIT => {
                return Err(BrokerInstallError::NotStarted(error));
            }
            Err(_) => sleep(START_INTERVAL).await,
        }
    }
}
