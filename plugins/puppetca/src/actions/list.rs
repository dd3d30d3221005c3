//! `list`: lists the names that the authority has requests or certificates for.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::run_blocking;
use crate::authority::CertState;
use crate::ca_service::CaService;

/// Most names of each state in one reply.
const MAX_NAMES_PER_STATE: usize = 5000;

pub(crate) struct PuppetcaListAction(pub(crate) Arc<CaService>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetcaListInput {
    state: CertStateFilter,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum CertStateFilter {
    All,
    Requested,
    Signed,
    Revoked,
}

#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetcaListOutput {
    requests: Vec<String>,
    signed: Vec<String>,
    revoked: Vec<String>,
    count: usize,
}

impl AgentAction for PuppetcaListAction {
    const NAME: &'static str = "list";
    type Input = PuppetcaListInput;
    type Output = PuppetcaListOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetcaListInput,
    ) -> Result<PuppetcaListOutput, ActionError> {
        let state = match input.state {
            CertStateFilter::All => None,
            CertStateFilter::Requested => Some(CertState::Requested),
            CertStateFilter::Signed => Some(CertState::Signed),
            CertStateFilter::Revoked => Some(CertState::Revoked),
        };
        run_blocking(&self.0, cx, move |_, ca| {
            let entries = ca.list_entries(state)?;
            let mut output =
                PuppetcaListOutput { count: entries.len(), ..PuppetcaListOutput::default() };
            for entry in entries {
                match entry.state {
                    CertState::Requested => output.requests.push(entry.name),
                    CertState::Signed => output.signed.push(entry.name),
                    CertState::Revoked => output.revoked.push(entry.name),
                }
            }
            for names in [&mut output.requests, &mut output.signed, &mut output.revoked] {
                names.sort_unstable();
                names.truncate(MAX_NAMES_PER_STATE);
            }
            Ok(output)
        })
        .await
    }
}
