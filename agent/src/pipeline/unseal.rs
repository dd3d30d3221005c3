//! Between matching and validating: sensitive inputs that were sealed for this node are opened, with this node's key. Those that
//! came readable for the broker are refused.

use muster_wire::status::ReplyStatus;

use super::{RequestRejection, VerifiedRequest};
use crate::core::DaemonCore;

/// Puts the opened inputs among the others, where their schema then judges them.
pub(super) fn unseal_inputs(
    core: &DaemonCore,
    mut asked: VerifiedRequest,
) -> Result<VerifiedRequest, RequestRejection> {
    let refused = |asked, message| {
        Err(RequestRejection::new_refusal(
            asked,
            ReplyStatus::InvalidData,
            message,
            None,
        ))
    };
    if let Some(name) = find_plain_secret(core, &asked) {
        let message = format!(
            "the input `{name}` is sensitive, and came readable for the broker; \
             it must be sealed, as `rpc` does unless its requests.plain_secrets is set"
        );
        return refused(asked, message);
    }
    let Some(sealed) = asked.request.sealed.take() else {
        return Ok(asked);
    };
    let opened =
        match sealed.decrypt_inputs(core.identity(), core.signer.key_pair(), asked.request.id) {
            Ok(opened) => opened,
            Err(error) => return refused(asked, error.to_string()),
        };
    let twice = opened
        .keys()
        .find(|name| asked.request.data.contains_key(*name));
    if let Some(name) = twice {
        let message = format!("the input `{name}` came twice: sealed, and in clear");
        return refused(asked, message);
    }
    asked.request.data.extend(opened);
    Ok(asked)
}

/// A sensitive input that is not sealed, unless this node takes them so. What nobody declared is for the next stage to refuse.
fn find_plain_secret(core: &DaemonCore, asked: &VerifiedRequest) -> Option<String> {
    if core.plain_secrets {
        return None;
    }
    let request = &asked.request;
    let registry = core.registry.get();
    let agent = registry.agent(request.agent.as_str())?;
    let schema = agent.ddl().find_action(request.action.as_str())?;
    let mut names = request.data.keys();
    names.find(|name| schema.is_sensitive(name)).cloned()
}
