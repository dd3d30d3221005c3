//! What a person at a terminal sees while waiting. On standard error, and only if that is a terminal; who redirects it
//! sees nothing of it.

use std::fmt::Display;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use muster_client::Method;

use crate::printer::{Printer, Talk};

/// Whether waiting is shown, and to whom it is told instead.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    printer: &'a Printer,
    wanted: bool,
}

/// Something that is being waited for.
#[derive(Debug)]
pub struct Waiting(ProgressBar);

impl<'a> Progress<'a> {
    /// Shows waiting if it is wanted and the user did not ask for quiet.
    pub fn new(printer: &'a Printer, wanted: bool) -> Self {
        Self {
            printer,
            wanted: wanted && printer.talk() > Talk::Quiet,
        }
    }

    /// Where else to tell something.
    pub fn printer(&self) -> &'a Printer {
        self.printer
    }

    /// Nodes are looked for.
    pub fn discovering(&self, method: Method) -> Waiting {
        let waiting = self.waiting(None, "{prefix} {msg}");
        waiting.0.set_prefix(discovering(method));
        waiting.0.set_message("0");
        waiting
    }

    /// So many nodes were found: said at a terminal, elsewhere only to who wants details.
    pub fn discovered(&self, waiting: Waiting, method: Method, count: usize) {
        let shown = !waiting.0.is_hidden();
        waiting.over();
        let line = format!("{} {count}", discovering(method));
        if shown {
            self.printer.say(format_args!("{line}\n"));
        } else {
            self.printer.detail(line);
        }
    }

    /// Answers of so many nodes are awaited.
    pub fn calling(&self, nodes: usize) -> Waiting {
        let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
        self.waiting(
            Some(nodes),
            "{pos} / {len}  {elapsed:>4} [{bar:50}] {percent:>3}%",
        )
    }

    /// The batch with this number, of so many, goes out to so many nodes. A single one is not worth a word.
    pub fn batch(&self, waiting: &Waiting, (number, count): (usize, usize), nodes: usize) {
        if count > 1 {
            let nodes = format_args!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" });
            let line = format_args!("Batch {number} of {count}: {nodes}");
            waiting.aside(|| self.printer.say(line));
        }
    }

    /// Tells what can be done now.
    pub fn hint(&self, waiting: &Waiting, what: impl Display) {
        waiting.aside(|| self.printer.hint(what));
    }

    /// Tells why nobody else is asked.
    pub fn complain(&self, waiting: &Waiting, why: impl Display) {
        waiting.aside(|| self.printer.error(why));
    }

    fn waiting(&self, length: Option<u64>, template: &str) -> Waiting {
        let target = if self.wanted {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(length, target).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Waiting(bar)
    }
}

fn discovering(method: Method) -> String {
    format!("Discovering nodes using the {method} method ....")
}

impl Waiting {
    /// So many have been heard of.
    pub fn count(&self, count: usize) {
        self.0
            .set_position(u64::try_from(count).unwrap_or(u64::MAX));
        self.0.set_message(count.to_string());
    }

    /// Takes the bar off the screen for as long as something is printed.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Nothing is awaited any more: the line goes away.
    pub fn over(self) {
        self.0.finish_and_clear();
    }
}
