//! The trait of resource types, and the context they work with. The types themselves are in [`crate::types`].

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use muster_system::command::CancelFlag;
use muster_system::{FileMetadata, System, SystemResult};

use crate::error::Result;
use crate::munge::munge_resource;
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::account_names::AccountNameCache;
use crate::providers::bucket::BucketRegistry;
use crate::providers::package::list_cache::PackageListCache;
use crate::resource::{Resource, ResourceValues};
use crate::schema::TypeSchema;
use crate::static_files::DEFAULT_CONTENT_DIRECTORY;

/// A resource type: read, plan and apply, plus find and list.
pub trait ResourceType: fmt::Debug + Send + Sync {
    fn schema(&self) -> &'static TypeSchema;

    /// Validates combinations of values, and fills in values derived from the title. Pure.
    fn check(&self, resource: Resource) -> Result<Resource> {
        Ok(resource)
    }

    /// Reads all properties if none are desired. The default is for types without state on the machine.
    fn read_state(&self, _: &BoundResource<'_>) -> Result<ResourceState> {
        Ok(ResourceState::default())
    }

    /// Computes the difference. Pure. The default compares each desired property with the current one.
    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        ResourcePlan::compare(self.schema(), resource, state)
    }

    /// Reads and plans in one step. For types that need the machine to compare values.
    fn read_and_plan(&self, resource: &BoundResource<'_>) -> Result<ResourcePlan> {
        let state = self.read_state(resource)?;
        Ok(self.plan(resource, &state))
    }

    /// The engine calls this for each change in order, emits the events, and continues with the next change after a failure, as Puppet does. The
    /// default is for types without properties.
    fn apply_change(
        &self,
        _: &ResourceContext<'_>,
        _: &ResourcePlan,
        _: &PropertyChange,
    ) -> Result<()> {
        Ok(())
    }

    /// The unified diff of the content that the plan changes, for display; `None` if there is none. Called before the change. It may show the
    /// content of any file to the caller, so it is only for callers that may change the file.
    fn content_diff(&self, _: &ResourceContext<'_>, _: &ResourcePlan) -> Option<String> {
        None
    }

    fn supports_refresh(&self) -> bool {
        false
    }

    /// Refreshes the resource after a change of something it subscribes to: runs the command, restarts the service. Called only
    /// if [`Self::supports_refresh`] returns true.
    fn refresh(&self, _: &BoundResource<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether a change of the resource triggers a refresh of itself.
    fn refreshes_itself(&self) -> bool {
        false
    }

    /// Whether this change already has the effect of a refresh of the resource in the same run.
    fn spares_refresh(&self, _: &PropertyChange) -> bool {
        false
    }

    /// Resources of the catalog that automatically come before this one. Pure.
    fn autorequires(&self, _: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        Vec::new()
    }

    /// When [`Self::generate_resources`] is called.
    fn generation_phase(&self, _: &Resource) -> GenerationPhase {
        GenerationPhase::Never
    }

    /// Additional resources derived from this one and the machine: entries below a directory, resources to purge. A resource
    /// that is already in the catalog keeps its definition there.
    fn generate_resources(
        &self,
        _: &BoundResource<'_>,
        _: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        Ok(Vec::new())
    }

    /// Name of the provider used, for reports; `None` for types without providers.
    fn provider_name(&self, resource: &BoundResource<'_>) -> Option<String> {
        resource.get_text("provider").map(str::to_owned)
    }

    /// Full current state of the resource with that title. The default reads a resource without desired
    /// values; types whose title does not determine the location search [`Self::list_instances`] instead.
    fn find(&self, cx: &ResourceContext<'_>, title: &str) -> Result<ResourceState> {
        self.read_state(&cx.bind(&Resource::without_values(self.schema(), title)?))
    }

    /// All resources of this type on the machine: title and properties. Empty by default, because most types cannot be enumerated.
    fn list_instances(&self, _: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        Ok(Vec::new())
    }
}

/// Finds a resource by its title among all of its type: the last, if several records of a file have that name.
pub(crate) fn find_instance(
    resource_type: &dyn ResourceType,
    cx: &ResourceContext<'_>,
    title: &str,
) -> Result<ResourceState> {
    let found = resource_type.list_instances(cx)?.into_iter().rfind(|(name, _)| name == title);
    Ok(found.map_or_else(ResourceState::absent, |(_, values)| ResourceState { values }))
}

/// A generated resource that is to be removed, with the metaparameters of the resource that generates it.
pub(crate) fn absent_resource(
    resource_type: &dyn ResourceType,
    generator: &Resource,
    title: &str,
    attributes: &[(&str, &str)],
) -> Result<Resource> {
    let attributes = attributes.iter().chain(&[("ensure", "absent")]);
    let attributes = attributes.map(|(name, value)| ((*name).to_owned(), (*value).into()));
    let resource = munge_resource(resource_type.schema(), title, &attributes.collect())?;
    let mut absent = resource_type.check(resource)?;
    absent.inherit_metaparameters(generator);
    Ok(absent)
}

/// The other resources of a catalog.
pub trait CatalogResources {
    /// The resource of that type with this title, name or alias.
    fn find_resource(&self, type_name: &str, name: &str) -> Option<&Resource>;

    /// All resources of that type in catalog order.
    fn resources_of_type(&self, type_name: &str) -> Vec<&Resource>;
}

