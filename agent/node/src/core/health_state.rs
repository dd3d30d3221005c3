//! The problems that were found while loading, for the health findings of this daemon.

use std::collections::BTreeMap;
use std::sync::Mutex;

use muster_api::{FindingLevel, HealthFinding};

use crate::ground::shared::lock_mutex;

/// Maximum number of findings kept per check; more broken files add no information.
const MAX_FINDINGS_PER_CHECK: usize = 10;

/// The problems found while loading, by check; each load replaces those of the previous one.
#[derive(Debug, Default)]
pub struct HealthState(Mutex<BTreeMap<&'static str, Vec<HealthFinding>>>);

impl HealthState {
    /// Returns whether the findings differ from the last ones.
    pub fn set_findings(
        &self,
        check: &'static str,
        level: FindingLevel,
        messages: &[String],
    ) -> bool {
        let finding = |message: &String| HealthFinding { check, level, message: message.clone() };
        let mut findings: Vec<HealthFinding> =
            messages.iter().take(MAX_FINDINGS_PER_CHECK).map(finding).collect();
        if messages.len() > MAX_FINDINGS_PER_CHECK {
            findings
                .push(finding(&format!("and {} more", messages.len() - MAX_FINDINGS_PER_CHECK)));
        }
        let mut all = lock_mutex(&self.0);
        let is_change = all.get(check).is_none_or(|last| *last != findings);
        all.insert(check, findings);
        is_change
    }

    pub(crate) fn current_findings(&self) -> Vec<HealthFinding> {
        lock_mutex(&self.0).values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use muster_api::FindingLevel;

    use super::{HealthState, MAX_FINDINGS_PER_CHECK};

    #[test]
    fn new_findings_replace_earlier_ones_of_the_same_check() {
        let health = HealthState::default();
        let many: Vec<String> = (0..50).map(|number| format!("file {number}")).collect();
        health.set_findings("policies", FindingLevel::Error, &many);
        health.set_findings("facts", FindingLevel::Warning, &["facts.d/a: not JSON".to_owned()]);
        let standing = health.current_findings();
        assert_eq!(standing.len(), MAX_FINDINGS_PER_CHECK + 2);
        assert!(standing.iter().any(|finding| finding.message == "and 40 more"));
        health.set_findings("policies", FindingLevel::Error, &[]);
        assert_eq!(health.current_findings().len(), 1);
    }
}
