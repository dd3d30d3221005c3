//! Why files are not deployed or confirmed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::ActionError;
use muster_api::base::error_chain;
use muster_api::system::SystemError;
use muster_contract::config::{DeployedNameError, MAX_DEPLOYED_BYTES, MAX_DEPLOYED_FILES};

use crate::config::changes::FileChangeError;

pub(crate) const CONFIRM_SECONDS: std::ops::RangeInclusive<u64> = 10..=3600;
/// When to ask again for a confirmation that comes before the files are in force.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why files are not deployed or confirmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeployError {
    #[error("{0} files are more than {MAX_DEPLOYED_FILES}; nothing was changed")]
    TooMany(usize),
    #[error("the files have {0} bytes, more than {MAX_DEPLOYED_BYTES}; nothing was changed")]
    TooLarge(usize),
    #[error("`executables` names {0:?}, which is not among the files; nothing was changed")]
    UnknownProgram(String),
    #[error("{0}; nothing was changed")]
    Name(#[from] DeployedNameError),
    #[error("confirm_seconds {0} is not from {min} to {max}; nothing was changed", min = CONFIRM_SECONDS.start(), max = CONFIRM_SECONDS.end())]
    ConfirmTime(u64),
    #[error("{0}; nothing was changed")]
    Unusable(String),
    #[error("{0}; the earlier files were restored")]
    Refused(String),
    #[error(transparent)]
    File(#[from] FileChangeError),
    #[error("cannot read or select the programs of upgrades")]
    Programs(#[from] SystemError),
    #[error("cannot write {}", path.display())]
    Record {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "deployment {deployment} of {caller} waits for its confirmation until {until}; confirm or revert it first"
    )]
    Pending { deployment: String, caller: String, until: String },
    #[error("this node has no deployment {0:?}")]
    Unknown(String),
    #[error("deployment {deployment} was undone: {reason}")]
    Undone { deployment: String, reason: String },
    #[error("deployment {deployment} is of {deployer}, and only {deployer} can confirm it")]
    OtherCaller { deployment: String, deployer: String },
    #[error("this node has no deployment that could be reverted")]
    NothingToRevert,
    #[error("the daemon does not run with the deployed files yet")]
    NotInForce,
}

impl From<DeployError> for ActionError {
    fn from(error: DeployError) -> Self {
        match error {
            DeployError::NotInForce => Self::busy(error.to_string(), RETRY_PAUSE),
            DeployError::File(_) | DeployError::Programs(_) | DeployError::Record { .. } => {
                Self::failed(error_chain(&error))
            }
            DeployError::Pending { .. }
            | DeployError::Unknown(_)
            | DeployError::Undone { .. }
            | DeployError::OtherCaller { .. }
            | DeployError::NothingToRevert => Self::failed(error.to_string()),
            _ => Self::invalid_input(error.to_string()),
        }
    }
}
