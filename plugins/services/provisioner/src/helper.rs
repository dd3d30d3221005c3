//! Runs a program that does a step: the node's record as JSON on its standard input, one JSON object on its standard output.
//!
//! `{"defer": true, "msg": "..."}` requests a later retry; `{"fail": "..."}` ends the provisioning; any other object is the result. Invalid JSON, a
//! non-zero exit code, empty output and a timeout also defer, with the end of standard error in the message.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::describe_exit;
use muster_api::system::System;
use muster_sinks::{ProgramExit, run_program};
use serde_json::{Map, Value};

use crate::options::HelperStep;
use crate::record::{NodeRecord, StepError};

pub(crate) async fn run_helper(
    system: Arc<dyn System>,
    helper: &HelperStep,
    record: &NodeRecord,
) -> Result<Map<String, Value>, StepError> {
    let input = serde_json::to_vec(record).unwrap_or_default();
    let timeout = Duration::from_secs(helper.timeout);
    let exit = run_program(system, helper.command.clone(), input, timeout).await;
    parse_answer(&exit.map_err(StepError::deferred)?)
}

fn parse_answer(exit: &ProgramExit) -> Result<Map<String, Value>, StepError> {
    if exit.code != 0 {
        return Err(StepError::deferred(format!(
            "the helper {}: {}",
            describe_exit(exit.code),
            exit.stderr
        )));
    }
    let Ok(Value::Object(mut output)) = serde_json::from_slice(&exit.output) else {
        return Err(StepError::deferred(format!(
            "the helper did not print a JSON object: {}",
            exit.stderr
        )));
    };
    let message = |output: &Map<String, Value>| {
        let message = output.get("msg").and_then(Value::as_str);
        message.unwrap_or("the helper gave no reason").to_owned()
    };
    if output.get("defer") == Some(&Value::Bool(true)) {
        return Err(StepError::deferred(message(&output)));
    }
    if let Some(reason) = output.get("fail") {
        let reason = reason.as_str().map_or_else(|| message(&output), str::to_owned);
        return Err(StepError::permanent(reason));
    }
    output.remove("defer");
    output.remove("msg");
    Ok(output)
}
