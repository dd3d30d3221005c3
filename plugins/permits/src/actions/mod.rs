//! The actions of the agent `permit`.

mod list;
mod release;

pub(crate) use list::PermitListAction;
pub(crate) use release::PermitReleaseAction;

use std::error::Error;

use muster_api::ActionError;

/// Converts an error and its sources into one action error.
fn to_action_error(error: &dyn Error) -> ActionError {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        line = format!("{line}: {next}");
        cause = next.source();
    }
    ActionError::failed(line)
}
