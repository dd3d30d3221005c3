//! The actions of `puppetca`, one module each.

mod clean;
mod list;
mod revoke;
mod sign;
mod status;

pub(crate) use clean::PuppetcaCleanAction;
pub(crate) use list::PuppetcaListAction;
pub(crate) use revoke::PuppetcaRevokeAction;
pub(crate) use sign::PuppetcaSignAction;
pub(crate) use status::PuppetcaStatusAction;

use std::sync::Arc;

use muster_api::{ActionError, CallContext};

use crate::authority::{CaError, CertAuthority};
use crate::ca_service::CaService;

/// Runs a blocking call to the authority on a separate thread.
async fn run_blocking<T: Send + 'static>(
    service: &Arc<CaService>,
    cx: &CallContext,
    work: impl FnOnce(&CaService, &dyn CertAuthority) -> Result<T, CaError> + Send + 'static,
) -> Result<T, ActionError> {
    let (service, call) = (Arc::clone(service), cx.clone());
    let result = cx.run_blocking(move |cancel| {
        let authority = service.connect_authority(&call, cancel)?;
        work(&service, &*authority)
    });
    result.await?.map_err(ActionError::from)
}
