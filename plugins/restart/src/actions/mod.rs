//! The actions of `restart`, one module each.

mod request;
mod status;

pub(crate) use request::RestartRequestAction;
pub(crate) use status::RestartStatusAction;

use muster_api::ActionError;

use crate::target::RestartTarget;

/// Parses the name of a service.
fn parse_unit(name: &str) -> Result<RestartTarget, ActionError> {
    RestartTarget::parse_unit(name).map_err(|error| ActionError::invalid_input(error.to_string()))
}
