//! The actions of `puppetca`: the names that the authority has requests or certificates for.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::puppetca::{
    CertChangeInput, CertNameInput, CertStateFilter, PuppetcaCleanOutput, PuppetcaListInput,
    PuppetcaListOutput, PuppetcaRevokeOutput, PuppetcaSignInput, PuppetcaSignOutput,
    PuppetcaStatusOutput,
};

use crate::puppetca::authority::CertState;
use crate::puppetca::ca_service::{CaService, SigningSpec};
use crate::puppetca::name::CertName;

/// Most names of each state in one reply.
const MAX_NAMES_PER_STATE: usize = 5000;

/// Lists the names that the authority has requests or certificates for.
pub(crate) fn list_names(
    service: &Arc<CaService>,
    cx: &BlockingContext,
    PuppetcaListInput { state }: PuppetcaListInput,
) -> Result<PuppetcaListOutput, ActionError> {
    let state = match state {
        CertStateFilter::All => None,
        CertStateFilter::Requested => Some(CertState::Requested),
        CertStateFilter::Signed => Some(CertState::Signed),
        CertStateFilter::Revoked => Some(CertState::Revoked),
    };
    let entries = service.connect_authority(cx)?.list_entries(state)?;
    let mut output = PuppetcaListOutput { count: entries.len(), ..PuppetcaListOutput::default() };
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
}

pub(crate) fn query_status(
    service: &Arc<CaService>,
    cx: &BlockingContext,
    CertNameInput { certname }: CertNameInput,
) -> Result<PuppetcaStatusOutput, ActionError> {
    let name = CertName::parse(&certname)?;
    let details = CaService::query_certificate(&*service.connect_authority(cx)?, &name)?;
    Ok(PuppetcaStatusOutput { certname, details })
}

/// Signs the request of a name if it matches the fingerprint or public key that the caller gave.
pub(crate) fn sign_request(
    service: &Arc<CaService>,
    cx: &BlockingContext,
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
        is_noop: input.noop == Some(true),
    };
    // Before the connection, whose time limit is what is left of the call's.
    let _lock = service.name_locks.lock_name(&spec.name);
    let authority = service.connect_authority(cx)?;
    let (changed, details) = service.sign_verified_request(&*authority, &spec)?;
    let message = match (changed, spec.is_noop) {
        (true, true) => "would be signed",
        (true, false) => "signed",
        (false, _) => "already signed",
    };
    Ok(PuppetcaSignOutput {
        changed,
        message: message.to_owned(),
        certname: input.certname,
        fingerprint: details.fingerprint,
        public_key: details.public_key,
        serial: details.serial,
        not_after: details.not_after,
    })
}

/// Revokes the certificate of a name and keeps its entry.
pub(crate) fn revoke_certificate(
    service: &Arc<CaService>,
    cx: &BlockingContext,
    CertChangeInput { certname, noop }: CertChangeInput,
) -> Result<PuppetcaRevokeOutput, ActionError> {
    let name = CertName::parse(&certname)?;
    let _lock = service.name_locks.lock_name(&name);
    let authority = service.connect_authority(cx)?;
    let (changed, serial) = CaService::revoke_certificate(&*authority, &name, noop == Some(true))?;
    Ok(PuppetcaRevokeOutput { certname, changed, serial })
}

/// Revokes the certificate of a name and deletes it, so that the name can be used again.
pub(crate) fn clean_certificate(
    service: &Arc<CaService>,
    cx: &BlockingContext,
    CertChangeInput { certname, noop }: CertChangeInput,
) -> Result<PuppetcaCleanOutput, ActionError> {
    let name = CertName::parse(&certname)?;
    let _lock = service.name_locks.lock_name(&name);
    let authority = service.connect_authority(cx)?;
    let output = service.clean_certificate(&*authority, &name, noop == Some(true))?;
    Ok(PuppetcaCleanOutput { certname, ..output })
}
