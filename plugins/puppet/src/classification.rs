//! Classifies the end of a Puppet run from its report, summary, locks and log; never from the exit code alone. Pure.
//!
//! Puppet writes a report only if the run completed. A run without a catalog has all counters at zero. A cached catalog hides that no new one was
//! received.

use muster_api::base::{describe_exit, signal_of_exit_code};
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};

use crate::files::report::PuppetRunReport;
use crate::files::summary::PuppetRunSummary;
use crate::session::StartFailure;

/// Evidence that is available when the program has ended.
#[derive(Debug, Default)]
pub(crate) struct RunEvidence {
    /// The report, if it differs from the one before the run.
    pub(crate) report: Option<PuppetRunReport>,
    /// The summary, if this run wrote it. It is the only evidence where reports are disabled.
    pub(crate) summary: Option<PuppetRunSummary>,
    /// The exit code, or 128 + signal; `None` when the exit was not observed.
    pub(crate) exit: Option<i32>,
    /// Why the program was stopped, if the daemon stopped it.
    pub(crate) stopped: Option<PuppetRunClass>,
    /// The reason for which runs are disabled now.
    pub(crate) disabled: Option<String>,
    /// Errors and warnings of the log.
    pub(crate) log: Vec<String>,
    /// Whether the log reported that another run is in progress.
    pub(crate) was_locked: bool,
    /// The last error of Puppet itself before it had a catalog.
    pub(crate) start_failure: Option<StartFailure>,
}

pub(crate) const MAX_LOG_LINES: usize = 50;

pub(crate) fn record_result(outcome: &mut PuppetRunOutcome, evidence: &RunEvidence) {
    outcome.exitcode = evidence.exit;
    outcome.log = evidence.log.iter().take(MAX_LOG_LINES).cloned().collect();
    if let Some(reason) = &evidence.stopped {
        if let Some(report) = &evidence.report {
            record_counts(outcome, report);
        }
        outcome.end_without_result(reason.clone(), stop_message(reason));
        return;
    }
    match (&evidence.report, &evidence.summary) {
        (Some(report), _) => {
            record_counts(outcome, report);
            record_report(outcome, report);
        }
        (None, Some(summary)) => record_summary(outcome, summary),
        (None, None) => record_missing_report(outcome, evidence),
    }
}

/// Result without a report, from the summary's counters.
fn record_summary(outcome: &mut PuppetRunOutcome, summary: &PuppetRunSummary) {
    outcome.state = PuppetRunState::Finished;
    set_counts(outcome, |name| summary.resource_count(name));
    outcome.config_version = summary.config_version();
    outcome.environment = summary.environment();
    let class = class_by_counts(summary);
    if class == PuppetRunClass::CompileFailed {
        outcome.error = Some("Puppet had no catalog to apply".to_owned());
    }
    outcome.class = Some(class);
}

/// Class of a run, from its summary alone.
pub(crate) fn class_by_counts(summary: &PuppetRunSummary) -> PuppetRunClass {
    if summary.is_failed_run() {
        return PuppetRunClass::CompileFailed;
    }
    let changed = summary.resource_count("changed").unwrap_or_default();
    PuppetRunClass::from_counts(summary.has_failures(), changed > 0)
}

pub(crate) fn stop_message(reason: &PuppetRunClass) -> &'static str {
    match reason {
        PuppetRunClass::Fenced => "the run was stopped because its permit was lost",
        PuppetRunClass::Timeout => {
            "the run was stopped because it took longer than [plugins.puppet] timeout"
        }
        PuppetRunClass::Cancelled => "the run was stopped because the request was cancelled",
        _ => "the run was stopped",
    }
}

fn record_counts(outcome: &mut PuppetRunOutcome, report: &PuppetRunReport) {
    set_counts(outcome, |name| report.resource_count(name));
    outcome.transaction_uuid = report.text_field("transaction_uuid");
    outcome.config_version = report.text_field("configuration_version");
    outcome.environment = report.text_field("environment");
    outcome.cached_catalog_status = report.text_field("cached_catalog_status");
    outcome.noop = report.flag_field("noop");
}

