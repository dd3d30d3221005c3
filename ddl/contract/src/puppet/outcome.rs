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
    /// The id of the run; a request with the same id returns this result.
    pub run: String,
    /// `waiting_lock`, `waiting_permit`, `starting`, `applying`, and finally `finished`, `refused` or `aborted`.
    #[schemars(with = "String")]
    pub state: PuppetRunState,
    /// The outcome: `clean`, `changed`, `failed`, `failed+changed`, `pending` (only pending refreshes remain), `compile_failed` (there was no
    /// catalog), `stale_catalog` (a cached catalog was applied because there was no new one), or, for a run without a result, the reason.
    #[schemars(with = "Option<String>")]
    pub class: Option<PuppetRunClass>,
    /// Why it was refused (`disabled`, `locked`, `no_permit`) or aborted (`killed`, `timeout`, `cancelled`, `fenced`, `daemon_restart`, `not_started`, `no_report`).
    #[schemars(with = "Option<String>")]
    pub reason: Option<PuppetRunClass>,
    /// The error in a sentence.
    pub error: Option<String>,
    /// The result in a sentence.
    pub summary: Option<String>,
    /// The id of Puppet's report.
    #[schemars(title = "Transaction")]
    pub transaction_uuid: Option<String>,
    /// Exit code of the program; it alone does not determine the outcome.
    pub exitcode: Option<i32>,
    /// Number of resources in the catalog.
    #[schemars(title = "Total Resources")]
    pub total: Option<u64>,
    /// Number of changed resources.
    #[schemars(title = "Changed Resources")]
    pub changed: Option<u64>,
    /// Number of failed resources.
    #[schemars(title = "Failed Resources")]
    pub failed: Option<u64>,
    /// Number of failed refreshes.
    #[schemars(title = "Failed Refreshes")]
    pub failed_to_restart: Option<u64>,
    /// Number of skipped resources.
    #[schemars(title = "Skipped Resources")]
    pub skipped: Option<u64>,
    /// Number of resources that were not in the described state.
    #[schemars(title = "Out Of Sync Resources")]
    pub out_of_sync: Option<u64>,
    /// Number of corrective changes, which undid changes made outside of Puppet.
    #[schemars(title = "Corrected Resources")]
    pub corrective: Option<u64>,
    /// The version of the catalog.
    pub config_version: Option<String>,
    /// The environment of the catalog.
    pub environment: Option<String>,
    /// `not_used`, `explicitly_requested` or `on_failure`.
    #[schemars(title = "Cached Catalog")]
    pub cached_catalog_status: Option<String>,
    /// Whether the run only reported what it would change.
    #[schemars(title = "Noop")]
    pub noop: Option<bool>,
    /// Time of the request, in seconds since the epoch.
    pub initiated_at: u64,
    /// Seconds waited for other runs of the node.
    #[schemars(title = "Waited For Lock")]
    pub waited_lock: f64,
    /// Seconds waited for a permit.
    #[schemars(title = "Waited For Permit")]
    pub waited_permit: f64,
    /// Start of the run, with lock and permit, in milliseconds since the epoch, by the node's clock.
    pub started_at: Option<u64>,
    /// End of the run, after lock and permit were released, in milliseconds since the epoch.
    pub finished_at: Option<u64>,
    /// Seconds between start and end.
    pub duration: Option<f64>,
    /// The pool of its permit.
    pub pool: Option<String>,
    /// The fence number of the permit; later permits of the pool have higher ones.
    pub fence: Option<u64>,
    /// Maximum number of runs of the pool at once while this run had its permit, as the node saw it; runs that others started count too.
    #[schemars(title = "Highest In Pool")]
    pub pool_highest: Option<u64>,
    /// Pending refreshes of earlier runs that this run executed.
    #[schemars(title = "Replayed Refreshes")]
    pub replayed: Vec<String>,
    /// Refreshes that are still pending.
    #[schemars(title = "Pending Refreshes")]
    pub pending: Vec<String>,
    /// Errors and warnings of the run, at most 50 lines.
    pub log: Vec<String>,
    /// Whether an earlier request started this run.
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
