//! Prints the output of command lines while their nodes reply. A node's lines are held back until its reply, or for a second.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_calls::ProgressUpdate;
use muster_client::{NodeReply, RequestReport};
use muster_display::printer::PrintError;
use muster_wire::identity::Identity;

use crate::flags::output::CommandOutputMode;
use crate::report::command_output::{
    CommandLine, CommandOutputLines, render_end_after_name, render_exit_codes, render_folded,
};
use crate::report::group::group_equal_replies;
use crate::report::progress_lines::describe_lost_events;
use crate::report::request::{balance_line, render_absences};
use crate::session::context::{CommandContext, Result};

/// How long the first lines of a node are held back: a command that ends within this time is printed as one block.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// Maximum size of the lines of a node that are held back, in bytes; more are printed at once.
const MAX_HELD_BYTES: usize = 128 * 1024;

/// Prints the output of each node once.
#[derive(Debug)]
pub struct CommandOutputPrinter {
    mode: CommandOutputMode,
    nodes: RefCell<BTreeMap<Identity, NodeOutput>>,
}

#[derive(Debug)]
struct NodeOutput {
    held: Vec<CommandLine>,
    held_bytes: usize,
    since: Instant,
    /// Whether lines were printed, so that all others follow line by line.
    is_streamed: bool,
    /// Why lines are missing.
    missing: Option<String>,
}

impl CommandOutputPrinter {
    pub fn new(mode: CommandOutputMode) -> Self {
        Self { mode, nodes: RefCell::default() }
    }

    /// Whether lines are printed while commands run.
    pub fn shows_progress(&self) -> bool {
        self.mode != CommandOutputMode::Folded
    }

    pub fn waits_for_all(&self) -> bool {
        self.mode == CommandOutputMode::Folded
    }

    /// Prints or holds back the lines of a node.
    pub fn handle_progress(
        &self,
        update: &ProgressUpdate,
        cx: CommandContext<'_>,
    ) -> Result<(), PrintError> {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.entry(update.node.clone()).or_insert_with(|| NodeOutput {
            held: Vec::new(),
            held_bytes: 0,
            since: Instant::now(),
            is_streamed: self.mode == CommandOutputMode::Streamed,
            missing: None,
        });
        node.missing = describe_lost_events(update).or(node.missing.take());
        let lines = update.events.iter().filter_map(CommandLine::from_event);
        for line in lines {
            node.held_bytes += line.text.len();
            node.held.push(line);
        }
        if node.is_streamed || node.held_bytes > MAX_HELD_BYTES {
            node.print_held(&update.node, cx)?;
        }
        Ok(())
    }

    /// Prints lines that were held back long enough.
    pub fn print_overdue(&self, cx: CommandContext<'_>) -> Result<(), PrintError> {
        let mut nodes = self.nodes.borrow_mut();
        let is_overdue =
            |node: &NodeOutput| !node.held.is_empty() && node.since.elapsed() >= HOLD_TIME;
        for (name, node) in nodes.iter_mut().filter(|(_, node)| is_overdue(node)) {
            node.print_held(name, cx)?;
        }
        Ok(())
    }

    /// Prints the rest of a node's output.
    pub fn print_reply(&self, reply: &NodeReply, cx: CommandContext<'_>) -> Result<(), PrintError> {
        let node = self.nodes.borrow_mut().remove(&reply.node);
        let text = match node {
            Some(mut node) if node.is_streamed => {
                node.print_held(&reply.node, cx)?;
                render_end_after_name(reply, node.missing.as_deref())
            }
            // The lines as they were written, which the reply has by stream only.
            Some(node) if node.missing.is_none() && !node.held.is_empty() => {
                CommandOutputLines { lines: node.held, is_truncated: false }.render_by_node(reply)
            }
            _ => CommandOutputLines::from_reply(reply).render_by_node(reply),
        };
        cx.printer.print_text(text)
    }

    /// Prints everything after the replies. The totals are messages, so that standard output has the output of commands only.
    pub fn print_end(
        &self,
        report: &RequestReport,
        cx: CommandContext<'_>,
    ) -> Result<(), PrintError> {
        if self.mode == CommandOutputMode::Folded {
            for group in group_equal_replies(&report.replies) {
                cx.printer.print_text(render_folded(&group, cx.width(), cx.is_verbose()))?;
            }
        }
        // Lines of nodes that did not reply.
        for (name, node) in self.nodes.borrow_mut().iter_mut() {
            node.print_held(name, cx)?;
        }
        let absences = render_absences(report, cx.width());
        if !absences.is_empty() {
            cx.printer.print_question(absences.trim_end());
        }
        let totals = balance_line(report);
        cx.printer.print_message(format_args!(
            "{} ({})",
            totals.trim_end(),
            render_exit_codes(report)
        ));
        Ok(())
    }
}

impl NodeOutput {
    /// Prints the lines that were held back; later ones follow line by line.
    fn print_held(&mut self, name: &Identity, cx: CommandContext<'_>) -> Result<(), PrintError> {
        self.is_streamed |= !self.held.is_empty();
        self.held_bytes = 0;
        let text: String =
            self.held.drain(..).map(|line| line.render_after_name(name.as_str())).collect();
        if text.is_empty() { Ok(()) } else { cx.printer.print_text(text) }
    }
}
