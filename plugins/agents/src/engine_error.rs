//! Errors of the engine, as replies of the agents that use it.

use muster_api::ActionError;
use muster_engine::EngineError;

/// Maps invalid input to status 4, and all other errors to status 1.
#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
pub(crate) fn from_engine_error(error: EngineError) -> ActionError {
    if error.is_invalid() {
        ActionError::invalid_input(error.one_line_message())
    } else {
        ActionError::failed(error.one_line_message())
    }
}
