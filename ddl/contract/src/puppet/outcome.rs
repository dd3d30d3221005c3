//! Stage, outcome class and result of a Puppet run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PuppetRunState {
    /// Waits for other runs of the node.
    WaitingLock,
    /// Waits for a permit: the pool is full.
    WaitingPermit,
    /// The program was started, and has no catalog yet.
    Starting,
    /// Resources are being applied.
    Applying,
    /// Ended with a result.
    Finished,
    /// Was not started.
    Refused,
    /// Was started, and ended without a result.
    Aborted,
    /// Not given, or a stage of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl PuppetRunState {
    /// The name as in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingLock => "waiting_lock",
            Self::WaitingPermit => "waiting_permit",
            Self::Starting => "starting",
            Self::Applying => "applying",
            Self::Finished => "finished",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the run waits for its turn.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingLock | Self::WaitingPermit)
    }

    /// Whether the program was started and has not ended.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Starting | Self::Applying)
    }

    /// Whether the run neither waits nor goes on.
    pub fn is_over(self) -> bool {
        !self.is_waiting() && !self.is_running()
    }
}

/// How a run of Puppet ended: the outcome class of the agents `puppet` and `provision`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PuppetRunClass {
    /// All resources were in the described state.
    Clean,
    /// Resources were changed, and none failed.
    Changed,
    /// Nothing failed, but refreshes are still pending: the node is not in the described state.
    Pending,
    /// Resources failed, and none was changed.
    Failed,
    /// Resources failed, and others were changed.
    #[serde(rename = "failed+changed")]
    FailedChanged,
    /// There was no catalog to apply.
    CompileFailed,
    /// An old catalog was applied, because there was no new one.
    StaleCatalog,
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
    /// Only from `provision`: there was no catalog, or it was rejected.
    NotApplied,
    /// Only from `provision`: the certificate is not signed or not valid.
    NoCertificate,
    /// Only from `provision`: the run was stopped from outside.
    Stopped,
    /// A class of a later version.
    #[serde(untagged)]
    Other(String),
}

impl PuppetRunClass {
    /// The class of a completed run, by whether resources failed and whether any were changed.
    pub fn from_counts(has_failures: bool, has_changes: bool) -> Self {
        match (has_failures, has_changes) {
            (true, true) => Self::FailedChanged,
            (true, false) => Self::Failed,
            (false, true) => Self::Changed,
            (false, false) => Self::Clean,
        }
    }

    /// The name as in replies.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Clean => "clean",
            Self::Changed => "changed",
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::FailedChanged => "failed+changed",
            Self::CompileFailed => "compile_failed",
            Self::StaleCatalog => "stale_catalog",
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
            Self::NotApplied => "not_applied",
            Self::NoCertificate => "no_certificate",
            Self::Stopped => "stopped",
            Self::Other(name) => name,
        }
    }

    /// Whether nothing failed and nothing is pending.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Clean | Self::Changed)
    }
}

/// Result of a run: the outputs of `runonce`, and an entry of `runs`. Values that are not known yet are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetRunOutcome {
    /// The run id, a UUID.
    pub run: String,
    /// The stage.
    #[schemars(with = "String")]
    pub state: PuppetRunState,
    /// The outcome class, once the run has ended.
    #[schemars(with = "Option<String>")]
    pub class: Option<PuppetRunClass>,
    /// Why there is no result; equal to the class.
    #[schemars(with = "Option<String>")]
    pub reason: Option<PuppetRunClass>,
    /// The error as text.
    pub error: Option<String>,
    /// The result as one sentence.
    pub summary: Option<String>,
    /// Puppet's id of the run.
    pub transaction_uuid: Option<String>,
    /// Exit code of the program, or 128 + signal.
    pub exitcode: Option<i32>,
    /// Resources of the catalog.
    pub total: Option<u64>,
    /// Resources that were changed.
    pub changed: Option<u64>,
    /// Resources that failed.
    pub failed: Option<u64>,
    /// Resources whose refresh failed.
    pub failed_to_restart: Option<u64>,
    /// Resources that were skipped.
    pub skipped: Option<u64>,
    /// Resources that were not in the described state.
    pub out_of_sync: Option<u64>,
    /// Resources with a corrective change, which undid a change made outside of Puppet.
    pub corrective: Option<u64>,
    /// Version of the catalog's configuration.
    pub config_version: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// Whether a cached catalog was applied, and why.
    pub cached_catalog_status: Option<String>,
    /// Whether the run only reported what it would change.
    pub noop: Option<bool>,
    /// When the run was requested, in seconds since 1970.
    pub initiated_at: u64,
    /// Time waited for other runs of the node, in seconds.
    pub waited_lock: f64,
    /// Time waited for the permit, in seconds.
    pub waited_permit: f64,
    /// When the program was started, in milliseconds since 1970.
    pub started_at: Option<u64>,
    /// When the program ended, in milliseconds since 1970.
    pub finished_at: Option<u64>,
    /// Duration of the program, in seconds.
    pub duration: Option<f64>,
    /// The pool of the permit.
    pub pool: Option<String>,
    /// The number of the permit: larger than that of every earlier holder.
    pub fence: Option<u64>,
    /// Maximum number of runs of the pool at once while this run had its permit, as the node saw it: those that others started count too.
    pub pool_highest: Option<u64>,
    /// Resources whose pending refresh was executed.
    pub replayed: Vec<String>,
    /// Resources whose refresh is still pending.
    pub pending: Vec<String>,
    /// Warnings and errors of the run.
    pub log: Vec<String>,
    /// Whether an earlier request had started the run.
    pub attached: bool,
}

