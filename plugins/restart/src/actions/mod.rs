//! The actions, one file each.

mod request;
mod status;

pub(crate) use request::Request;
pub(crate) use status::Status;

use muster_api::ActionError;

use crate::target::Target;

/// The service of that name.
fn unit(name: &str) -> Result<Target, ActionError> {
    Target::unit(name).map_err(|error| ActionError::invalid(error.to_string()))
}
