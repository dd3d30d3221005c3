//! Which state the states of all nodes make. Pure.

use std::str::FromStr;

use muster_contract::nrpe::CheckState;

use super::report::CheckReport;

/// A number of nodes, or a share of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NodeThreshold {
    /// A share in percent, above 0 and at most 100.
    Percent(f64),
    /// A number, at least 1.
    Count(usize),
}

/// How the state of a check follows from the states of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckRules {
    /// The state that UNKNOWN counts as.
    pub unknown_as: CheckState,
    /// WARNING from this number of nodes that are not OK.
    pub warning: Option<NodeThreshold>,
    /// CRITICAL from this number of nodes that are not OK.
    pub critical: Option<NodeThreshold>,
}

impl Default for CheckRules {
    fn default() -> Self {
        Self { unknown_as: CheckState::Unknown, warning: None, critical: None }
    }
}

impl FromStr for NodeThreshold {
    type Err = &'static str;

    /// Reads `10%` or `3`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = match text.strip_suffix('%') {
            Some(percent) => {
                let is_decimal = percent.chars().all(|c| c.is_ascii_digit() || c == '.');
                let percent = percent.parse().ok().filter(|_| is_decimal);
                percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(Self::Percent)
            }
            None => text.parse().ok().filter(|count| *count > 0).map(Self::Count),
        };
        read.ok_or("expected a number of nodes from 1, or a share such as 10%")
    }
}

impl NodeThreshold {
    /// Whether `count` of `total` nodes reach the threshold. No node at all never does.
    #[expect(clippy::cast_precision_loss, reason = "numbers of nodes are far below 2^52")]
    fn is_reached(self, count: usize, total: usize) -> bool {
        count > 0
            && match self {
                Self::Count(limit) => count >= limit,
                Self::Percent(percent) => count as f64 * 100.0 >= percent * total as f64,
            }
    }
}

impl CheckRules {
    /// The state of the whole check; UNKNOWN without nodes.
    ///
    /// Without thresholds the worst state of a node, in the order CRITICAL, UNKNOWN, WARNING, OK. With thresholds only the number of nodes that are not OK
    /// counts.
    pub fn overall_state(&self, report: &CheckReport) -> CheckState {
        let states = report.results.iter().map(|result| match result.state {
            CheckState::Unknown => self.unknown_as,
            state => state,
        });
        if report.results.is_empty() {
            return CheckState::Unknown;
        }
        if self.warning.is_none() && self.critical.is_none() {
            return states.max_by_key(|state| severity(*state)).unwrap_or(CheckState::Unknown);
        }
        let (count, total) =
            (states.filter(|state| *state != CheckState::Ok).count(), report.results.len());
        let is_reached = |threshold: Option<NodeThreshold>| {
            threshold.is_some_and(|threshold| threshold.is_reached(count, total))
        };
        if is_reached(self.critical) {
            CheckState::Critical
        } else if is_reached(self.warning) {
            CheckState::Warning
        } else {
            CheckState::Ok
        }
    }
}

/// CRITICAL is the worst; of the others, the one with the highest exit code.
fn severity(state: CheckState) -> u8 {
    match state {
        CheckState::Critical => u8::MAX,
        state => state.exit_code(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_contract::nrpe::CheckState;
    use muster_contract::nrpe::CheckState::{Critical, Ok, Unknown, Warning};

    use super::{CheckRules, NodeThreshold};
    use crate::check::report::{CheckReport, NodeCheckResult};

    fn report(states: &[CheckState]) -> CheckReport {
        let results = states.iter().enumerate().map(|(number, state)| NodeCheckResult {
            node: format!("n{number}").parse().unwrap(),
            state: *state,
            output: String::new(),
            long_output: String::new(),
            perfdata: String::new(),
            replied: true,
        });
        CheckReport { command: "x".to_owned(), results: results.collect(), took: Duration::ZERO }
    }

    #[test]
    fn worst_state_is_critical_then_unknown_then_warning() {
        for (states, expected) in [
            (vec![], Unknown),
            (vec![Ok, Ok], Ok),
            (vec![Ok, Warning], Warning),
            (vec![Warning, Unknown, Ok], Unknown),
            (vec![Unknown, Critical, Warning], Critical),
        ] {
            assert_eq!(
                CheckRules::default().overall_state(&report(&states)),
                expected,
                "{states:?}"
            );
        }
    }

    #[test]
    fn unknown_counts_as_another_state() {
        for (unknown_as, states, expected) in [
            (Ok, vec![Ok, Unknown], Ok),
            (Ok, vec![Warning, Unknown], Warning),
            (Warning, vec![Ok, Unknown], Warning),
            (Critical, vec![Warning, Unknown], Critical),
            // Without nodes there is nothing that could count as another state.
            (Ok, vec![], Unknown),
        ] {
            let rules = CheckRules { unknown_as, ..CheckRules::default() };
            assert_eq!(rules.overall_state(&report(&states)), expected, "{states:?}");
        }
    }

    #[test]
    fn thresholds_count_nodes_that_are_not_ok() {
        let rules = |warning: &str, critical: &str| CheckRules {
            warning: warning.parse().ok(),
            critical: critical.parse().ok(),
            ..CheckRules::default()
        };
        let ten = |bad: usize| {
            let mut states = vec![Ok; 10];
            states[..bad].fill(Critical);
            report(&states)
        };
        for (warning, critical, bad, expected) in [
            ("10%", "25%", 0, Ok),
            ("10%", "25%", 1, Warning),
            ("10%", "25%", 2, Warning),
            ("10%", "25%", 3, Critical),
            ("2", "4", 1, Ok),
            ("2", "4", 2, Warning),
            ("2", "4", 4, Critical),
            ("", "100%", 9, Ok),
            ("", "100%", 10, Critical),
            ("0.1%", "", 1, Warning),
        ] {
            let state = rules(warning, critical).overall_state(&ten(bad));
            assert_eq!(state, expected, "{warning} {critical} {bad}");
        }
        let lenient = CheckRules { unknown_as: Ok, ..rules("1", "") };
        assert_eq!(lenient.overall_state(&report(&[Unknown, Ok])), Ok);
    }

    #[test]
    fn thresholds_are_numbers_or_shares() {
        assert_eq!("3".parse(), Result::Ok(NodeThreshold::Count(3)));
        assert_eq!("12.5%".parse(), Result::Ok(NodeThreshold::Percent(12.5)));
        for text in ["", "0", "-1", "%", "0%", "101%", "x", "1e1%", "nan%", "1.5", "+5%"] {
            assert!(text.parse::<NodeThreshold>().is_err(), "{text}");
        }
    }
}
