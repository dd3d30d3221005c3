//! Stage 5: checks that the action exists and that its inputs match the schema.

use std::sync::Arc;
use std::time::Duration;

use muster_wire::content::digest_contents;
use muster_wire::status::ReplyStatus;

use super::admission::RequestRejection;
use super::passed_values::{AcceptedRequest, VerifiedRequest};
use crate::core::DaemonCore;

/// Fills in defaults and refuses missing, mistyped or undeclared inputs. Does not set the policy rule yet.
pub(super) fn validate_inputs(
    core: &DaemonCore,
    verified: VerifiedRequest,
) -> Result<AcceptedRequest, RequestRejection> {
    let refuse = |verified, status, message| {
        Err(RequestRejection::new_refusal(verified, status, message, None))
    };
    let (agent, action) = (verified.request.agent.as_str(), verified.request.action.as_str());
    let registry = core.offer.registry.get();
    let Some(ddl) = registry.agent(agent).map(muster_api::Agent::ddl) else {
        let message = format!("this node has no agent {agent}");
        return refuse(verified, ReplyStatus::UnknownAction, message);
    };
    let Some(schema) = ddl.find_action(action) else {
        let message = format!("agent {agent} has no action {action}");
        return refuse(verified, ReplyStatus::UnknownAction, message);
    };
    let input = match schema.validate_input(&verified.request.data) {
        Ok(input) => input,
        Err(error) => {
            let status = if error.is_missing() {
                ReplyStatus::MissingData
            } else {
                ReplyStatus::InvalidData
            };
            return refuse(verified, status, error.to_string());
        }
    };
    let requested = verified.request.timeout.map(Duration::from_millis);
    let max_timeout = ddl.timeout_of(schema);
    Ok(AcceptedRequest {
        redacted: digest_contents(&schema.redact_input(&input)).0,
        read_only: schema.is_read_only(),
        timeout: requested.map_or(max_timeout, |requested| requested.min(max_timeout)),
        dangerous: schema.is_dangerous(),
        rule: String::new(),
        running_guard: core
            .running
            .add_request(verified.work_id(), verified.to_running_request(core.now())),
        registry: Arc::clone(&registry),
        approver: None,
        input,
        verified,
    })
}
