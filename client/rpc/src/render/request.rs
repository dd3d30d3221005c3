//! A request's outcome for people: a block for each reply that is worth showing, then who did not answer, the summaries,
//! and the balance in the last line.

use std::borrow::Cow;
use std::collections::BTreeSet;

use muster_ddl::{Action, DisplayOverride};
use muster_wire::identity::Identity;
use muster_wire::status::Reason;
use serde_json::Value;

use super::columns::columns;
use super::event::sentences;
use super::grid::{Cell, Grid, grid};
use super::group::Group;
use super::page::Page;
use super::printable::{line, printable};
use super::request_stats::request_stats;
use super::span::span;
use super::value::{compact, hung, lines};
use crate::printer::{BAD, GOOD, STRONG, WARNING};
use crate::report::{Gap, Reply, Report};

/// Columns of a node's name before its status.
const NAME: usize = 40;
/// Names that are shown of each kind of absence.
const NAMES: usize = 100;
/// Columns before everything below a node's name.
const INDENT: &str = "   ";

/// Lines of a table's row at the most, unless everything is wanted.
const CELL_LINES: usize = 3;

/// What is wanted of an outcome.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The schema of what was asked.
    pub action: &'a Action,
    /// Which replies the user wants to see; what the schema says when absent.
    pub wish: Option<DisplayOverride>,
    /// Whether times are wanted, too.
    pub verbose: bool,
    /// Columns that the text is made for.
    pub width: usize,
}

impl View<'_> {
    /// Whether a reply is worth showing.
    pub fn shows(&self, reply: &Reply) -> bool {
        self.action.display().shows(reply.is_ok(), self.wish)
    }

    /// One reply, with an empty line after it.
    pub fn block(&self, reply: &Reply) -> String {
        let mut page = Page::default();
        page.line(heading(reply.node.as_str(), reply));
        self.body(reply, &mut page);
        page.gap();
        page.text()
    }

    /// Replies that say the same, with an empty line after them. A node that is alone looks as it always does.
    pub fn folded(&self, group: &Group<'_>) -> String {
        if group.nodes.len() == 1 {
            return self.block(group.reply);
        }
        let mut page = Page::default();
        page.line(heading(&group.count(), group.reply));
        page.add(group.names(INDENT, self.width, self.verbose));
        self.body(group.reply, &mut page);
        page.gap();
        page.text()
    }

    /// A row for each reply, a column for each output that any of them has.
    pub fn table(&self, replies: &[&Reply]) -> Grid {
        let failed = replies.iter().any(|reply| !reply.is_ok());
        let outputs = self.columns(replies);
        let mut heading = vec!["SENDER".to_owned()];
        heading.extend(failed.then(|| "STATUS".to_owned()));
        heading.extend(outputs.iter().map(|name| line(name).to_uppercase()));
        let rows = replies.iter().map(|reply| {
            let node = reply.node.as_str();
            let mut row = vec![if reply.is_ok() {
                Cell::plain(node)
            } else {
                Cell::bad(node)
            }];
            row.extend(failed.then(|| Cell::plain(outcome(reply))));
            row.extend(outputs.iter().map(|name| match reply.data.get(*name) {
                None | Some(Value::Null) => Cell::plain(""),
                Some(value) => Cell::plain(cell(&self.shortened(value))),
            }));
            row
        });
        let most_lines = (!self.verbose).then_some(CELL_LINES);
        grid(&heading, &rows.collect::<Vec<_>>(), self.width, most_lines)
    }

    /// The outputs that replies have: first those that the schema declares, in its order.
    fn columns<'a>(&'a self, replies: &[&'a Reply]) -> Vec<&'a str> {
        let has = |name: &str| {
            let values = replies.iter().filter_map(|reply| reply.data.get(name));
            values.into_iter().any(|value| !value.is_null())
        };
        let declared = self
            .action
            .outputs()
            .iter()
            .map(|output| output.name.as_str());
        let others: BTreeSet<&str> = replies
            .iter()
            .flat_map(|reply| reply.data.keys())
            .map(String::as_str)
            .filter(|name| self.action.output(name).is_none())
            .collect();
        declared.chain(others).filter(|name| has(name)).collect()
    }

    /// What a reply says, below its heading.
    fn body(&self, reply: &Reply, page: &mut Page) {
        if !reply.is_ok() {
            for line in printable(&reply.message).lines() {
                page.line(format_args!("{INDENT}{WARNING}{line}{WARNING:#}"));
            }
            if let Some(detail) = reply.reason.as_ref().and_then(detail) {
                page.line(format_args!("{INDENT}{detail}"));
            }
        }
        page.add(self.data(reply));
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
        aligned(&rows.collect::<Vec<_>>(), self.width)
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
        absences(report, self.width, &mut page);
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
fn aligned(rows: &[(Cow<'_, str>, Cow<'_, Value>)], width: usize) -> String {
    let titles = rows.iter().map(|(title, _)| title.chars().count());
    let widest = titles.max().unwrap_or(0);
    let mut page = Page::default();
    for (title, value) in rows {
        let lead = format!("{INDENT}{title:>widest$}: ");
        let room = width.saturating_sub(lead.chars().count());
        for line in hung(&lead, lines(value, room)) {
            page.line(line);
        }
    }
    page.text()
}

fn heading(who: &str, reply: &Reply) -> String {
    if reply.is_ok() {
        return format!("{STRONG}{who}{STRONG:#}");
    }
    let status = match &reply.reason {
        Some(reason) => format!("{} ({})", reply.status.text(), reason.word()),
        None => reply.status.text().to_owned(),
    };
    format!("{STRONG}{who:<NAME$}{STRONG:#} {BAD}{status}{BAD:#}")
}

/// A value in a cell: a list of texts as a text, which is what people read.
fn cell(value: &Value) -> String {
    let items = value.as_array();
    let texts: Option<Vec<&str>> =
        items.and_then(|items| items.iter().map(Value::as_str).collect());
    match texts {
        Some(texts) => line(&texts.join("; ")).into_owned(),
        None => compact(value),
    }
}

/// How a reply ended, and why, in a cell.
fn outcome(reply: &Reply) -> String {
    if reply.is_ok() {
        return reply.status.text().to_owned();
    }
    let word = reply
        .reason
        .as_ref()
        .map_or(reply.status.text(), Reason::word);
    format!("{word}: {}", line(&reply.message))
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
fn absences(report: &Report, width: usize, page: &mut Page) {
    let stats = &report.stats;
    let mut answered: BTreeSet<&Identity> = BTreeSet::new();
    if stats.gaps.contains(&Gap::Interrupted) || !stats.not_asked.is_empty() {
        answered.extend(report.replies.iter().map(|reply| &reply.node));
    }
    let kinds: [(&str, BTreeSet<&Identity>); 6] = [
        ("Asked and answered before it ended early:", answered),
        ("Never asked:", stats.not_asked.iter().collect()),
        ("Not waited for:", stats.not_awaited.iter().collect()),
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
        let names: Vec<&str> = nodes.iter().take(NAMES).map(|node| node.as_str()).collect();
        page.line(format_args!("{BAD}{title}{BAD:#}\n"));
        page.add(columns(&names, INDENT.len(), width));
        if let Some(more @ 1..) = nodes.len().checked_sub(NAMES) {
            page.line(format_args!("{INDENT}and {more} more; -j lists all"));
        }
        page.gap();
    }
}

#[cfg(test)]
mod tests;
