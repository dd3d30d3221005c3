//! Follows runs to their end: the run that asked, and the run that was asked for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::base::{duration_millis, encode_hex};
use muster_api::system::System;
use muster_api::wire::Millis;
use muster_api::wire::history::RunCause;
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome};

use crate::{ReportedRun, RunActivity, RunStart};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::again::accept::is_alive;
use crate::again::driver::RunDriver;
use crate::again::monitor::{JournalError, MonitorInner};
use crate::again::plan::event::{AgainEvent, CausingRun, EndedRun, RunInProgress, SuppressReason};

/// Time between two looks at a run.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause after a run that got no lock or no permit, or could not be started.
const RETRY_PAUSE: Duration = Duration::from_mins(1);
/// How much older than the request a report may be, because the clock of waits and the wall clock differ.
const REPORT_MARGIN: Duration = Duration::from_millis(500);

/// Longest path of a resource that asks for runs, in characters. The report is written by Puppet's user, and the journal must stay small.
const MAX_SOURCE_CHARS: usize = 1024;

impl RunDriver {
    /// Waits for the end of the run that asked.
    pub(crate) async fn await_run_end(
        &mut self,
        activity: RunActivity,
    ) -> Result<Duration, JournalError> {
        let pending = self.inner.with_state(|state| {
            state.pending.as_ref().map(|pending| (pending.waits_for, pending.asked_at))
        });
        let Some((Some(run), asked_at)) = pending.flatten() else { return Ok(POLL_INTERVAL) };
        if !activity.is_idle() || run.process.is_some_and(is_alive) {
            return Ok(POLL_INTERVAL);
        }
        let (inner, system) = (Arc::clone(&self.inner), Arc::clone(&self.system));
        let read = tokio::task::spawn_blocking(move || {
            let asked_at = SystemTime::UNIX_EPOCH + Duration::from_millis(asked_at);
            let ended_at = find_run_end(&inner, &*system, asked_at);
            EndedRun { ended_at, ..read_ended_run(&inner, &*system, run, asked_at) }
        });
        let run = read.await.unwrap_or_default();
        self.record_end(run).await?;
        Ok(Duration::ZERO)
    }

    /// Begins a run; a second time with the same id it is the same run.
    pub(crate) async fn begin_run(&self, run: Uuid) -> Result<(), JournalError> {
        let started = self.inner.with_state(|state| state.running.clone()).flatten();
        let Some(started) = started.filter(|started| started.run == run) else { return Ok(()) };
        let caller = format!("again: {}", started.pending.requesters());
        let start = RunStart {
            id: run,
            request: started.pending.id,
            caller: caller.clone(),
            cause: RunCause { caller: Some(caller), ..RunCause::default() },
            host: self.host.clone(),
        };
        let (inner, system) = (Arc::clone(&self.inner), Arc::clone(&self.system));
        // The plugin starts a task for the run, which needs the runtime's context.
        let runtime = tokio::runtime::Handle::current();
        let begun = tokio::task::spawn_blocking(move || {
            let _context = runtime.enter();
            inner.puppet.begin_run(start, &system)
        });
        begun.await.unwrap_or(Ok(())).map_err(JournalError::from)
    }

    pub(crate) async fn follow_run(&mut self, run: Uuid) -> Result<Duration, JournalError> {
        let (inner, system) = (Arc::clone(&self.inner), Arc::clone(&self.system));
        let found = tokio::task::spawn_blocking(move || inner.puppet.find_outcome(run)).await;
        let Some(outcome) = found.ok().flatten() else {
            // A daemon was killed between the two writes.
            self.begin_run(run).await?;
            return Ok(POLL_INTERVAL);
        };
        let at = self.inner.now();
        if !outcome.state.is_over() {
            if outcome.state.is_running() {
                self.keep_budget();
            }
            return Ok(POLL_INTERVAL);
        }
        match classify_end(&outcome) {
            RunEnd::Ran => {
                self.keep_budget();
                let inner = Arc::clone(&self.inner);
                let read = tokio::task::spawn_blocking(move || {
                    let started = outcome.started_at.unwrap_or(outcome.initiated_at);
                    let started = SystemTime::UNIX_EPOCH + Duration::from_millis(started);
                    let ended_at = find_run_end(&inner, &*system, started);
                    let report = find_report(&inner, &outcome, &*system);
                    EndedRun { ended_at, ..describe_run(&outcome, report) }
                });
                self.record_end(read.await.unwrap_or_default()).await?;
            }
            RunEnd::NotRun(problem, pause) => {
                let retry_after = duration_millis(pause);
                self.record(AgainEvent::NotRun { at, problem, retry_after }).await?;
            }
            RunEnd::Refused(problem, reason) => {
                self.record(AgainEvent::NotRun { at, problem, retry_after: 0 }).await?;
                self.record(AgainEvent::Suppressed { at, reason, by: None }).await?;
            }
        }
        Ok(Duration::ZERO)
    }

    async fn record_end(&self, run: EndedRun) -> Result<(), JournalError> {
        let event =
            AgainEvent::RunEnded { at: self.inner.now(), run: Box::new(run), seed: rand::random() };
        self.record(event).await
    }
}

enum RunEnd {
    Ran,
    /// The run did not take place and is pending again after this time.
    NotRun(String, Duration),
    /// The run did not take place and will not.
    Refused(String, SuppressReason),
}

