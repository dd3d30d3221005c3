//! The signals that a daemon handles, and its notifications to the service manager.

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The status text of a daemon that answers requests. `rpc demo` waits for it.
pub const CONNECTED_STATUS: &str = "connected to the broker";

/// How a daemon ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownKind {
    Stopped,
    /// It restarts with the current program file.
    Restart,
}

#[derive(Debug)]
pub enum DaemonSignal {
    Reload,
    Shutdown(ShutdownKind),
}

#[derive(Debug)]
pub struct SignalStreams {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    restart: Signal,
}

impl SignalStreams {
    pub fn install_handlers() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            restart: signal(SignalKind::user_defined2())?,
        })
    }

    pub async fn next_signal(&mut self) -> DaemonSignal {
        tokio::select! {
            _ = self.hangup.recv() => DaemonSignal::Reload,
            _ = self.terminate.recv() => DaemonSignal::Shutdown(ShutdownKind::Stopped),
            _ = self.interrupt.recv() => DaemonSignal::Shutdown(ShutdownKind::Stopped),
            _ = self.restart.recv() => DaemonSignal::Shutdown(ShutdownKind::Restart),
        }
    }
}

/// `RELOADING=1` must be sent together with its monotonic timestamp.
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify_systemd(&[NotifyState::Reloading, now]),
        Err(_) => notify_systemd(&[NotifyState::Reloading]),
    }
}

/// Reports a line for `systemctl status`.
pub fn notify_status(text: &str) {
    // A line break would begin another assignment.
    let line = text.replace(['\n', '\r'], " ");
    notify_systemd(&[NotifyState::Status(&line)]);
}

/// Sends these states to the service manager, if there is one.
pub fn notify_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
