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
use super::page::Page;
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
        let mut page = Page::default();
        page.line(heading(reply));
        if !reply.is_ok() {
            for line in printable(&reply.message).lines() {
                page.line(format_args!("{INDENT}{WARNING}{line}{WARNING:#}"));
            }
            if let Some(detail) = reply.reason.as_ref().and_then(detail) {
                page.line(format_args!("{INDENT}{detail}"));
            }
        }
        page.add(self.data(reply));
        page.gap();
        page.text()
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
            .filter(|(_, value)| self.verbose || !is_empty_list(value))
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
        let mut page = Page::default();
        absences(report, &mut page);
        for summary in &report.summaries {
            let rows = summary.lines();
            if rows.is_empty() {
                continue;
            }
            let title = line(&summary.display_as);
            page.line(format_args!("{STRONG}Summary of {title}:{STRONG:#}\n"));
            for row in rows {
                page.line(format_args!("{INDENT}{}", line(&row)));
            }
            page.gap();
        }
        if self.verbose {
            page.add(request_stats(&report.stats));
            page.gap();
        }
        page.add(balance(report));
        page.text()
    }
}

/// A list without entries tells a person nothing.
fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The last line.
pub fn balance(report: &Report) -> String {
    let stats = &report.stats;
    let (responses, discovered) = (stats.responses(), stats.discovered);
    let style = if responses < discovered || stats.failed > 0 {
        BAD
    } else {
        GOOD
    };
    let failed = match stats.failed {
        0 => String::new(),
        failed => format!(", {BAD}{failed} failed{BAD:#}"),
    };
    let time = span(stats.calling());
    format!(
        "Finished processing {style}{responses} / {discovered}{style:#} hosts in {time}{failed}\n"
    )
}

/// The rows with their titles aligned at the colons, structures hanging below their first line.
fn table(rows: &[(Cow<'_, str>, Cow<'_, Value>)]) -> String {
    let titles = rows.iter().map(|(title, _)| title.chars().count());
    let widest = titles.max().unwrap_or(0);
    let mut page = Page::default();
    for (title, value) in rows {
        let lead = format!("{INDENT}{title:>widest$}: ");
        let room = WIDTH.saturating_sub(lead.chars().count());
        for line in hung(&lead, lines(value, room)) {
            page.line(line);
        }
    }
    page.text()
}

fn heading(reply: &Reply) -> String {
    let node = reply.node.as_str();
    if reply.is_ok() {
        return format!("{STRONG}{node}{STRONG:#}");
    }
    let status = match &reply.reason {
        Some(reason) => format!("{} ({})", reply.status.text(), reason.word()),
        None => reply.status.text().to_owned(),
    };
    format!("{STRONG}{node:<NAME$}{STRONG:#} {BAD}{status}{BAD:#}")
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

/// Who did not answer as was hoped, by kind.
fn absences(report: &Report, page: &mut Page) {
    let stats = &report.stats;
    let mut asked: BTreeSet<&Identity> = BTreeSet::new();
    if stats.gaps.contains(&Gap::Interrupted) || !stats.not_asked.is_empty() {
        asked.extend(report.replies.iter().map(|reply| &reply.node));
        asked.extend(&stats.missing);
    }
    let kinds: [(&str, BTreeSet<&Identity>); 5] = [
        ("Asked before it ended early:", asked),
        ("Not asked:", stats.not_asked.iter().collect()),
        ("No response from:", stats.silent().collect()),
        (
            "No response from, because not connected:",
            stats.not_connected.iter().collect(),
        ),
        (
            "Unexpected response from:",
            stats.unexpected.iter().collect(),
        ),
    ];
    for (title, nodes) in kinds.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
        page.line(format_args!("{BAD}{title}{BAD:#}\n"));
        page.add(columns(&names, INDENT.len(), WIDTH));
        page.gap();
    }
}

#[cfg(test)]
mod tests;
