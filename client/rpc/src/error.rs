//! What can stop a command, from all rooms of `rpc`, with the next steps that each failure suggests.

use std::io;

use crate::approval::ApprovingError;
use crate::ask::AskError;
use crate::broker::program::BrokerError;
use crate::bundle::BundleFileError;
use crate::commands::audit::AuditError;
use crate::commands::demo::DemoError;
use crate::commands::form::FormError;
use crate::commands::inventory::InventoryFileError;
use crate::commands::plugin::generate::GenerateError;
use crate::exit::Exit;
use crate::organisation::OrganisationError;
use crate::organisation::push::PushError;
use crate::policy::PolicyError;
use crate::printer::OutputError;
use crate::settings::SettingsError;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client's configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The fleet could not be asked.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A form of results that the user wrote.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A proposal or an approval.
    #[error(transparent)]
    Approving(#[from] ApprovingError),
    /// The organisation's files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// The account's token did not get to the broker.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The broker's program.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// An audit log.
    #[error(transparent)]
    Audit(#[from] AuditError),
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
    Output(#[from] OutputError),
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
    pub fn exit(&self) -> Exit {
        match self {
            Self::Output(error) if error.is_reader_gone() => Exit::Passed,
            Self::Ask(error) => error.exit(),
            Self::Form(error) => error.exit(),
            Self::Generate(error) => error.exit(),
            Self::Approving(error) => error.exit(),
            Self::Policy(error) => error.exit(),
            Self::Bundle(error) => error.exit(),
            _ => Exit::Local,
        }
    }
}