fn classify_end(outcome: &PuppetRunOutcome) -> RunEnd {
    let problem = outcome.error.clone().or_else(|| outcome.summary.clone()).unwrap_or_default();
    match &outcome.reason {
        Some(PuppetRunClass::Disabled) => RunEnd::Refused(problem, SuppressReason::Disabled),
        Some(PuppetRunClass::Cancelled) if outcome.started_at.is_none() => {
            RunEnd::Refused(problem, SuppressReason::Cancelled)
        }
        // The daemon was killed before the program was started.
        Some(PuppetRunClass::DaemonRestart) => RunEnd::NotRun(problem, Duration::ZERO),
        Some(PuppetRunClass::Locked | PuppetRunClass::NoPermit | PuppetRunClass::NotStarted) => {
            RunEnd::NotRun(problem, RETRY_PAUSE)
        }
        _ => RunEnd::Ran,
    }
}

/// What is known of a run of the agent `puppet`.
fn describe_run(outcome: &PuppetRunOutcome, report: Option<ReportedRun>) -> EndedRun {
    let run = Uuid::try_parse(&outcome.run).ok();
    let class = outcome.class.as_ref().map_or("unknown", PuppetRunClass::as_str);
    EndedRun {
        cause: CausingRun { run, transaction: outcome.transaction_uuid.clone() },
        noop: outcome.noop == Some(true),
        digest: report.map(|report| digest_events(&report)),
        outcome: class.to_owned(),
        ended_at: None,
    }
}

/// When Puppet's last run ended, by its summary, unless that is of a run before `since`.
fn find_run_end(inner: &MonitorInner, system: &dyn System, since: SystemTime) -> Option<Millis> {
    let ended = inner.puppet.last_run_end(system)?;
    let since = since.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    (ended.saturating_add(duration_millis(REPORT_MARGIN)) >= duration_millis(since))
        .then_some(ended)
}

/// The report of this run, if it is still the last one.
fn find_report(
    inner: &MonitorInner,
    outcome: &PuppetRunOutcome,
    system: &dyn System,
) -> Option<ReportedRun> {
    let report = inner.puppet.read_report(system)?;
    (report.transaction == outcome.transaction_uuid && report.transaction.is_some())
        .then_some(report)
}

/// What is known of the run that asked, after its end. Blocks.
fn read_ended_run(
    inner: &MonitorInner,
    system: &dyn System,
    run: RunInProgress,
    asked_at: SystemTime,
) -> EndedRun {
    if let Some(outcome) = run.run.and_then(|id| inner.puppet.find_outcome(id)) {
        let report = find_report(inner, &outcome, system);
        return describe_run(&outcome, report);
    }
    // A report that is older than the request is of another run: this one was killed, or writes none.
    let is_newer = |time: SystemTime| time + REPORT_MARGIN >= asked_at;
    let report = inner
        .puppet
        .report_time(system)
        .filter(|time| is_newer(*time))
        .and_then(|_| inner.puppet.read_report(system));
    let Some(report) = report else {
        return EndedRun { outcome: "no report".to_owned(), ..EndedRun::default() };
    };
    // The request may have been read after the end of a run of the agent `puppet`.
    let own_run = report.transaction.as_deref().and_then(|id| inner.puppet.find_transaction(id));
    if let Some(outcome) = own_run {
        return describe_run(&outcome, Some(report));
    }
    EndedRun {
        cause: CausingRun { run: None, transaction: report.transaction.clone() },
        noop: report.noop,
        digest: Some(digest_events(&report)),
        outcome: report.status,
        ended_at: None,
    }
}

/// The journal has no values of resources, because they may be secrets.
fn digest_events(report: &ReportedRun) -> String {
    let mut digest = Sha256::new();
    for (resource, property, value) in &report.events {
        for part in [resource, property, value] {
            digest.update(u64::try_from(part.len()).unwrap_or_default().to_le_bytes());
            digest.update(part);
        }
    }
    encode_hex(digest.finalize())
}

impl MonitorInner {
    /// Records that a run without effect would have asked for another one. Blocks.
    pub(crate) fn record_would_run(&self, system: &dyn System) -> Result<(), JournalError> {
        let Some(skipped) = self.puppet.read_skipped_refreshes(system) else { return Ok(()) };
        let names = skipped.targets.iter().filter_map(|target| find_requester(target));
        let mut requesters: Vec<String> = names.collect();
        requesters.sort_unstable();
        requesters.dedup();
        if requesters.is_empty() {
            return Ok(());
        }
        let transaction = skipped.transaction;
        self.record(&AgainEvent::WouldRun { at: self.now(), transaction, requesters })
    }
}

/// The reference of a resource that asks for runs, from the source of a line in Puppet's log: `/Stage[main]/Main/Exec[again]`.
fn find_requester(source: &str) -> Option<String> {
    if source.chars().count() > MAX_SOURCE_CHARS {
        return None;
    }
    let at = source.rfind("Exec[again")?;
    let reference = source.get(at..)?;
    let title = reference.strip_prefix("Exec[again")?.strip_suffix(']')?;
    (title.is_empty() || title.starts_with("-delta-")).then(|| reference.to_owned())
}

#[cfg(test)]
mod tests {
    use super::find_requester;

    #[test]
    fn resources_that_ask_are_found_by_their_titles() {
        for (source, expected) in [
            ("/Stage[main]/Main/Exec[again]", Some("Exec[again]")),
            (
                "/Stage[main]/Gluster/Muster::Again::Delta[x]/Exec[again-delta-x]",
                Some("Exec[again-delta-x]"),
            ),
            ("/Stage[main]/Main/Exec[again, but other]", None),
            ("/Stage[main]/Main/File[/x]", None),
        ] {
            assert_eq!(find_requester(source).as_deref(), expected, "{source}");
        }
    }
}
