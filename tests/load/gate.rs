//! Holds a run against an earlier one. Only ratios are compared, never times: the hour and the machine cancel out of them. Pure.
//!
//! The earlier figures are in `baseline.json`, each with the tolerance that the bench states for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::{Figure, Table, number};

/// What an earlier run has measured.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// The day of that run.
    pub(crate) format_date: String,
    /// On what, for people.
    pub(crate) machine: String,
    /// By name.
    pub(crate) figures: BTreeMap<String, Kept>,
}

/// One figure of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) ratio: f64,
    /// By which part of itself a later one may be larger.
    pub(crate) tolerance: f64,
}

/// How a figure compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within its tolerance.
    Holds,
    /// Smaller by more than the tolerance: the baseline may be renewed.
    Better,
    /// Larger than the tolerance allows.
    Worse,
    /// Not in the baseline.
    New,
    /// In the baseline, and not measured now.
    Missing,
}

/// A figure beside its earlier self.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) before: Option<Kept>,
    pub(crate) now: Option<f64>,
    pub(crate) verdict: Verdict,
}

impl Baseline {
    /// What is kept of these figures.
    pub(crate) fn of<'a>(
        format_date: String,
        machine: String,
        figures: impl Iterator<Item = &'a Figure>,
    ) -> Self {
        let kept = figures.filter_map(|figure| {
            let tolerance = figure.tolerance?;
            let ratio = (figure.value * 1000.0).round() / 1000.0;
            Some((figure.name.clone(), Kept { ratio, tolerance }))
        });
        Self { format_date, machine, figures: kept.collect() }
    }

    /// Every figure that either of the two has, by name.
    pub(crate) fn compare<'a>(&self, figures: impl Iterator<Item = &'a Figure>) -> Vec<Line> {
        let now: BTreeMap<&str, f64> = figures
            .filter(|figure| figure.tolerance.is_some())
            .map(|figure| (figure.name.as_str(), figure.value))
            .collect();
        let mut names: Vec<&str> = self.figures.keys().map(String::as_str).collect();
        names.extend(now.keys());
        names.sort_unstable();
        names.dedup();
        let line = |name: &str| {
            let (before, now) = (self.figures.get(name).copied(), now.get(name).copied());
            Line { name: name.to_owned(), before, now, verdict: verdict(before, now) }
        };
        names.into_iter().map(line).collect()
    }
}

fn verdict(before: Option<Kept>, now: Option<f64>) -> Verdict {
    match (before, now) {
        (Some(kept), Some(now)) if now > kept.ratio * (1.0 + kept.tolerance) => Verdict::Worse,
        // What is no number is not good.
        (Some(_), Some(now)) if now.is_nan() => Verdict::Worse,
        (Some(kept), Some(now)) if now < kept.ratio * (1.0 - kept.tolerance) => Verdict::Better,
        (Some(_), Some(_)) => Verdict::Holds,
        (Some(_), None) => Verdict::Missing,
        (None, _) => Verdict::New,
    }
}

impl Verdict {
    /// Whether the gate is shut for it.
    pub(crate) fn is_regression(self) -> bool {
        matches!(self, Self::Worse | Self::Missing)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::New => "new",
            Self::Missing => "MISSING",
        }
    }
}

/// The comparison for people.
pub(crate) fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(["ratio", "before", "may be", "now", "verdict"]);
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    for line in lines {
        let limit = line.before.map(|kept| kept.ratio * (1.0 + kept.tolerance));
        table.rows.push(vec![
            line.name.clone(),
            shown(line.before.map(|kept| kept.ratio)),
            shown(limit),
            shown(line.now),
            line.verdict.word().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Verdict};
    use crate::report::Figure;

    fn baseline(figures: &[Figure]) -> Baseline {
        Baseline::of("2026-11-22".to_owned(), "a machine".to_owned(), figures.iter())
    }

    #[test]
    fn only_what_exceeds_its_own_tolerance_is_worse() {
        let before = [
            Figure::ratio("a", 2.0).within(0.1),
            Figure::ratio("b", 2.0).within(0.5),
            Figure::ratio("c", 2.0).within(0.1),
            Figure::ratio("d", 2.0).within(0.1),
            Figure::ratio("gone", 1.0).within(0.1),
            Figure::ratio("never compared", 1.0),
        ];
        let now = [
            Figure::ratio("a", 2.3).within(0.1),
            Figure::ratio("b", 2.3).within(0.1),
            Figure::ratio("c", 1.7).within(0.1),
            Figure::ratio("d", f64::NAN).within(0.1),
            Figure::ratio("fresh", 9.0).within(0.1),
            Figure::ratio("never compared", 9.0),
        ];
        let lines = baseline(&before).compare(now.iter());
        let verdicts: Vec<(&str, Verdict)> =
            lines.iter().map(|line| (line.name.as_str(), line.verdict)).collect();
        let expected = [
            ("a", Verdict::Worse),
            // The tolerance in force is the one that was committed.
            ("b", Verdict::Holds),
            ("c", Verdict::Better),
            ("d", Verdict::Worse),
            ("fresh", Verdict::New),
            ("gone", Verdict::Missing),
        ];
        assert_eq!(verdicts, expected);
        let shut: Vec<bool> = lines.iter().map(|line| line.verdict.is_regression()).collect();
        assert_eq!(shut, [true, false, false, true, false, true]);
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let before = baseline(&[Figure::ratio("a", 1.234_56).within(0.25)]);
        let text = serde_json::to_string(&before).unwrap();
        let read: Baseline = serde_json::from_str(&text).unwrap();
        assert_eq!(read.figures, before.figures);
        assert!((read.figures["a"].ratio - 1.235).abs() < f64::EPSILON);
    }
}
