//! `status`: shows the authority's entry of a name.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::puppetca::CertNameInput;
use serde::Serialize;
use serde_json::{Map, Value};

use super::run_blocking;
use crate::ca_service::CaService;
use crate::name::CertName;

pub(crate) struct PuppetcaStatusAction(pub(crate) Arc<CaService>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetcaStatusOutput {
    certname: String,
    state: String,
    fingerprint: String,
    public_key: String,
    serial: String,
    not_before: i64,
    not_after: i64,
    dns_alt_names: Vec<String>,
    authorization_extensions: Map<String, Value>,
}

impl AgentAction for PuppetcaStatusAction {
    const NAME: &'static str = "status";
    type Input = CertNameInput;
    type Output = PuppetcaStatusOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: CertNameInput,
    ) -> Result<PuppetcaStatusOutput, ActionError> {
        let name = CertName::parse(&input.certname)?;
        run_blocking(&self.0, cx, move |_, ca| {
            let details = CaService::query_certificate(ca, &name)?;
            Ok(PuppetcaStatusOutput {
                certname: input.certname,
                state: details.state.to_owned(),
                fingerprint: details.fingerprint,
                public_key: details.public_key,
                serial: details.serial,
                not_before: details.not_before,
                not_after: details.not_after,
                dns_alt_names: details.dns_alt_names,
                authorization_extensions: details.authorization_extensions,
            })
        })
        .await
    }
}
