//! What went wrong below, as the caller is told.

use muster_api::ActionError;
use muster_api::system::SystemError;
use muster_api::system::error::chain;
use muster_engine::EngineError;

/// A wrong request is told apart from a machine that would not (status 4 and 1).
pub(crate) fn of_engine(error: &EngineError) -> ActionError {
    if error.is_invalid() {
        ActionError::invalid(error.line())
    } else {
        ActionError::failed(error.line())
    }
}

/// The machine would not.
pub(crate) fn of_system(error: &SystemError) -> ActionError {
    ActionError::failed(chain(error))
}
