//! Renders the output of command lines by node: `node: line` for a single line or a running command, a block for more lines.

use std::collections::BTreeMap;

use muster_base::format_millis;
use muster_client::{NodeReply, RequestReport};
use muster_display::printer::{BAD, HINT, STRONG, WARNING};
use muster_display::{TextPage, node_count_text};
use muster_wire::status::ReplyReason;
use serde_json::Value;

use crate::report::group::EqualReplyGroup;

const INDENT: &str = "   ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Whether it was written to the standard error.
    pub is_error: bool,
    /// The line, without its end.
    pub text: String,
}

/// The complete output of a command on one node, as far as it is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandOutputLines {
    pub lines: Vec<CommandLine>,
    pub is_truncated: bool,
}

impl CommandLine {
    /// `None` unless it is a progress event.
    pub fn from_event(event: &Value) -> Option<Self> {
        let text = event.get("line").and_then(Value::as_str)?.to_owned();
        let is_error = event.get("stream").and_then(Value::as_str) == Some("stderr");
        Some(Self { is_error, text })
    }

    fn styled_text(&self) -> String {
        let text = &self.text;
        if self.is_error { format!("{WARNING}stderr: {text}{WARNING:#}") } else { text.clone() }
    }

    pub fn render_after_name(&self, node: &str) -> String {
        TextPage::from_iter([format_args!("{HINT}{node}:{HINT:#} {}", self.styled_text())])
            .into_text()
    }
}

impl CommandOutputLines {
    /// The output in a reply: the standard output first, because their order is not known.
    pub fn from_reply(reply: &NodeReply) -> Self {
        let text = |name: &str| reply.data.get(name).and_then(Value::as_str).unwrap_or_default();
        let lines_of = |name: &str, is_error| {
            let lines = text(name).lines();
            lines.map(move |line| CommandLine { is_error, text: line.to_owned() })
        };
        let lines = lines_of("stdout", false).chain(lines_of("stderr", true)).collect();
        Self { lines, is_truncated: reply.data.get("truncated") == Some(&Value::Bool(true)) }
    }

    /// Renders the output under the node's name, or after it if there is a single line in all.
    pub fn render_by_node(&self, reply: &NodeReply) -> String {
        let node = reply.node.as_str();
        let rows = self.body_rows(reply);
        let mut page = TextPage::default();
        match rows.as_slice() {
            [] => {}
            [row] => page.push_line(format_args!("{HINT}{node}:{HINT:#} {row}")),
            rows => {
                page.push_line(format_args!("{STRONG}{node}:{STRONG:#}"));
                push_rows(rows, &mut page);
            }
        }
        page.into_text()
    }

    /// The rows of a block: the lines, whether some are missing, and how the command failed.
    fn body_rows(&self, reply: &NodeReply) -> Vec<String> {
        let mut rows: Vec<String> = self.lines.iter().map(CommandLine::styled_text).collect();
        rows.extend(self.is_truncated.then(truncation_note));
        rows.extend(failure_text(reply).map(|text| format!("{BAD}{text}{BAD:#}")));
        rows
    }
}

/// Renders the replies of a group once, below the names of its nodes.
pub fn render_folded(group: &EqualReplyGroup<'_>, width: usize, verbose: bool) -> String {
    let mut page = TextPage::default();
    let names = group.wrapped_name_ranges("", width, verbose);
    let count = match group.nodes.len() {
        1 => String::new(),
        count => format!(" ({})", node_count_text(count)),
    };
    page.push_line(format_args!("{STRONG}{}{STRONG:#}{count}", names.trim_end()));
    let rows = CommandOutputLines::from_reply(group.reply).body_rows(group.reply);
    if rows.is_empty() {
        page.push_line(format_args!("{INDENT}(no output)"));
    }
    push_rows(&rows, &mut page);
    page.into_text()
}

/// Renders how a command ended whose lines are printed already; nothing if it succeeded.
pub fn render_end_after_name(reply: &NodeReply, missing: Option<&str>) -> String {
    let node = reply.node.as_str();
    let mut page = TextPage::default();
    if let Some(missing) = missing {
        page.push_line(format_args!("{HINT}{node}:{HINT:#} {WARNING}({missing}){WARNING:#}"));
    }
    if let Some(text) = failure_text(reply) {
        page.push_line(format_args!("{HINT}{node}:{HINT:#} {BAD}{text}{BAD:#}"));
    }
    page.into_text()
}

fn push_rows(rows: &[String], page: &mut TextPage) {
    for row in rows {
        page.push_line(format_args!("{INDENT}{row}"));
    }
}

fn truncation_note() -> String {
    format!("{WARNING}(more output was cut; a reply has at most 64 KiB of each stream){WARNING:#}")
}

/// How a command failed; `None` if it succeeded.
fn failure_text(reply: &NodeReply) -> Option<String> {
    if reply.is_ok() {
        return None;
    }
    Some(match &reply.reason {
        Some(ReplyReason::Timeout { after_ms }) => {
            format!("killed: it did not end within {}", format_millis(*after_ms))
        }
        _ => reply.message.line().into_owned(),
    })
}

