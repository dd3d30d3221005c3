//! Classifies a run from everything that it left. The exit code alone is not sufficient: 1 has many causes. Pure.

use muster_api::base::{describe_exit, signal_of_exit_code};
use muster_contract::puppet::PuppetRunClass;

use crate::summary::ProvisionRunSummary;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    Code(i32),
    Timeout,
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct ProvisionRunEvidence<'a> {
    pub(crate) exit: ProcessExit,
    /// The summary, if this run wrote one.
    pub(crate) summary: Option<&'a ProvisionRunSummary>,
    /// The reason for which the agent is disabled, if it is.
    pub(crate) disabled: Option<&'a str>,
    /// Whether another process holds Puppet's lock.
    pub(crate) is_locked: bool,
    /// Output of the run.
    pub(crate) text: &'a str,
}

/// Puppet's messages about an unusable certificate.
const CERTIFICATE_ERRORS: [&str; 5] = [
    "Couldn't fetch certificate from CA server",
    "has not been signed yet",
    "certificate verify failed",
    "does not match its private key",
    "SSL_connect",
];

/// Returns the class of the run, and a message if it did not succeed.
pub(crate) fn classify_run(evidence: &ProvisionRunEvidence<'_>) -> (PuppetRunClass, String) {
    let code = match evidence.exit {
        ProcessExit::Timeout => {
            let message = "the run exceeded its timeout and was stopped";
            return (PuppetRunClass::Timeout, message.to_owned());
        }
        ProcessExit::Cancelled => {
            let message = "the run was stopped: the call was cancelled";
            return (PuppetRunClass::Stopped, message.to_owned());
        }
        ProcessExit::Code(code) => code,
    };
    if signal_of_exit_code(code).is_some() {
        let message = format!("the run {}", describe_exit(code));
        return (PuppetRunClass::Stopped, message);
    }
    if code == 1 {
        return classify_exit_one(evidence);
    }
    let Some(summary) = evidence.summary else {
        // A run that gets SIGTERM exits with 0.
        let message = format!("the run exited with {code} and wrote no summary: it was stopped");
        return (PuppetRunClass::Stopped, message);
    };
    if !summary.was_applied() {
        let message = format!("no catalog was applied: {}", first_error_line(evidence.text));
        return (PuppetRunClass::NotApplied, message);
    }
    let (failures, changed) = (summary.failure_count(), summary.resource_count("changed") > 0);
    let total = summary.resource_count("total");
    match (code, failures) {
        (0 | 2, 0) if changed || code == 2 => (PuppetRunClass::Changed, String::new()),
        (0, 0) => (PuppetRunClass::Clean, String::new()),
        (0 | 2 | 4 | 6, _) => {
            let class = PuppetRunClass::from_counts(true, changed || code == 6);
            let message = format!(
                "{failures} of {total} resources failed (exit code {code}): {}",
                first_error_line(evidence.text)
            );
            (class, message)
        }
        _ => (
            PuppetRunClass::NotApplied,
            format!("Puppet exited with code {code}: {}", first_error_line(evidence.text)),
        ),
    }
}

/// Determines the cause of exit code 1.
fn classify_exit_one(evidence: &ProvisionRunEvidence<'_>) -> (PuppetRunClass, String) {
    let contains = |words: &str| evidence.text.contains(words);
    if let Some(reason) = evidence.disabled {
        let message = format!("Puppet's agent is disabled on this node (Reason: '{reason}')");
        return (PuppetRunClass::Disabled, message);
    }
    if evidence.is_locked || contains("already in progress") {
        let message = "another Puppet run is in progress on this node";
        return (PuppetRunClass::Locked, message.to_owned());
    }
    let reason = first_error_line(evidence.text);
    if CERTIFICATE_ERRORS.iter().any(|words| contains(words)) {
        let message = format!("Puppet has no usable certificate: {reason}");
        return (PuppetRunClass::NoCertificate, message);
    }
    (PuppetRunClass::NotApplied, format!("no catalog was applied (exit code 1): {reason}"))
}

