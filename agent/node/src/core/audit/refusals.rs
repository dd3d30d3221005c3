//! Counts refusals of messages without an authenticated caller, so that a flood of them becomes a few lines.
//!
//! The first refusal of each reason is written immediately; those within [`WINDOW_DURATION`] after it become one line with their count. Pure: the
//! caller passes the time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_wire::Millis;

use super::record::{AuditVerdict, RefusalRecord};

/// How long refusals of one reason are counted before the count is written.
pub(super) const WINDOW_DURATION: Duration = Duration::from_secs(10);
const MAX_CLAIMED_CHARS: usize = 200;

/// The open windows, by reason. Reasons are constants of the program, so their number is bounded.
#[derive(Debug, Default)]
pub(super) struct RefusalWindows(BTreeMap<&'static str, RefusalWindow>);

#[derive(Debug)]
struct RefusalWindow {
    opened: Instant,
    unwritten: Option<RefusalRecord>,
}

impl RefusalWindows {
    /// Adds a refusal; returns the lines to write now.
    pub(super) fn add_refusal(
        &mut self,
        now: Instant,
        time: Millis,
        reason: &'static str,
        claimed: Option<&str>,
    ) -> Vec<RefusalRecord> {
        let mut records = self.close_due(now);
        let claimed = claimed.map(|text| text.chars().take(MAX_CLAIMED_CHARS).collect());
        let record =
            RefusalRecord { time, verdict: AuditVerdict::Refused, reason, claimed, count: 1 };
        if let Some(window) = self.0.get_mut(reason) {
            let before = window.unwritten.as_ref().map_or(0, |refusal| refusal.count);
            window.unwritten = Some(RefusalRecord { count: before + 1, ..record });
        } else {
            self.0.insert(reason, RefusalWindow { opened: now, unwritten: None });
            records.push(record);
        }
        records
    }

    /// Closes expired windows; returns their counts.
    pub(super) fn close_due(&mut self, now: Instant) -> Vec<RefusalRecord> {
        let mut records = Vec::new();
        self.0.retain(|_, window| {
            if now.saturating_duration_since(window.opened) < WINDOW_DURATION {
                return true;
            }
            // The window was not empty: open the next one now, because the flood may continue.
            window.opened = now;
            let unwritten = window.unwritten.take();
            let continues = unwritten.is_some();
            records.extend(unwritten);
            continues
        });
        records
    }

    /// When the next window ends, if one is open.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().map(|window| window.opened + WINDOW_DURATION).min()
    }

    pub(super) fn close_all(&mut self) -> Vec<RefusalRecord> {
        std::mem::take(&mut self.0).into_values().filter_map(|window| window.unwritten).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::{RefusalWindows, WINDOW_DURATION};

    #[test]
    fn many_refusals_write_one_line_at_once_and_one_per_window() {
        let start = Instant::now();
        let mut refusals = RefusalWindows::default();
        let mut lines = Vec::new();
        for ms in 0..25_000 {
            let now = start + Duration::from_millis(ms);
            lines.extend(refusals.add_refusal(now, ms, "signature", Some("eve")));
        }
        let counts: Vec<u64> = lines.iter().map(|line| line.count).collect();
        assert_eq!(counts, [1, 9_999, 10_000]);
        assert_eq!(refusals.close_all()[0].count, 5_000);
        assert_eq!(refusals.next_due(), None);
    }

    #[test]
    fn counts_each_reason_separately_and_reports_the_first_refusal_at_once() {
        let start = Instant::now();
        let mut refusals = RefusalWindows::default();
        assert_eq!(refusals.add_refusal(start, 1, "signature", None).len(), 1);
        assert_eq!(refusals.add_refusal(start, 2, "malformed", None).len(), 1);
        assert!(refusals.add_refusal(start, 3, "malformed", None).is_empty());
        assert_eq!(refusals.next_due(), Some(start + WINDOW_DURATION));
        let told = refusals.close_due(start + WINDOW_DURATION);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].reason, told[0].count, told[0].time), ("malformed", 1, 3));
        assert!(refusals.close_due(start + 2 * WINDOW_DURATION).is_empty());
        assert_eq!(refusals.next_due(), None);
    }

    #[test]
    fn truncates_the_claimed_subject() {
        let long = "ä".repeat(10_000);
        let told =
            RefusalWindows::default().add_refusal(Instant::now(), 0, "malformed", Some(&long));
        assert_eq!(told[0].claimed.as_ref().unwrap().chars().count(), 200);
    }

    proptest! {
        #[test]
        fn counts_each_refusal_exactly_once(steps in prop::collection::vec((0u64..15_000, any::<bool>()), 0..50)) {
            let mut now = Instant::now();
            let mut refusals = RefusalWindows::default();
            let mut lines = Vec::new();
            for (ms, signature) in &steps {
                now += Duration::from_millis(*ms);
                let reason = if *signature { "signature" } else { "malformed" };
                lines.extend(refusals.add_refusal(now, 0, reason, None));
            }
            lines.extend(refusals.close_all());
            prop_assert_eq!(lines.iter().map(|line| line.count).sum::<u64>(), steps.len() as u64);
        }
    }
}
