//! How many nodes there are where Puppet does what: the totals that people know from `mco puppet count`.

use serde::Serialize;

use super::{flag, text};
use crate::render::json::Stats;
use crate::render::page::Page;
use crate::render::request::balance;
use crate::report::Report;

/// The totals.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Totals {
    /// Nodes that told.
    total: usize,
    enabled: usize,
    disabled: usize,
    /// Where a catalog is being applied.
    running: usize,
    /// Where none is, and no daemon would begin to.
    stopped: usize,
    /// With Puppet's daemon.
    daemons: usize,
    without_daemon: usize,
    /// Whose daemon waits for its next run.
    idling: usize,
    /// That owe refreshes.
    owing: usize,
}

impl Totals {
    /// Of successful answers to `puppet status`.
    pub fn of(report: &Report) -> Self {
        let mut totals = Self::default();
        for reply in report.replies.iter().filter(|reply| reply.is_ok()) {
            let one = |holds: bool| usize::from(holds);
            let [enabled, daemon] = ["enabled", "daemon_present"].map(|name| flag(reply, name));
            totals.total += 1;
            totals.enabled += one(enabled);
            totals.disabled += one(!enabled);
            totals.running += one(flag(reply, "applying"));
            totals.stopped += one(text(reply, "status").as_deref() == Some("stopped"));
            totals.daemons += one(daemon);
            totals.without_daemon += one(!daemon);
            totals.idling += one(flag(reply, "idling"));
            totals.owing += one(super::number(reply, "pending").is_some_and(|owed| owed > 0));
        }
        totals
    }

    /// For people.
    pub fn text(&self, report: &Report) -> String {
        let mut page = Page::default();
        page.line(format_args!("Total Puppet nodes: {}\n", self.total));
        for group in [
            &[
                ("Nodes currently enabled", self.enabled),
                ("Nodes currently disabled", self.disabled),
            ][..],
            &[
                ("Nodes currently doing puppet runs", self.running),
                ("Nodes currently stopped", self.stopped),
            ],
            &[
                ("Nodes with daemons started", self.daemons),
                ("Nodes without daemons started", self.without_daemon),
                ("Daemons started but idling", self.idling),
            ],
            &[("Nodes that owe refreshes", self.owing)],
        ] {
            for (title, count) in group {
                page.line(format_args!("{title:>36}: {count}"));
            }
            page.gap();
        }
        page.add(balance(report));
        page.text()
    }
}

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    nodes: &'a Totals,
    request_stats: Stats<'a>,
}

impl<'a> Document<'a> {
    /// The document of these.
    pub fn new(nodes: &'a Totals, report: &'a Report) -> Self {
        Self {
            schema: "muster.puppet.count.v1",
            nodes,
            request_stats: Stats::new(&report.stats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Totals;
    use crate::render::fixtures::plain;
    use crate::render::puppet::fixtures;

    #[test]
    fn nodes_are_counted_as_mco_does() {
        let report = fixtures::states();
        insta::assert_snapshot!("puppet_count", plain(&Totals::of(&report).text(&report)));
    }
}
