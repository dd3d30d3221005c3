//! Ctrl-C while something is waited for. The first one is told to whoever waits, who then says how far things came; a second one
//! ends the process at once, as if nobody listened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_default;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, from now on. Where signals cannot be had it ends the process, as ever.
pub(super) struct InterruptListener {
    signal: Option<Signal>,
    /// Once it is raised the next signal has its default effect, whatever the process is busy with.
    came: Arc<AtomicBool>,
}

impl InterruptListener {
    /// Listens for it.
    pub(super) fn listen() -> Self {
        let came = Arc::new(AtomicBool::new(false));
        // Before anybody else looks at the signal. Without it a second Ctrl-C is only as good as the first.
        let _ = register_conditional_default(SIGINT, Arc::clone(&came));
        Self {
            signal: signal(SignalKind::interrupt()).ok(),
            came,
        }
    }

    /// Waits until it comes.
    pub(super) async fn wait_for_signal(&mut self) {
        match &mut self.signal {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
        self.came.store(true, Ordering::Release);
    }
}