/// Sets the counters of resources; a missing one is 0.
fn set_counts(outcome: &mut PuppetRunOutcome, resource_count: impl Fn(&str) -> Option<u64>) {
    let count = |name: &str| Some(resource_count(name).unwrap_or_default());
    outcome.total = count("total");
    outcome.changed = count("changed");
    outcome.failed = count("failed");
    outcome.failed_to_restart = count("failed_to_restart");
    outcome.skipped = count("skipped");
    outcome.out_of_sync = count("out_of_sync");
    outcome.corrective = count("corrective_change");
}

fn record_report(outcome: &mut PuppetRunOutcome, report: &PuppetRunReport) {
    outcome.state = PuppetRunState::Finished;
    let class = class_by_report(report);
    let errors = || report.log_lines(&["err", "alert", "emerg", "crit"]).into_iter();
    outcome.error = match class {
        PuppetRunClass::CompileFailed => Some(format!(
            "Puppet had no catalog to apply{}",
            format_cause(errors().find(|line| mentions_catalog(line)).or_else(|| errors().next()))
        )),
        PuppetRunClass::StaleCatalog => Some(format!(
            "Puppet applied its cached catalog because it received no new one{}",
            format_cause(errors().find(|line| mentions_catalog(line)))
        )),
        _ => None,
    };
    outcome.class = Some(class);
    if outcome.log.is_empty() {
        outcome.log = report.log_lines(&["err", "alert", "emerg", "crit", "warning"]);
        outcome.log.truncate(MAX_LOG_LINES);
    }
}

pub(crate) fn class_by_report(report: &PuppetRunReport) -> PuppetRunClass {
    if report.is_failed_run() {
        let has_total = report.resource_count("total").unwrap_or_default() > 0;
        return if has_total { PuppetRunClass::Failed } else { PuppetRunClass::CompileFailed };
    }
    let has_failures = report.has_failures();
    let cached = report.text_field("cached_catalog_status");
    if !has_failures && cached.as_deref() == Some("on_failure") {
        return PuppetRunClass::StaleCatalog;
    }
    let changed = report.resource_count("changed").unwrap_or_default();
    let is_noop = report.flag_field("noop") == Some(true);
    PuppetRunClass::from_counts(has_failures, changed > 0 && !is_noop)
}

fn mentions_catalog(line: &str) -> bool {
    line.contains("catalog")
}

fn format_cause(line: Option<String>) -> String {
    line.map(|line| format!(": {line}")).unwrap_or_default()
}

fn record_missing_report(outcome: &mut PuppetRunOutcome, evidence: &RunEvidence) {
    let start_failure = evidence.start_failure.as_ref();
    let first_line = || {
        let failure = start_failure.map(|failure| failure.message.clone());
        format_cause(failure.or_else(|| evidence.log.first().cloned()))
    };
    if evidence.disabled.is_some() || evidence.was_locked {
        outcome.started_at = None;
    } else if let (Some(1..=128), Some(failure)) =
        (evidence.exit, start_failure.filter(|failure| failure.is_about_catalog()))
    {
        // `puppet apply` writes no report when it cannot compile or read the catalog.
        outcome.state = PuppetRunState::Finished;
        outcome.class = Some(PuppetRunClass::CompileFailed);
        outcome.error = Some(format!("Puppet had no catalog to apply: {}", failure.message));
        return;
    }
    let (class, error) = match (&evidence.disabled, evidence.exit) {
        (Some(reason), _) => (PuppetRunClass::Disabled, disabled_message(reason)),
        _ if evidence.was_locked => {
            (PuppetRunClass::Locked, "another Puppet run started before this one".to_owned())
        }
        (None, None) => {
            let error = "the Puppet process is gone and left neither an exit code nor a report";
            (PuppetRunClass::Killed, error.to_owned())
        }
        (None, Some(code)) if signal_of_exit_code(code).is_some() => {
            (PuppetRunClass::Killed, format!("Puppet {}", describe_exit(code)))
        }
        (None, Some(0)) => (
            PuppetRunClass::NoReport,
            format!("Puppet ended with code 0 but wrote no report{}", first_line()),
        ),
        (None, Some(code)) => (
            PuppetRunClass::NotStarted,
            format!("Puppet ended with code {code} and wrote no report{}", first_line()),
        ),
    };
    outcome.end_without_result(class, error);
}

pub(crate) fn disabled_message(reason: &str) -> String {
    format!("Puppet's runs are disabled (Reason: '{reason}')")
}

