//! Renders the preview of a rollout: number of nodes, batches and stop conditions.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::BatchedRollout;
use muster_wire::identity::Identity;

use super::duration::format_duration;
use super::page::TextPage;

/// Number of node names in the preview.
const SAMPLE_SIZE: usize = 3;

/// A rollout before its start.
#[derive(Debug, Clone, Copy)]
pub struct RolloutPreview<'a> {
    /// The agent and its action.
    pub request: (&'a str, &'a str),
    /// The target nodes.
    pub nodes: &'a BTreeSet<Identity>,
    /// The batches.
    pub rollout: BatchedRollout,
    /// Pause between batches.
    pub pause: Duration,
}

impl RolloutPreview<'_> {
    /// Renders the preview; one line if there is only one batch.
    pub fn render_text(&self) -> String {
        let (agent, action) = self.request;
        let waves = self.rollout.batches(self.nodes);
        let mut page = TextPage::default();
        let all = node_count_text(self.nodes.len());
        page.push_line(format_args!(
            "Plan: {agent} {action} on {all}: {}",
            list_sample_nodes(self.nodes)
        ));
        if let [_] | [] = waves.as_slice() {
            return page.into_text();
        }
        let canaries = self.rollout.canary.min(self.nodes.len());
        let (first, rest) = waves.split_at(usize::from(canaries > 0));
        for wave in first {
            let noun = if wave.len() == 1 {
                "canary"
            } else {
                "canaries"
            };
            let (count, names) = (wave.len(), list_sample_nodes(wave));
            page.push_line(format_args!("  wave 1: {count} {noun}: {names}"));
        }
        if let Some(line) = self.describe_remaining_waves(rest, first.len()) {
            page.push_line(line);
        }
        page.push_line(format_args!("  {}", self.describe_early_end()));
        page.into_text()
    }

    fn describe_remaining_waves(
        &self,
        waves: &[BTreeSet<Identity>],
        before: usize,
    ) -> Option<String> {
        let (size, last) = (waves.first()?.len(), waves.last()?.len());
        let (from, to) = (before + 1, before + waves.len());
        let size_of_each = node_count_text(size);
        if from == to {
            return Some(format!("  wave {from}: {size_of_each}"));
        }
        let last = if last == size {
            String::new()
        } else {
            format!(", the last {last}")
        };
        let pause = format_duration(self.pause);
        Some(format!(
            "  waves {from} to {to}: {size_of_each} each{last}, {pause} apart"
        ))
    }

    /// Describes the stop conditions.
    fn describe_early_end(&self) -> String {
        let allowed = self
            .rollout
            .max_failures
            .map(|amount| amount.count_rounded_down(self.nodes.len()));
        match (self.rollout.canary > 0, allowed) {
            (true, Some(allowed)) => {
                format!("ends early unless all canaries succeed, or when more than {allowed} fail")
            }
            (true, None) => "ends early unless all canaries succeed".to_owned(),
            (false, Some(allowed)) => format!("ends early when more than {allowed} fail"),
            (false, None) => "continues after any number of failures".to_owned(),
        }
    }
}

/// `1 node`, `12 nodes`.
pub fn node_count_text(nodes: usize) -> String {
    format!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" })
}

/// The first few names, and the number of the others.
pub fn list_sample_nodes(nodes: &BTreeSet<Identity>) -> String {
    list_first_nodes(nodes, SAMPLE_SIZE)
}

/// The first `shown` names, and the number of the others.
pub fn list_first_nodes(nodes: &BTreeSet<Identity>, shown: usize) -> String {
    let names: Vec<&str> = nodes.iter().take(shown).map(Identity::as_str).collect();
    let names = names.join(", ");
    match nodes.len().saturating_sub(shown) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use muster_client::{BatchedRollout, CountOrPercent};
    use muster_wire::identity::Identity;

    use super::RolloutPreview;

    fn plan(count: usize, canary: usize, batch: Option<&str>, failures: Option<&str>) -> String {
        let nodes: BTreeSet<Identity> = (1..=count)
            .map(|n| format!("n{n:02}").parse().unwrap())
            .collect();
        let amount = |text: &str| text.parse::<CountOrPercent>().unwrap();
        let rolling = RolloutPreview {
            request: ("service", "restart"),
            nodes: &nodes,
            rollout: BatchedRollout {
                canary,
                batch: batch.map(amount),
                max_failures: failures.map(amount),
            },
            pause: Duration::from_secs(1),
        };
        rolling.render_text()
    }

    #[test]
    fn plans() {
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
          wave 1: 2 canaries: n01, n02
          waves 2 to 6: 5 nodes each, the last 1, 1.00 s apart
          ends early unless all canaries succeed, or when more than 2 fail

        Plan: service restart on 10 nodes: n01, n02, n03 and 7 more
          wave 1: 1 canary: n01
          wave 2: 9 nodes
          ends early unless all canaries succeed

        Plan: service restart on 10 nodes: n01, n02, n03 and 7 more
          waves 1 to 2: 5 nodes each, 1.00 s apart
          continues after any number of failures

        Plan: service restart on 2 nodes: n01, n02
        ");
    }
}
