//! Converts errors of the engine and the system layer into action errors.

use muster_api::ActionError;
use muster_api::base::error_chain;
use muster_api::system::SystemError;
use muster_engine::EngineError;

/// Maps invalid input to status 4, and all other errors to status 1.
pub(crate) fn from_engine_error(error: &EngineError) -> ActionError {
    if error.is_invalid() {
        ActionError::invalid_input(error.one_line_message())
    } else {
        ActionError::failed(error.one_line_message())
    }
}

/// An error of the system layer.
pub(crate) fn from_system_error(error: &SystemError) -> ActionError {
    ActionError::failed(error_chain(error))
}
