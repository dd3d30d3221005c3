//! Renders the result of a copy: a line for each node, the totals, and the document for programs.

use std::collections::BTreeMap;

use indicatif::BinaryBytes;
use muster_base::{NodeText, duration_millis, format_duration};
use muster_display::printer::{BAD, HINT};
use muster_display::{TextPage, node_count_text};
use muster_operations::copy::{CopyReport, NodeCopyOutcome, NodeCopyResult};
use muster_wire::identity::Identity;
use serde::Serialize;

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopyDirection {
    /// From this machine to nodes.
    ToNodes,
    /// From nodes to this machine.
    FromNodes,
}

#[derive(Debug, Clone, Copy)]
pub struct CopyView<'a> {
    pub report: &'a CopyReport,
    pub direction: CopyDirection,
    /// The path of this machine.
    pub local: &'a str,
    /// The path on nodes.
    pub path: &'a str,
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct CopyDocument<'a> {
    schema: &'static str,
    direction: CopyDirection,
    /// The path of this machine.
    local: &'a str,
    /// The path on nodes.
    path: &'a str,
    /// The results, by name of node.
    results: Vec<CopyResultDocument<'a>>,
    counts: CopyCounts,
    /// Duration of the copies in milliseconds.
    took_ms: u64,
    /// Why the command ended early; null if it did not.
    stopped: Option<String>,
}

/// The result of one node.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct CopyResultDocument<'a> {
    sender: &'a str,
    /// `copied`, `unchanged`, `attributes` (only mode, owner or group was set), `failed`, `no_reply`, or `not_completed` (the command ended early).
    result: &'static str,
    /// Why the copy failed; null if it did not.
    message: Option<&'a NodeText>,
    /// Size of the file in bytes; 0 if unknown.
    bytes: u64,
    /// Bytes that an interrupted copy had left, and that were not copied again.
    resumed_bytes: u64,
    /// The file that was written: on the node, or on this machine if it was fetched; null if unknown.
    file: Option<String>,
    /// SHA-256 of the file; null if unknown.
    sha256: Option<&'a str>,
}

/// Number of nodes by result.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
struct CopyCounts {
    discovered: usize,
    copied: usize,
    unchanged: usize,
    attributes: usize,
    failed: usize,
    no_reply: usize,
    not_completed: usize,
}

impl<'a> CopyView<'a> {
    /// Renders a line for each node.
    pub fn render_nodes(&self) -> String {
        let mut page = TextPage::default();
        for (node, result) in &self.report.nodes {
            let text = self.outcome_text(result);
            if result.outcome.is_ok() {
                page.push_line(format_args!("{HINT}{node}:{HINT:#} {text}"));
            } else {
                page.push_line(format_args!("{HINT}{node}:{HINT:#} {BAD}{text}{BAD:#}"));
            }
        }
        page.into_text()
    }

    fn outcome_text(&self, result: &NodeCopyResult) -> String {
        match &result.outcome {
            NodeCopyOutcome::Copied => {
                let file = result.file.as_ref().filter(|_| self.is_fetch());
                let file = file.map(|file| format!(" to {}", file.display())).unwrap_or_default();
                let resumed = match result.resumed_bytes {
                    0 => String::new(),
                    bytes => format!(" (continued after {})", BinaryBytes(bytes)),
                };
                format!("copied{file}{resumed}")
            }
            NodeCopyOutcome::Unchanged => "unchanged".to_owned(),
            NodeCopyOutcome::AttributesSet => "content unchanged, attributes set".to_owned(),
            NodeCopyOutcome::Failed(message) => format!("failed: {}", message.block()),
            NodeCopyOutcome::NoReply(message) => format!("no reply: {}", message.block()),
            NodeCopyOutcome::NotCompleted => "not completed: the command ended early".to_owned(),
        }
    }

    pub fn render_totals(&self) -> String {
        let counts = self.counts();
        let texts = [
            ("copied", counts.copied),
            ("unchanged", counts.unchanged),
            ("attributes set", counts.attributes),
            ("failed", counts.failed),
            ("no reply", counts.no_reply),
            ("not completed", counts.not_completed),
        ];
        let texts = texts.iter().filter(|(_, count)| *count > 0);
        let texts: Vec<String> = texts.map(|(label, count)| format!("{count} {label}")).collect();
        let bytes = self.report.nodes.values().map(|result| result.bytes).max().unwrap_or(0);
        let (local, path) = (self.local, self.path);
        let nodes = node_count_text(counts.discovered);
        let time = format_duration(self.report.took);
        let (from, to) = if self.is_fetch() { (path, local) } else { (local, path) };
        let of = BinaryBytes(bytes);
        format!("{from} to {to}, {of}, {nodes} in {time}: {}", texts.join(", "))
    }

