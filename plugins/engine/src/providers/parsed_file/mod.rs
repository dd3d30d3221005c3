//! Resources that are records of a line-based file: hosts, mail aliases, cron jobs and ssh keys.
//!
//! Comments, order, unknown lines, mode and owner are preserved. A change reads, edits and replaces the whole file while
//! holding a lock, so concurrent changes are serialized.

pub mod crontab;
mod document;
mod record_type;

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::error::found_or_none;
use muster_system::{Command, FileAttributes, LockGuard, System, SystemError, SystemResult};

pub use document::{FileRecord, IncompleteRecord, ParsedDocument, RecordFormat};
pub use record_type::RecordResourceType;

use super::paths;
use crate::error::{EngineError, Result};
use crate::plan::{ResourcePlan, ResourceState, is_absent};
use crate::resource::{Resource, ResourceValues, name_values};
use crate::resource_type::{AutoRequire, ResourceContext};
use crate::schema::TypeSchema;

/// Maximum file size, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a change waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Directory of the lock files. They are not beside the edited files, where other programs would read them as configuration.
const LOCK_DIRECTORY: &str = "/run/muster";

/// Returns the content behind a header.
pub type HeaderFilter = fn(&[u8]) -> &[u8];

/// A file of records.
#[derive(Debug)]
pub struct ParsedFile {
    /// Record format.
    pub format: &'static dyn RecordFormat,
    /// Path of the file.
    pub path: PathBuf,
    /// Attributes of a newly created file.
    pub created: FileAttributes,
    /// Attributes of a newly created directory; `None` if the directory must exist.
    pub directory: Option<FileAttributes>,
    /// A program that reads the new content on standard input and installs it, instead of writing the file.
    pub installer: Option<Vec<String>>,
    /// Removes what the installer itself adds to the content, so that it is not installed again.
    pub strip_header: Option<HeaderFilter>,
}

impl ParsedFile {
    /// A plain file in an existing directory.
    pub fn new(format: &'static dyn RecordFormat, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let created = FileAttributes::default();
        Self { format, path, created, directory: None, installer: None, strip_header: None }
    }

    /// Autorequires the file itself, if it is in the catalog.
    pub fn autorequires(&self) -> Vec<AutoRequire> {
        vec![("file", self.path.to_string_lossy().into_owned())]
    }

    /// Reads the records; a missing file has none.
    pub fn load_document(&self, system: &dyn System) -> SystemResult<ParsedDocument<'static>> {
        let bytes = found_or_none(system.read_file(&self.path, MAX_FILE_BYTES))?;
        let bytes = bytes.as_deref().unwrap_or_default();
        let bytes = self.strip_header.map_or(bytes, |strip_header| strip_header(bytes));
        Ok(ParsedDocument::parse(self.format, bytes))
    }

    /// The state of a resource: `ensure`, the file path, and its record.
    pub fn read_state(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ResourceState> {
        let document =
            self.load_document(cx.system).map_err(self.error_during("reading", resource))?;
        let record = document.find(&resource.name);
        Ok(record.map_or_else(ResourceState::absent, |record| self.record_state(record)))
    }

    /// Converts a record to a resource state.
    pub fn record_state(&self, record: &FileRecord) -> ResourceState {
        let path = self.path.to_string_lossy().into_owned();
        let mut values = record.values.clone();
        values.extend(name_values([("ensure", "present".into()), ("target", path.into())]));
        ResourceState { values }
    }

    /// All records as title and properties.
    pub fn list_instances(
        &self,
        system: &dyn System,
    ) -> SystemResult<Vec<(String, ResourceValues)>> {
        let document = self.load_document(system)?;
        let records = document.records();
        Ok(records.map(|record| (record.name.clone(), self.record_state(record).values)).collect())
    }

    /// Updates the record: desired properties override those in the file.
    pub fn apply_plan(
        &self,
        cx: &ResourceContext<'_>,
        schema: &TypeSchema,
        plan: &ResourcePlan,
    ) -> Result<()> {
        let resource = &plan.resource;
        // The resource's name, unless the record was found under another one.
        let name = plan.state.get_text(FOUND_NAME_KEY).unwrap_or(&resource.name);
        let _lock = self.acquire_lock(cx.system).map_err(self.error_during("locking", resource))?;
        let mut document =
            self.load_document(cx.system).map_err(self.error_during("reading", resource))?;
        let before = document.render();
        if resource.get_text("ensure") == Some("absent") {
            document.remove(name);
        } else {
            let found = document.find(name).cloned();
            let mut record = overlay_desired(schema, resource, found.unwrap_or_default());
            name.clone_into(&mut record.name);
            let put = document.put(record);
            put.map_err(|error| EngineError::failed(resource, error.to_string()))?;
        }
        let after = document.render();
        // An earlier change of the same plan already wrote all properties.
        if after == before {
            return Ok(());
        }
        let rejection =
            self.write_content(cx, &after).map_err(self.error_during("writing", resource))?;
        rejection.map_or(Ok(()), |problem| Err(EngineError::failed(resource, problem)))
    }

    /// Writes the file or runs the installer; the inner error is the installer's message.
    fn write_content(
        &self,
        cx: &ResourceContext<'_>,
        content: &[u8],
    ) -> SystemResult<Option<String>> {
        if let Some(argv) = &self.installer {
            let mut command = Command::new(argv.clone());
            command.stdin = content.to_vec();
            command.cancel = cx.cancel.clone();
            let output = cx.system.run_command(&command)?;
            return Ok((!output.is_success()).then(|| output.failure_text(&argv.join(" "))));
        }
        if let (Some(attributes), Some(directory)) = (&self.directory, self.path.parent()) {
            paths::create_dirs(cx.system, directory, attributes)?;
        }
        let exists = cx.system.metadata(&self.path)?.is_some();
        let attributes = if exists { FileAttributes::default() } else { self.created };
        cx.system.write_file(&self.path, content, &attributes).map(|()| None)
    }

    fn acquire_lock(&self, system: &dyn System) -> SystemResult<Box<dyn LockGuard>> {
        paths::create_dirs(system, Path::new(LOCK_DIRECTORY), &FileAttributes::default())?;
        let name = self.path.to_string_lossy().replace('/', "-");
        system.lock_file(&Path::new(LOCK_DIRECTORY).join(format!("file{name}.lock")), LOCK_TIMEOUT)
    }

    fn error_during(
        &self,
        verb: &str,
        resource: &Resource,
    ) -> impl FnOnce(SystemError) -> EngineError {
        move |source| {
            EngineError::system(resource, format_args!("{verb} {}", self.path.display()), source)
        }
    }
}

/// State key for the record's own name if it differs from the resource's name.
pub const FOUND_NAME_KEY: &str = "found as";

/// Merges desired properties over found ones; `absent` removes a property. `ensure` and the file path are not part of a record.
fn overlay_desired(schema: &TypeSchema, resource: &Resource, mut record: FileRecord) -> FileRecord {
    let excluded = ["ensure", "target", "user"];
    for property in schema.properties().filter(|property| !excluded.contains(&property.name)) {
        match resource.get(property.name) {
            Some(value) if is_absent(value) => drop(record.values.remove(property.name)),
            Some(value) => drop(record.values.insert(property.name.to_owned(), value.clone())),
            None => {}
        }
    }
    record
}
