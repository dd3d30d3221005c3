//! Renders the preview of a rollout: number of nodes, batches and stop conditions.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use muster_base::{count_text, format_duration};
use muster_calls::RolloutLimits;
use muster_display::{TextPage, list_sample_nodes, node_count_text};
use muster_wire::identity::Identity;

#[derive(Debug, Clone, Copy)]
pub struct RolloutPreview<'a> {
    /// The agent and its action.
    pub request: (&'a str, &'a str),
    pub nodes: &'a BTreeSet<Identity>,
    pub limits: RolloutLimits,
    /// Pause between batches.
    pub pause: Duration,
}

impl RolloutPreview<'_> {
    /// Renders the preview; one line if there is only one batch.
    pub fn render_text(&self) -> String {
        let (agent, action) = self.request;
        let batches = Vec::from(self.limits.batches(self.nodes.iter().cloned()));
        let mut page = TextPage::default();
        let all = node_count_text(self.nodes.len());
        page.push_line(format_args!(
            "Plan: {agent} {action} on {all}: {}",
            list_sample_nodes(self.nodes)
        ));
        if let [_] | [] = batches.as_slice() {
            return page.into_text();
        }
        let canaries = self.limits.canary.min(self.nodes.len());
        let (first, rest) = batches.split_at(usize::from(canaries > 0));
        for batch in first {
            let (count, names) = (canary_count_text(batch.len()), list_sample_nodes(batch));
            page.push_line(format_args!("  batch 1: {count}: {names}"));
        }
        if let Some(line) = self.describe_remaining_batches(rest, first.len()) {
            page.push_line(line);
        }
        page.push_line(format_args!("  {}", self.describe_early_end()));
        page.into_text()
    }

    fn describe_remaining_batches(
        &self,
        batches: &[VecDeque<Identity>],
        before: usize,
    ) -> Option<String> {
        let (size, last) = (batches.first()?.len(), batches.last()?.len());
        let (from, to) = (before + 1, before + batches.len());
        let size_of_each = node_count_text(size);
        if from == to {
            return Some(format!("  batch {from}: {size_of_each}"));
        }
        let last = if last == size { String::new() } else { format!(", the last {last}") };
        let pause = format_duration(self.pause);
        Some(format!("  batches {from} to {to}: {size_of_each} each{last}, {pause} apart"))
    }

    /// Describes the stop conditions.
    fn describe_early_end(&self) -> String {
        let allowed_of = |total| {
            let maximum = self.limits.max_failures;
            maximum.map(|amount| amount.count_rounded_down(total))
        };
        let total = self.nodes.len();
        let then = allowed_of(total).map(|allowed| format!("{allowed} of {total} nodes"));
        let canaries = self.limits.canary.min(total);
        let canaries_allowed = allowed_of(canaries).unwrap_or(0);
        match (canaries, then) {
            (0, None) => "continues after any number of failures".to_owned(),
            (0, Some(then)) => format!("allowed failures: {then}"),
            (_, then) => format!(
                "allowed failures: {canaries_allowed} of {}, then {}",
                canary_count_text(canaries),
                then.unwrap_or_else(|| "any number".to_owned())
            ),
        }
    }
}

fn canary_count_text(canaries: usize) -> String {
    count_text(canaries, "canary", "canaries")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use muster_calls::{CountOrPercent, RolloutLimits};
    use muster_wire::identity::Identity;

    use super::RolloutPreview;

    fn plan(count: usize, canary: usize, batch: Option<&str>, failures: Option<&str>) -> String {
        let nodes: BTreeSet<Identity> =
            (1..=count).map(|n| format!("n{n:02}").parse().unwrap()).collect();
        let amount = |text: &str| text.parse::<CountOrPercent>().unwrap();
        let rolling = RolloutPreview {
            request: ("service", "restart"),
            nodes: &nodes,
            limits: RolloutLimits {
                concurrency: None,
                canary,
                batch: batch.map(amount),
                max_failures: failures.map(amount),
            },
            pause: Duration::from_secs(1),
        };
        rolling.render_text()
    }

    #[test]
    fn renders_plans() {
        let plans = [
            plan(1, 0, None, None),
            plan(30, 0, None, None),
            plan(23, 2, Some("5"), Some("10%")),
            plan(10, 1, None, None),
            plan(10, 0, Some("50%"), None),
            plan(2, 5, Some("1"), None),
        ];
        insta::assert_snapshot!(plans.join("\n"), @r"
        Plan: service restart on 1 node: n01

        Plan: service restart on 30 nodes: n01, n02, n03 and 27 more

        Plan: service restart on 23 nodes: n01, n02, n03 and 20 more
          batch 1: 2 canaries: n01, n02
          batches 2 to 6: 5 nodes each, the last 1, 1 s apart
          allowed failures: 0 of 2 canaries, then 2 of 23 nodes

        Plan: service restart on 10 nodes: n01, n02, n03 and 7 more
          batch 1: 1 canary: n01
          batch 2: 9 nodes
          allowed failures: 0 of 1 canary, then any number

        Plan: service restart on 10 nodes: n01, n02, n03 and 7 more
          batches 1 to 2: 5 nodes each, 1 s apart
          continues after any number of failures

        Plan: service restart on 2 nodes: n01, n02
        ");
    }
}
