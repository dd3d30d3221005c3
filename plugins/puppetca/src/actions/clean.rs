//! `clean`: revokes the certificate of a name and deletes it, so that the name can be used again.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::puppetca::{CertNameInput, PuppetcaCleanOutput};

use super::run_blocking;
use crate::ca_service::{CaService, CleanOutcome};
use crate::name::CertName;

pub(crate) struct PuppetcaCleanAction(pub(crate) Arc<CaService>);

impl AgentAction for PuppetcaCleanAction {
    const NAME: &'static str = "clean";
    type Input = CertNameInput;
    type Output = PuppetcaCleanOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: CertNameInput,
    ) -> Result<PuppetcaCleanOutput, ActionError> {
        let name = CertName::parse(&input.certname)?;
        run_blocking(&self.0, cx, move |service, ca| {
            let outcome = service.clean_certificate(ca, &name)?;
            Ok(PuppetcaCleanOutput {
                certname: input.certname,
                found: outcome.found,
                revoked: outcome.revoked,
                message: describe_outcome(&outcome).to_owned(),
                serial: outcome.serial,
            })
        })
        .await
    }
}

/// Name of the outcome in the reply.
fn describe_outcome(outcome: &CleanOutcome) -> &'static str {
    match (outcome.found, outcome.revoked) {
        (false, _) => "the CA has no entry for this name",
        (true, true) => "revoked the certificate and removed it",
        (true, false) => "removed the entry; there was no valid certificate to revoke",
    }
}
