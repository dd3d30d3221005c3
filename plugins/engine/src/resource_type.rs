//! What a resource type must be able to do, and what it is given to do it with. The types themselves are in [`crate::types`].

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use muster_system::command::CancelFlag;
use muster_system::{System, SystemError};

use crate::error::EngineError;
use crate::evaluation_cache::EvaluationCache;
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::bucket::BucketRegistry;
use crate::resource::{Resource, ResourceValues};
use crate::schema::TypeSchema;

/// A resource type: three verbs, and two ways to look.
pub trait ResourceType: fmt::Debug + Send + Sync {
    /// What it accepts.
    fn schema(&self) -> &'static TypeSchema;

    /// Checks that concern several values at once, and fills in what follows from the title. Pure.
    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        Ok(resource)
    }

    /// What the machine says about this resource. When nothing is desired, everything is asked for.
    fn read_state(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ResourceState, EngineError>;

    /// The difference. Pure. The default compares each desired property with the found one.
    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        ResourcePlan::compare(self.schema(), resource, state)
    }

    /// Both at once: what would change on this machine. For types of which the machine has to be asked what a difference is.
    fn read_and_plan(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ResourcePlan, EngineError> {
        let state = self.read_state(cx, resource)?;
        Ok(self.plan(resource, &state))
    }

    /// Makes one change of the plan. The engine calls this for each change in order, makes the events, and goes on with
    /// the next change when one fails, as Puppet does.
    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<(), EngineError>;

    /// Whether it does anything when something that it subscribes to has changed.
    fn supports_refresh(&self) -> bool {
        false
    }

    /// Does what a change of something that it subscribes to asks for: runs the command, restarts the service. Only called
    /// of types that say so by [`Self::supports_refresh`].
    fn refresh(&self, _: &ResourceContext<'_>, _: &Resource) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether a change of the resource refreshes the resource itself.
    fn refreshes_itself(&self) -> bool {
        false
    }

    /// Whether making this change does already what a refresh of the resource itself in the same run would do.
    fn spares_refresh(&self, _: &PropertyChange) -> bool {
        false
    }

    /// The resources of the catalog that come before this one without being told to. Pure.
    fn autorequires(&self, _: &Resource, _: &dyn CatalogResources) -> Vec<AutorequireTarget> {
        Vec::new()
    }

    /// When [`Self::generate_resources`] has something to add to the catalog.
    fn generation_phase(&self, _: &Resource) -> GenerationPhase {
        GenerationPhase::Never
    }

    /// More resources that follow from this one and the machine: what lies below a directory, what is to be purged. A resource
    /// that the catalog already has is left as it is there.
    fn generate_resources(
        &self,
        _: &ResourceContext<'_>,
        _: &Resource,
        _: &dyn CatalogResources,
    ) -> Result<Vec<Resource>, EngineError> {
        Ok(Vec::new())
    }

    /// The name of the provider that is at work, for reports; `None` for types without providers.
    fn provider_name(&self, _: &ResourceContext<'_>, resource: &Resource) -> Option<String> {
        resource.get_text("provider").map(str::to_owned)
    }

    /// Everything that the machine says about the resource of that title. The default reads a resource of which nothing
    /// is desired; types whose title does not say where to look search [`Self::list_instances`] instead.
    fn find(&self, cx: &ResourceContext<'_>, title: &str) -> Result<ResourceState, EngineError> {
        self.read_state(cx, &Resource::without_values(self.schema(), title)?)
    }

    /// Every resource of this type on the machine: title and properties. None by default: of most things a machine has no list.
    fn list_instances(
        &self,
        _: &ResourceContext<'_>,
    ) -> Result<Vec<(String, ResourceValues)>, EngineError> {
        Ok(Vec::new())
    }
}

/// The other resources of a catalog.
pub trait CatalogResources {
    /// The resource of that type whose title, name or alias it is.
    fn find_resource(&self, type_name: &str, name: &str) -> Option<&Resource>;

    /// All of that type, in the order of the catalog.
    fn resources_of_type(&self, type_name: &str) -> Vec<&Resource>;
}

/// Nobody else.
impl CatalogResources for () {
    fn find_resource(&self, _: &str, _: &str) -> Option<&Resource> {
        None
    }

    fn resources_of_type(&self, _: &str) -> Vec<&Resource> {
        Vec::new()
    }
}

/// Finds the files that `puppet:` URLs stand for, and brings them to this machine if need be.
pub trait FileSourceResolver: fmt::Debug {
    /// The path of the node's own at which the file or directory lies; `None` when there is none, which lets the next
    /// source of a list be tried. The error is one line for people.
    fn locate_file(&self, url: &str) -> Result<Option<PathBuf>, String>;
}

/// A resource by type and name, which may be in the catalog or not.
pub type AutorequireTarget = (&'static str, String);

/// When a resource brings others with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPhase {
    /// Never.
    Never,
    /// Before anything of the catalog is evaluated; they come after the resource that brings them.
    BeforeTheRun,
    /// Before anything of the catalog is evaluated; they come before the resource that brings them.
    BeforeTheRunAndFirst,
    /// Right before the resource itself is evaluated; they come after it, and whatever depends on it after them.
    WithTheResource,
}

/// What a type works with.
#[derive(Debug)]
pub struct ResourceContext<'a> {
    /// The machine.
    pub system: &'a dyn System,
    /// Raised when the caller has given up.
    pub cancel: CancelFlag,
    /// What the people should read besides events: a command's output, a message.
    pub(crate) log: RefCell<Vec<String>>,
    /// What need not be read again.
    pub(crate) memo: EvaluationCache,
    /// Directories in which files were made that are not yet on the disk for certain.
    fresh: RefCell<BTreeSet<PathBuf>>,
    /// Where `puppet:` sources lie on this machine.
    pub(crate) sources: Option<&'a dyn FileSourceResolver>,
}

impl<'a> ResourceContext<'a> {
    /// A fresh context.
    pub fn new(system: &'a dyn System, cancel: CancelFlag) -> Self {
        Self {
            system,
            cancel,
            log: RefCell::default(),
            memo: EvaluationCache::default(),
            fresh: RefCell::default(),
            sources: None,
        }
    }

    /// A file was made in this directory that is only to be on the disk when everything is done.
    pub(crate) fn note_created_file(&self, directory: &Path) {
        let mut fresh = self.fresh.borrow_mut();
        if !fresh.contains(directory) {
            fresh.insert(directory.to_owned());
        }
    }

    /// Returns when everything that was made is on the disk.
    pub(crate) fn sync_created_files(&self) -> Result<(), SystemError> {
        let directories: Vec<PathBuf> = self.fresh.take().into_iter().collect();
        self.system.sync_file_systems(&directories)
    }

    /// The same, with a place for files whose `source` is a `puppet:` URL. Without one such a file fails.
    #[must_use]
    pub fn with_sources(mut self, sources: &'a dyn FileSourceResolver) -> Self {
        self.sources = Some(sources);
        self
    }

    /// The same, keeping what files were before in this directory, where no `filebucket` says otherwise.
    #[must_use]
    pub fn with_bucket(mut self, directory: impl Into<PathBuf>) -> Self {
        self.memo.buckets = BucketRegistry::new(directory);
        self
    }

    /// Adds a line to [`crate::engine::ApplyOutcome::log`].
    pub fn log_line(&self, line: impl Into<String>) {
        self.log.borrow_mut().push(line.into());
    }
}