/// An empty catalog.
impl CatalogResources for () {
    fn find_resource(&self, _: &str, _: &str) -> Option<&Resource> {
        None
    }

    fn resources_of_type(&self, _: &str) -> Vec<&Resource> {
        Vec::new()
    }
}

/// Resolves `puppet:` URLs to files on this machine, and downloads them if needed.
pub trait FileSourceResolver: fmt::Debug {
    /// Node path of the file or directory; `None` if it does not exist, in which case the next
    /// source of a list is tried. The error is a single line for display.
    fn locate_file(&self, url: &str) -> Result<Option<PathBuf>, String>;
}

/// A resource by type and name; it need not be in the catalog.
pub type AutoRequire = (&'static str, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPhase {
    Never,
    /// Before any evaluation; generated resources come after their generator.
    BeforeTheRun,
    /// Before any evaluation; generated resources come before their generator.
    BeforeTheRunAndFirst,
    /// Right before the generator is evaluated; generated resources come after it, and its dependents after them.
    WithTheResource,
}

impl GenerationPhase {
    /// This phase if the resource generates others.
    pub(crate) fn only_if(self, generates: bool) -> Self {
        if generates { self } else { Self::Never }
    }
}

/// Data read for one resource and reused for the following ones. Data from a file is valid until the file's fingerprint changes.
#[derive(Debug, Default)]
pub(crate) struct EvaluationCache {
    /// passwd and group.
    pub(crate) names: AccountNameCache,
    /// Output of the package managers.
    pub(crate) packages: PackageListCache,
    /// File buckets declared in the catalog.
    pub(crate) buckets: BucketRegistry,
}

/// Identifies an unchanged file; `None` if the file does not exist.
pub(crate) type FileFingerprint = Option<FileMetadata>;

/// Ignores the access time.
pub(crate) fn file_fingerprint(system: &dyn System, path: &Path) -> SystemResult<FileFingerprint> {
    Ok(system.metadata(path)?.map(|found| FileMetadata { accessed: found.modified, ..found }))
}

#[derive(Debug)]
pub struct ResourceContext<'a> {
    pub system: &'a dyn System,
    /// Set when the caller cancels.
    pub cancel: CancelFlag,
    /// Log lines besides events: command output, messages.
    pub(crate) log: RefCell<Vec<String>>,
    pub(crate) cache: EvaluationCache,
    /// Whether earlier resources of a catalog may still have to create what this one needs: set while a catalog is evaluated in noop mode. Then a
    /// service that is not installed yet is a pending change and not an error.
    pub(crate) earlier_changes_pending: bool,
    /// Directories with new files that are not yet synced to disk.
    unsynced_directories: RefCell<BTreeSet<PathBuf>>,
    /// Resolver for `puppet:` sources that the catalog says nothing of.
    pub(crate) sources: Option<&'a dyn FileSourceResolver>,
    /// Directory of the contents of a static catalog's files.
    pub(crate) content_directory: PathBuf,
}

/// A resource, and the context in which it is read or changed.
#[derive(Debug, Clone, Copy)]
pub struct BoundResource<'a> {
    pub resource: &'a Resource,
    pub cx: &'a ResourceContext<'a>,
}

impl Deref for BoundResource<'_> {
    type Target = Resource;

    fn deref(&self) -> &Resource {
        self.resource
    }
}

impl<'a> ResourceContext<'a> {
    pub fn new(system: &'a dyn System, cancel: CancelFlag) -> Self {
        Self {
            system,
            cancel,
            log: RefCell::default(),
            cache: EvaluationCache::default(),
            earlier_changes_pending: false,
            unsynced_directories: RefCell::default(),
            sources: None,
            content_directory: PathBuf::from(DEFAULT_CONTENT_DIRECTORY),
        }
    }

    pub fn bind(&'a self, resource: &'a Resource) -> BoundResource<'a> {
        BoundResource { resource, cx: self }
    }

    /// Records a new file in this directory whose sync is deferred to the end.
    pub(crate) fn note_created_file(&self, directory: &Path) {
        let mut unsynced_directories = self.unsynced_directories.borrow_mut();
        if !unsynced_directories.contains(directory) {
            unsynced_directories.insert(directory.to_owned());
        }
    }

    /// Blocks until all recorded files are on disk.
    pub(crate) fn sync_created_files(&self) -> SystemResult<()> {
        let directories: Vec<PathBuf> = self.unsynced_directories.take().into_iter().collect();
        self.system.sync_file_systems(&directories)
    }

    /// Sets the resolver for files whose `source` is a `puppet:` URL. Without one such a file fails, unless the catalog says what the source is.
    #[must_use]
    pub fn with_sources(mut self, sources: &'a dyn FileSourceResolver) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Sets the directory of the contents of a static catalog's files.
    #[must_use]
    pub fn with_contents(mut self, directory: impl Into<PathBuf>) -> Self {
        self.content_directory = directory.into();
        self
    }

    /// Sets the default backup directory, used unless a `filebucket` says otherwise.
    #[must_use]
    pub fn with_bucket(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache.buckets = BucketRegistry::new(directory);
        self
    }

    /// Adds a line to [`crate::apply::ApplyOutcome::log`].
    pub fn log_line(&self, line: impl Into<String>) {
        self.log.borrow_mut().push(line.into());
    }
}
