//! Runs a program with input, and returns how it ended. No shell; the whole process tree is killed after a time limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::system::System;
use muster_api::system::command::{CancelFlag, Command, OutputListener, OutputStream};

/// Maximum number of bytes read from standard output.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;
/// Maximum number of bytes of standard error in a message.
const MAX_STDERR_BYTES: usize = 300;

/// How a program ended.
#[derive(Debug)]
pub struct ProgramExit {
    /// Its exit code, or 128 + signal.
    pub code: i32,
    pub output: Vec<u8>,
    /// The end of its standard error.
    pub stderr: String,
}

/// Runs a program with this input. Kills its whole process tree after `timeout`, or when the future is dropped.
pub async fn run_program(
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
