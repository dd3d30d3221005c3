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

pub use document::{
    FileRecord, IncompleteRecord, LineGroup, ParsedDocument, RecordFormat, RecordPosition,
};
pub use record_type::RecordResourceType;

use super::paths;
use crate::error::{EngineError, Result};
use crate::plan::{ResourcePlan, ResourceState, is_absent};
use crate::resource::{Resource, ResourceValues, name_values};
use crate::resource_type::{AutoRequire, BoundResource, ResourceContext};
use crate::schema::{AttributeSchema, TypeSchema};

const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a change waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Directory of the lock files. They are not beside the edited files, where other programs would read them as configuration.
const LOCK_DIRECTORY: &str = "/run/muster";

/// Returns the content behind a header.
pub type HeaderFilter = fn(&[u8]) -> &[u8];

/// Decides whether a record without a name is that of a resource.
pub type UnnamedRecordMatch = fn(&Resource, &FileRecord) -> bool;

#[derive(Debug)]
pub struct ParsedFile {
    pub schema: &'static TypeSchema,
    pub format: &'static dyn RecordFormat,
    pub path: PathBuf,
    /// Attributes of a newly created file.
    pub created: FileAttributes,
    /// Attributes of a newly created directory; `None` if the directory must exist.
    pub directory: Option<FileAttributes>,
    /// A program that reads the new content on standard input and installs it, instead of writing the file.
    pub installer: Option<Vec<String>>,
    /// Removes what the installer itself adds to the content, so that it is not installed again.
    pub strip_header: Option<HeaderFilter>,
    /// Finds the resource's record if no record has its name.
    pub unnamed_match: Option<UnnamedRecordMatch>,
}

impl ParsedFile {
    /// A plain file in an existing directory.
    pub fn new(
        schema: &'static TypeSchema,
        format: &'static dyn RecordFormat,
        path: impl Into<PathBuf>,
    ) -> Self {
        Self {
            schema,
            format,
            path: path.into(),
            created: FileAttributes::default(),
            directory: None,
            installer: None,
            strip_header: None,
            unnamed_match: None,
        }
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
    pub fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let document = self
            .load_document(resource.cx.system)
            .map_err(self.error_during("reading", resource))?;
        let record = self.select_record(&document, resource).and_then(|at| document.get(at));
        Ok(record.map_or_else(ResourceState::absent, |record| self.record_state(record)))
    }

    /// Positions of the records of the resource: those with its name.
    fn own_records(
        &self,
        document: &ParsedDocument<'_>,
        resource: &Resource,
    ) -> Vec<RecordPosition> {
        let matching = |is_own: &dyn Fn(&FileRecord) -> bool| -> Vec<RecordPosition> {
            document.records().filter(|(_, record)| is_own(record)).map(|(at, _)| at).collect()
        };
        let named = matching(&|record| record.name == resource.name);
        match self.unnamed_match {
            Some(unnamed_match) if named.is_empty() => {
                matching(&|record| unnamed_match(resource, record))
            }
            _ => named,
        }
    }

    /// The record to compare with and to change: of several with the name, one that matches the resource, otherwise the last, as in Puppet.
    fn select_record(
        &self,
        document: &ParsedDocument<'_>,
        resource: &Resource,
    ) -> Option<RecordPosition> {
        let own = self.own_records(document, resource);
        let matches =
            |at: &&RecordPosition| document.get(**at).is_some_and(|r| self.is_in_sync(resource, r));
        own.iter().rev().find(matches).or(own.last()).copied()
    }

    /// Whether the record has all desired properties.
    fn is_in_sync(&self, resource: &Resource, record: &FileRecord) -> bool {
        record_properties(self.schema).all(|property| {
            match (resource.get(property.name), record.values.get(property.name)) {
                (None, _) => true,
                (Some(desired), None) => is_absent(desired),
                (desired, found) => desired == found,
            }
        })
    }

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
        Ok(records
            .map(|(_, record)| (record.name.clone(), self.record_state(record).values))
            .collect())
    }

    /// Updates the record: desired properties override those in the file.
    pub fn apply_plan(&self, cx: &ResourceContext<'_>, plan: &ResourcePlan) -> Result<()> {
        let resource = &plan.resource;
        let _lock = self.acquire_lock(cx.system).map_err(self.error_during("locking", resource))?;
        let mut document =
            self.load_document(cx.system).map_err(self.error_during("reading", resource))?;
        let before = document.render();
        if resource.get_text("ensure") == Some("absent") {
            let own = self.own_records(&document, resource);
            document.remove(&own);
        } else {
            let at = self.select_record(&document, resource);
            let new = || FileRecord { name: resource.name.clone(), ..FileRecord::default() };
            let found = at.and_then(|at| document.get(at)).cloned().unwrap_or_else(new);
            let put = document.put(at, overlay_desired(self.schema, resource, found));
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

/// Without `ensure` and the file path.
fn record_properties(schema: &TypeSchema) -> impl Iterator<Item = &'static AttributeSchema> {
    schema.properties().filter(|property| !["ensure", "target", "user"].contains(&property.name))
}

/// Merges desired properties over found ones; `absent` removes a property.
fn overlay_desired(schema: &TypeSchema, resource: &Resource, mut record: FileRecord) -> FileRecord {
    for property in record_properties(schema) {
        match resource.get(property.name) {
            Some(value) if is_absent(value) => drop(record.values.remove(property.name)),
            Some(value) => drop(record.values.insert(property.name.to_owned(), value.clone())),
            None => {}
        }
    }
    record
}
