//! `run`: runs a program until it exits and returns its output. Streams the output line by line to callers that subscribe to progress.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::{describe_exit, duration_millis};
use muster_api::system::SystemError;
use muster_api::system::command::OutputListener;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::shell::{ShellRunInput, ShellRunOutput};

use crate::shell::output::LiveOutputBuffer;
use crate::shell::program::build_command;

pub(crate) fn run_program(
    _: &NoState,
    cx: &BlockingContext,
    ShellRunInput { program, timeout }: ShellRunInput,
) -> Result<ShellRunOutput, ActionError> {
    let left = cx.time_left();
    let timeout = timeout.map_or(left, |seconds| left.min(Duration::from_secs(seconds)));
    let mut command = build_command(&program, &*cx.system)?;
    let buffer = Arc::new(LiveOutputBuffer::new(cx.progress.clone()));
    let listener_buffer = Arc::clone(&buffer);
    command.timeout = Some(timeout);
    command.cancel = cx.cancel_flag.clone();
    // The output callback keeps the output, so the command itself need not.
    command.output_limit = 0;
    command.listener = Some(OutputListener::new(move |stream, bytes| {
        listener_buffer.append_bytes(stream, bytes);
    }));
    let result = cx.system.run_command(&command);
    let mut output = buffer.finish_streams();
    let error = match result {
        Ok(result) => {
            output.exitcode = Some(result.code);
            match result.code {
                0 => return Ok(output),
                code => ActionError::failed(describe_exit(code)),
            }
        }
        Err(error) => run_error(error),
    };
    Err(error.with_output(&output))
}

/// The error for a program that could not be started or was stopped.
fn run_error(error: SystemError) -> ActionError {
    let reason = match &error {
        SystemError::Timeout { after, .. } => {
            ReplyReason::Timeout { after_ms: duration_millis(*after) }
        }
        SystemError::Cancelled { .. } => ReplyReason::Cancelled,
        _ => return error.into(),
    };
    ActionError { status: ReplyStatus::Other, reason: Some(reason), ..error.into() }
}
