//! One service of the machine that an action acts on. Everything but [`Service::with`] blocks.

use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::command::Cancel;
use muster_api::{ActionError, Context};
use muster_engine::providers::service::{Action, Service as Found, choose};
use muster_engine::resource::Resource;
use muster_engine::{Cx, Engine, EngineError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What every action is asked with.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    pub(crate) service: String,
}

/// Whether a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Stopped,
}

impl State {
    /// As the engine writes it.
    const fn ensure(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// The state after a change.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Report {
    pub(crate) status: State,
    /// Whether it was another one before.
    pub(crate) changed: bool,
}

/// The service.
pub(crate) struct Service {
    system: Arc<dyn System>,
    engine: Engine,
    cancel: Cancel,
    name: String,
}

impl Service {
    /// Does the work on a thread of its own. A wrong name is told apart from a machine that would not (status 4 and 1).
    pub(crate) async fn with<T: Send + 'static>(
        cx: &Context,
        input: Input,
        work: impl FnOnce(&Self) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let system = Arc::clone(&cx.system);
        let done = cx.blocking(move |cancel| {
            work(&Self {
                engine: Engine::new(Arc::clone(&system)),
                system,
                cancel,
                name: input.service,
            })
        });
        done.await?.map_err(|error| {
            if error.is_invalid() {
                ActionError::invalid(error.line())
            } else {
                ActionError::failed(error.line())
            }
        })
    }

    /// What is known about it, if anything is.
    pub(crate) fn look(&self) -> Result<Found, EngineError> {
        let resource = self.resource(None)?;
        let cx = self.cx();
        choose(&cx, &resource)?.query(&cx, &resource)
    }

    /// Whether it runs.
    pub(crate) fn state(&self) -> Result<State, EngineError> {
        let resource = self.resource(None)?;
        let found = self.look()?;
        Ok(if found.known(&resource)?.running {
            State::Running
        } else {
            State::Stopped
        })
    }

    /// Starts or stops it, unless it is so already.
    pub(crate) fn bring(&self, wanted: State) -> Result<Report, EngineError> {
        self.state()?;
        let resource = self.resource(Some(wanted))?;
        let outcome = self.engine.apply(&resource, self.cancel.clone(), false);
        let changed = outcome.changed();
        match outcome.error {
            Some(error) => Err(error),
            None => Ok(Report {
                status: self.state()?,
                changed,
            }),
        }
    }

    /// Stops and starts it, whatever its state is.
    pub(crate) fn restart(&self) -> Result<State, EngineError> {
        self.state()?;
        let resource = self.resource(None)?;
        let cx = self.cx();
        choose(&cx, &resource)?.act(&cx, &resource, Action::Restart)?;
        self.state()
    }

    fn resource(&self, wanted: Option<State>) -> Result<Resource, EngineError> {
        let ensure = wanted.map(|state| ("ensure".to_owned(), Value::from(state.ensure())));
        let words: Map<String, Value> = ensure.into_iter().collect();
        self.engine.check("service", &self.name, &words)
    }

    fn cx(&self) -> Cx<'_> {
        Cx::new(&*self.system, self.cancel.clone())
    }
}
