//! Shows what happens during a request: a progress bar on the standard error, if that is a terminal, and messages.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use muster_base::{NodeText, error_chain};
use muster_calls::DiscoveryMethod;
use muster_client::jobs::JobEnd;
use muster_client::{RequestEvent, RequestObserver};
use muster_display::node_count_text;
use muster_display::printer::{OutputPrinter, VerbosityLevel};

/// Most nodes that refused a request whose messages are printed.
const MAX_NAMED_REFUSALS: usize = 3;

/// Draws the progress bar of a request, and prints its messages.
#[derive(Debug)]
pub struct ProgressReporter<'a> {
    printer: &'a OutputPrinter,
    enabled: bool,
    bar: RefCell<ProgressBar>,
}

impl<'a> ProgressReporter<'a> {
    /// Shows progress if `enabled` and not `--quiet`.
    pub fn new(printer: &'a OutputPrinter, enabled: bool) -> Self {
        let enabled = enabled && printer.verbosity_level() > VerbosityLevel::Quiet;
        Self { printer, enabled, bar: RefCell::new(ProgressBar::hidden()) }
    }

    /// Hides the bar while `print` writes.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        let bar = self.bar.borrow().clone();
        bar.suspend(print)
    }

    fn show_bar(&self, length: Option<u64>, template: &str) {
        let target =
            if self.enabled { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(length, target).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(100));
        self.bar.replace(bar);
    }

    /// Shows the bar of a copy, or updates its length.
    fn show_copy(&self, bytes: u64) {
        let bar = self.bar.borrow().clone();
        if bar.length().is_some() && !bar.is_finished() {
            bar.set_length(bytes);
        } else {
            let template =
                "{bytes} / {total_bytes}  {bytes_per_sec} [{bar:40}] {percent:>3}%  {eta}";
            self.show_bar(Some(bytes), template);
        }
    }

    fn set_count(&self, count: usize) {
        let bar = self.bar.borrow();
        bar.set_position(to_u64(count));
        bar.set_message(count.to_string());
    }

    /// Reports the number of discovered nodes: always at a terminal, otherwise only with verbose output.
    fn end_discovery(&self, method: DiscoveryMethod, count: usize) {
        let was_shown = !self.bar.borrow().is_hidden();
        self.bar.borrow().finish_and_clear();
        let line = format!("{} {count}", discovery_message(method));
        if was_shown {
            self.printer.print_message(line);
            self.printer.print_message("");
        } else {
            self.printer.print_detail(line);
        }
    }
}

impl RequestObserver for ProgressReporter<'_> {
    fn observe(&self, event: RequestEvent<'_>) {
        match event {
            RequestEvent::DiscoveryStarted(method) => {
                self.show_bar(None, "{prefix} {msg}");
                self.bar.borrow().set_prefix(discovery_message(method));
                self.bar.borrow().set_message("0");
            }
            RequestEvent::DiscoveryEnded(method, count) => self.end_discovery(method, count),
            RequestEvent::CallsStarted(nodes) => {
                let template = "{pos} / {len}  {elapsed:>4} [{bar:50}] {percent:>3}%";
                self.show_bar(Some(to_u64(nodes)), template);
            }
            RequestEvent::NodesCounted(count) | RequestEvent::RepliesCounted(count) => {
                self.set_count(count);
            }
            RequestEvent::CopyStarted(bytes) => self.show_copy(bytes),
            RequestEvent::BytesCounted(bytes) => self.bar.borrow().set_position(bytes),
            RequestEvent::CallsEnded(_) => self.bar.borrow().finish_and_clear(),
            message => self.suspend(|| MessagePrinter(self.printer).observe(message)),
        }
    }
}

/// Prints the messages of a request that has no progress bar.
#[derive(Debug)]
pub struct MessagePrinter<'a>(pub &'a OutputPrinter);

impl RequestObserver for MessagePrinter<'_> {
    fn observe(&self, event: RequestEvent<'_>) {
        let Self(printer) = self;
        let program_line = |program: &std::path::Path, line: &NodeText| {
            format!("{}: {}", program.display(), line.block())
        };
        match event {
            RequestEvent::DirectoryUnavailable(error) => {
                printer.print_warning(format_args!("{}; asking all nodes", error_chain(error)));
            }
            RequestEvent::NodesRefused(refusals) => {
                for (node, message) in refusals.iter().take(MAX_NAMED_REFUSALS) {
                    printer.print_warning(format_args!(
                        "{node} refused the request: {}",
                        message.block()
                    ));
                }
                let others = refusals.len().saturating_sub(MAX_NAMED_REFUSALS);
                if others > 0 {
                    let count = node_count_text(others);
                    printer.print_warning(format_args!("{count} more refused the request"));
                }
            }
            RequestEvent::ProgramOutput(program, line) => {
                printer.print_detail(program_line(program, line));
            }
            RequestEvent::ProgramWarning(program, line) => {
                printer.print_warning(program_line(program, line));
            }
            RequestEvent::Listening(subject) => {
                printer.print_message(format_args!("Listening on {subject}"));
            }
            RequestEvent::BatchStarted { number, count, nodes, .. } if count > 1 => {
                let nodes = node_count_text(nodes.len());
                printer.print_message(format_args!("Batch {number} of {count}: {nodes}"));
            }
            RequestEvent::NodesContinue(id) => {
                printer
                    .print_hint(format_args!("nodes continue; run `rpc cancel {id}` to stop them"));
            }
            RequestEvent::SendFailed(error) => printer.print_error(error),
            RequestEvent::Stopped { reason, .. }
                if JobEnd::of_rollout(Some(reason)) == JobEnd::Stopped =>
            {
                printer.print_error(reason);
            }
            RequestEvent::JournalFailed(id, error) => {
                let problem = error_chain(error);
                printer.print_warning(format_args!(
                    "the job {id} is no longer recorded and cannot be resumed from this point on: {problem}"
                ));
            }
            _ => {}
        }
    }
}

fn discovery_message(method: DiscoveryMethod) -> String {
    format!("Discovering nodes using the {method} method ....")
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
