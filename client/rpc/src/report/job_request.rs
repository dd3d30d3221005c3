//! What a job asked for, in a line.

use muster_client::jobs::JobHeader;
use muster_display::value::compact_value;

/// The name of the job, the agent, the action and the inputs.
pub fn job_request_line(header: &JobHeader) -> String {
    let name = header.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let request = [job_action_text(header), job_inputs_text(header)].join(" ");
    format!("{name}{}", request.trim_end())
}

/// The agent and its action.
pub fn job_action_text(header: &JobHeader) -> String {
    format!("{} {}", header.agent, header.action)
}

pub fn job_inputs_text(header: &JobHeader) -> String {
    let inputs = header.inputs.iter();
    let inputs = inputs.map(|(name, value)| format!("{name}={}", compact_value(value)));
    inputs.collect::<Vec<_>>().join(" ")
}
