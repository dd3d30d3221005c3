//! Accepts requests: from files of manifests, and from callers.

use muster_api::base::{error_chain, unix_millis_now};
use muster_api::system::process::ProcessId;

use crate::RunActivity;

use crate::again::monitor::{JournalError, MonitorInner};
use crate::again::plan::event::{AgainEvent, RunInProgress, SuppressReason};
use crate::again::plan::request::AgainRequest;
use crate::again::plan::state::AgainState;
use crate::again::spool::{HandedOver, SpooledRequest};

impl MonitorInner {
    /// Accepts the requests that manifests have handed over. Blocks on the disk.
    pub(crate) fn accept_handed_over(
        &self,
        requests: Vec<SpooledRequest>,
        activity: RunActivity,
    ) -> Result<(), JournalError> {
        for SpooledRequest { name, content } in requests {
            match content {
                Ok(HandedOver::Request { request }) => {
                    let during = find_run_in_progress(&request, activity);
                    self.accept_request(*request, during)?;
                }
                Ok(HandedOver::Cancel { group, by, .. }) => {
                    self.cancel_pending(group.as_deref(), &by)?;
                }
                Err(problem) => {
                    tracing::warn!(name, problem, "a request of a manifest is ignored");
                }
            }
            self.spool.remove(&name)?;
        }
        Ok(())
    }

    /// The request is on disk on return.
    pub(crate) fn accept_request(
        &self,
        request: AgainRequest,
        during: Option<RunInProgress>,
    ) -> Result<(), JournalError> {
        let wall = unix_millis_now();
        let on_clock = |time| self.clock.convert_wall_time(time, wall);
        let request = AgainRequest {
            requested_at: on_clock(request.requested_at),
            not_before: request.not_before.map(on_clock),
            deadline: request.deadline.map(on_clock),
            ..request
        };
        self.record(&AgainEvent::Requested {
            at: self.now(),
            request: Box::new(request),
            during,
            seed: rand::random(),
        })
    }

    /// Cancels the pending run, if it has this group. Returns whether there was one.
    pub(crate) fn cancel_pending(
        &self,
        group: Option<&str>,
        by: &str,
    ) -> Result<bool, JournalError> {
        let is_pending = self.with_state(|state| is_cancellable(state, group));
        if is_pending != Some(true) {
            return Ok(false);
        }
        self.record(&AgainEvent::Suppressed {
            at: self.now(),
            reason: SuppressReason::Cancelled,
            by: Some(by.to_owned()),
        })?;
        Ok(true)
    }
}

/// Whether there is a pending run, in this group if one is given.
pub(crate) fn is_cancellable(state: &AgainState, group: Option<&str>) -> bool {
    state
        .pending
        .as_ref()
        .is_some_and(|pending| group.is_none_or(|group| pending.groups.contains(group)))
}

/// The run that a request of a manifest belongs to. One that has ended meanwhile is found by its report.
fn find_run_in_progress(request: &AgainRequest, activity: RunActivity) -> Option<RunInProgress> {
    if activity.run.is_some() {
        return Some(RunInProgress { run: activity.run, process: None });
    }
    let process = request.process?;
    // The process that holds the lock is followed by the lock.
    let is_holder = activity.process == Some(process.pid);
    Some(RunInProgress { run: None, process: (!is_holder).then_some(process) })
}

pub(crate) fn is_alive(process: ProcessId) -> bool {
    ProcessId::from_pid(process.pid) == Some(process)
}

/// Logs an error of the journal; the next turn tries again.
pub(crate) fn log_failure(error: &JournalError) {
    let error = error_chain(error);
    tracing::error!(error, "requests for further runs wait");
}