/// The first error that Puppet printed, as one line. Skips errors about facts, which do not fail a run.
pub(crate) fn first_error_line(text: &str) -> String {
    const MAX_REASON_CHARS: usize = 300;
    let error = text.lines().find_map(|line| {
        let line = line.trim_start();
        let error =
            line.strip_prefix("Error: ").or_else(|| line.starts_with("Couldn't ").then_some(line));
        error.filter(|error| !error.starts_with("Facter:"))
    });
    let line = error.or_else(|| text.lines().rfind(|line| !line.trim().is_empty()));
    let line = line.unwrap_or("no output");
    line.chars().filter(|c| !c.is_control()).take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use muster_contract::puppet::PuppetRunClass;

    use super::{ProcessExit, ProvisionRunEvidence, classify_run};
    use crate::summary::ProvisionRunSummary;

    /// A summary in the format of Puppet 7.23.
    fn summary(changed: u64, failed: u64) -> ProvisionRunSummary {
        let text = format!(
            "---\nversion:\n  config: 1790000000\n  puppet: 7.23.0\napplication:\n  run_mode: agent\n  initial_environment: production\n  converged_environment: production\n\
             resources:\n  changed: {changed}\n  corrective_change: 0\n  failed: {failed}\n  failed_to_restart: 0\n  out_of_sync: 2\n  restarted: 0\n  scheduled: 0\n  skipped: 0\n  total: 9\n\
             time:\n  config_retrieval: 0.1\n  total: 1.2\n  last_run: 1790000001\nchanges:\n  total: {changed}\nevents:\n  failure: {failed}\n  success: {changed}\n  total: 2\n"
        );
        ProvisionRunSummary::parse(&text).unwrap()
    }

    /// A summary of a run without a catalog: every counter is 0.
    const EMPTY: &str = "---\nversion:\n  config:\n  puppet: 7.23.0\nresources:\n  changed: 0\n  failed: 0\n  failed_to_restart: 0\n  total: 0\nevents:\n  failure: 0\n  total: 0\ntime:\n  total: 1\n  last_run: 1790000001\n";

    fn class(
        exit: ProcessExit,
        summary: Option<&ProvisionRunSummary>,
        text: &str,
    ) -> PuppetRunClass {
        let evidence =
            ProvisionRunEvidence { exit, summary, disabled: None, is_locked: false, text };
        classify_run(&evidence).0
    }

    /// A9.6: exit codes 1, 4 and 6 are failures of different classes.
    #[test]
    fn a9_6_classifies_every_outcome() {
        let code = ProcessExit::Code;
        assert_eq!(class(code(0), Some(&summary(0, 0)), ""), PuppetRunClass::Clean);
        assert_eq!(class(code(2), Some(&summary(2, 0)), ""), PuppetRunClass::Changed);
        assert_eq!(class(code(4), Some(&summary(0, 1)), ""), PuppetRunClass::Failed);
        assert_eq!(class(code(6), Some(&summary(1, 1)), ""), PuppetRunClass::FailedChanged);
        // The exit code reports success, but the summary has failures.
        assert_eq!(class(code(0), Some(&summary(0, 1)), ""), PuppetRunClass::Failed);
        assert_eq!(
            class(code(1), None, "Error: Could not retrieve catalog from remote server"),
            PuppetRunClass::NotApplied
        );
        let empty = ProvisionRunSummary::parse(EMPTY).unwrap();
        for ended in [0, 1, 2, 4] {
            assert_eq!(class(code(ended), Some(&empty), ""), PuppetRunClass::NotApplied, "{ended}");
        }
        let text = "Error: Couldn't fetch certificate from CA server; you might still need to sign this agent's certificate (web1).";
        assert_eq!(class(code(1), None, text), PuppetRunClass::NoCertificate);
        let text =
            "Notice: Run of Puppet configuration client already in progress; skipping  (/x exists)";
        assert_eq!(class(code(1), None, text), PuppetRunClass::Locked);
        assert_eq!(class(code(0), None, "Notice: Caught TERM; exiting"), PuppetRunClass::Stopped);
        assert_eq!(class(code(137), None, ""), PuppetRunClass::Stopped);
        let empty = ProvisionRunSummary::parse(EMPTY).unwrap();
        // There is no signal 127.
        assert_eq!(class(code(255), Some(&empty), ""), PuppetRunClass::NotApplied);
        assert_eq!(class(ProcessExit::Timeout, None, ""), PuppetRunClass::Timeout);
        assert_eq!(class(ProcessExit::Cancelled, None, ""), PuppetRunClass::Stopped);
        assert_eq!(class(code(3), Some(&summary(0, 0)), ""), PuppetRunClass::NotApplied);
    }

    #[test]
    fn message_contains_the_reason_of_disabling() {
        let evidence = ProvisionRunEvidence {
            exit: ProcessExit::Code(1),
            summary: None,
            disabled: Some("hand hacking"),
            is_locked: true,
            text: "",
        };
        let (class, message) = classify_run(&evidence);
        assert_eq!(class, PuppetRunClass::Disabled);
        assert!(message.contains("hand hacking"), "{message}");
        for class in [
            PuppetRunClass::Failed,
            PuppetRunClass::FailedChanged,
            PuppetRunClass::Disabled,
            PuppetRunClass::Locked,
            PuppetRunClass::NotApplied,
        ] {
            assert!(!class.is_success());
        }
    }
}
