//! Renders the result of a request: a block for each relevant reply, then absent nodes, summaries, and the totals on the last line.

use std::borrow::Cow;
use std::collections::BTreeSet;

use console::measure_text_width;
use muster_base::{format_duration, format_millis};
use muster_client::{NodeReply, RequestReport, RequestStats, ResultGap};
use muster_ddl::{ActionSchema, DisplayOverride};
use muster_display::columns::{format_columns, wrap_words};
use muster_display::page::{pad_node_name, pad_start};
use muster_display::printer::{BAD, GOOD, STRONG, WARNING};
use muster_display::ranges::shorten_to_ranges;
use muster_display::table::{MAX_COLUMN_WIDTH, RenderedTable, Table};
use muster_display::time::format_time_millis;
use muster_display::value::compact_value;
use muster_display::{TextPage, node_count_text};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use serde_json::Value;

use crate::report::group::EqualReplyGroup;
use crate::report::shown_value::shown_value;
use crate::report::status::{count_failures, outcome_text, outcome_words};

/// Maximum number of names that are listed one by one; more are folded to ranges, as `web[1-30].example.net`.
const MAX_UNFOLDED_NAMES: usize = 8;
/// Maximum lines of folded names per kind of absence.
const MAX_ABSENT_LINES: usize = 20;
/// Indentation below a node's name.
const INDENT: &str = "   ";

/// Title of the output of changing actions that says whether something changed, and its title in a noop request.
const CHANGED_TITLE: &str = "Changed";
const WOULD_CHANGE_TITLE: &str = "Would Change";

/// Maximum lines of a table row, unless verbose.
const MAX_CELL_LINES: usize = 3;

#[derive(Debug, Clone, Copy)]
pub struct RequestResultView<'a> {
    pub action: &'a ActionSchema,
    /// Which replies to show; as the DDL specifies when absent.
    pub display: Option<DisplayOverride>,
    /// Whether times are shown, too.
    pub verbose: bool,
    /// Whether the request only reports what would change.
    pub noop: bool,
    /// Width of the text in columns.
    pub width: usize,
}

