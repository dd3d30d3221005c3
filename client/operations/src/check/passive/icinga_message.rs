//! Requests to the action `process-check-result` of Icinga 2, and what its answers mean. Pure.
//!
//! Texts of nodes are values of the JSON document, never parts of a filter expression. Icinga 2 knows the time of a result as that of its arrival: it
//! would ignore results that are older than its last one, and clocks of nodes differ.

use muster_contract::nrpe::parse_perfdata;
use serde::{Deserialize, Serialize};

use super::result::{PassiveResult, inert_character};

/// The path of the action.
pub(super) const ACTION_PATH: &str = "/v1/actions/process-check-result";
/// The permission that the action needs.
pub(super) const ACTION_PERMISSION: &str = "actions/process-check-result";
/// Most bytes of an output. Icinga 2 reads at most 1 MiB of a request.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;
/// Most bytes of all performance data.
const MAX_PERFDATA_BYTES: usize = 64 * 1024;
/// Most bytes of a text of Icinga 2 that is shown.
const MAX_TEXT_BYTES: usize = 200;

/// "Request timeout" and "too many requests": statuses of a proxy in front of Icinga 2, which may pass.
const REQUEST_TIMEOUT_STATUS: u16 = 408;
const TOO_MANY_STATUS: u16 = 429;

/// The body of a request. It has no `type`: without a service, Icinga 2 would then give the result to all services.
#[derive(Debug, Serialize)]
struct ResultDocument<'a> {
    service: String,
    exit_status: u8,
    plugin_output: String,
    performance_data: Vec<String>,
    check_source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    /// Asks for the reason of an error: Icinga 2.13 has the same status for a service that it does not know and for a permission that is missing.
    verbose: bool,
}

/// The body of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerDocument {
    results: Option<Vec<ObjectAnswer>>,
    status: String,
    diagnostic_information: String,
}

/// The answer for one object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectAnswer {
    code: f64,
    status: String,
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IcingaAnswer {
    /// Icinga has the result.
    Accepted,
    /// There is no such service.
    UnknownService,
    /// The service does not take the result.
    Refused(String),
    /// User or password is wrong.
    Unauthorized,
    /// The user lacks the permission.
    Forbidden,
    /// The server cannot answer now.
    ServerError(String),
    /// The answer is none of Icinga 2.
    Invalid(String),
}

/// The full name of a service.
pub(super) fn service_name(result: &PassiveResult) -> String {
    format!("{}!{}", result.host, result.service)
}

/// The body of the request.
pub(super) fn render_request(result: &PassiveResult, ttl: Option<u64>) -> Vec<u8> {
    let document = ResultDocument {
        service: service_name(result),
        exit_status: result.state.exit_code(),
        plugin_output: output_text(result),
        performance_data: perfdata_values(&result.perfdata),
        check_source: &result.host,
        ttl,
        verbose: true,
    };
    // Strings and numbers can always be written.
    serde_json::to_vec(&document).unwrap_or_default()
}

/// The lines of the output, without characters that a terminal interprets.
fn output_text(result: &PassiveResult) -> String {
    let mut text: String = result.output.chars().map(inert_character).collect();
    for line in result.long_output.lines() {
        text.push('\n');
        text.extend(line.chars().map(inert_character));
    }
    text.truncate(text.floor_char_boundary(MAX_OUTPUT_BYTES));
    text
}

/// The values that could be parsed, as many as the limit permits.
fn perfdata_values(perfdata: &str) -> Vec<String> {
    let mut rest = MAX_PERFDATA_BYTES;
    let values = parse_perfdata(perfdata).into_iter().map(|mut metric| {
        metric.label = metric.label.chars().map(inert_character).collect();
        metric.unit = metric.unit.chars().map(inert_character).collect();
        metric.to_string()
    });
    let within_limit = values.take_while(|value| match rest.checked_sub(value.len()) {
        Some(left) => {
            rest = left;
            true
        }
        None => false,
    });
    within_limit.collect()
}

/// What the answer with this status and body means.
pub(super) fn read_answer(status: u16, body: &[u8]) -> IcingaAnswer {
    let document: AnswerDocument = match (status, serde_json::from_slice(body)) {
        (401, _) => return IcingaAnswer::Unauthorized,
        (_, Ok(document)) => document,
        (REQUEST_TIMEOUT_STATUS | TOO_MANY_STATUS | 500.., Err(_)) => {
            return IcingaAnswer::ServerError(format!("status {status}"));
        }
        (403, Err(_)) => return IcingaAnswer::Forbidden,
        (_, Err(_)) => return IcingaAnswer::Invalid(format!("status {status}")),
    };
    if let Some(results) = &document.results {
        return read_object_answers(status, results);
    }
    let said = printable_text(&document.status);
    let reason = &document.diagnostic_information;
    match status {
        403 => IcingaAnswer::Forbidden,
        404 if reason.contains("Missing permission") => IcingaAnswer::Forbidden,
        404 if reason.contains("Access denied to object") => {
            IcingaAnswer::Refused("the filter of the user's permission excludes it".to_owned())
        }
        404 if said.starts_with("No objects found") => IcingaAnswer::UnknownService,
        REQUEST_TIMEOUT_STATUS | TOO_MANY_STATUS | 500.. => {
            IcingaAnswer::ServerError(format!("status {status}: {said}"))
        }
        _ => IcingaAnswer::Invalid(format!("status {status}: {said}")),
    }
}

/// The answer for the only object; the first that is not accepted if there are several.
fn read_object_answers(status: u16, results: &[ObjectAnswer]) -> IcingaAnswer {
    let is_accepted = |answer: &&ObjectAnswer| (200.0..300.0).contains(&answer.code);
    match results.iter().find(|answer| !is_accepted(answer)) {
        None if results.is_empty() => {
            IcingaAnswer::Invalid(format!("status {status} without a result"))
        }
        None => IcingaAnswer::Accepted,
        Some(answer) if (404.0..405.0).contains(&answer.code) => IcingaAnswer::UnknownService,
        Some(answer) => IcingaAnswer::Refused(printable_text(&answer.status)),
    }
}

/// The beginning of a text, on one line.
fn printable_text(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    let text = text.get(..end).unwrap_or_default();
    text.chars().map(inert_character).collect()
}

#[cfg(test)]
mod tests;
