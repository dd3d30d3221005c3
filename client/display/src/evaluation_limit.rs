//! Limits memory and time of evaluating an expression or rendering a template: one step can double a value or read all of it, which neither a limit of
//! steps nor one of the output bounds.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use muster_base::format_duration;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Most memory that the evaluation may add to what the process has, in bytes: several times the largest document.
const MAX_EVALUATION_BYTES: u64 = 1024 * 1024 * 1024;
/// Stack of the thread of an evaluation, in bytes.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Why an evaluation has no result.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// It takes longer than this limit.
    #[error("the evaluation takes longer than {}", format_duration(*.0))]
    TooSlow(Duration),
    /// The thread cannot be started, or panicked.
    #[error("the evaluation cannot be run")]
    Broken,
}

/// Limits the memory of this process from now on. Beyond it, the allocator ends the process. Without `/proc` there is no limit.
pub fn limit_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes: Option<u64> =
        data.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
    let (Some(kilobytes), Ok((_, most))) = (kilobytes, getrlimit(Resource::RLIMIT_DATA)) else {
        return;
    };
    let limit = kilobytes.saturating_mul(1024).saturating_add(MAX_EVALUATION_BYTES).min(most);
    // A limit that is not set leaves the process as it was.
    let _ = setrlimit(Resource::RLIMIT_DATA, limit, most);
}

/// Starts an evaluation on a thread of its own, so that an endless one can be abandoned.
pub fn start_evaluation(evaluate: impl FnOnce() + Send + 'static) -> Result<(), EvaluationError> {
    let thread = thread::Builder::new().name("evaluation".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(evaluate).map(drop).map_err(|_| EvaluationError::Broken)
}

/// The result of an evaluation that ends within the time limit; another one is abandoned.
pub fn evaluate_within<T: Send + 'static>(
    limit: Duration,
    evaluate: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EvaluationError> {
    let (sender, result) = sync_channel(1);
    // A send error means that the receiver has given up.
    start_evaluation(move || drop(sender.send(evaluate())))?;
    result.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => EvaluationError::TooSlow(limit),
        RecvTimeoutError::Disconnected => EvaluationError::Broken,
    })
}