impl RequestResultView<'_> {
    pub fn is_shown(&self, reply: &NodeReply) -> bool {
        self.action.display().shows_reply(reply.is_ok(), self.display)
    }

    /// Renders one reply, followed by an empty line.
    pub fn render_reply(&self, reply: &NodeReply) -> String {
        let mut page = TextPage::default();
        page.push_line(reply_heading(reply.node.as_str(), reply));
        self.add_reply_body(reply, &mut page);
        page.push_gap();
        page.into_text()
    }

    /// Renders a group of equal replies, followed by an empty line. A single node has the usual form.
    pub fn render_group(&self, group: &EqualReplyGroup<'_>) -> String {
        if group.nodes.len() == 1 {
            return self.render_reply(group.reply);
        }
        let mut page = TextPage::default();
        page.push_line(reply_heading(&node_count_text(group.nodes.len()), group.reply));
        page.push_text(group.wrapped_name_ranges(INDENT, self.width, self.verbose));
        self.add_reply_body(group.reply, &mut page);
        page.push_gap();
        page.into_text()
    }

    /// Renders one row per reply, with a column for each output that any of them has.
    pub fn render_table(&self, replies: &[&NodeReply], width: usize) -> RenderedTable {
        let failed = replies.iter().any(|reply| !reply.is_ok());
        let outputs = self.output_columns(replies);
        let mut heading = vec!["SENDER".to_owned()];
        heading.extend(failed.then(|| "STATUS".to_owned()));
        heading.extend(outputs.iter().map(|name| name.to_uppercase()));
        let mut table = Table::new(heading);
        for reply in replies {
            let mut cells = vec![reply.node.to_string()];
            let outcome =
                || outcome_text(reply.status, reply.reason.as_ref(), &reply.message.line());
            cells.extend(failed.then(outcome));
            cells.extend(outputs.iter().map(|name| match reply.data.get(*name) {
                None | Some(Value::Null) => String::new(),
                Some(value) => {
                    let output = self.action.find_output(name);
                    cell_text(&shown_value(output, value, self.verbose))
                }
            }));
            table.row(cells).failed_if(!reply.is_ok());
        }
        table.max_lines((!self.verbose).then_some(MAX_CELL_LINES)).lay_out(width)
    }

    /// The outputs of the replies: declared ones first, in the DDL's order.
    fn output_columns<'a>(&'a self, replies: &[&'a NodeReply]) -> Vec<&'a str> {
        let has = |name: &str| {
            let values = replies.iter().filter_map(|reply| reply.data.get(name));
            values.into_iter().any(|value| !value.is_null())
        };
        let declared = self.action.outputs().iter().map(|output| output.name.as_str());
        let others: BTreeSet<&str> = replies
            .iter()
            .flat_map(|reply| reply.data.keys())
            .map(String::as_str)
            .filter(|name| self.action.find_output(name).is_none())
            .collect();
        declared.chain(others).filter(|name| has(name)).collect()
    }

    fn add_reply_body(&self, reply: &NodeReply, page: &mut TextPage) {
        if !reply.is_ok() {
            for line in reply.message.block().lines() {
                page.push_line(format_args!("{INDENT}{WARNING}{line}{WARNING:#}"));
            }
            let detail =
                reply.reason.as_ref().and_then(|reason| reason_detail(reason, reply.message.raw()));
            if let Some(detail) = detail {
                page.push_line(format_args!("{INDENT}{detail}"));
            }
        }
        page.push_text(self.render_outputs(reply));
    }

    /// Renders the outputs, titles aligned at their colons: declared ones first, in the DDL's order.
    fn render_outputs(&self, reply: &NodeReply) -> String {
        let declared = self.action.outputs().iter();
        let declared = declared.filter_map(|output| {
            Some((&output.display_as, Some(output), reply.data.get(&output.name)?))
        });
        let others = reply.data.iter().filter(|(name, _)| self.action.find_output(name).is_none());
        let rows = declared
            .chain(others.map(|(name, value)| (name, None, value)))
            .filter(|(_, _, value)| self.verbose || !is_empty_list(value))
            .map(|(title, output, value)| {
                (self.output_title(title), shown_value(output, value, self.verbose))
            });
        align_rows(&rows.collect::<Vec<_>>(), self.width)
    }

    /// A noop request has changed nothing yet.
    fn output_title<'a>(&self, title: &'a str) -> &'a str {
        if self.noop && title == CHANGED_TITLE {
            return WOULD_CHANGE_TITLE;
        }
        title
    }

    /// Renders everything after the replies.
    pub fn render_summary(&self, report: &RequestReport) -> String {
        let mut page = TextPage::default();
        add_absences(report, self.width, &mut page);
        for summary in &report.summaries {
            let rows = summary.text_lines();
            if rows.is_empty() {
                continue;
            }
            let title = self.output_title(&summary.display_as);
            page.push_heading(format_args!("{STRONG}Summary of {title}:{STRONG:#}"));
            for row in rows {
                page.push_line(format_args!("{INDENT}{row}"));
            }
            page.push_gap();
        }
        if self.verbose {
            page.push_text(render_request_stats(&report.stats));
            page.push_gap();
        }
        page.push_text(balance_line(report));
        page.into_text()
    }
}

/// Renders the block, titles aligned at their colons.
fn render_request_stats(stats: &RequestStats) -> String {
    let rejected = stats.rejected.iter().map(|(reason, count)| format!("{count} ({reason})"));
    let rejected: Vec<String> = rejected.collect();
    let rows = [
        (
            "Request",
            match stats.requests.as_slice() {
                [] => "none sent".to_owned(),
                [request] => request.clone(),
                [first, others @ ..] => format!("{first} and {} more", others.len()),
            },
        ),
        ("Nodes", stats.discovered.to_string()),
        ("Pass / Fail", format!("{} / {}", stats.ok, stats.failed)),
        (
            "No Responses",
            format!("{} ({} not connected)", stats.missing.len(), stats.not_connected.len()),
        ),
        ("Not Sent", stats.not_asked.len().to_string()),
        ("Unexpected Responses", stats.unexpected.len().to_string()),
        (
            "Invalid Responses",
            if rejected.is_empty() { "0".to_owned() } else { rejected.join(", ") },
        ),
        ("Start Time", format_time_millis(stats.started)),
        ("Discovery Time", format_duration(stats.discovering)),
        ("Publish Time", format_duration(stats.publishing)),
        ("Agent Time", format_duration(stats.waiting)),
        ("Total Time", format_duration(stats.discovering + stats.call_duration())),
    ];
    let mut page = TextPage::default();
    page.push_line("---- request stats ----");
    page.push_fields(24, rows);
    page.into_text()
}

