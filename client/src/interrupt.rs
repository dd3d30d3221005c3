//! Handles signals that end a command during waits: Ctrl-C, the loss of the terminal, as when an ssh session ends, and the end that a service manager asks for.
//! The first one is reported to the waiting code, which prints a summary and saves what is left to do; a second one ends the process at once.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::select_all;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::FleetRequestError;

/// The signals.
const SIGNALS: [c_int; 3] = [SIGINT, SIGHUP, SIGTERM];

/// Whether Ctrl-C ended a wait.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the user pressed Ctrl-C during a wait of this process, whatever became of the command then.
pub fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// Waits for Ctrl-C, for questions at a terminal. [`was_interrupted`] is true then.
pub async fn wait_for_ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    INTERRUPTED.store(true, Ordering::Release);
}

/// Waits for one of the signals. One that cannot be handled ends the process as usual.
#[derive(Debug)]
pub struct InterruptListener {
    signals: Vec<(c_int, Signal)>,
    /// When set, the next signal has its default effect, even if the process is busy.
    interrupted: Arc<AtomicBool>,
}

impl InterruptListener {
    /// Installs the signal handlers.
    pub fn listen() -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let listen = |number: c_int| {
            // Must be registered before any other handler. Without it a second signal would have no immediate effect.
            let _ = register_conditional_default(number, Arc::clone(&interrupted));
            Some((number, signal(SignalKind::from_raw(number)).ok()?))
        };
        // `nohup` ignores the loss of the terminal for its command.
        let signals = SIGNALS.into_iter().filter(|number| !is_ignored(*number)).filter_map(listen);
        Self { signals: signals.collect(), interrupted }
    }

    /// Waits for the first signal.
    pub async fn wait_for_signal(&mut self) {
        if self.signals.is_empty() {
            std::future::pending::<()>().await;
        }
        let waits = self.signals.iter_mut().map(|(number, signal)| {
            let number = *number;
            Box::pin(async move {
                signal.recv().await;
                number
            })
        });
        let (number, _, _) = select_all(waits).await;
        if number == SIGINT {
            INTERRUPTED.store(true, Ordering::Release);
        }
        self.interrupted.store(true, Ordering::Release);
    }
}

/// Waits this long; without a time, forever.
pub(crate) async fn wait_for_time(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Whether the process was started with this signal ignored.
fn is_ignored(number: c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (number - 1)) != 0
}

/// Waits for the work, unless a signal interrupts it.
pub(crate) async fn run_until_interrupt<T>(
    work: impl Future<Output = T>,
) -> Result<T, FleetRequestError> {
    let mut interrupt = InterruptListener::listen();
    tokio::select! {
        result = work => Ok(result),
        () = interrupt.wait_for_signal() => Err(FleetRequestError::Interrupted),
    }
}
