//! `request`: asks for a restart when no run is in progress, and answers at once, or when it is known what came of it.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::system::error::chain;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::unit;
use crate::cycle::{Cycle, State, Wish};
use crate::instance::Instance;
use crate::look::look;
use crate::restarts::{Asked, Restarts};
use crate::target::Target;
use crate::worker::unknown;

/// How often it is looked what came of a restart.
const LOOK: Duration = Duration::from_millis(200);
/// What an answer needs to be written and sent.
const ANSWERED: Duration = Duration::from_secs(1);

pub(crate) struct Request(pub(crate) Arc<Restarts>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    unit: String,
    when_idle: Option<bool>,
    deadline: Option<u64>,
    force: Option<bool>,
    verify_bus: Option<u64>,
    wait: Option<bool>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    state: String,
    text: String,
    id: String,
    merged: bool,
    requests: u32,
    pid: Option<u32>,
}

impl Output {
    fn new(cycle: &Cycle, asked: Asked) -> Self {
        Self {
            state: cycle.state.word().to_owned(),
            text: cycle.text.clone(),
            id: asked.id.to_string(),
            merged: asked.merged,
            requests: cycle.requests,
            pid: cycle.after.map(|process| process.pid),
        }
    }
}

impl Action for Request {
    const NAME: &'static str = "request";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let target = unit(&input.unit)?;
        let waits = input.wait.unwrap_or(false);
        if waits && target.is_daemon() {
            return Err(ActionError::invalid(
                "rpcd cannot wait for its own restart: leave `wait` out, and ask for `status` afterwards",
            ));
        }
        let defaults = Wish::default();
        let wish = Wish {
            when_idle: input.when_idle.unwrap_or(defaults.when_idle),
            deadline: input
                .deadline
                .map_or(defaults.deadline, Duration::from_secs),
            force: input.force.unwrap_or(defaults.force),
            verify_bus: input.verify_bus.map(Duration::from_secs),
            pid_file: None,
        };
        let (restarts, system, wanted) =
            (Arc::clone(&self.0), Arc::clone(&cx.system), target.clone());
        let asked = cx
            .blocking(move |_| {
                let ourselves = wanted.is_daemon()
                    && Instance::read(restarts.store()).is_ok_and(|found| found.is_some());
                if !ourselves {
                    known(&system, &wanted)?;
                }
                restarts
                    .request(&wanted, &wish)
                    .map_err(|error| ActionError::failed(chain(&error)))
            })
            .await??;
        if waits {
            self.outcome(cx, target, asked).await
        } else {
            let cycle = self.find(cx, target, asked.id).await?;
            Ok(Output::new(&cycle, asked))
        }
    }
}

impl Request {
    /// Waits until it is known what came of it. The restart goes on when nobody waits for it any more.
    async fn outcome(
        &self,
        cx: &Context,
        target: Target,
        asked: Asked,
    ) -> Result<Output, ActionError> {
        let last = cx.deadline.checked_sub(ANSWERED).unwrap_or(cx.deadline);
        let mut told = None;
        loop {
            let cycle = self.find(cx, target.clone(), asked.id).await?;
            if told != Some((cycle.state, cycle.text.clone())) {
                cx.progress(format!("{}: {}", cycle.state.word(), cycle.text));
                told = Some((cycle.state, cycle.text.clone()));
            }
            let output = Output::new(&cycle, asked);
            if cycle.state == State::Ok {
                return Ok(output);
            }
            let late = Instant::now() >= last;
            if cycle.state.is_over() || late {
                let problem = if cycle.state.is_over() {
                    cycle.text
                } else {
                    format!(
                        "it is not known yet what comes of it ({}); ask for `status` later",
                        cycle.text
                    )
                };
                let data = match json!(output) {
                    Value::Object(data) => data,
                    _ => serde_json::Map::new(),
                };
                return Err(ActionError::failed(problem).with_data(data));
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
            }
        }
    }

    async fn find(&self, cx: &Context, target: Target, id: Uuid) -> Result<Cycle, ActionError> {
        let restarts = Arc::clone(&self.0);
        let found = cx
            .blocking(move |_| restarts.find(&target, Some(id)))
            .await?;
        let found = found.map_err(|error| ActionError::failed(chain(&error)))?;
        found.ok_or_else(|| ActionError::failed("the restart is not known any more"))
    }
}

/// A name that is none is better told now than in the outcome.
fn known(system: &Arc<dyn System>, target: &Target) -> Result<(), ActionError> {
    let found = look(system, target, None).map_err(|error| ActionError::failed(error.line()))?;
    match found.missing {
        None => Ok(()),
        Some(place) => Err(ActionError::failed(unknown(&place))),
    }
}
