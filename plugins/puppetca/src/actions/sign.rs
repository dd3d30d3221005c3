//! `sign`: signs the request of a name if it matches the fingerprint or public key that the caller gave.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::puppetca::{PuppetcaSignInput, PuppetcaSignOutput};

use super::run_blocking;
use crate::ca_service::{CaService, SigningSpec};
use crate::name::CertName;

pub(crate) struct PuppetcaSignAction(pub(crate) Arc<CaService>);

impl AgentAction for PuppetcaSignAction {
    const NAME: &'static str = "sign";
    type Input = PuppetcaSignInput;
    type Output = PuppetcaSignOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetcaSignInput,
    ) -> Result<PuppetcaSignOutput, ActionError> {
        if input.ttl == Some(0) {
            return Err(ActionError::invalid_input("ttl must be a number of seconds above 0"));
        }
        let spec = SigningSpec {
            name: CertName::parse(&input.certname)?,
            fingerprint: input.fingerprint,
            public_key: input.public_key,
            ttl: input.ttl,
        };
        run_blocking(&self.0, cx, move |service, ca| {
            let (changed, details) = service.sign_verified_request(ca, &spec)?;
            let message = if changed { "signed" } else { "already signed" };
            Ok(PuppetcaSignOutput {
                changed,
                message: message.to_owned(),
                certname: input.certname,
                fingerprint: details.fingerprint,
                public_key: details.public_key,
                serial: details.serial,
                not_after: details.not_after,
            })
        })
        .await
    }
}
