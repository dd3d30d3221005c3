//! Runs a program that does a step: the node's record as JSON on its standard input, one JSON object on its standard output.
//!
//! `{"defer": true, "msg": "..."}` requests a later retry; `{"fail": "..."}` ends the provisioning; any other object is the result. Invalid JSON, a
//! non-zero exit code, empty output and a timeout also defer, with the end of standard error in the message.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::base::describe_exit;
use muster_api::system::System;
use muster_api::system::command::{CancelFlag, Command, OutputListener, OutputStream};
use serde_json::{Map, Value};

use crate::options::HelperStep;
use crate::record::{NodeRecord, StepError};

/// Maximum number of bytes read from standard output.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;
/// Maximum number of bytes of standard error in a message.
const MAX_STDERR_BYTES: usize = 300;

#[derive(Debug)]
pub(crate) struct ProgramExit {
    /// Its exit code, or 128 + signal.
    pub(crate) code: i32,
    pub(crate) output: Vec<u8>,
    /// The end of its standard error.
    pub(crate) stderr: String,
}

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

/// Runs a program with this input. Kills its whole process tree after `timeout`, or when the future is dropped.
pub(crate) async fn run_program(
    system: Arc<dyn System>,
    argv: Vec<String>,
    input: Vec<u8>,
    timeout: Duration,
) -> Result<ProgramExit, String> {
    let cancel = CancelFlag::default();
    let _raised_when_dropped = CancelOnDrop(cancel.clone());
    let running = tokio::task::spawn_blocking(move || {
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&stderr);
        let command = Command {
            stdin: input,
            timeout: Some(timeout),
            output_limit: MAX_OUTPUT_BYTES,
            cancel,
            listener: Some(OutputListener::new(move |stream, bytes| {
                if stream == OutputStream::Stderr {
                    let mut buffer = sink.lock().unwrap_or_else(PoisonError::into_inner);
                    buffer.extend_from_slice(bytes);
                    let excess = buffer.len().saturating_sub(MAX_STDERR_BYTES);
                    buffer.drain(..excess);
                }
            })),
            ..Command::configured(argv)
        };
        let result = system.run_command(&command);
        let stderr = stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        match result {
            Ok(output) => Ok(ProgramExit { code: output.code, output: output.stdout, stderr }),
            Err(error) if stderr.is_empty() => Err(error.to_string()),
            Err(error) => Err(format!("{error}: {stderr}")),
        }
    });
    running.await.map_err(|error| error.to_string())?
}

/// Kills the program when the caller is dropped.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