#[cfg(test)]
mod tests {
    use super::{RunEvidence, record_result};
    use crate::files::report::PuppetRunReport;
    use crate::files::summary::PuppetRunSummary;
    use crate::session::StartFailure;
    use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome};

    fn report(status: &str, total: u64, changed: u64, failed: u64, more: &str) -> PuppetRunReport {
        let text = format!(
            "--- !ruby/object:Puppet::Transaction::Report\nstatus: {status}\ntransaction_completed: {}\nconfiguration_version: 7\n\
             metrics:\n  resources:\n    name: resources\n    values:\n    - - total\n      - Total\n      - {total}\n\
             \x20   - - changed\n      - Changed\n      - {changed}\n    - - failed\n      - Failed\n      - {failed}\n{more}",
            total > 0
        );
        PuppetRunReport::parse(&text).unwrap()
    }

    fn class(evidence: &RunEvidence) -> String {
        let mut outcome = PuppetRunOutcome { started_at: Some(1), ..PuppetRunOutcome::default() };
        record_result(&mut outcome, evidence);
        outcome.class.unwrap().as_str().to_owned()
    }

    #[test]
    fn parse_error_without_a_report_is_a_failed_compilation() {
        let failed = |message: &str, is_located| {
            let message = message.to_owned();
            RunEvidence {
                exit: Some(1),
                log: vec!["err: Facter: no cloud".to_owned()],
                start_failure: Some(StartFailure { message, is_located }),
                ..RunEvidence::default()
            }
        };
        let message = "Syntax error at 'content' (file: /site.pp, line: 3, column: 3)";
        let mut outcome = PuppetRunOutcome { started_at: Some(1), ..PuppetRunOutcome::default() };
        record_result(&mut outcome, &failed(message, true));
        assert_eq!(outcome.class, Some(PuppetRunClass::CompileFailed));
        assert_eq!(
            outcome.error.unwrap(),
            format!("Puppet had no catalog to apply: {message}"),
            "Facter's error is not the cause"
        );
        assert_eq!(
            class(&failed("Could not deserialize catalog from json", false)),
            "compile_failed"
        );
        assert_eq!(
            class(&failed("Could not initialize global default settings", false)),
            "not_started"
        );
    }

    fn reported(report: PuppetRunReport) -> RunEvidence {
        RunEvidence { report: Some(report), exit: Some(0), ..RunEvidence::default() }
    }

    #[test]
    fn a2_5_class_comes_from_the_report_instead_of_the_exit_code() {
        for (evidence, expected) in [
            (reported(report("unchanged", 7, 0, 0, "")), "clean"),
            (reported(report("changed", 7, 1, 0, "")), "changed"),
            (reported(report("failed", 7, 0, 1, "")), "failed"),
            (reported(report("failed", 7, 2, 1, "")), "failed+changed"),
            (reported(report("failed", 0, 0, 0, "")), "compile_failed"),
            (
                reported(report("unchanged", 7, 0, 0, "cached_catalog_status: on_failure\n")),
                "stale_catalog",
            ),
        ] {
            assert_eq!(class(&evidence), expected);
        }
    }

    #[test]
    fn run_without_a_report_is_classified_by_other_evidence() {
        let none = |exit| RunEvidence { exit, ..RunEvidence::default() };
        assert_eq!(class(&none(None)), "killed");
        assert_eq!(class(&none(Some(137))), "killed");
        assert_eq!(class(&none(Some(255))), "not_started", "there is no signal 127");
        assert_eq!(class(&none(Some(0))), "no_report");
        assert_eq!(class(&none(Some(1))), "not_started");
        let summary = "---\nversion:\n  config: 7\nresources:\n  total: 3\n  failed: 1\n  changed: 1\ntime:\n  config_retrieval: 1\n  last_run: 5\n";
        let counted = RunEvidence { summary: PuppetRunSummary::parse(summary), ..none(Some(0)) };
        assert_eq!(class(&counted), "failed+changed", "reports are switched off");
        let disabled = RunEvidence { disabled: Some("hand hacking".to_owned()), ..none(Some(1)) };
        assert_eq!(class(&disabled), "disabled");
        let locked = RunEvidence { was_locked: true, ..none(Some(1)) };
        assert_eq!(class(&locked), "locked");
        let fenced = RunEvidence {
            stopped: Some(PuppetRunClass::Fenced),
            ..reported(report("changed", 7, 1, 0, ""))
        };
        assert_eq!(class(&fenced), "fenced");
    }
}
