//! How a run of Puppet ended: decided from its report, its summary, its locks and its log; from the exit code alone never.
//!
//! A report is there only when the run came to its end; the counters of a run without a catalog are all zero; a cached catalog
//! hides that there was no new one. Pure.

use crate::files::report::Report;
use crate::files::summary::Summary;
use crate::outcome::{Outcome, Reason, State};

/// What is known when the program has ended.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// The report, if it is another one than before the run.
    pub(crate) report: Option<Report>,
    /// The summary, if it is of this run: all that there is where reports are switched off.
    pub(crate) summary: Option<Summary>,
    /// The exit code; 128 + signal; nothing when nobody saw the end.
    pub(crate) exit: Option<i32>,
    /// Why we ended it.
    pub(crate) stopped: Option<Reason>,
    /// Why runs are disabled now.
    pub(crate) disabled: Option<String>,
    /// What was logged as an error or a warning.
    pub(crate) log: Vec<String>,
    /// Whether the log said that another run goes on.
    pub(crate) was_locked: bool,
}

/// Most lines of the log that are told.
pub(crate) const LOG: usize = 50;

/// Puts the result down.
pub(crate) fn judge(outcome: &mut Outcome, evidence: &Evidence) {
    outcome.exitcode = evidence.exit;
    outcome.log = evidence.log.iter().take(LOG).cloned().collect();
    if let Some(reason) = evidence.stopped {
        if let Some(report) = &evidence.report {
            count(outcome, report);
        }
        outcome.give_up(reason, stopped(reason));
        return;
    }
    match (&evidence.report, &evidence.summary) {
        (Some(report), _) => {
            count(outcome, report);
            finish(outcome, report);
        }
        (None, Some(summary)) => by_counts(outcome, summary),
        (None, None) => missing(outcome, evidence),
    }
}

/// Without a report: what the counters say.
fn by_counts(outcome: &mut Outcome, summary: &Summary) {
    let counted = |name: &str| Some(summary.resources(name).unwrap_or_default());
    outcome.state = State::Finished;
    outcome.total = counted("total");
    outcome.changed = counted("changed");
    outcome.failed = counted("failed");
    outcome.failed_to_restart = counted("failed_to_restart");
    outcome.skipped = counted("skipped");
    outcome.out_of_sync = counted("out_of_sync");
    outcome.corrective = counted("corrective_change");
    outcome.config_version = summary.config_version();
    outcome.environment = summary.environment();
    let class = class_by_counts(summary);
    outcome.class = Some(class.to_owned());
    if class == "compile_failed" {
        outcome.error = Some("there was no catalog to apply".to_owned());
    }
}

/// The class of a run, by its summary alone.
pub(crate) fn class_by_counts(summary: &Summary) -> &'static str {
    let some = |name: &str| summary.resources(name).unwrap_or_default() > 0;
    match (summary.failed(), some("changed")) {
        _ if summary.failed_run() => "compile_failed",
        (true, true) => "failed+changed",
        (true, false) => "failed",
        (false, true) => "changed",
        (false, false) => "clean",
    }
}

pub(crate) fn stopped(reason: Reason) -> &'static str {
    match reason {
        Reason::Fenced => "the permit was lost, so the run was ended",
        Reason::Timeout => "the run took longer than [plugins.puppet] timeout, and was ended",
        Reason::Cancelled => "the request was taken back, so the run was ended",
        _ => "the run was ended",
    }
}

fn count(outcome: &mut Outcome, report: &Report) {
    let counted = |name: &str| Some(report.counted(name).unwrap_or_default());
    outcome.transaction_uuid = report.text("transaction_uuid");
    outcome.total = counted("total");
    outcome.changed = counted("changed");
    outcome.failed = counted("failed");
    outcome.failed_to_restart = counted("failed_to_restart");
    outcome.skipped = counted("skipped");
    outcome.out_of_sync = counted("out_of_sync");
    outcome.corrective = counted("corrective_change");
    outcome.config_version = report.text("configuration_version");
    outcome.environment = report.text("environment");
    outcome.cached_catalog_status = report.text("cached_catalog_status");
    outcome.noop = report.flag("noop");
}

fn finish(outcome: &mut Outcome, report: &Report) {
    outcome.state = State::Finished;
    let class = class_of(report);
    outcome.class = Some(class.to_owned());
    let first = || report.log(&["err", "alert", "emerg", "crit"]).into_iter();
    outcome.error = match class {
        "compile_failed" => Some(format!(
            "there was no catalog to apply{}",
            cause(
                first()
                    .find(|line| is_about_catalogs(line))
                    .or_else(|| first().next())
            )
        )),
        "stale_catalog" => Some(format!(
            "an old catalog was applied, because there was no new one{}",
            cause(first().find(|line| is_about_catalogs(line)))
        )),
        _ => None,
    };
    if outcome.log.is_empty() {
        outcome.log = report.log(&["err", "alert", "emerg", "crit", "warning"]);
        outcome.log.truncate(LOG);
    }
}

