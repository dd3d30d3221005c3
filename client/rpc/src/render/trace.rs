//! The way of a request, stage by stage: here, over the network, and on each node. For people who asked to see it.

use std::time::Duration;

use muster_wire::identity::Identity;
use serde::Serialize;

use super::page::Page;
use super::printable::line;
use super::span::milliseconds;
use crate::printer::{BAD, STRONG};
use crate::report::{NodeTrace, Reply, Report};

/// Nodes that are shown one by one, unless all are wanted: those that took longest.
const SHOWN: usize = 10;

/// What is known of a request's way.
#[derive(Debug, Default)]
pub struct Way<'a> {
    /// The number of its trace.
    pub trace: Option<String>,
    /// Stages at the caller, with how long they took.
    pub here: Vec<(&'static str, Duration)>,
    /// Every node's part, and why it refused, if it did.
    pub nodes: Vec<(&'a Identity, &'a NodeTrace, Option<String>)>,
}

impl<'a> Way<'a> {
    /// The way of this outcome's request.
    pub fn of(report: &'a Report) -> Self {
        let stats = &report.stats;
        let told = |reply: &'a Reply| Some((&reply.node, reply.trace.as_ref()?, refusal(reply)));
        Self {
            trace: stats.traceparent.map(|trace| trace.trace()),
            here: vec![
                ("discover", stats.discovering),
                ("sign", stats.signing),
                ("publish", stats.publishing.saturating_sub(stats.signing)),
            ],
            nodes: report.replies.iter().filter_map(told).collect(),
        }
    }

    /// The block; of many nodes the slowest, unless `all` are wanted.
    pub fn text(mut self, all: bool) -> String {
        let mut page = Page::default();
        match &self.trace {
            Some(trace) => page.line(format_args!("---- trace {trace} ----")),
            None => page.line("---- trace ----"),
        }
        for (stage, took) in &self.here {
            page.line(row(stage, *took));
        }
        self.nodes
            .sort_by_key(|(_, trace, _)| std::cmp::Reverse(trace.after));
        let shown = if all { self.nodes.len() } else { SHOWN };
        for (node, trace, refusal) in self.nodes.iter().take(shown) {
            page.line(format_args!("{STRONG}{node}{STRONG:#}"));
            page.line(row("network", trace.network()));
            for stage in &trace.stages {
                let took = row(stage.stage.word(), Duration::from_micros(stage.us));
                match refusal.as_ref().filter(|_| stage.refused) {
                    Some(why) => {
                        let why = line(why);
                        page.line(format_args!("{took}  {BAD}refused{BAD:#}: {why}"));
                    }
                    None => page.line(took),
                }
            }
            page.line(row("verify here", trace.verifying));
            page.line(row("total", trace.after));
        }
        if let Some(more @ 1..) = self.nodes.len().checked_sub(shown) {
            page.line(format_args!("{more} more were faster; -v shows all"));
        }
        page.text()
    }
}

fn row(stage: &str, took: Duration) -> String {
    format!("   {stage:<12}{:>12}", milliseconds(took))
}

/// Why a node refused, in a word and its own words.
fn refusal(reply: &Reply) -> Option<String> {
    let word = reply
        .reason
        .as_ref()
        .map(|reason| format!("{} - ", reason.word()));
    (!reply.is_ok()).then(|| format!("{}{}", word.unwrap_or_default(), reply.message))
}

/// One node's part of a document; times in microseconds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeDocument<'a> {
    total_us: u64,
    network_us: u64,
    verify_us: u64,
    stages: &'a [muster_wire::trace::Stage],
}

impl<'a> NodeDocument<'a> {
    /// The part of a document that this is.
    pub fn new(trace: &'a NodeTrace) -> Self {
        Self {
            total_us: micros(trace.after),
            network_us: micros(trace.network()),
            verify_us: micros(trace.verifying),
            stages: &trace.stages,
        }
    }
}

/// The caller's part of a document; times in microseconds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HereDocument {
    traceparent: String,
    discover_us: u64,
    sign_us: u64,
    publish_us: u64,
}

impl HereDocument {
    /// The part of a document that belongs to these counts, if the request was part of a trace.
    pub fn new(stats: &crate::report::RequestStats) -> Option<Self> {
        Some(Self {
            traceparent: stats.traceparent?.to_string(),
            discover_us: micros(stats.discovering),
            sign_us: micros(stats.signing),
            publish_us: micros(stats.publishing.saturating_sub(stats.signing)),
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::status::Reason;
    use muster_wire::trace::{Stage, StageName, Traceparent};
    use serde_json::json;

    use super::Way;
    use crate::render::fixtures::{plain, reply, report};
    use crate::report::NodeTrace;

    fn trace(stages: &[(StageName, u64, bool)], after: u64) -> NodeTrace {
        let stage = |&(stage, us, refused): &(StageName, u64, bool)| Stage { stage, us, refused };
        NodeTrace {
            stages: stages.iter().map(stage).collect(),
            after: Duration::from_micros(after),
            verifying: Duration::from_micros(90),
        }
    }

    #[test]
    fn a_way_with_a_refusal_on_it() {
        let mut quick = reply("db1", 0, "OK", json!({}));
        quick.trace = Some(trace(
            &[
                (StageName::Verify, 120, false),
                (StageName::Run, 2_000, false),
            ],
            3_000,
        ));
        let mut denied = reply("db2", 5, "rip may not", json!({}));
        denied.reason = Some(Reason::Denied {
            rule: "default".to_owned(),
        });
        denied.trace = Some(trace(
            &[
                (StageName::Verify, 110, false),
                (StageName::Authorise, 30, true),
            ],
            4_000,
        ));
        let mut report = report("rpcutil", "ping", vec![quick, denied]);
        report.stats.signing = Duration::from_micros(200);
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        report.stats.traceparent = Traceparent::parse(given).ok();
        insta::assert_snapshot!(plain(&Way::of(&report).text(false)), @r"
        ---- trace 4bf92f3577b34da6a3ce929d0e0e4736 ----
           discover       309.68 ms
           sign             0.20 ms
           publish          1.06 ms
        db2
           network          3.77 ms
           verify           0.11 ms
           authorise        0.03 ms  refused: denied - rip may not
           verify here      0.09 ms
           total            4.00 ms
        db1
           network          0.79 ms
           verify           0.12 ms
           run              2.00 ms
           verify here      0.09 ms
           total            3.00 ms
        ");
    }

    #[test]
    fn of_many_nodes_the_slowest_are_shown() {
        let node = |n: u64| {
            let mut answer = reply(&format!("n{n}"), 0, "OK", json!({}));
            answer.trace = Some(trace(&[(StageName::Run, 1, false)], 1000 + n));
            answer
        };
        let report = report("rpcutil", "ping", (0..12).map(node).collect());
        let text = plain(&Way::of(&report).text(false));
        assert!(text.contains("n11") && !text.contains("n1\n"), "{text}");
        assert!(text.ends_with("2 more were faster; -v shows all\n"));
        assert!(plain(&Way::of(&report).text(true)).contains("n1\n"));
    }
}
