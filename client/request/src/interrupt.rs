//! Handles Ctrl-C during waits. The first one is reported to the waiting code, which prints a summary; a second one ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_default;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::FleetRequestError;

/// Waits for Ctrl-C. If signal handling is unavailable, Ctrl-C ends the process as usual.
pub(crate) struct InterruptListener {
    signal: Option<Signal>,
    /// When set, the next signal has its default effect, even if the process is busy.
    interrupted: Arc<AtomicBool>,
}

impl InterruptListener {
    /// Installs the signal handler.
    pub(crate) fn listen() -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        // Must be registered before any other handler. Without it a second Ctrl-C would have no immediate effect.
        let _ = register_conditional_default(SIGINT, Arc::clone(&interrupted));
        Self { signal: signal(SignalKind::interrupt()).ok(), interrupted }
    }

    /// Waits for the signal.
    pub(crate) async fn wait_for_signal(&mut self) {
        match &mut self.signal {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
        self.interrupted.store(true, Ordering::Release);
    }
}

/// Waits for the work, unless Ctrl-C interrupts it.
pub(crate) async fn run_until_interrupt<T>(
    work: impl Future<Output = T>,
) -> Result<T, FleetRequestError> {
    let mut interrupt = InterruptListener::listen();
    tokio::select! {
        result = work => Ok(result),
        () = interrupt.wait_for_signal() => Err(FleetRequestError::Interrupted),
    }
}
