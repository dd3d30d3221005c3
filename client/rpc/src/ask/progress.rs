//! Progress display while a command waits. Written to the standard error, and only if that is a terminal.

use std::fmt::Display;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use muster_client::DiscoveryMethod;

use crate::printer::{OutputPrinter, VerbosityLevel};

/// Whether progress is shown, and the printer for other messages.
#[derive(Debug, Clone, Copy)]
pub struct ProgressReporter<'a> {
    printer: &'a OutputPrinter,
    enabled: bool,
}

/// A progress bar for one wait.
#[derive(Debug)]
pub struct ProgressIndicator(ProgressBar);

impl<'a> ProgressReporter<'a> {
    /// Shows progress if `enabled` and not `--quiet`.
    pub fn new(printer: &'a OutputPrinter, enabled: bool) -> Self {
        Self { printer, enabled: enabled && printer.verbosity_level() > VerbosityLevel::Quiet }
    }

    /// The printer for other messages.
    pub fn printer(&self) -> &'a OutputPrinter {
        self.printer
    }

    /// Shows that discovery is running.
    pub fn show_discovery(&self, method: DiscoveryMethod) -> ProgressIndicator {
        let indicator = self.create_indicator(None, "{prefix} {msg}");
        indicator.0.set_prefix(discovery_message(method));
        indicator.0.set_message("0");
        indicator
    }

    /// Reports the number of discovered nodes: always at a terminal, otherwise only with verbose output.
    pub fn finish_discovery(
        &self,
        indicator: ProgressIndicator,
        method: DiscoveryMethod,
        count: usize,
    ) {
        let shown = !indicator.0.is_hidden();
        indicator.finish();
        let line = format!("{} {count}", discovery_message(method));
        if shown {
            self.printer.print_message(format_args!("{line}\n"));
        } else {
            self.printer.print_detail(line);
        }
    }

    /// Shows the wait for replies of this many nodes.
    pub fn show_call(&self, nodes: usize) -> ProgressIndicator {
        let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
        self.create_indicator(Some(nodes), "{pos} / {len}  {elapsed:>4} [{bar:50}] {percent:>3}%")
    }

    /// Announces a batch with its number, the number of batches and its size. Prints nothing for a single batch.
    pub fn announce_batch(
        &self,
        indicator: &ProgressIndicator,
        (number, count): (usize, usize),
        nodes: usize,
    ) {
        if count > 1 {
            let nodes = format_args!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" });
            let line = format_args!("Batch {number} of {count}: {nodes}");
            indicator.suspend(|| self.printer.print_message(line));
        }
    }

    /// Prints a hint about available actions.
    pub fn print_hint(&self, indicator: &ProgressIndicator, hint: impl Display) {
        indicator.suspend(|| self.printer.print_hint(hint));
    }

    /// Prints why no further requests are sent.
    pub fn print_error(&self, indicator: &ProgressIndicator, error: impl Display) {
        indicator.suspend(|| self.printer.print_error(error));
    }

    fn create_indicator(&self, length: Option<u64>, template: &str) -> ProgressIndicator {
        let target =
            if self.enabled { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(length, target).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(100));
        ProgressIndicator(bar)
    }
}

fn discovery_message(method: DiscoveryMethod) -> String {
    format!("Discovering nodes using the {method} method ....")
}

impl ProgressIndicator {
    /// Sets the number of nodes that have replied.
    pub fn set_count(&self, count: usize) {
        self.0.set_position(u64::try_from(count).unwrap_or(u64::MAX));
        self.0.set_message(count.to_string());
    }

    /// Hides the bar while `print` writes.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}
