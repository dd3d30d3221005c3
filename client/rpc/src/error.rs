//! The error type of all commands, with hints for each error.

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

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client's configuration is invalid.
    #[error(transparent)]
    Settings(#[from] RpcSettingsError),
    /// A request to the fleet failed.
    #[error(transparent)]
    Ask(#[from] FleetRequestError),
    /// An invalid output format option.
    #[error(transparent)]
    Form(#[from] OutputFormError),
    /// A proposal or approval failed.
    #[error(transparent)]
    Approving(#[from] ApprovalFileError),
    /// An error with the organisation's files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// The account token could not be pushed to the broker.
    #[error(transparent)]
    Push(#[from] PushError),
    /// An error with the broker's program.
    #[error(transparent)]
    Broker(#[from] BrokerProgramError),
    /// An audit log cannot be read.
    #[error(transparent)]
    Audit(#[from] AuditReadError),
    /// Local policies cannot be read.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The demonstration failed.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// A fleet inventory is invalid.
    #[error(transparent)]
    Inventory(#[from] InventoryFileError),
    /// The skeleton of an agent was not written.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// An error with an agent bundle.
    #[error(transparent)]
    Bundle(#[from] BundleFileError),
    /// Standard output is closed or full.
    #[error(transparent)]
    Output(#[from] PrintError),
    /// The asynchronous runtime cannot be started.
    #[error("cannot start the asynchronous runtime")]
    Runtime(#[source] io::Error),
}

impl Error {
    /// The next steps for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Settings(error) => error.hints(),
            Self::Ask(error) => error.hints(),
            Self::Form(error) => error.hints(),
            Self::Approving(error) => error.hints(),
            Self::Organisation(error) | Self::Push(PushError::Organisation(error)) => error.hints(),
            Self::Push(PushError::Bus(_)) => {
                vec!["check that the broker is running; `rpc broker run` starts it".to_owned()]
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

    /// The exit code. A reader that closes the pipe early, such as `head`, is not an error.
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
