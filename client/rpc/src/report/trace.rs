//! Renders the stages of a request with their durations: at the caller, on the network, and on each node.

use std::time::Duration;

use muster_client::{NodeReply, NodeTrace, RequestReport};
use muster_display::TextPage;
use muster_display::duration::format_milliseconds;
use muster_display::page::{label_line, pad_start};
use muster_display::printer::{BAD, STRONG};
use muster_wire::identity::Identity;
use serde::Serialize;

/// Maximum nodes shown, slowest first, unless all are requested.
const MAX_SHOWN_NODES: usize = 10;

#[derive(Debug, Default)]
pub struct RequestTrace<'a> {
    pub trace: Option<String>,
    pub caller_stages: Vec<(&'static str, Duration)>,
    /// Each node's trace, and why it rejected the request, if it did.
    pub nodes: Vec<(&'a Identity, &'a NodeTrace, Option<String>)>,
}

impl<'a> RequestTrace<'a> {
    pub fn from_report(report: &'a RequestReport) -> Self {
        let stats = &report.stats;
        let traced_node =
            |reply: &'a NodeReply| Some((&reply.node, reply.trace.as_ref()?, refusal_text(reply)));
        Self {
            trace: stats.traceparent.map(|trace| trace.trace_id()),
            caller_stages: vec![
                ("discover", stats.discovering),
                ("sign", stats.signing),
                ("publish", stats.publishing.saturating_sub(stats.signing)),
            ],
            nodes: report.replies.iter().filter_map(traced_node).collect(),
        }
    }

    /// Renders the block; only the slowest of many nodes, unless `all` is set.
    pub fn render_text(mut self, all: bool) -> String {
        let mut page = TextPage::default();
        match &self.trace {
            Some(trace) => page.push_line(format_args!("---- trace {trace} ----")),
            None => page.push_line("---- trace ----"),
        }
        for (stage, took) in &self.caller_stages {
            page.push_line(stage_row(stage, *took));
        }
        self.nodes.sort_by_key(|(_, trace, _)| std::cmp::Reverse(trace.total_us));
        let shown = if all { self.nodes.len() } else { MAX_SHOWN_NODES };
        for (node, trace, refusal) in self.nodes.iter().take(shown) {
            page.push_line(format_args!("{STRONG}{node}{STRONG:#}"));
            page.push_line(stage_row("network", Duration::from_micros(trace.network_us)));
            for stage in &trace.stages {
                let took = stage_row(stage.stage.as_str(), Duration::from_micros(stage.us));
                match refusal.as_ref().filter(|_| stage.refused) {
                    Some(reason) => {
                        page.push_line(format_args!("{took}  {BAD}refused{BAD:#}: {reason}"));
                    }
                    None => page.push_line(took),
                }
            }
            page.push_line(stage_row("verify here", Duration::from_micros(trace.verify_us)));
            page.push_line(stage_row("total", Duration::from_micros(trace.total_us)));
        }
        if let Some(more @ 1..) = self.nodes.len().checked_sub(shown) {
            page.push_line(format_args!("{more} more were faster; -v shows all"));
        }
        page.into_text()
    }
}

fn stage_row(stage: &str, took: Duration) -> String {
    label_line(3, 12, stage, pad_start(&format_milliseconds(took), 12))
}

/// Why a node rejected the request: the code and the node's message.
fn refusal_text(reply: &NodeReply) -> Option<String> {
    let code = reply.reason.as_ref().map(|reason| format!("{} - ", reason.as_str()));
    (!reply.is_ok()).then(|| format!("{}{}", code.unwrap_or_default(), reply.message.block()))
}

/// The caller's part of a document; times in microseconds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallerTraceDocument {
    traceparent: String,
    discover_us: u64,
    sign_us: u64,
    publish_us: u64,
}

impl CallerTraceDocument {
    /// Creates the document's part for these statistics, if the request was traced.
    pub fn new(stats: &muster_client::RequestStats) -> Option<Self> {
        Some(Self {
            traceparent: stats.traceparent?.to_string(),
            discover_us: saturating_micros(stats.discovering),
            sign_us: saturating_micros(stats.signing),
            publish_us: saturating_micros(stats.publishing.saturating_sub(stats.signing)),
        })
    }
}

fn saturating_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::status::ReplyReason;
    use muster_wire::trace::{StageName, StageTiming, TraceContext};
    use serde_json::json;

    use super::RequestTrace;
    use crate::report::testing::{plain, reply, report};
    use muster_client::NodeTrace;

    fn trace(stages: &[(StageName, u64, bool)], total: u64) -> Option<NodeTrace> {
        let stage =
            |&(stage, us, refused): &(StageName, u64, bool)| StageTiming { stage, us, refused };
        let [total, verify] = [total, 90].map(Duration::from_micros);
        NodeTrace::new(stages.iter().map(stage).collect(), total, verify)
    }

    #[test]
    fn renders_stages_and_a_denial() {
        let mut quick = reply("db1", 0, "OK", json!({}));
        quick.trace =
            trace(&[(StageName::Verify, 120, false), (StageName::Run, 2_000, false)], 3_000);
        let mut denied = reply("db2", 5, "rip may not", json!({}));
        denied.reason = Some(ReplyReason::Denied { rule: "default".to_owned() });
        denied.trace =
            trace(&[(StageName::Verify, 110, false), (StageName::Authorise, 30, true)], 4_000);
        let mut report = report("rpcutil", "ping", vec![quick, denied]);
        report.stats.signing = Duration::from_micros(200);
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        report.stats.traceparent = TraceContext::parse(given).ok();
        insta::assert_snapshot!(plain(&RequestTrace::from_report(&report).render_text(false)), @r"
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
    fn only_the_slowest_nodes_are_shown() {
        let node = |n: u64| {
            let mut answer = reply(&format!("n{n}"), 0, "OK", json!({}));
            answer.trace = trace(&[(StageName::Run, 1, false)], 1000 + n);
            answer
        };
        let report = report("rpcutil", "ping", (0..12).map(node).collect());
        let text = plain(&RequestTrace::from_report(&report).render_text(false));
        assert!(text.contains("n11") && !text.contains("n1\n"), "{text}");
        assert!(text.ends_with("2 more were faster; -v shows all\n"));
        assert!(plain(&RequestTrace::from_report(&report).render_text(true)).contains("n1\n"));
    }
}
