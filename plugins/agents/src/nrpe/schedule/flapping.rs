//! Flap detection as in Nagios: the share of changes among the last results, newer ones weighted more. Pure.

use muster_contract::nrpe::CheckState;
use serde::{Deserialize, Serialize};

/// Results that count.
const HISTORY_LENGTH: usize = 21;
/// Weight of the oldest change.
const OLDEST_WEIGHT: f64 = 0.75;
/// Weight of the newest change.
const NEWEST_WEIGHT: f64 = 1.25;

/// Thresholds at which flapping starts and stops, in percent of change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlapThresholds {
    /// It ends at this value or below.
    pub low: f64,
    /// It begins at this value or above.
    pub high: f64,
}

impl Default for FlapThresholds {
    fn default() -> Self {
        Self { low: 20.0, high: 30.0 }
    }
}

/// The last hard states and soft recoveries, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlapHistory {
    states: Vec<CheckState>,
    is_flapping: bool,
}

impl FlapHistory {
    pub fn is_flapping(&self) -> bool {
        self.is_flapping
    }

    /// How much the state changes, in percent. Results before the first one count as OK.
    #[expect(clippy::cast_precision_loss, reason = "at most 21 results")]
    pub fn change_percent(&self) -> f64 {
        let missing = HISTORY_LENGTH.saturating_sub(self.states.len());
        let known = self.states.iter().copied();
        let states: Vec<CheckState> =
            std::iter::repeat_n(CheckState::Ok, missing).chain(known).collect();
        let slope = (NEWEST_WEIGHT - OLDEST_WEIGHT) / (HISTORY_LENGTH - 2) as f64;
        let changes = states.windows(2).enumerate().filter(|(_, pair)| pair.first() != pair.last());
        let weights = changes.map(|(index, _)| OLDEST_WEIGHT + slope * index as f64);
        weights.sum::<f64>() * 100.0 / (HISTORY_LENGTH - 1) as f64
    }

    /// Returns `true` if flapping starts, `false` if it stops, `None` otherwise.
    pub fn add(&mut self, state: CheckState, thresholds: Option<FlapThresholds>) -> Option<bool> {
        self.states.push(state);
        let excess = self.states.len().saturating_sub(HISTORY_LENGTH);
        self.states.drain(..excess);
        let percent = self.change_percent();
        let flaps = match thresholds {
            None => false,
            Some(FlapThresholds { low, .. }) if percent <= low => false,
            Some(FlapThresholds { high, .. }) if percent >= high => true,
            Some(_) => self.is_flapping,
        };
        let has_changed = flaps != self.is_flapping;
        self.is_flapping = flaps;
        has_changed.then_some(flaps)
    }
}

#[cfg(test)]
mod tests {
    use muster_contract::nrpe::CheckState::{self, Critical, Ok};
    use proptest::prelude::*;

    use super::{FlapHistory, FlapThresholds};

    fn history(states: &[CheckState]) -> FlapHistory {
        let mut history = FlapHistory::default();
        for state in states {
            history.add(*state, Some(FlapThresholds::default()));
        }
        history
    }

    #[test]
    fn percent_is_that_of_the_documentation() {
        assert!(history(&[]).change_percent() < f64::EPSILON);
        assert!(history(&[Ok; 30]).change_percent() < f64::EPSILON);
        // One change, the newest: 1.25 of 20.
        assert!((history(&[Ok, Ok, Critical]).change_percent() - 6.25).abs() < 1e-9);
        // The oldest change that counts: 0.75 of 20.
        let mut states = vec![Ok];
        states.extend([Critical; 20]);
        assert!((history(&states).change_percent() - 3.75).abs() < 1e-9);
        // It leaves the history with the next result.
        states.push(Critical);
        assert!(history(&states).change_percent() < f64::EPSILON);
        let alternating: Vec<CheckState> =
            (0..21).map(|n| if n % 2 == 0 { Ok } else { Critical }).collect();
        assert!((history(&alternating).change_percent() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn flapping_begins_at_the_high_and_ends_at_the_low_threshold() {
        let mut history = FlapHistory::default();
        let mut begun = None;
        for number in 0..21 {
            let state = if number % 2 == 0 { Critical } else { Ok };
            if history.add(state, Some(FlapThresholds::default())) == Some(true) {
                begun = Some((number, history.change_percent()));
                break;
            }
        }
        // Six changes of about 1.15 are 34.5 %; five are below 30 %.
        let (number, percent) = begun.unwrap();
        assert!(number == 5 && percent >= 30.0, "{number} {percent}");
        let ends =
            (0..21).find(|_| history.add(Ok, Some(FlapThresholds::default())) == Some(false));
        assert!(ends.is_some() && history.change_percent() <= 20.0, "{ends:?}");
        // Without detection a check never flaps.
        let mut history = FlapHistory::default();
        assert!(
            (0..42)
                .all(|n| { history.add(if n % 2 == 0 { Ok } else { Critical }, None).is_none() })
        );
    }

    proptest! {
        #[test]
        fn percent_is_bounded_and_decides(states in proptest::collection::vec(0_i64..4, 0..60), low in 0.0..50.0, width in 0.0..50.0) {
            let thresholds = FlapThresholds { low, high: low + width };
            let mut history = FlapHistory::default();
            for state in states {
                let before = history.is_flapping();
                let changed = history.add(CheckState::from_exit_code(state), Some(thresholds));
                let percent = history.change_percent();
                prop_assert!((0.0..=100.0 + 1e-9).contains(&percent));
                prop_assert_eq!(changed.is_some(), before != history.is_flapping());
                if percent <= thresholds.low { prop_assert!(!history.is_flapping()); }
                else if percent >= thresholds.high { prop_assert!(history.is_flapping()); }
                else { prop_assert_eq!(before, history.is_flapping()); }
            }
        }
    }
}
