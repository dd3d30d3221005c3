//! What went wrong below, as the caller is told.

use muster_api::ActionError;
use muster_api::system::SystemError;
use muster_api::system::error::error_chain;
use muster_engine::EngineError;

/// A wrong request is told apart from a machine that would not (status 4 and 1).
pub(crate) fn from_engine_error(error: &EngineError) -> ActionError {
    if error.is_invalid() {
        ActionError::invalid_input(error.one_line_message())
    } else {
        ActionError::failed(error.one_line_message())
    }
}

/// The machine would not.
pub(crate) fn from_system_error(error: &SystemError) -> ActionError {
    ActionError::failed(error_chain(error))
}