/// Counts the nodes by the exit codes of their commands, and by other results; the line of the totals.
pub fn render_exit_codes(report: &RequestReport) -> String {
    let mut codes: BTreeMap<i64, usize> = BTreeMap::new();
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for reply in &report.replies {
        match (reply.data.get("exitcode").and_then(Value::as_i64), &reply.reason) {
            (Some(code), _) => *codes.entry(code).or_default() += 1,
            (None, Some(reason)) => *others.entry(reason_label(reason)).or_default() += 1,
            (None, None) => *others.entry("not run").or_default() += 1,
        }
    }
    let stats = &report.stats;
    let absences = [("no reply", stats.missing.len()), ("not asked", stats.not_asked.len())];
    let codes = codes.iter().map(|(code, count)| (format!("exit code {code}"), *count));
    let others = others.into_iter().chain(absences).map(|(label, count)| (label.to_owned(), count));
    let counts = codes.chain(others).filter(|(_, count)| *count > 0);
    let texts: Vec<String> =
        counts.map(|(label, count)| format!("{label}: {}", node_count_text(count))).collect();
    texts.join(", ")
}

fn reason_label(reason: &ReplyReason) -> &'static str {
    match reason {
        ReplyReason::Timeout { .. } => "timed out",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::status::ReplyReason;
    use serde_json::json;

    use super::{
        CommandLine, CommandOutputLines, render_end_after_name, render_exit_codes, render_folded,
    };
    use crate::report::group::group_equal_replies;
    use crate::report::testing::{plain, reply, report};

    fn by_node(code: u8, message: &str, data: serde_json::Value) -> String {
        let reply = reply("web1", code, message, data);
        plain(&CommandOutputLines::from_reply(&reply).render_by_node(&reply))
    }

    #[test]
    fn one_line_follows_the_name_and_more_lines_are_a_block() {
        assert_eq!(
            by_node(0, "OK", json!({"exitcode": 0, "stdout": "up\n", "stderr": ""})),
            "web1: up\n"
        );
        assert_eq!(
            by_node(0, "OK", json!({"exitcode": 0, "stdout": "", "stderr": "no\n"})),
            "web1: stderr: no\n"
        );
        assert_eq!(by_node(0, "OK", json!({"exitcode": 0, "stdout": "", "stderr": ""})), "");
        assert_eq!(
            by_node(1, "exited with code 3", json!({"exitcode": 3, "stdout": ""})),
            "web1: exited with code 3\n"
        );
        let block = by_node(
            1,
            "exited with code 3",
            json!({"exitcode": 3, "stdout": "a\n\n\u{1b}[2Jb\tc\n", "stderr": "no\n", "truncated": true}),
        );
        insta::assert_snapshot!(block, @r"
        web1:
           a

           \x1b[2Jb	c
           stderr: no
           (more output was cut; a reply has at most 64 KiB of each stream)
           exited with code 3
        ");
    }

    #[test]
    fn folded_output_is_printed_once_and_counted() {
        let ok = |node: &str| {
            reply(node, 0, "OK", json!({"exitcode": 0, "stdout": "same\n", "stderr": ""}))
        };
        let failed = reply(
            "web3",
            1,
            "exited with code 3",
            json!({"exitcode": 3, "stdout": "x\n", "stderr": ""}),
        );
        let mut late = reply("web4", 5, "late", json!({}));
        late.reason = Some(ReplyReason::Timeout { after_ms: 2000 });
        let silent = reply("web5", 0, "OK", json!({"exitcode": 0, "stdout": "", "stderr": ""}));
        let mut report = report("shell", "run", vec![ok("web1"), ok("web2"), failed, late, silent]);
        report.stats.missing.insert("web6".parse().unwrap());
        let groups = group_equal_replies(&report.replies);
        let text: String = groups.iter().map(|group| render_folded(group, 80, false)).collect();
        insta::assert_snapshot!(plain(&text), @r"
        web3
           x
           exited with code 3
        web4
           killed: it did not end within 2 s
        web5
           (no output)
        web[1,2] (2 nodes)
           same
        ");
        assert_eq!(
            render_exit_codes(&report),
            "exit code 0: 3 nodes, exit code 3: 1 node, timed out: 1 node, no reply: 1 node"
        );
    }

    #[test]
    fn streamed_lines_have_the_name_and_the_stream() {
        let line = |event| {
            CommandLine::from_event(&event).map(|line| plain(&line.render_after_name("web1")))
        };
        assert_eq!(line(json!({"stream": "stdout", "line": "a"})).unwrap(), "web1: a\n");
        assert_eq!(line(json!({"stream": "stderr", "line": "b"})).unwrap(), "web1: stderr: b\n");
        assert_eq!(line(json!({"message": "c"})), None);
        let failed = reply("web1", 1, "exited with code 3", json!({"exitcode": 3}));
        let end = plain(&render_end_after_name(&failed, Some("2 lines were dropped")));
        assert_eq!(end, "web1: (2 lines were dropped)\nweb1: exited with code 3\n");
    }
}
