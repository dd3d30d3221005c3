//! Ctrl-C while something is waited for.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, from now on. Where signals cannot be had it ends the process, as ever.
pub(super) struct Interrupt(Option<Signal>);

impl Interrupt {
    /// Listens for it.
    pub(super) fn listen() -> Self {
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// Waits until it comes.
    pub(super) async fn came(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}