    fn is_fetch(&self) -> bool {
        self.direction == CopyDirection::FromNodes
    }

    /// Whether parts of the file may be left on nodes or on this machine.
    pub fn can_be_resumed(&self) -> bool {
        let counts = self.counts();
        counts.no_reply + counts.not_completed > 0
    }

    fn counts(&self) -> CopyCounts {
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for result in self.report.nodes.values() {
            *by_name.entry(result.outcome.as_str()).or_default() += 1;
        }
        let count = |name: &str| by_name.get(name).copied().unwrap_or(0);
        CopyCounts {
            discovered: self.report.nodes.len(),
            copied: count("copied"),
            unchanged: count("unchanged"),
            attributes: count("attributes"),
            failed: count("failed"),
            no_reply: count("no_reply"),
            not_completed: count("not_completed"),
        }
    }

    pub fn document(&self) -> CopyDocument<'a> {
        let results = self.report.nodes.iter().map(result_document);
        CopyDocument {
            schema: "muster.copy.v1",
            direction: self.direction,
            local: self.local,
            path: self.path,
            results: results.collect(),
            counts: self.counts(),
            took_ms: duration_millis(self.report.took),
            stopped: self.report.stop.map(|stop| stop.to_string()),
        }
    }
}

fn result_document<'a>(
    (node, result): (&'a Identity, &'a NodeCopyResult),
) -> CopyResultDocument<'a> {
    CopyResultDocument {
        sender: node.as_str(),
        result: result.outcome.as_str(),
        message: result.outcome.message(),
        bytes: result.bytes,
        resumed_bytes: result.resumed_bytes,
        file: result.file.as_ref().map(|file| file.display().to_string()),
        sha256: result.sha256.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_operations::copy::{CopyReport, NodeCopyOutcome, NodeCopyResult};

    use super::{CopyDirection, CopyView};
    use crate::report::testing::plain;

    fn report() -> CopyReport {
        let outcomes = [
            NodeCopyOutcome::Copied,
            NodeCopyOutcome::Unchanged,
            NodeCopyOutcome::AttributesSet,
            NodeCopyOutcome::Failed("/srv is a directory\u{1b}[2J".into()),
            NodeCopyOutcome::NoReply("not connected at the start".into()),
            NodeCopyOutcome::NotCompleted,
        ];
        let nodes = (1..).zip(outcomes).map(|(number, outcome)| {
            let is_copied = outcome == NodeCopyOutcome::Copied;
            let result = NodeCopyResult {
                outcome,
                bytes: 3 * 1024 * 1024,
                resumed_bytes: if is_copied { 1024 * 1024 } else { 0 },
                file: Some("logs/motd.web1".into()),
                sha256: None,
            };
            (format!("web{number}").parse().unwrap(), result)
        });
        CopyReport { nodes: nodes.collect(), stop: None, took: Duration::from_millis(1234) }
    }

    #[test]
    fn each_node_has_a_line() {
        let report = report();
        let view = CopyView {
            report: &report,
            direction: CopyDirection::FromNodes,
            local: "logs",
            path: "/srv/motd",
        };
        let text = plain(&(view.render_nodes() + &view.render_totals()));
        insta::assert_snapshot!(text, @r"
        web1: copied to logs/motd.web1 (continued after 1.00 MiB)
        web2: unchanged
        web3: content unchanged, attributes set
        web4: failed: /srv is a directory\x1b[2J
        web5: no reply: not connected at the start
        web6: not completed: the command ended early
        /srv/motd to logs, 3.00 MiB, 6 nodes in 1.23 s: 1 copied, 1 unchanged, 1 attributes set, 1 failed, 1 no reply, 1 not completed
        ");
        assert!(view.can_be_resumed());
        let document = serde_json::to_string_pretty(&view.document()).unwrap();
        insta::assert_snapshot!("copy_json", document);
    }
}
