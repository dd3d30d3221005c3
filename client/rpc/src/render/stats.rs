//! What daemons have counted, a row for each node.

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

use super::grid::{Cell, grid};
use super::json::Stats;
use super::page::Page;
use super::request::balance;
use crate::report::{Reply, Report};

/// What one daemon has counted since it started.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    node: Identity,
    /// When the daemon started, in seconds since 1970.
    started: u64,
    /// Messages that arrived.
    total: u64,
    /// Not authentic.
    refused: u64,
    /// Too old, or from the future.
    expired: u64,
    /// Seen before.
    replayed: u64,
    /// Meant for other nodes.
    others: u64,
    /// Denied by a policy.
    denied: u64,
    /// Answered.
    replies: u64,
}

/// The counts in successful replies to `rpcutil daemon_stats`, by node.
pub fn counts(report: &Report) -> Vec<Counts> {
    let answered = report.replies.iter().filter(|reply| reply.is_ok());
    let mut counts: Vec<Counts> = answered.map(Counts::of).collect();
    counts.sort_by(|one, other| one.node.cmp(&other.node));
    counts
}

impl Counts {
    fn of(reply: &Reply) -> Self {
        let count = |name: &str| reply.data.get(name).and_then(Value::as_u64).unwrap_or(0);
        Self {
            node: reply.node.clone(),
            started: count("starttime"),
            total: count("total"),
            refused: count("unvalidated"),
            expired: count("ttlexpired"),
            replayed: count("replayed"),
            others: count("filtered"),
            denied: count("denied"),
            replies: count("replies"),
        }
    }

    fn numbers(&self) -> [u64; 7] {
        [
            self.total,
            self.refused,
            self.expired,
            self.replayed,
            self.others,
            self.denied,
            self.replies,
        ]
    }
}

/// The table for people, with a line that sums up when there are several nodes.
pub fn table(counts: &[Counts], report: &Report, width: usize) -> String {
    let heading = [
        "NODE", "TOTAL", "REFUSED", "EXPIRED", "REPLAYED", "OTHERS", "DENIED", "REPLIES",
    ];
    let row = |name: &str, numbers: [u64; 7]| {
        let numbers = numbers.into_iter().map(|number| number.to_string());
        std::iter::once(name.to_owned())
            .chain(numbers)
            .map(Cell::plain)
            .collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<Cell>> = counts
        .iter()
        .map(|counts| row(counts.node.as_str(), counts.numbers()))
        .collect();
    if counts.len() > 1 {
        let mut sum = [0_u64; 7];
        for counts in counts {
            for (sum, number) in sum.iter_mut().zip(counts.numbers()) {
                *sum = sum.saturating_add(number);
            }
        }
        rows.push(row("all", sum));
    }
    let mut page = Page::default();
    page.add(grid(&heading.map(str::to_owned), &rows, width, None).text);
    page.gap();
    page.add(balance(report));
    page.text()
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    nodes: &'a [Counts],
    request_stats: Stats<'a>,
}

impl<'a> Document<'a> {
    /// The document of these counts.
    pub fn new(nodes: &'a [Counts], report: &'a Report) -> Self {
        Self {
            schema: "muster.stats.v1",
            nodes,
            request_stats: Stats::new(&report.stats),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{counts, table};
    use crate::render::WIDTH;
    use crate::render::fixtures::{plain, reply, report};

    #[test]
    fn several_nodes_are_summed_up() {
        let counted = |total: u64, replayed: u64| {
            json!({"starttime": 1_767_225_600, "total": total, "unvalidated": 2, "ttlexpired": 1,
                   "replayed": replayed, "filtered": 40, "denied": 0, "replies": total - 43})
        };
        let replies = vec![
            reply("web2.example.net", 0, "OK", counted(120_000, 1)),
            reply("web1.example.net", 0, "OK", counted(99, 0)),
        ];
        let report = report("rpcutil", "daemon_stats", replies);
        let text = plain(&table(&counts(&report), &report, WIDTH));
        insta::assert_snapshot!("stats", text);
    }
}