impl PuppetRunOutcome {
    /// Whether the run succeeded, or still may.
    pub fn is_success(&self) -> bool {
        match self.state {
            PuppetRunState::Finished => {
                let class = self.class.as_ref();
                class.is_some_and(PuppetRunClass::is_success)
            }
            state => !state.is_over(),
        }
    }

    /// Ends the run without a result.
    pub fn end_without_result(&mut self, class: PuppetRunClass, error: impl Into<String>) {
        self.state = if self.started_at.is_none()
            && matches!(
                class,
                PuppetRunClass::Disabled | PuppetRunClass::Locked | PuppetRunClass::NoPermit
            ) {
            PuppetRunState::Refused
        } else {
            PuppetRunState::Aborted
        };
        self.reason = Some(class.clone());
        self.class = Some(class);
        self.error = Some(error.into());
    }

    /// The result as one sentence.
    pub fn summary_sentence(&self) -> String {
        if let Some(error) = &self.error {
            return error.clone();
        }
        let count = |value: Option<u64>| value.unwrap_or_default();
        let total = count(self.total);
        let noun = if total == 1 { "resource" } else { "resources" };
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
            format!("no changes to {total} {noun} in {seconds:.1} seconds")
        } else {
            format!("{} of {total} {noun} in {seconds:.1} seconds", parts.join(", "))
        };
        if !self.pending.is_empty() {
            sentence = format!("{sentence}; refreshes still pending: {}", self.pending.join(", "));
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};

    #[test]
    fn run_is_refused_before_and_aborted_after_its_start() {
        let mut outcome = PuppetRunOutcome::default();
        outcome.end_without_result(PuppetRunClass::NoPermit, "no room");
        assert_eq!(
            (outcome.state, outcome.class),
            (PuppetRunState::Refused, Some(PuppetRunClass::NoPermit))
        );
        let mut outcome = PuppetRunOutcome { started_at: Some(1), ..PuppetRunOutcome::default() };
        outcome.end_without_result(PuppetRunClass::Fenced, "lost");
        assert_eq!((outcome.state, outcome.is_success()), (PuppetRunState::Aborted, false));
        assert_eq!(outcome.summary_sentence(), "lost");
    }

    #[test]
    fn summary_sentence_has_counts_duration_and_pending_refreshes() {
        let outcome = PuppetRunOutcome {
            state: PuppetRunState::Finished,
            class: Some(PuppetRunClass::FailedChanged),
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

    #[test]
    fn classes_have_their_wire_names() {
        const NAMES: &str = "clean changed pending failed failed+changed compile_failed stale_catalog disabled locked no_permit \
            killed timeout cancelled fenced daemon_restart not_started no_report not_applied no_certificate stopped";
        for name in NAMES.split_whitespace() {
            let class: PuppetRunClass = serde_json::from_value(name.into()).unwrap();
            assert!(!matches!(class, PuppetRunClass::Other(_)), "{name}");
            assert_eq!(class.as_str(), name);
            assert_eq!(serde_json::to_value(&class).unwrap(), name);
        }
    }
}
