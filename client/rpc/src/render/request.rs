//! A request's outcome for people: a block for each reply that is worth showing, then who did not answer, the summaries,
//! and the balance in the last line.

use std::borrow::Cow;
use std::collections::BTreeSet;

use muster_ddl::{Action, DisplayOverride};
use muster_wire::identity::Identity;
use muster_wire::status::Reason;
use serde_json::Value;

use super::WIDTH;
use super::columns::columns;
use super::event::sentences;
use super::printable::{line, printable};
use super::request_stats::request_stats;
use super::span::span;
use super::value::{hung, lines};
use crate::printer::{BAD, GOOD, STRONG, WARNING};
use crate::report::{Gap, Reply, Report};

/// Columns of a node's name before its status.
const NAME: usize = 40;
/// Columns before everything below a node's name.
const INDENT: &str = "   ";

/// What is wanted of an outcome.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The schema of what was asked.
    pub action: &'a Action,
    /// Which replies the user wants to see; what the schema says when absent.
    pub wish: Option<DisplayOverride>,
    /// Whether times are wanted, too.
    pub verbose: bool,
}

impl View<'_> {
    /// Whether a reply is worth showing.
    pub fn shows(&self, reply: &Reply) -> bool {
        self.action.display().shows(reply.is_ok(), self.wish)
    }

    /// One reply, with an empty line after it.
    pub fn block(&self, reply: &Reply) -> String {
        let mut block = heading(reply);
        if !reply.is_ok() {
            for line in printable(&reply.message).lines() {
                block.push_str(&format!("{INDENT}{WARNING}{line}{WARNING:#}\n"));
            }
            if let Some(detail) = reply.reason.as_ref().and_then(detail) {
                block.push_str(&format!("{INDENT}{detail}\n"));
            }
        }
        block.push_str(&self.data(reply));
        block.push('\n');
        block
    }

    /// The outputs, titles aligned at their colons: first those that the schema declares, in its order.
    fn data(&self, reply: &Reply) -> String {
        let declared = self.action.outputs().iter();
        let declared =
            declared.filter_map(|output| Some((&output.display_as, reply.data.get(&output.name)?)));
        let others = reply
            .data
            .iter()
            .filter(|(name, _)| self.action.output(name).is_none());
        let rows = declared
            .chain(others)
            .map(|(title, value)| (line(title), self.shortened(value)));
        table(&rows.collect::<Vec<_>>())
    }

    /// The value, or as much of it as is wanted.
    fn shortened<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        match sentences(value).filter(|_| !self.verbose) {
            Some(sentences) => Cow::Owned(sentences),
            None => Cow::Borrowed(value),
        }
    }

    /// Everything after the replies.
    pub fn tail(&self, report: &Report) -> String {
        let stats = &report.stats;
        let mut tail = String::new();
        if stats.gaps.contains(&Gap::Interrupted) {
            let answered = report.replies.iter().map(|reply| &reply.node);
            tail.push_str(&absence(
                "Asked before the interruption:",
                &answered.chain(&stats.missing).collect(),
            ));
        }
        tail.push_str(&absence("No response from:", &stats.silent().collect()));
        tail.push_str(&absence(
            "No response from, because they are not connected:",
            &stats.not_connected.iter().collect(),
        ));
        tail.push_str(&absence(
            "Unexpected response from:",
            &stats.unexpected.iter().collect(),
        ));
        for summary in &report.summaries {
            tail.push_str(&format!(
                "{STRONG}Summary of {}:{STRONG:#}\n\n",
                line(&summary.display_as)
            ));
            let rows = summary.lines();
            let nothing = rows.is_empty().then(|| "nothing to summarise".to_owned());
            for row in rows.into_iter().chain(nothing) {
                tail.push_str(&format!("{INDENT}{}\n", line(&row)));
            }
            tail.push('\n');
        }
        if self.verbose {
            tail.push_str(&request_stats(stats));
            tail.push('\n');
        }
        tail.push_str(&balance(report));
        tail
    }
}

/// The last line.
pub fn balance(report: &Report) -> String {
    let stats = &report.stats;
    let style = if stats.responses() < stats.discovered || stats.failed > 0 {
        BAD
    } else {
        GOOD
    };
    let (responses, discovered) = (stats.responses(), stats.discovered);
    let mut text = format!(
        "Finished processing {style}{responses} / {discovered}{style:#} hosts in {}",
        span(stats.calling())
    );
    if stats.failed > 0 {
        text.push_str(&format!(", {BAD}{} failed{BAD:#}", stats.failed));
    }
    text.push('\n');
    text
}

/// The rows with their titles aligned at the colons, structures hanging below their first line.
fn table(rows: &[(Cow<'_, str>, Cow<'_, Value>)]) -> String {
    let widest = rows
        .iter()
        .map(|(title, _)| title.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (title, value) in rows {
        let lead = format!("{INDENT}{title:>widest$}: ");
        let room = WIDTH.saturating_sub(lead.chars().count());
        for line in hung(&lead, lines(value, room)) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

fn heading(reply: &Reply) -> String {
    let node = reply.node.as_str();
    if reply.is_ok() {
        return format!("{STRONG}{node}{STRONG:#}\n");
    }
    let status = match &reply.reason {
        Some(reason) => format!("{} ({})", reply.status.text(), reason.word()),
        None => reply.status.text().to_owned(),
    };
    format!("{STRONG}{node:<NAME$}{STRONG:#} {BAD}{status}{BAD:#}\n")
}

/// What a reason tells besides its word.
fn detail(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Timeout { after_ms } => Some(format!("it was given {after_ms} ms")),
        Reason::Busy { retry_after_ms } => Some(format!("ask again in {retry_after_ms} ms")),
        Reason::Denied { rule } => Some(format!("decided by {}", line(rule))),
        Reason::Expired { age_ms } => Some(format!("{age_ms} ms old by the node's clock")),
        Reason::Oversized { bytes } => Some(format!("{bytes} bytes")),
        Reason::Cancelled | Reason::Broken | Reason::Stopping => None,
    }
}

fn absence(title: &str, nodes: &BTreeSet<&Identity>) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
    format!(
        "{BAD}{title}{BAD:#}\n\n{}\n",
        columns(&names, INDENT.len(), WIDTH)
    )
}

#[cfg(test)]
mod tests;
