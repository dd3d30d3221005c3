//! How long a request spends in each stage, for a caller that asked for it; for all others it measures nothing.

use std::time::{Duration, Instant};

use muster_host::Outcome;
use muster_wire::trace::{Stage, StageName};

use super::{Accepted, Asked, Stop};

/// The stages of one request so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Option<Running>);

/// A watch that runs.
#[derive(Debug, Clone)]
pub(super) struct Running {
    since: Instant,
    stages: Vec<Stage>,
}

impl Watch {
    /// Begins when a request has been verified: it came then, and was decoded then.
    pub(super) fn new(came: Instant, decoded: Instant) -> Self {
        let mut running = Running {
            since: Instant::now(),
            stages: Vec::with_capacity(12),
        };
        running.add(StageName::Decode, decoded - came);
        running.add(StageName::Verify, running.since - decoded);
        Self(Some(running))
    }

    /// A stage is over.
    pub(super) fn lap(&mut self, stage: StageName) {
        if let Some(running) = &mut self.0 {
            running.lap(stage);
        }
    }

    /// The last stage refused the request.
    pub(super) fn refused(&mut self) {
        if let Some(last) = self
            .0
            .as_mut()
            .and_then(|running| running.stages.last_mut())
        {
            last.refused = true;
        }
    }

    /// The action is over, or never had its turn.
    pub(super) fn dispatched(&mut self, outcome: &Outcome) {
        let Some(running) = &mut self.0 else { return };
        let all = running.since.elapsed();
        running.since = Instant::now();
        running.add(StageName::Queue, outcome.queued);
        if outcome.never_had_its_turn() {
            return self.refused();
        }
        running.add(StageName::Run, outcome.took);
        running.add(
            StageName::Check,
            all.saturating_sub(outcome.queued + outcome.took),
        );
    }

    /// The watch, if it runs.
    pub(super) fn running(&self) -> Option<Running> {
        self.0.clone()
    }
}

impl Running {
    fn lap(&mut self, stage: StageName) {
        let now = Instant::now();
        self.add(stage, now - self.since);
        self.since = now;
    }

    /// Adds a stage; one that comes again takes longer.
    pub(super) fn add(&mut self, stage: StageName, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match self.stages.iter_mut().find(|known| known.stage == stage) {
            Some(known) => known.us = known.us.saturating_add(us),
            None => self.stages.push(Stage {
                stage,
                us,
                refused: false,
            }),
        }
    }

    /// The stages, in the order in which they were first reached.
    pub(super) fn stages(&self) -> &[Stage] {
        &self.stages
    }
}

/// What a watch goes with through the stages.
pub(super) trait Watched {
    fn watch(&mut self) -> &mut Watch;
}

impl Watched for Asked {
    fn watch(&mut self) -> &mut Watch {
        &mut self.watch
    }
}

impl Watched for Accepted {
    fn watch(&mut self) -> &mut Watch {
        &mut self.asked.watch
    }
}

/// A stage has passed the request on, or refused it. What an earlier stage refused is passed on as well.
pub(super) fn lap<T: Watched>(stage: StageName, mut judged: Result<T, Stop>) -> Result<T, Stop> {
    match &mut judged {
        Ok(passed) => passed.watch().lap(stage),
        Err(Stop::Refused(refused)) => {
            let watch = &mut refused.asked.watch;
            watch.lap(stage);
            if refused.stage.is_none() {
                watch.refused();
                refused.stage = Some(stage);
            }
        }
        Err(Stop::Silent) => {}
    }
    judged
}
