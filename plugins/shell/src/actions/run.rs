//! `run`: runs a program until it exits and returns its output. Streams the output line by line to callers that subscribe to progress.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::SystemError;
use muster_api::system::command::OutputListener;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::output::LiveOutputBuffer;
use crate::program::ShellProgramInput;

/// Part of the call's time that is reserved for the reply after the program is stopped.
const REPLY_MARGIN: Duration = Duration::from_secs(3);

pub(crate) struct ShellRunAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShellRunInput {
    #[serde(flatten)]
    program: ShellProgramInput,
    /// In seconds.
    timeout: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ShellRunOutput {
    exitcode: i32,
    stdout: String,
    stderr: String,
    truncated: bool,
}

impl AgentAction for ShellRunAction {
    const NAME: &'static str = "run";
    type Input = ShellRunInput;
    type Output = ShellRunOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ShellRunInput,
    ) -> Result<ShellRunOutput, ActionError> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        // With a short deadline, half of the time remains for the program.
        let left = left.saturating_sub(REPLY_MARGIN).max(left / 2);
        let timeout = input.timeout.map_or(left, |seconds| left.min(Duration::from_secs(seconds)));
        let system = Arc::clone(&cx.system);
        let buffer = Arc::new(LiveOutputBuffer::new(cx.progress.clone()));
        let listener_buffer = Arc::clone(&buffer);
        let result = cx
            .run_blocking(move |cancel| {
                let mut command = input.program.build_command(&*system)?;
                command.timeout = Some(timeout);
                command.cancel = cancel;
                // The output callback keeps the output, so the command itself need not.
                command.output_limit = 0;
                command.listener = Some(OutputListener::new(move |stream, bytes| {
                    listener_buffer.append_bytes(stream, bytes);
                }));
                Ok::<_, ActionError>(system.run_command(&command))
            })
            .await??;
        let mut data = buffer.finish_streams();
        let error = match result {
            Ok(output) => {
                data.insert("exitcode".to_owned(), output.code.into());
                match output.code {
                    0 => {
                        return serde_json::from_value(data.into())
                            .map(|collected: CollectedRunOutput| collected.into())
                            .map_err(|error| ActionError::internal_error(error.to_string()));
                    }
                    code if code > 128 => ActionError::failed(format!(
                        "terminated by signal {}, or exited with code {code}",
                        code - 128
                    )),
                    code => ActionError::failed(format!("exited with code {code}")),
                }
            }
            Err(error) => run_error(&error),
        };
        Err(error.with_data(data))
    }
}

/// The collected output.
#[derive(Deserialize)]
struct CollectedRunOutput {
    exitcode: i32,
    stdout: String,
    stderr: String,
    truncated: bool,
}

impl From<CollectedRunOutput> for ShellRunOutput {
    fn from(collected: CollectedRunOutput) -> Self {
        Self {
            exitcode: collected.exitcode,
            stdout: collected.stdout,
            stderr: collected.stderr,
            truncated: collected.truncated,
        }
    }
}

/// The error for a program that could not be started or was stopped.
fn run_error(error: &SystemError) -> ActionError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let message = format!("{error}{}", cause.unwrap_or_default());
    let reason = match error {
        SystemError::Timeout { after, .. } => {
            ReplyReason::Timeout { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
        }
        SystemError::Cancelled { .. } => ReplyReason::Cancelled,
        _ => return ActionError::failed(message),
    };
    ActionError { status: ReplyStatus::Other, reason: Some(reason), ..ActionError::failed(message) }
}
