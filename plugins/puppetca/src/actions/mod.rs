//! One file for each action.

mod clean;
mod list;
mod revoke;
mod sign;
mod status;

pub(crate) use clean::Clean;
pub(crate) use list::List;
pub(crate) use revoke::Revoke;
pub(crate) use sign::Sign;
pub(crate) use status::Status;

use std::sync::Arc;

use muster_api::{ActionError, Context};
use serde::Deserialize;

use crate::authority::{Authority, CaError};
use crate::desk::Desk;

/// The input of an action on one name.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Named {
    pub(crate) certname: String,
}

/// Does the work at the authority, on a thread of its own.
async fn at<T: Send + 'static>(
    desk: &Arc<Desk>,
    cx: &Context,
    work: impl FnOnce(&Desk, &dyn Authority) -> Result<T, CaError> + Send + 'static,
) -> Result<T, ActionError> {
    let (desk, call) = (Arc::clone(desk), cx.clone());
    let done = cx.blocking(move |cancel| {
        let authority = desk.authority(&call, cancel)?;
        work(&desk, &*authority)
    });
    done.await?.map_err(ActionError::from)
}
