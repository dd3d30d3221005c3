//! Between matching and validation: decrypts sensitive inputs with this node's key. Refuses those that the broker could read.

use muster_wire::status::ReplyStatus;

use super::admission::RequestRejection;
use super::passed_values::VerifiedRequest;
use crate::core::DaemonCore;

/// Merges the decrypted inputs with the others; the schema validates them later.
pub(super) fn unseal_inputs(
    core: &DaemonCore,
    mut verified: VerifiedRequest,
) -> Result<VerifiedRequest, RequestRejection> {
    let refused = |verified, message| {
        Err(RequestRejection::new_refusal(verified, ReplyStatus::InvalidData, message, None))
    };
    if let Some(name) = find_plain_secret(core, &verified) {
        let message = format!(
            "the input `{name}` is sensitive, but was not encrypted; \
             `rpc` encrypts it unless its requests.plain_secrets is set"
        );
        return refused(verified, message);
    }
    let Some(sealed) = verified.request.sealed.take() else { return Ok(verified) };
    let opened = match sealed.decrypt_inputs(
        core.identity(),
        core.trust.signer.key_pair(),
        verified.request.id,
    ) {
        Ok(opened) => opened,
        Err(error) => return refused(verified, error.to_string()),
    };
    let duplicate = opened.keys().find(|name| verified.request.data.contains_key(*name));
    if let Some(name) = duplicate {
        let message = format!("the input `{name}` is given twice: encrypted and in plain text");
        return refused(verified, message);
    }
    verified.request.data.extend(opened);
    Ok(verified)
}

/// A sensitive input that is not encrypted, unless this node accepts those. The next stage refuses undeclared inputs.
fn find_plain_secret(core: &DaemonCore, verified: &VerifiedRequest) -> Option<String> {
    if core.plain_secrets {
        return None;
    }
    let request = &verified.request;
    let registry = core.offer.registry.get();
    let agent = registry.agent(request.agent.as_str())?;
    let schema = agent.ddl().find_action(request.action.as_str())?;
    let mut names = request.data.keys();
    names.find(|name| schema.is_sensitive(name)).cloned()
}
