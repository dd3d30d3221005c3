//! `revoke`: revokes the certificate of a name and keeps its entry.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::puppetca::CertNameInput;
use serde::Serialize;

use super::run_blocking;
use crate::ca_service::CaService;
use crate::name::CertName;

pub(crate) struct PuppetcaRevokeAction(pub(crate) Arc<CaService>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetcaRevokeOutput {
    certname: String,
    changed: bool,
    serial: String,
}

impl AgentAction for PuppetcaRevokeAction {
    const NAME: &'static str = "revoke";
    type Input = CertNameInput;
    type Output = PuppetcaRevokeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: CertNameInput,
    ) -> Result<PuppetcaRevokeOutput, ActionError> {
        let name = CertName::parse(&input.certname)?;
        run_blocking(&self.0, cx, move |_, ca| {
            let (changed, serial) = CaService::revoke_certificate(ca, &name)?;
            Ok(PuppetcaRevokeOutput { certname: input.certname, changed, serial })
        })
        .await
    }
}