/// The class of a run, by its report.
pub(crate) fn class_of(report: &Report) -> &'static str {
    if report.failed_run() {
        let has_total = report.counted("total").unwrap_or_default() > 0;
        return if has_total {
            "failed"
        } else {
            "compile_failed"
        };
    }
    let some = |name: &str| report.counted(name).unwrap_or_default() > 0;
    let is_noop = report.flag("noop") == Some(true);
    match (report.failed(), some("changed") && !is_noop) {
        (true, true) => "failed+changed",
        (true, false) => "failed",
        _ if report.text("cached_catalog_status").as_deref() == Some("on_failure") => {
            "stale_catalog"
        }
        (false, true) => "changed",
        (false, false) => "clean",
    }
}

fn is_about_catalogs(line: &str) -> bool {
    line.contains("catalog")
}

fn cause(line: Option<String>) -> String {
    line.map(|line| format!(": {line}")).unwrap_or_default()
}

fn missing(outcome: &mut Outcome, evidence: &Evidence) {
    let first = || evidence.log.first().cloned();
    match (&evidence.disabled, evidence.exit) {
        (Some(reason), _) => {
            outcome.started_at = None;
            outcome.give_up(Reason::Disabled, disabled(reason));
        }
        _ if evidence.was_locked => {
            outcome.started_at = None;
            outcome.give_up(
                Reason::Locked,
                "another run of Puppet began before this one",
            );
        }
        (None, None) => outcome.give_up(
            Reason::Killed,
            "the program is gone, and left neither an exit code nor a report",
        ),
        (None, Some(code)) if code > 128 => outcome.give_up(
            Reason::Killed,
            format!("the program was ended by signal {}", code - 128),
        ),
        (None, Some(0)) => outcome.give_up(
            Reason::NoReport,
            format!("the program ended without a report{}", cause(first())),
        ),
        (None, Some(code)) => outcome.give_up(
            Reason::NotStarted,
            format!(
                "the program gave up with exit code {code} and left no report{}",
                cause(first())
            ),
        ),
    }
}

/// What is said of a node on which runs are disabled.
pub(crate) fn disabled(reason: &str) -> String {
    format!("Puppet's runs are disabled (Reason: '{reason}')")
}

#[cfg(test)]
mod tests {
    use super::{Evidence, judge};
    use crate::files::report::Report;
    use crate::files::summary::Summary;
    use crate::outcome::{Outcome, Reason};

    fn report(status: &str, total: u64, changed: u64, failed: u64, more: &str) -> Report {
        let text = format!(
            "--- !ruby/object:Puppet::Transaction::Report\nstatus: {status}\ntransaction_completed: {}\nconfiguration_version: 7\n\
             metrics:\n  resources:\n    name: resources\n    values:\n    - - total\n      - Total\n      - {total}\n\
             \x20   - - changed\n      - Changed\n      - {changed}\n    - - failed\n      - Failed\n      - {failed}\n{more}",
            total > 0
        );
        Report::parse(&text).unwrap()
    }

    fn class(evidence: &Evidence) -> String {
        let mut outcome = Outcome {
            started_at: Some(1),
            ..Outcome::default()
        };
        judge(&mut outcome, evidence);
        outcome.class.unwrap()
    }

    fn reported(report: Report) -> Evidence {
        Evidence {
            report: Some(report),
            exit: Some(0),
            ..Evidence::default()
        }
    }

    #[test]
    fn a2_5_the_class_comes_from_the_report_and_not_from_the_exit_code() {
        for (evidence, expected) in [
            (reported(report("unchanged", 7, 0, 0, "")), "clean"),
            (reported(report("changed", 7, 1, 0, "")), "changed"),
            (reported(report("failed", 7, 0, 1, "")), "failed"),
            (reported(report("failed", 7, 2, 1, "")), "failed+changed"),
            (reported(report("failed", 0, 0, 0, "")), "compile_failed"),
            (
                reported(report(
                    "unchanged",
                    7,
                    0,
                    0,
                    "cached_catalog_status: on_failure\n",
                )),
                "stale_catalog",
            ),
        ] {
            assert_eq!(class(&evidence), expected);
        }
    }

    #[test]
    fn a_run_without_a_report_is_told_by_what_is_known() {
        let none = |exit| Evidence {
            exit,
            ..Evidence::default()
        };
        assert_eq!(class(&none(None)), "killed");
        assert_eq!(class(&none(Some(137))), "killed");
        assert_eq!(class(&none(Some(0))), "no_report");
        assert_eq!(class(&none(Some(1))), "not_started");
        let summary = "---\nversion:\n  config: 7\nresources:\n  total: 3\n  failed: 1\n  changed: 1\ntime:\n  config_retrieval: 1\n  last_run: 5\n";
        let counted = Evidence {
            summary: Summary::parse(summary),
            ..none(Some(0))
        };
        assert_eq!(
            class(&counted),
            "failed+changed",
            "reports are switched off"
        );
        let disabled = Evidence {
            disabled: Some("hand hacking".to_owned()),
            ..none(Some(1))
        };
        assert_eq!(class(&disabled), "disabled");
        let locked = Evidence {
            was_locked: true,
            ..none(Some(1))
        };
        assert_eq!(class(&locked), "locked");
        let fenced = Evidence {
            stopped: Some(Reason::Fenced),
            ..reported(report("changed", 7, 1, 0, ""))
        };
        assert_eq!(class(&fenced), "fenced");
    }
}
