//! Each alert of `packaging/monitoring/muster.rules.yml` fires when real programs are in the state that it describes, and not before. A real Prometheus scrapes them
//! and evaluates the shipped expressions with shorter waits. `monitoring_files` checks that there is a test for each alert.

mod broker;
mod directory;
mod history;
mod nodes;
mod requests;

use std::time::Duration;

use muster_tests::prometheus::{NODE_JOB, Prometheus};
use muster_tests::{poll_until_ok, tools};
use regex::Regex;

use crate::monitoring_files::read_rules;

/// How long a condition lasts in the tests before its alert fires: several scrapes, so that one that comes late on a busy machine fires nothing.
const SHORT_FOR: &str = "for: 4s";
/// How far the tests look back where a rule compares with an earlier value.
const SHORT_OFFSET_SECONDS: u32 = 20;
/// Number of scrapes after which an alert would fire if its condition held: more than the seconds of [`SHORT_FOR`].
const SILENT_SCRAPES: u32 = 8;
/// How long an alert may take to fire.
const FIRING_TIMEOUT: Duration = Duration::from_mins(2);

/// A Prometheus with the shipped rules.
struct AlertWatch {
    prometheus: Prometheus,
}

impl AlertWatch {
    /// `None` if this run lacks Prometheus.
    async fn start() -> Option<Self> {
        Self::start_with(|rules| rules).await
    }

    /// Like [`Self::start`], with a change of the rules: of a threshold that each site adjusts.
    async fn start_with(change: impl FnOnce(String) -> String) -> Option<Self> {
        if tools::is_skipped("prometheus") {
            return None;
        }
        let rules = change(shorten_waits(&read_rules()));
        Some(Self { prometheus: Prometheus::start(&rules).await })
    }

    /// Scrapes the metrics of a daemon under this name.
    fn watch_node(&mut self, instance: &str, address: &str) {
        self.prometheus.watch(NODE_JOB, instance, address);
    }

    /// Fails the test if the alert fires for this instance. Waits until it would.
    async fn assert_silent(&self, alert: &str, instance: &str) {
        self.prometheus.await_scrapes(SILENT_SCRAPES).await;
        let firing = self.prometheus.firing_alerts().await;
        let is_firing = firing.contains(&(alert.to_owned(), instance.to_owned()));
        assert!(!is_firing, "{alert} fires too early: {firing:?}");
    }

    /// Waits until the alert fires for this instance.
    async fn await_firing(&self, alert: &str, instance: &str) {
        let expected = (alert.to_owned(), instance.to_owned());
        poll_until_ok(&format!("{alert} fires for `{instance}`"), FIRING_TIMEOUT, async || {
            let firing = self.prometheus.firing_alerts().await;
            if firing.contains(&expected) { Ok(()) } else { Err(firing) }
        })
        .await;
    }
}

/// The rules with short waits. Thresholds and ranges stay: a range that is longer than the test counts what there is.
fn shorten_waits(rules: &str) -> String {
    let offset = format!("offset {SHORT_OFFSET_SECONDS}s");
    let rules = Regex::new(r"\bfor: \w+").unwrap().replace_all(rules, SHORT_FOR).into_owned();
    Regex::new(r"\boffset \w+").unwrap().replace_all(&rules, offset).into_owned()
}
