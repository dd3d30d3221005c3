//! Compares a run with an earlier one. Only ratios are compared, not times, because ratios depend less on the machine
//! and its load. Pure.
//!
//! The earlier figures are in `baseline.json`, each with the tolerance that the bench states for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::{Figure, Table, format_number};

/// The figures of an earlier run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// The day of that run.
    pub(crate) date: String,
    /// The machine, as text.
    pub(crate) machine: String,
    /// The figures by name.
    pub(crate) figures: BTreeMap<String, BaselineFigure>,
}

/// One figure of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BaselineFigure {
    pub(crate) ratio: f64,
    /// The part by which a later ratio may be larger.
    pub(crate) tolerance: f64,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RatioVerdict {
    /// Within its tolerance.
    Holds,
    /// Smaller by more than the tolerance: the baseline can be renewed.
    Better,
    /// Larger than the tolerance permits.
    Worse,
    /// Not in the baseline.
    New,
    /// In the baseline, but not measured now.
    Missing,
}

/// A figure and its earlier value.
#[derive(Debug, PartialEq)]
pub(crate) struct ComparedFigure {
    pub(crate) name: String,
    pub(crate) before: Option<BaselineFigure>,
    pub(crate) now: Option<f64>,
    pub(crate) verdict: RatioVerdict,
}

impl Baseline {
    /// Builds a baseline from the figures that have a tolerance.
    pub(crate) fn from_figures<'a>(
        date: String,
        machine: String,
        figures: impl Iterator<Item = &'a Figure>,
    ) -> Self {
        let baseline_figure = figures.filter_map(|figure| {
            let tolerance = figure.tolerance?;
            let ratio = (figure.value * 1000.0).round() / 1000.0;
            Some((figure.name.clone(), BaselineFigure { ratio, tolerance }))
        });
        Self { date, machine, figures: baseline_figure.collect() }
    }

    /// Compares all figures that occur in either run, by name.
    pub(crate) fn compare<'a>(
        &self,
        figures: impl Iterator<Item = &'a Figure>,
    ) -> Vec<ComparedFigure> {
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
            ComparedFigure { name: name.to_owned(), before, now, verdict: verdict(before, now) }
        };
        names.into_iter().map(line).collect()
    }
}

fn verdict(before: Option<BaselineFigure>, now: Option<f64>) -> RatioVerdict {
    match (before, now) {
        (Some(baseline_figure), Some(now))
            if now > baseline_figure.ratio * (1.0 + baseline_figure.tolerance) =>
        {
            RatioVerdict::Worse
        }
        // NaN counts as a regression.
        (Some(_), Some(now)) if now.is_nan() => RatioVerdict::Worse,
        (Some(baseline_figure), Some(now))
            if now < baseline_figure.ratio * (1.0 - baseline_figure.tolerance) =>
        {
            RatioVerdict::Better
        }
        (Some(_), Some(_)) => RatioVerdict::Holds,
        (Some(_), None) => RatioVerdict::Missing,
        (None, _) => RatioVerdict::New,
    }
}

impl RatioVerdict {
    /// Whether the result fails the gate.
    pub(crate) fn is_regression(self) -> bool {
        matches!(self, Self::Worse | Self::Missing)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::New => "new",
            Self::Missing => "MISSING",
        }
    }
}

/// The comparison as a table.
pub(crate) fn comparison_table(lines: &[ComparedFigure]) -> Table {
    let mut table = Table::new(["ratio", "before", "may be", "now", "verdict"]);
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_number);
    for line in lines {
        let limit = line
            .before
            .map(|baseline_figure| baseline_figure.ratio * (1.0 + baseline_figure.tolerance));
        table.rows.push(vec![
            line.name.clone(),
            shown(line.before.map(|baseline_figure| baseline_figure.ratio)),
            shown(limit),
            shown(line.now),
            line.verdict.as_str().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{Baseline, RatioVerdict};
    use crate::report::Figure;

    fn baseline(figures: &[Figure]) -> Baseline {
        Baseline::from_figures("2026-11-22".to_owned(), "a machine".to_owned(), figures.iter())
    }

    #[test]
    fn only_figures_beyond_their_tolerance_are_worse() {
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
        let verdicts: Vec<(&str, RatioVerdict)> =
            lines.iter().map(|line| (line.name.as_str(), line.verdict)).collect();
        let expected = [
            ("a", RatioVerdict::Worse),
            // The tolerance of the baseline applies.
            ("b", RatioVerdict::Holds),
            ("c", RatioVerdict::Better),
            ("d", RatioVerdict::Worse),
            ("fresh", RatioVerdict::New),
            ("gone", RatioVerdict::Missing),
        ];
        assert_eq!(verdicts, expected);
        let regressions: Vec<bool> =
            lines.iter().map(|line| line.verdict.is_regression()).collect();
        assert_eq!(regressions, [true, false, false, true, false, true]);
    }

    #[test]
    fn baseline_survives_serialization() {
        let before = baseline(&[Figure::ratio("a", 1.234_56).within(0.25)]);
        let text = serde_json::to_string(&before).unwrap();
        let read: Baseline = serde_json::from_str(&text).unwrap();
        assert_eq!(read.figures, before.figures);
        assert!((read.figures["a"].ratio - 1.235).abs() < f64::EPSILON);
    }
}
