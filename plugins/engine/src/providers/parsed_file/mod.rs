//! Resources that are records of a line-based file: one way for hosts, mail aliases, cron jobs and ssh keys.
//!
//! Comments, order, unknown lines, mode and owner stay. A change reads, edits and replaces the file as a whole while it
//! holds a lock, so that changes which are asked for at the same time follow each other.

pub mod crontab;
mod document;

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::{Command, FileAttributes, LockGuard, System, SystemError};

pub use document::{FileRecord, ParsedDocument, RecordFormat};

use super::paths;
use crate::error::EngineError;
use crate::plan::{ResourcePlan, ResourceState, is_absent};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{AutorequireTarget, ResourceContext};
use crate::schema::TypeSchema;

/// Longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a change waits for the others.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Where the lock files are: not beside the files, where others would take them for configuration.
const LOCK_DIRECTORY: &str = "/run/muster";

/// A file of records.
#[derive(Debug)]
pub struct ParsedFile {
    /// How its records are written.
    pub format: &'static dyn RecordFormat,
    /// Where it is.
    pub path: PathBuf,
    /// What the file gets when it is created.
    pub created: FileAttributes,
    /// What its directory gets when it is created; `None`: the directory must be there.
    pub directory: Option<FileAttributes>,
    /// A program that takes the new content on its standard input and installs it, instead of writing the file.
    pub installer: Option<Vec<String>>,
}

impl ParsedFile {
    /// A plain file in a directory that is there.
    pub fn new(format: &'static dyn RecordFormat, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            format,
            path,
            created: FileAttributes::default(),
            directory: None,
            installer: None,
        }
    }

    /// What comes before a record of this file: the file itself, where the catalog has that.
    pub fn autorequires(&self) -> Vec<AutorequireTarget> {
        vec![("file", self.path.to_string_lossy().into_owned())]
    }

    /// The records; a file that is not there has none.
    pub fn load_document(
        &self,
        system: &dyn System,
    ) -> Result<ParsedDocument<'static>, SystemError> {
        match system.read_file(&self.path, MAX_FILE_BYTES) {
            Ok(bytes) => Ok(ParsedDocument::parse(self.format, &bytes)),
            Err(error) if error.is_not_found() => Ok(ParsedDocument::parse(self.format, &[])),
            Err(error) => Err(error),
        }
    }

    /// The state of a resource: `ensure`, where it is, and its record.
    pub fn read_state(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ResourceState, EngineError> {
        let document = self
            .load_document(cx.system)
            .map_err(self.error_during("reading", resource))?;
        Ok(document
            .find(&resource.name)
            .map_or_else(ResourceState::absent, |record| self.record_state(record)))
    }

    /// The state that a record stands for.
    pub fn record_state(&self, record: &FileRecord) -> ResourceState {
        let mut values = record.values.clone();
        values.insert("ensure".to_owned(), ResourceValue::from("present"));
        values.insert(
            "target".to_owned(),
            ResourceValue::from(self.path.to_string_lossy().into_owned()),
        );
        ResourceState { values }
    }

    /// Every record as title and properties.
    pub fn list_instances(
        &self,
        system: &dyn System,
    ) -> Result<Vec<(String, ResourceValues)>, SystemError> {
        let document = self.load_document(system)?;
        let instance =
            |record: &FileRecord| (record.name.clone(), self.record_state(record).values);
        Ok(document.records().map(instance).collect())
    }

    /// Makes the record what the resource says: its desired properties over those that the file has.
    pub fn apply_plan(
        &self,
        cx: &ResourceContext<'_>,
        schema: &TypeSchema,
        plan: &ResourcePlan,
    ) -> Result<(), EngineError> {
        let resource = &plan.resource;
        let name = record_name(plan);
        let _lock = self
            .acquire_lock(cx.system)
            .map_err(self.error_during("locking", resource))?;
        let mut document = self
            .load_document(cx.system)
            .map_err(self.error_during("reading", resource))?;
        let before = document.render();
        if resource.get_text("ensure") == Some("absent") {
            document.remove(&name);
        } else {
            let found = document.find(&name).cloned();
            let mut record = overlay_desired(schema, resource, found.unwrap_or_default());
            record.name = name;
            document
                .put(record)
                .map_err(|problem| EngineError::failed(resource, problem))?;
        }
        let after = document.render();
        // An earlier change of the same plan has written them all.
        if after == before {
            return Ok(());
        }
        let refused = self
            .write_content(cx, &after)
            .map_err(self.error_during("writing", resource))?;
        refused.map_or(Ok(()), |problem| {
            Err(EngineError::failed(resource, problem))
        })
    }

    /// Writes the file, or has it installed; the inner text is what the installer said against it.
    fn write_content(
        &self,
        cx: &ResourceContext<'_>,
        content: &[u8],
    ) -> Result<Option<String>, SystemError> {
        if let Some(argv) = &self.installer {
            let mut command = Command::new(argv.clone());
            command.stdin = content.to_vec();
            command.cancel = cx.cancel.clone();
            let output = cx.system.run_command(&command)?;
            let said = || {
                format!(
                    "`{}` ended with {}: {}",
                    argv.join(" "),
                    output.code,
                    output.combined_text().trim()
                )
            };
            return Ok((!output.is_success()).then(said));
        }
        if let (Some(attributes), Some(directory)) = (&self.directory, self.path.parent()) {
            paths::create_dirs(cx.system, directory, attributes)?;
        }
        let exists = cx.system.metadata(&self.path)?.is_some();
        let attributes = if exists {
            FileAttributes::default()
        } else {
            self.created
        };
        cx.system
            .write_file(&self.path, content, &attributes)
            .map(|()| None)
    }

    fn acquire_lock(&self, system: &dyn System) -> Result<Box<dyn LockGuard>, SystemError> {
        paths::create_dirs(
            system,
            Path::new(LOCK_DIRECTORY),
            &FileAttributes::default(),
        )?;
        let name = self.path.to_string_lossy().replace('/', "-");
        system.lock_file(
            &Path::new(LOCK_DIRECTORY).join(format!("file{name}.lock")),
            LOCK_TIMEOUT,
        )
    }

    fn error_during(
        &self,
        verb: &str,
        resource: &Resource,
    ) -> impl FnOnce(SystemError) -> EngineError {
        EngineError::during(resource, format!("{verb} {}", self.path.display()))
    }
}

/// The name in the file: the resource's, unless reading found the record under another one.
fn record_name(plan: &ResourcePlan) -> String {
    let found = plan
        .state
        .get(FOUND_NAME_KEY)
        .and_then(ResourceValue::as_text);
    found.unwrap_or(&plan.resource.name).to_owned()
}

/// Under this name a state carries the record's own name, where that is not the resource's.
pub const FOUND_NAME_KEY: &str = "found as";

/// Desired properties over found ones; `absent` takes one away. `ensure`, and where the file is, are no part of a record.
fn overlay_desired(schema: &TypeSchema, resource: &Resource, mut record: FileRecord) -> FileRecord {
    let placed = ["ensure", "target", "user"];
    for property in schema
        .properties()
        .filter(|property| !placed.contains(&property.name))
    {
        match resource.get(property.name) {
            Some(value) if is_absent(value) => drop(record.values.remove(property.name)),
            Some(value) => drop(
                record
                    .values
                    .insert(property.name.to_owned(), value.clone()),
            ),
            None => {}
        }
    }
    record
}
