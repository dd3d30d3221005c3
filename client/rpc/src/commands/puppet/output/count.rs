//! Renders the number of nodes by Puppet state: the totals of `mco puppet count`.

use muster_client::RequestReport;
use muster_contract::puppet::PuppetStatusOutput;
use muster_display::page::TextPage;
use serde::Serialize;

use crate::report::request::balance_line;

/// The totals.
#[derive(Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PuppetNodeTotals {
    /// Nodes that replied.
    total: usize,
    enabled: usize,
    disabled: usize,
    /// Nodes that are applying a catalog.
    running: usize,
    /// Nodes that are not applying a catalog and have no daemon that would start a run.
    stopped: usize,
    /// Nodes with Puppet's daemon.
    daemons: usize,
    without_daemon: usize,
    /// Nodes whose daemon waits for its next run.
    idling: usize,
    /// Nodes with pending refreshes.
    owing: usize,
}

impl PuppetNodeTotals {
    /// Counts successful replies to `puppet status`.
    pub fn from_report(report: &RequestReport) -> Self {
        let mut totals = Self::default();
        for reply in report.successes() {
            let count_if = |condition: bool| usize::from(condition);
            let status: PuppetStatusOutput = reply.typed_outputs();
            totals.total += 1;
            totals.enabled += count_if(status.enabled);
            totals.disabled += count_if(!status.enabled);
            totals.running += count_if(status.applying);
            totals.stopped += count_if(status.status == "stopped");
            totals.daemons += count_if(status.daemon_present);
            totals.without_daemon += count_if(!status.daemon_present);
            totals.idling += count_if(status.idling);
            totals.owing += count_if(status.pending > 0);
        }
        totals
    }

    pub fn render_text(&self, report: &RequestReport) -> String {
        let mut page = TextPage::default();
        page.push_heading(format_args!("Total Puppet nodes: {}", self.total));
        for (title, count, ends_group) in [
            ("Nodes currently enabled", self.enabled, false),
            ("Nodes currently disabled", self.disabled, true),
            ("Nodes currently doing puppet runs", self.running, false),
            ("Nodes currently stopped", self.stopped, true),
            ("Nodes with daemons started", self.daemons, false),
            ("Nodes without daemons started", self.without_daemon, false),
            ("Daemons started but idling", self.idling, true),
            ("Nodes with pending refreshes", self.owing, true),
        ] {
            page.push_fields(36, [(title, count)]);
            if ends_group {
                page.push_gap();
            }
        }
        page.push_text(balance_line(report));
        page.into_text()
    }
}

/// What the document for programs contains, besides the statistics of the request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PuppetCountDocument<'a> {
    pub nodes: &'a PuppetNodeTotals,
}

#[cfg(test)]
mod tests {
    use super::PuppetNodeTotals;
    use crate::commands::puppet::output::fixtures;
    use crate::report::testing::plain;

    #[test]
    fn counts_match_the_output_of_mco() {
        let report = fixtures::states();
        insta::assert_snapshot!(
            "puppet_count",
            plain(&PuppetNodeTotals::from_report(&report).render_text(&report))
        );
    }
}
