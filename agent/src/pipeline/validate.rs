//! Stage 5: checks that the action exists and that its inputs match the schema.

use std::sync::Arc;
use std::time::Duration;

use muster_wire::content::digest_contents;
use muster_wire::status::ReplyStatus;

use super::{AcceptedRequest, RequestRejection, VerifiedRequest};
use crate::core::DaemonCore;

/// Fills in defaults and refuses missing, mistyped or undeclared inputs. Does not set the policy rule yet.
pub(super) fn validate_inputs(
    core: &DaemonCore,
    asked: VerifiedRequest,
) -> Result<AcceptedRequest, RequestRejection> {
    let (agent, action) = (asked.request.agent.as_str(), asked.request.action.as_str());
    let registry = core.registry.get();
    let Some(ddl) = registry.agent(agent).map(muster_api::Agent::ddl) else {
        let message = format!("this node has no agent {agent}");
        return Err(RequestRejection::new_refusal(
            asked,
            ReplyStatus::UnknownAction,
            message,
            None,
        ));
    };
    let Some(schema) = ddl.find_action(action) else {
        let message = format!("agent {agent} has no action {action}");
        return Err(RequestRejection::new_refusal(
            asked,
            ReplyStatus::UnknownAction,
            message,
            None,
        ));
    };
    let input = match schema.validate_input(&asked.request.data) {
        Ok(input) => input,
        Err(error) => {
            let status = if error.is_missing() {
                ReplyStatus::MissingData
            } else {
                ReplyStatus::InvalidData
            };
            return Err(RequestRejection::new_refusal(
                asked,
                status,
                error.to_string(),
                None,
            ));
        }
    };
    let wanted = asked.request.timeout.map(Duration::from_millis);
    let most = ddl.timeout_of(schema);
    Ok(AcceptedRequest {
        redacted: digest_contents(&schema.redact_input(&input)).0,
        read_only: schema.is_read_only(),
        timeout: wanted.map_or(most, |wanted| wanted.min(most)),
        dangerous: schema.is_dangerous(),
        rule: String::new(),
        ticket: core
            .running
            .add_request(asked.to_running_request(core.clock.now())),
        registry: Arc::clone(&registry),
        approver: None,
        input,
        asked,
    })
}
