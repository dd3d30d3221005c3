//! What can stop a command, from all rooms of `rpc`, with the next steps that each failure suggests.

use std::io;

use crate::approval::ApprovalFileError;
use crate::ask::FleetRequestError;
use crate::broker::program::BrokerProgramError;
use crate::bundle::BundleFileError;
use crate::commands::audit::AuditReadError;
use crate::commands::demo::DemoError;
use crate::commands::form::OutputFormError;
use crate::commands::inventory::InventoryFileError;
use crate::commands::plugin::generate::GenerateError;
use crate::exit::CommandExitCode;
use crate::organisation::OrganisationError;
use crate::organisation::push::PushError;
use crate::policy::PolicyError;
use crate::printer::PrintError;
use crate::settings::RpcSettingsError;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client's configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] RpcSettingsError),
    /// The fleet could not be asked.
    #[error(transparent)]
    Ask(#[from] FleetRequestError),
    /// A form of results that the user wrote.
    #[error(transparent)]
    Form(#[from] OutputFormError),
    /// A proposal or an approval.
    #[error(transparent)]
    Approving(#[from] ApprovalFileError),
    /// The organisation's files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// The account's token did not get to the broker.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The broker's program.
    #[error(transparent)]
    Broker(#[from] BrokerProgramError),
    /// An audit log.
    #[error(transparent)]
    Audit(#[from] AuditReadError),
    /// Policies on this machine.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The demonstration.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// An inventory of the fleet.
    #[error(transparent)]
    Inventory(#[from] InventoryFileError),
    /// A new agent was not written.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A bundle of an agent.
    #[error(transparent)]
    Bundle(#[from] BundleFileError),
    /// Standard output is closed or full.
    #[error(transparent)]
    Output(#[from] PrintError),
    /// The asynchronous runtime cannot be started.
    #[error("cannot start: the system refuses what every program needs")]
    Runtime(#[source] io::Error),
}

impl Error {
    /// What the user may do about it; each is one line.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Settings(error) => error.hints(),
            Self::Ask(error) => error.hints(),
            Self::Form(error) => error.hints(),
            Self::Approving(error) => error.hints(),
            Self::Organisation(error) | Self::Push(PushError::Organisation(error)) => error.hints(),
            Self::Push(PushError::Bus(_)) => {
                vec!["is the broker running? `rpc broker run` starts it".to_owned()]
            }
            Self::Broker(error) => error.hints(),
            Self::Audit(error) => error.hints(),
            Self::Policy(error) => error.hints(),
            Self::Demo(error) => error.hints(),
            Self::Bundle(error) => error.hints(),
            Self::Push(
                PushError::Refused(_)
                | PushError::Stores(_)
                | PushError::NotReserved { .. }
                | PushError::Renewal(_),
            )
            | Self::Inventory(_)
            | Self::Generate(_)
            | Self::Output(_)
            | Self::Runtime(_) => Vec::new(),
        }
    }

    /// How the command ends. A reader that has seen enough, as `head` does, is no failure.
    pub fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Output(error) if error.is_reader_gone() => CommandExitCode::Passed,
            Self::Ask(error) => error.exit_code(),
            Self::Form(error) => error.exit(),
            Self::Generate(error) => error.exit(),
            Self::Approving(error) => error.exit_code(),
            Self::Policy(error) => error.exit_code(),
            Self::Bundle(error) => error.exit_code(),
            _ => CommandExitCode::Local,
        }
    }
}
