//! Fixtures: scratch roots and fake systems with an engine, and checks that apply to every resource type.

use std::path::PathBuf;
use std::sync::Arc;

use muster_engine::apply::{ApplyHooks, ApplyOutcome};
use muster_engine::event::{ChangeEvent, ChangeEventStatus};
use muster_engine::resource::{Resource, ResourceValue};
use muster_engine::{AutoRequire, CatalogResources, EngineError, ResourceContext, ResourceEngine};
use muster_system::System;
use muster_system::command::{CancelFlag, CommandOutput};
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use serde_json::{Map, Value as Json};

/// A temporary directory that an engine uses as its root.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
    pub(crate) engine: ResourceEngine,
    pub(crate) system: Arc<dyn System>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["etc", "tmp", "var"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let system: Arc<dyn System> = Arc::new(RealSystem::new(directory.path().to_owned()));
        Self { directory, engine: ResourceEngine::new(Arc::clone(&system)), system }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }
}

/// An in-memory system and an engine on it.
pub(crate) fn fake() -> (FakeSystem, ResourceEngine) {
    let system = FakeSystem::new();
    let engine = ResourceEngine::new(Arc::new(system.clone()));
    (system, engine)
}

/// The result of a scripted program.
pub(crate) fn output(code: i32, text: &str) -> CommandOutput {
    CommandOutput { code, combined: text.into(), stdout: text.into(), truncated: false }
}

/// `words` is a JSON object.
pub(crate) fn check(
    engine: &ResourceEngine,
    kind: &str,
    title: &str,
    words: Json,
) -> Result<Resource, EngineError> {
    let Json::Object(words) = words else { panic!("not an object") };
    engine.check_resource(kind, title, &words)
}

/// Checks and applies a resource, without noop.
pub(crate) fn apply(engine: &ResourceEngine, kind: &str, title: &str, words: Json) -> ApplyOutcome {
    let resource = check(engine, kind, title, words).unwrap();
    engine.apply_resource(&resource, CancelFlag::default(), false)
}

/// Applies a resource and asserts what every type guarantees: noop reports the same changes as the apply that follows; after the
/// apply the plan is empty, and a second apply has no events. Returns the events of the first apply.
pub(crate) fn converges(
    engine: &ResourceEngine,
    kind: &str,
    title: &str,
    words: Json,
) -> Vec<ChangeEvent> {
    let resource = check(engine, kind, title, words).unwrap();
    let noop = engine.apply_resource(&resource, CancelFlag::default(), true);
    assert!(noop.error.is_none(), "{:?}", noop.error);
    assert!(noop.events.iter().all(|event| event.status == ChangeEventStatus::Noop));
    let first = engine.apply_resource(&resource, CancelFlag::default(), false);
    assert!(first.error.is_none(), "{:?}", first.error);
    assert_eq!(
        bare(&noop.events),
        bare(&first.events),
        "noop reported other changes than the apply"
    );
    let plan = engine.plan_resource(&resource, CancelFlag::default()).unwrap();
    assert!(plan.is_empty(), "changes remain after the apply: {:?}", plan.changes);
    let second = engine.apply_resource(&resource, CancelFlag::default(), false);
    assert!(second.error.is_none() && second.events.is_empty(), "{second:?}");
    first.events
}

/// The fields of events that are the same with and without noop.
fn bare(events: &[ChangeEvent]) -> Vec<(String, String, Option<ResourceValue>, ResourceValue)> {
    let bare = |event: &ChangeEvent| {
        (
            event.resource.clone(),
            event.property.clone(),
            event.previous_value.clone(),
            event.desired_value.clone(),
        )
    };
    events.iter().map(bare).collect()
}

pub(crate) fn messages(events: &[ChangeEvent]) -> Vec<&str> {
    events.iter().map(|event| event.message.as_str()).collect()
}

/// The text of the error with all its causes.
pub(crate) fn error(outcome: &ApplyOutcome) -> String {
    outcome.error.as_ref().map_or_else(String::new, EngineError::reason)
}

/// An empty set of attributes.
pub(crate) fn nothing() -> Json {
    Json::Object(Map::new())
}

/// The other resources of a catalog.
#[derive(Default)]
pub(crate) struct Others(pub(crate) Vec<Resource>);

impl CatalogResources for Others {
    fn find_resource(&self, type_name: &str, name: &str) -> Option<&Resource> {
        let same = |other: &&Resource| {
            other.type_name == type_name && (other.title == name || other.name == name)
        };
        self.0.iter().find(same)
    }

    fn resources_of_type(&self, type_name: &str) -> Vec<&Resource> {
        self.0.iter().filter(|other| other.type_name == type_name).collect()
    }
}

impl Others {
    /// Checks resources, each given as type, title and attributes.
    pub(crate) fn of<const N: usize>(
        engine: &ResourceEngine,
        all: [(&str, &str, Json); N],
    ) -> Self {
        let checked = |(kind, title, words)| check(engine, kind, title, words).unwrap();
        Self(all.into_iter().map(checked).collect())
    }
}

/// The resources that a resource generates.
pub(crate) fn generate(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    others: &Others,
) -> Result<Vec<Resource>, EngineError> {
    let types = muster_engine::types::builtin_types();
    let known = types.iter().find(|known| known.schema().type_name == resource.type_name).unwrap();
    known.generate_resources(&cx.bind(resource), others)
}

/// The automatic dependencies of a resource.
pub(crate) fn autorequires(resource: &Resource, others: &Others) -> Vec<AutoRequire> {
    let types = muster_engine::types::builtin_types();
    let known = types.iter().find(|known| known.schema().type_name == resource.type_name).unwrap();
    known.autorequires(resource, others)
}

/// Applies resources without those that they generate.
struct WithoutGenerated;

impl ApplyHooks for WithoutGenerated {
    fn admit_generated(&mut self, _: &Resource) -> Result<bool, EngineError> {
        Ok(false)
    }
}

/// Applies all resources in order, but none that they generate; returns `REFERENCE: MESSAGE` of all events.
pub(crate) fn apply_all(engine: &ResourceEngine, all: &[Resource]) -> Vec<String> {
    let mut said = Vec::new();
    for resource in all {
        let resources = std::slice::from_ref(resource);
        let hooks = &mut WithoutGenerated;
        let outcome = engine.apply_resources(resources, CancelFlag::default(), false, hooks);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        said.extend(
            outcome.events.iter().map(|event| format!("{}: {}", event.resource, event.message)),
        );
    }
    said
}
