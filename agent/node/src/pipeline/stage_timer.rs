//! Measures the time of a request in each stage, if the caller requested it; otherwise measures nothing.

use std::time::{Duration, Instant};

use muster_host::CallOutcome;
use muster_wire::trace::{StageName, StageTiming};

use super::admission::RequestRejection;
use super::passed_values::{AcceptedRequest, VerifiedRequest};

/// The stage timings of one request so far.
#[derive(Debug, Clone, Default)]
pub(super) struct StageTimer(Option<ActiveTimer>);

#[derive(Debug, Clone)]
pub(super) struct ActiveTimer {
    since: Instant,
    stages: Vec<StageTiming>,
}

impl StageTimer {
    /// Starts after verification, with the earlier times of arrival and decoding.
    pub(super) fn new(arrived: Instant, decoded: Instant) -> Self {
        let mut running = ActiveTimer { since: Instant::now(), stages: Vec::with_capacity(12) };
        running.add_stage(StageName::Decode, decoded - arrived);
        running.add_stage(StageName::Verify, running.since - decoded);
        Self(Some(running))
    }

    pub(super) fn end_stage(&mut self, stage: StageName) {
        if let Some(running) = &mut self.0 {
            running.end_stage(stage);
        }
    }

    /// Marks the last stage as the one that refused the request.
    pub(super) fn mark_refused(&mut self) {
        if let Some(last) = self.0.as_mut().and_then(|running| running.stages.last_mut()) {
            last.refused = true;
        }
    }

    /// Records the end of the action, or of its wait for a permit.
    pub(super) fn record_dispatch(&mut self, outcome: &CallOutcome) {
        let Some(running) = &mut self.0 else { return };
        let elapsed = running.since.elapsed();
        running.since = Instant::now();
        running.add_stage(StageName::Queue, outcome.queued);
        if outcome.was_rejected_busy() {
            return self.mark_refused();
        }
        running.add_stage(StageName::Run, outcome.took);
        running.add_stage(StageName::Check, elapsed.saturating_sub(outcome.queued + outcome.took));
    }

    pub(super) fn active_timer(&self) -> Option<ActiveTimer> {
        self.0.clone()
    }
}

impl ActiveTimer {
    fn end_stage(&mut self, stage: StageName) {
        let now = Instant::now();
        self.add_stage(stage, now - self.since);
        self.since = now;
    }

    /// Adds the time of a stage; a repeated stage accumulates.
    pub(super) fn add_stage(&mut self, stage: StageName, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match self.stages.iter_mut().find(|timing| timing.stage == stage) {
            Some(timing) => timing.us = timing.us.saturating_add(us),
            None => self.stages.push(StageTiming { stage, us, refused: false }),
        }
    }

    /// The stages, in the order of their first use.
    pub(super) fn stages(&self) -> &[StageTiming] {
        &self.stages
    }
}

pub(super) trait HasStageTimer {
    fn stage_timer(&mut self) -> &mut StageTimer;
}

impl HasStageTimer for VerifiedRequest {
    fn stage_timer(&mut self) -> &mut StageTimer {
        &mut self.timer
    }
}

impl HasStageTimer for AcceptedRequest {
    fn stage_timer(&mut self) -> &mut StageTimer {
        &mut self.verified.timer
    }
}

/// Ends a stage that passed or refused the request. Refusals of earlier stages pass unchanged.
pub(super) fn end_stage<T: HasStageTimer>(
    stage: StageName,
    mut result: Result<T, RequestRejection>,
) -> Result<T, RequestRejection> {
    match &mut result {
        Ok(passed) => passed.stage_timer().end_stage(stage),
        Err(RequestRejection::Refused(refused)) => {
            let timer = &mut refused.verified.timer;
            timer.end_stage(stage);
            if refused.stage.is_none() {
                timer.mark_refused();
                refused.stage = Some(stage);
            }
        }
        Err(RequestRejection::Silent | RequestRejection::Repeated(_)) => {}
    }
    result
}
