//! Bounds the daemon's own log: each log statement writes at most [`MAX_LINES_PER_WINDOW`] lines in [`WINDOW_DURATION`]. Lines beyond that are
//! counted; the count is in the statement's next line and in the metrics. Levels below info are enabled by the operator and not bounded.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_node::config::LogFormat;
use muster_node::ground::shared::lock_mutex;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::process::journal;

/// Maximum number of lines of one statement per window.
pub const MAX_LINES_PER_WINDOW: u32 = 20;
/// The duration of a window, which starts with a line.
pub const WINDOW_DURATION: Duration = Duration::from_secs(10);

/// Number of suppressed lines of this process.
static LEFT_OUT_LINES: AtomicU64 = AtomicU64::new(0);

pub fn left_out_lines() -> u64 {
    LEFT_OUT_LINES.load(Ordering::Relaxed)
}

#[derive(Debug, Clone, Copy)]
struct StatementWindow {
    opened: Instant,
    lines: u32,
    left_out: u64,
}

impl StatementWindow {
    fn new(opened: Instant) -> Self {
        Self { opened, lines: 0, left_out: 0 }
    }

    /// Whether a line may be written: `Some` with the number of lines suppressed before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.opened) >= WINDOW_DURATION {
            (self.opened, self.lines) = (now, 0);
        }
        if self.lines >= MAX_LINES_PER_WINDOW {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Formats lines within the limit and drops the others.
pub struct LimitedFormat<F> {
    inner: F,
    format: LogFormat,
    statements: Mutex<HashMap<Identifier, StatementWindow>>,
    clock: Arc<dyn Fn() -> Instant + Send + Sync>,
    /// Whether each line begins with its priority, for the journal.
    has_priorities: bool,
}

impl<F> LimitedFormat<F> {
    pub fn new(inner: F, format: LogFormat) -> Self {
        Self::with_clock(inner, format, Arc::new(Instant::now))
    }

    fn with_clock(
        inner: F,
        format: LogFormat,
        clock: Arc<dyn Fn() -> Instant + Send + Sync>,
    ) -> Self {
        Self { inner, format, statements: Mutex::default(), clock, has_priorities: false }
    }

    /// Begins each line with its priority; see [`journal::priority_prefix`].
    #[must_use]
    pub fn with_priorities(self) -> Self {
        Self { has_priorities: true, ..self }
    }

    fn admit(&self, event: &Event<'_>) -> Option<u64> {
        if *event.metadata().level() > Level::INFO {
            return Some(0);
        }
        let now = (self.clock)();
        let mut statements = lock_mutex(&self.statements);
        statements
            .entry(event.metadata().callsite())
            .or_insert_with(|| StatementWindow::new(now))
            .admit(now)
    }
}

impl<F> fmt::Debug for LimitedFormat<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LimitedFormat").finish_non_exhaustive()
    }
}

impl<S, N, F> FormatEvent<S, N> for LimitedFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(left_out) = self.admit(event) else {
            LEFT_OUT_LINES.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        if self.has_priorities {
            out.write_str(journal::priority_prefix(*event.metadata().level()))?;
        }
        if left_out == 0 {
            return self.inner.format_event(context, out, event);
        }
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end();
        match (self.format, line.strip_suffix('}')) {
            (LogFormat::Json, Some(open)) => writeln!(out, "{open},\"left_out\":{left_out}}}"),
            _ => writeln!(out, "{line} left_out={left_out}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use tracing_subscriber::fmt::format;

    use super::{LimitedFormat, MAX_LINES_PER_WINDOW, WINDOW_DURATION, left_out_lines};
    use muster_node::config::LogFormat;

    /// Collects the log output, and has a clock that the test advances.
    #[derive(Clone)]
    struct Log {
        bytes: Arc<Mutex<Vec<u8>>>,
        now: Arc<Mutex<Instant>>,
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.bytes.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn new() -> Self {
            Self { bytes: Arc::default(), now: Arc::new(Mutex::new(Instant::now())) }
        }

        fn clock(&self) -> Arc<dyn Fn() -> Instant + Send + Sync> {
            let now = Arc::clone(&self.now);
            Arc::new(move || *now.lock().unwrap())
        }

        fn pass(&self, time: Duration) {
            *self.now.lock().unwrap() += time;
        }

        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    fn flood(count: usize) {
        for number in 0..count {
            tracing::warn!(number, "caused by a peer");
        }
    }

    #[test]
    fn lines_of_one_statement_are_limited_and_omitted_lines_are_counted() {
        const FLOOD: usize = 100_000;
        let log = Log::new();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .event_format(LimitedFormat::with_clock(
                format().with_ansi(false),
                LogFormat::Text,
                log.clock(),
            ))
            .with_writer(move || writer.clone())
            .finish();
        let before = left_out_lines();
        tracing::subscriber::with_default(subscriber, || {
            flood(FLOOD);
            tracing::error!("another statement is not held up");
            assert_eq!(log.lines().len(), MAX_LINES_PER_WINDOW as usize + 1);
            log.pass(WINDOW_DURATION);
            flood(1);
        });
        let untold = FLOOD - MAX_LINES_PER_WINDOW as usize;
        assert_eq!(left_out_lines() - before, untold as u64);
        let lines = log.lines();
        assert!(lines[MAX_LINES_PER_WINDOW as usize].contains("another statement"));
        assert!(
            lines.last().unwrap().ends_with(&format!("left_out={untold}")),
            "{:?}",
            lines.last()
        );
    }

    #[test]
    fn counts_of_omitted_lines_keep_json_valid() {
        let log = Log::new();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .event_format(LimitedFormat::with_clock(format().json(), LogFormat::Json, log.clock()))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            flood(MAX_LINES_PER_WINDOW as usize + 7);
            log.pass(WINDOW_DURATION);
            flood(1);
        });
        let last = log.lines().pop().unwrap();
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!((&last["left_out"], &last["level"]), (&7.into(), &"WARN".into()));
    }
}
