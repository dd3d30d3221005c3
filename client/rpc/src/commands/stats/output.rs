//! Renders the daemons' counters, one row per node.

use muster_client::{NodeRow, RequestReport};
use muster_contract::rpcutil::RpcutilDaemonStatsOutput;
use muster_display::page::TextPage;
use muster_display::table::Table;
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::report::request::balance_line;

/// The counters of one daemon since its start.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DaemonCounts {
    node: Identity,
    /// When the daemon started, in seconds since 1970.
    started: u64,
    /// Received messages.
    total: u64,
    /// Messages that failed authentication.
    refused: u64,
    /// Messages that were too old, or dated in the future.
    expired: u64,
    /// Replayed messages.
    replayed: u64,
    /// Messages for other nodes.
    others: u64,
    /// Requests that a policy denied.
    denied: u64,
    /// Replies sent.
    replies: u64,
}

/// Parses the counters in successful replies to `rpcutil daemon_stats`, by node.
pub fn read_daemon_counts(report: &RequestReport) -> Vec<DaemonCounts> {
    report.rows().into_iter().map(DaemonCounts::from).collect()
}

impl From<NodeRow<RpcutilDaemonStatsOutput>> for DaemonCounts {
    fn from(row: NodeRow<RpcutilDaemonStatsOutput>) -> Self {
        let NodeRow { node, outputs: output } = row;
        Self {
            node,
            started: output.starttime.unwrap_or(0),
            total: output.total.unwrap_or(0),
            refused: output.unvalidated.unwrap_or(0),
            expired: output.ttlexpired.unwrap_or(0),
            replayed: output.replayed.unwrap_or(0),
            others: output.filtered.unwrap_or(0),
            denied: output.denied.unwrap_or(0),
            replies: output.replies.unwrap_or(0),
        }
    }
}

impl DaemonCounts {
    fn as_array(&self) -> [u64; 7] {
        let Self { total, refused, expired, replayed, others, denied, replies, .. } = *self;
        [total, refused, expired, replayed, others, denied, replies]
    }
}

/// Renders the table, with a totals line if there are several nodes.
pub fn render_counts_table(
    counts: &[DaemonCounts],
    report: &RequestReport,
    width: usize,
) -> String {
    let heading =
        ["NODE", "TOTAL", "REFUSED", "EXPIRED", "REPLAYED", "OTHERS", "DENIED", "REPLIES"];
    let row = |name: &str, numbers: [u64; 7]| {
        let numbers = numbers.into_iter().map(|number| number.to_string());
        std::iter::once(name.to_owned()).chain(numbers)
    };
    let mut table = Table::new(heading);
    table.rows(counts.iter().map(|counts| row(counts.node.as_str(), counts.as_array())));
    if counts.len() > 1 {
        let mut sum = [0_u64; 7];
        for counts in counts {
            for (sum, number) in sum.iter_mut().zip(counts.as_array()) {
                *sum = sum.saturating_add(number);
            }
        }
        table.row(row("all", sum));
    }
    let mut page = TextPage::default();
    page.push_text(table.render(width));
    page.push_gap();
    page.push_text(balance_line(report));
    page.into_text()
}

/// What the document for programs contains, besides the statistics of the request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DaemonStatsDocument<'a> {
    pub nodes: &'a [DaemonCounts],
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{read_daemon_counts, render_counts_table};
    use crate::report::testing::WIDTH;
    use crate::report::testing::{plain, reply, report};

    #[test]
    fn statistics_of_several_nodes_are_summed() {
        let counted = |total: u64, replayed: u64| {
            json!({"starttime": 1_767_225_600, "total": total, "unvalidated": 2, "ttlexpired": 1,
                   "replayed": replayed, "filtered": 40, "denied": 0, "replies": total - 43})
        };
        let replies = vec![
            reply("web2.example.net", 0, "OK", counted(120_000, 1)),
            reply("web1.example.net", 0, "OK", counted(99, 0)),
        ];
        let report = report("rpcutil", "daemon_stats", replies);
        let text = plain(&render_counts_table(&read_daemon_counts(&report), &report, WIDTH));
        insta::assert_snapshot!("stats", text);
    }
}
