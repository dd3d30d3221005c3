//! Errors of the demonstration, and hints for each.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use muster_base::format_duration;
use muster_client::{FleetRequestError, RpcSettingsError};
use muster_files::files::FileAccessError;
use muster_organisation::{OrganisationError, PushError};
use muster_wire::identity::NameError;

use crate::outcome::error::CommandError;
use crate::session::broker_program::BrokerProgramError;
use crate::session::environment::RPCD;

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("no directory for the demonstration: neither XDG_CACHE_HOME nor HOME is set")]
    NoDirectory,
    #[error("{} already contains a demonstration, but not all of its processes run", .0.display())]
    AlreadyExists(PathBuf),
    #[error("a demonstration with {} is already running in {}", kind_of_nodes(*.nodes, *.is_virtual), directory.display())]
    Different { directory: PathBuf, nodes: usize, is_virtual: bool },
    /// The directory holds other files.
    #[error("{} is not empty; nothing was changed", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} contains no demonstration; nothing was changed", .0.display())]
    NotFound(PathBuf),
    #[error("the demonstration in {} has virtual nodes; nothing was added", .0.display())]
    OnlyVirtual(PathBuf),
    /// More nodes than one machine can run as processes.
    #[error("{nodes} nodes would need {nodes} processes; the maximum is {maximum}")]
    TooMany { nodes: u32, maximum: u32 },
    #[error("`--catalogs` needs Puppet, and there is no `puppet` with a `ruby` in PATH")]
    NoPuppet,
    #[error("cannot find `rpcd`, neither next to `rpc` nor in PATH")]
    NoDaemon,
    #[error("{RPCD} is set to {}, which is not a file", .0.display())]
    InvalidDaemonPath(PathBuf),
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    #[error(transparent)]
    Settings(#[from] RpcSettingsError),
    #[error(transparent)]
    Request(#[from] FleetRequestError),
    #[error(transparent)]
    Stores(#[from] PushError),
    #[error(transparent)]
    Broker(#[from] BrokerProgramError),
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("{} is not a valid record of a demonstration", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    #[error("{name} exited ({status}) before it was ready; last lines of its log:\n{log_tail}")]
    Ended { name: String, status: ExitStatus, log_tail: String },
    #[error("{name} was not ready within {}; last lines of its log:\n{log_tail}", format_duration(*timeout))]
    NotReady { name: String, timeout: Duration, log_tail: String },
    #[error("processes still running after SIGKILL: {}", join_pids(.0))]
    StillRunning(Vec<u32>),
}

impl CommandError for DemoError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoDirectory | Self::NotEmpty(_) => "specify another directory with `--dir`",
            Self::AlreadyExists(_) => {
                "run `rpc demo status` to show it, or `rpc demo down` to remove it"
            }
            Self::Different { .. } | Self::OnlyVirtual(_) => {
                "run `rpc demo down` first, or give another directory with `--dir`"
            }
            Self::NotFound(_) => {
                "run `rpc demo up` to start one, or give its directory with `--dir`"
            }
            Self::TooMany { .. } => "use `--virtual` to run all nodes in one process",
            Self::NoPuppet => "on Debian and Ubuntu: `apt install puppet-agent`",
            Self::NoDaemon => "set RPCD to the path of `rpcd`",
            Self::Ended { .. } | Self::NotReady { .. } => {
                "all processes were stopped; `rpc demo down` removes the logs"
            }
            // The limit of the account's buckets is 1.5 GiB, and nats-server offers three quarters of the free space.
            Self::Stores(PushError::Stores(_)) => {
                "the broker needs 2 GiB of free disk space, even if it uses less; free some, or give a directory on another disk with `--dir`, after `rpc demo down`"
            }
            Self::Organisation(error) => return error.hints(),
            Self::Broker(error) => return error.hints(),
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// `5 nodes` or `5 virtual nodes`.
pub fn kind_of_nodes(count: usize, is_virtual: bool) -> String {
    let kind = if is_virtual { "virtual " } else { "" };
    let noun = if count == 1 { "node" } else { "nodes" };
    format!("{count} {kind}{noun}")
}

fn join_pids(pids: &[u32]) -> String {
    pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The error of a name that is not valid in a subject.
#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
pub fn name_error(error: NameError) -> OrganisationError {
    OrganisationError::Name(error.to_string())
}
