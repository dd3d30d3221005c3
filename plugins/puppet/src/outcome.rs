//! State and result of a run: the reply of `runonce`, its progress messages, and the stored record.

use serde::{Deserialize, Serialize};

/// Stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PuppetRunState {
    /// Waits for other runs of the node.
    #[default]
    WaitingLock,
    /// Waits for a permit: the pool is full.
    WaitingPermit,
    /// The program was started, and has no catalog yet.
    Starting,
    /// Resources are being applied.
    Applying,
    /// Ended with a result.
    Finished,
    /// Was not begun.
    Refused,
    /// Was begun, and ended without a result.
    Aborted,
}

impl PuppetRunState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::WaitingLock => "waiting_lock",
            Self::WaitingPermit => "waiting_permit",
            Self::Starting => "starting",
            Self::Applying => "applying",
            Self::Finished => "finished",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
        }
    }

    pub(crate) fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingLock | Self::WaitingPermit)
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Refused | Self::Aborted)
    }
}

/// Why a run has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunFailureReason {
    /// Runs are disabled on the node.
    Disabled,
    /// Another run lasted longer than the maximum wait.
    Locked,
    /// The pool stayed full for the maximum wait.
    NoPermit,
    /// The program was killed from outside.
    Killed,
    /// The run exceeded its timeout.
    Timeout,
    /// The caller cancelled it.
    Cancelled,
    /// The permit was lost, so other nodes may run now.
    Fenced,
    /// The daemon restarted before the program was started.
    DaemonRestart,
    /// The program could not be started, or ended before it had a catalog.
    NotStarted,
    /// The program ended by itself and left no report.
    NoReport,
}

impl RunFailureReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Locked => "locked",
            Self::NoPermit => "no_permit",
            Self::Killed => "killed",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Fenced => "fenced",
            Self::DaemonRestart => "daemon_restart",
            Self::NotStarted => "not_started",
            Self::NoReport => "no_report",
        }
    }
}

/// What is known of a run. While it goes on, what is not known yet is nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct PuppetRunOutcome {
    pub(crate) run: String,
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) state: PuppetRunState,
    pub(crate) class: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) transaction_uuid: Option<String>,
    pub(crate) exitcode: Option<i32>,
    pub(crate) total: Option<u64>,
    pub(crate) changed: Option<u64>,
    pub(crate) failed: Option<u64>,
    pub(crate) failed_to_restart: Option<u64>,
    pub(crate) skipped: Option<u64>,
    pub(crate) out_of_sync: Option<u64>,
    pub(crate) corrective: Option<u64>,
    pub(crate) config_version: Option<String>,
    pub(crate) environment: Option<String>,
    pub(crate) cached_catalog_status: Option<String>,
    pub(crate) noop: Option<bool>,
    pub(crate) initiated_at: u64,
    pub(crate) waited_lock: f64,
    pub(crate) waited_permit: f64,
    pub(crate) started_at: Option<u64>,
    pub(crate) finished_at: Option<u64>,
    pub(crate) duration: Option<f64>,
    pub(crate) pool: Option<String>,
    pub(crate) fence: Option<u64>,
    pub(crate) replayed: Vec<String>,
    pub(crate) pending: Vec<String>,
    pub(crate) log: Vec<String>,
    pub(crate) attached: bool,
}

impl PuppetRunOutcome {
    /// Whether the run succeeded, or still may.
    pub(crate) fn is_success(&self) -> bool {
        match self.state {
            PuppetRunState::Finished => {
                matches!(self.class.as_deref(), Some("clean" | "changed" | "pending"))
            }
            PuppetRunState::Refused | PuppetRunState::Aborted => false,
            _ => true,
        }
    }

    /// Ends the run without a result.
    pub(crate) fn end_without_result(
        &mut self,
        reason: RunFailureReason,
        error: impl Into<String>,
    ) {
        self.state = if self.started_at.is_none()
            && matches!(
                reason,
                RunFailureReason::Disabled | RunFailureReason::Locked | RunFailureReason::NoPermit
            ) {
            PuppetRunState::Refused
        } else {
            PuppetRunState::Aborted
        };
        self.class = Some(reason.as_str().to_owned());
        self.reason = Some(reason.as_str().to_owned());
        self.error = Some(error.into());
    }

    /// The result as one sentence.
    pub(crate) fn summary_sentence(&self) -> String {
        if let Some(error) = &self.error {
            return error.clone();
        }
        let count = |value: Option<u64>| value.unwrap_or_default();
        let total = count(self.total);
        let seconds = self.duration.unwrap_or_default();
        let mut parts = Vec::new();
        if count(self.changed) > 0 {
            parts.push(format!("changed {}", count(self.changed)));
        }
        let failed = count(self.failed) + count(self.failed_to_restart);
        if failed > 0 {
            parts.push(format!("failed {failed}"));
        }
        if count(self.skipped) > 0 {
            parts.push(format!("skipped {}", count(self.skipped)));
        }
        let mut sentence = if parts.is_empty() {
            format!("no changes to {total} resources in {seconds:.1} seconds")
        } else {
            format!(
                "{} of {total} resources in {seconds:.1} seconds",
                parts.join(", ")
            )
        };
        if !self.pending.is_empty() {
            sentence = format!(
                "{sentence}; refreshes still pending: {}",
                self.pending.join(", ")
            );
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::{PuppetRunOutcome, PuppetRunState, RunFailureReason};

    #[test]
    fn a_run_that_never_began_was_refused_and_one_that_did_aborted() {
        let mut outcome = PuppetRunOutcome::default();
        outcome.end_without_result(RunFailureReason::NoPermit, "no room");
        assert_eq!(
            (outcome.state, outcome.class.as_deref()),
            (PuppetRunState::Refused, Some("no_permit"))
        );
        let mut outcome = PuppetRunOutcome {
            started_at: Some(1),
            ..PuppetRunOutcome::default()
        };
        outcome.end_without_result(RunFailureReason::Fenced, "lost");
        assert_eq!(
            (outcome.state, outcome.is_success()),
            (PuppetRunState::Aborted, false)
        );
        assert_eq!(outcome.summary_sentence(), "lost");
    }

    #[test]
    fn a_sentence_tells_what_counts() {
        let outcome = PuppetRunOutcome {
            state: PuppetRunState::Finished,
            class: Some("failed+changed".to_owned()),
            total: Some(9),
            changed: Some(2),
            failed: Some(1),
            failed_to_restart: Some(1),
            skipped: Some(3),
            duration: Some(1.25),
            pending: vec!["Exec[Y]".to_owned()],
            ..PuppetRunOutcome::default()
        };
        assert_eq!(
            outcome.summary_sentence(),
            "changed 2, failed 2, skipped 3 of 9 resources in 1.2 seconds; refreshes still pending: Exec[Y]"
        );
        assert!(!outcome.is_success());
    }
}