/// An empty list has no information for a user.
fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The line with the totals.
pub fn balance_line(report: &RequestReport) -> String {
    let stats = &report.stats;
    let (responses, discovered) = (stats.response_count(), stats.discovered);
    let style = if responses < discovered || stats.failed > 0 { BAD } else { GOOD };
    let failed = match (stats.failed, count_failures(&report.replies)) {
        (0, _) => String::new(),
        (failed, reasons) if reasons.is_empty() => format!(", {BAD}{failed} failed{BAD:#}"),
        (failed, reasons) => format!(", {BAD}{failed} failed{BAD:#} ({reasons})"),
    };
    let noop = if report.noop { "; noop: nothing was changed" } else { "" };
    let time = format_duration(stats.call_duration());
    format!(
        "Finished processing {style}{responses} / {discovered}{style:#} hosts in {time}{failed}{noop}\n"
    )
}

/// Aligns the titles of rows at their colons; structures are indented below their first line.
fn align_rows(rows: &[(&str, Cow<'_, Value>)], width: usize) -> String {
    let titles = rows.iter().map(|(title, _)| measure_text_width(title).min(MAX_COLUMN_WIDTH));
    let widest = titles.max().unwrap_or(0);
    let mut page = TextPage::default();
    for (title, value) in rows {
        page.push_value(&format!("{INDENT}{}: ", pad_start(title, widest)), value, width);
    }
    page.into_text()
}

fn reply_heading(sender: &str, reply: &NodeReply) -> String {
    if reply.is_ok() {
        return format!("{STRONG}{sender}{STRONG:#}");
    }
    let status = outcome_words(reply.status, reply.reason.as_ref());
    format!("{STRONG}{}{STRONG:#} {BAD}{status}{BAD:#}", pad_node_name(sender))
}

/// A value in a cell: a list of strings is joined, which is easier to read.
fn cell_text(value: &Value) -> String {
    let items = value.as_array();
    let texts: Option<Vec<&str>> =
        items.and_then(|items| items.iter().map(Value::as_str).collect());
    match texts {
        Some(texts) => texts.join("; "),
        None => compact_value(value),
    }
}

/// Details of a reason that neither its words nor the message has.
fn reason_detail(reason: &ReplyReason, message: &str) -> Option<String> {
    match reason {
        ReplyReason::Busy { retry_after_ms } => {
            Some(format!("retry in {}", format_millis(*retry_after_ms)))
        }
        ReplyReason::Denied { rule } if !message.contains(rule.as_str()) => {
            Some(format!("decided by {rule}"))
        }
        ReplyReason::Timeout { after_ms } => {
            let limit = format_millis(*after_ms);
            (!message.contains(&limit)).then(|| format!("the time limit was {limit}"))
        }
        _ => None,
    }
}

/// Renders the nodes without a successful reply, by kind; empty if there are none.
pub fn render_absences(report: &RequestReport, width: usize) -> String {
    let mut page = TextPage::default();
    add_absences(report, width, &mut page);
    page.into_text()
}

/// Adds nodes without a successful reply, by kind.
fn add_absences(report: &RequestReport, width: usize, page: &mut TextPage) {
    let stats = &report.stats;
    let mut answered: BTreeSet<&Identity> = BTreeSet::new();
    if stats.gaps.contains(&ResultGap::Interrupted) || !stats.not_asked.is_empty() {
        answered.extend(report.replies.iter().map(|reply| &reply.node));
    }
    let kinds: [(&str, BTreeSet<&Identity>); 6] = [
        ("Replied before the request ended early:", answered),
        ("No request sent to:", stats.not_asked.iter().collect()),
        ("Reply not awaited:", stats.not_awaited.iter().collect()),
        ("No response from:", stats.silent_nodes().collect()),
        ("No response from, because not connected:", stats.not_connected.iter().collect()),
        ("Unexpected response from:", stats.unexpected.iter().collect()),
    ];
    for (title, nodes) in kinds.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        page.push_heading(format_args!("{BAD}{title}{BAD:#}"));
        page.push_text(fold_names(nodes, width));
        page.push_gap();
    }
}

/// The names in columns, or as ranges if there are many.
fn fold_names(nodes: &BTreeSet<&Identity>, width: usize) -> String {
    if nodes.len() <= MAX_UNFOLDED_NAMES {
        let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
        return format_columns(&names, INDENT.len(), width);
    }
    let ranges = shorten_to_ranges(nodes.iter().copied());
    let lines = wrap_words(&ranges, width.saturating_sub(INDENT.len()));
    let mut page = TextPage::default();
    for line in lines.iter().take(MAX_ABSENT_LINES) {
        page.push_line(format_args!("{INDENT}{line}"));
    }
    if lines.len() > MAX_ABSENT_LINES {
        page.push_line(format_args!("{INDENT}... {} in all; -j lists them", nodes.len()));
    }
    page.into_text()
}

#[cfg(test)]
mod tests;
