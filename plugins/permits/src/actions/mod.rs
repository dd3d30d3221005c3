//! The actions of the agent `permit`.

mod list;
mod release;

pub(crate) use list::PermitListAction;
pub(crate) use release::PermitReleaseAction;

use std::error::Error;

use muster_api::ActionError;
use muster_api::base::error_chain;

/// Converts an error and its sources into one action error.
fn to_action_error(error: &dyn Error) -> ActionError {
    ActionError::failed(error_chain(error))
}
