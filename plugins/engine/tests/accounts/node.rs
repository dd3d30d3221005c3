//! A node to try things on, and the question that every test asks: is there nothing to do afterwards?

use std::path::Path;
use std::sync::Arc;

use muster_engine::engine::Outcome;
use muster_engine::{Engine, EngineError};
use muster_system::command::Cancel;
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use muster_system::{Attributes, System};
use serde_json::{Map, Value as Json};

/// Words of a resource as JSON, in one line.
pub(crate) fn words(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(words) => words,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) system: Arc<dyn System>,
}

impl Node {
    pub(crate) fn new(system: impl System + 'static) -> Self {
        let system: Arc<dyn System> = Arc::new(system);
        Self {
            engine: Engine::new(Arc::clone(&system)),
            system,
        }
    }

    pub(crate) fn scratch() -> (tempfile::TempDir, Self) {
        let directory = tempfile::tempdir().unwrap();
        let node = Self::new(RealSystem::new(directory.path().to_owned()));
        (directory, node)
    }

    pub(crate) fn memory() -> Self {
        Self::new(FakeSystem::new().with_root("/scratch"))
    }

    pub(crate) fn write(&self, path: &str, content: &str, mode: u32) {
        let path = Path::new(path);
        for directory in path
            .ancestors()
            .skip(1)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            if self.system.metadata(directory).unwrap().is_none() {
                self.system
                    .create_dir(directory, &Attributes::default())
                    .unwrap();
            }
        }
        let attributes = Attributes {
            mode: Some(mode),
            ..Attributes::default()
        };
        self.system
            .write(path, content.as_bytes(), &attributes)
            .unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.system.read(Path::new(path), 1 << 20).unwrap()).unwrap()
    }

    pub(crate) fn try_apply(
        &self,
        kind: &str,
        title: &str,
        json: Json,
    ) -> Result<Outcome, EngineError> {
        let resource = self.engine.check(kind, title, &words(json))?;
        Ok(self.engine.apply(&resource, Cancel::default(), false))
    }

    /// Applies, expects success, expects nothing to do afterwards; returns `property: message` of every event.
    pub(crate) fn apply(&self, kind: &str, title: &str, json: Json) -> Vec<String> {
        let outcome = self.try_apply(kind, title, json.clone()).unwrap();
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let again = self.try_apply(kind, title, json).unwrap();
        assert!(
            again.events.is_empty() && again.error.is_none(),
            "{again:?}"
        );
        outcome
            .events
            .iter()
            .map(|event| format!("{}: {}", event.property, event.message))
            .collect()
    }

    pub(crate) fn error(&self, kind: &str, title: &str, json: Json) -> String {
        match self.try_apply(kind, title, json) {
            Ok(outcome) => outcome
                .error
                .map(|error| error.to_string())
                .unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }
}
