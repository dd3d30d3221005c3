//! Fixture: an engine on a scratch root or in memory. Its `apply` also asserts that a second apply changes nothing.

use std::path::Path;
use std::sync::Arc;

use muster_engine::apply::ApplyOutcome;
use muster_engine::{EngineError, ResourceEngine};
use muster_system::command::CancelFlag;
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use muster_system::{FileAttributes, System};
use serde_json::{Map, Value as Json};

/// The attributes of a resource, from a JSON object.
pub(crate) fn words(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(words) => words,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) struct Node {
    pub(crate) engine: ResourceEngine,
    pub(crate) system: Arc<dyn System>,
}

impl Node {
    pub(crate) fn new(system: impl System + 'static) -> Self {
        let system: Arc<dyn System> = Arc::new(system);
        Self { engine: ResourceEngine::new(Arc::clone(&system)), system }
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
        for directory in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            if self.system.metadata(directory).unwrap().is_none() {
                self.system.create_dir(directory, &FileAttributes::default()).unwrap();
            }
        }
        let attributes = FileAttributes { mode: Some(mode), ..FileAttributes::default() };
        self.system.write_file(path, content.as_bytes(), &attributes).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.system.read_file(Path::new(path), 1 << 20).unwrap()).unwrap()
    }

    pub(crate) fn try_apply(
        &self,
        kind: &str,
        title: &str,
        json: Json,
    ) -> Result<ApplyOutcome, EngineError> {
        let resource = self.engine.check_resource(kind, title, &words(json))?;
        Ok(self.engine.apply_resource(&resource, CancelFlag::default(), false))
    }

    /// Applies a resource; asserts success, and that a second apply has no events. Returns `PROPERTY: MESSAGE` of all events.
    pub(crate) fn apply(&self, kind: &str, title: &str, json: Json) -> Vec<String> {
        let outcome = self.try_apply(kind, title, json.clone()).unwrap();
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let again = self.try_apply(kind, title, json).unwrap();
        assert!(again.events.is_empty() && again.error.is_none(), "{again:?}");
        outcome
            .events
            .iter()
            .map(|event| format!("{}: {}", event.property, event.message))
            .collect()
    }

    pub(crate) fn error(&self, kind: &str, title: &str, json: Json) -> String {
        match self.try_apply(kind, title, json) {
            Ok(outcome) => outcome.error.map(|error| error.to_string()).unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }
}
