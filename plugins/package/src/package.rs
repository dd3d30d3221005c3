//! The packages of the machine that an action acts on. All of it blocks.

use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::command::Cancel;
use muster_engine::plan::State;
use muster_engine::providers::package::apt::Apt;
use muster_engine::providers::package::{Outdated, Packages as _};
use muster_engine::resource::{Resource, Value};
use muster_engine::{Cx, Engine, EngineError};
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// What the actions on one package are asked with.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    pub(crate) package: String,
}

/// How a change went.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Report {
    pub(crate) name: String,
    /// A version, `absent` or `purged`.
    pub(crate) ensure: String,
    /// What `ensure` was before.
    pub(crate) previous: String,
    pub(crate) changed: bool,
}

/// The machine, as far as packages go.
pub(crate) struct Packages {
    system: Arc<dyn System>,
    engine: Engine,
    cancel: Cancel,
}

impl Packages {
    pub(crate) fn new(system: Arc<dyn System>, cancel: Cancel) -> Self {
        Self {
            engine: Engine::new(Arc::clone(&system)),
            system,
            cancel,
        }
    }

    /// What is known about one package.
    pub(crate) fn find(&self, name: &str) -> Result<State, EngineError> {
        self.engine.check("package", name, &Map::new())?;
        self.engine.find("package", name)
    }

    /// Brings it to a state: a version, or one of the engine's words.
    pub(crate) fn bring(&self, name: &str, ensure: &str) -> Result<Report, EngineError> {
        let resource = self.resource(name, ensure)?;
        let previous = word(&self.find(name)?, "ensure");
        let outcome = self.engine.apply(&resource, self.cancel.clone(), false);
        let changed = outcome.changed();
        match outcome.error {
            Some(error) => Err(error),
            None => Ok(Report {
                ensure: word(&self.find(name)?, "ensure"),
                name: name.to_owned(),
                previous,
                changed,
            }),
        }
    }

    /// Brings it to the newest version, if it is there: whoever updates a fleet does not want to install.
    pub(crate) fn update(&self, name: &str) -> Result<Report, EngineError> {
        let resource = self.resource(name, "latest")?;
        if matches!(
            word(&self.find(name)?, "ensure").as_str(),
            "absent" | "purged"
        ) {
            let problem = "is not installed, so there is nothing to update; use `install`";
            return Err(EngineError::failed(&resource, problem));
        }
        self.bring(name, "latest")
    }

    /// Everything that has a newer version, and the tool that says so.
    pub(crate) fn outdated(&self) -> Result<(&'static str, Vec<Outdated>), EngineError> {
        Ok(("apt", Apt.outdated(&self.cx(), &self.all()?)?))
    }

    /// Gets the package lists anew; what the tool said.
    pub(crate) fn refresh(&self) -> Result<String, EngineError> {
        Apt.refresh(&self.cx(), &self.all()?)
    }

    fn resource(&self, name: &str, ensure: &str) -> Result<Resource, EngineError> {
        let words = Map::from_iter([("ensure".to_owned(), ensure.into())]);
        self.engine.check("package", name, &words)
    }

    /// Stands for all packages in messages.
    fn all(&self) -> Result<Resource, EngineError> {
        self.engine.named("package", "*")
    }

    fn cx(&self) -> Cx<'_> {
        Cx::new(&*self.system, self.cancel.clone())
    }
}

/// A property as text.
pub(crate) fn word(state: &State, property: &str) -> String {
    let text = state.get(property).and_then(Value::as_text);
    text.unwrap_or_default().to_owned()
}
