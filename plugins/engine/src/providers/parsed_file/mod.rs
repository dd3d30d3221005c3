//! Resources that are records of a line-based file: one way for hosts, mail aliases, cron jobs and ssh keys.
//!
//! Comments, order, unknown lines, mode and owner stay. A change reads, edits and replaces the file as a whole while it
//! holds a lock, so that changes which are asked for at the same time follow each other.

pub mod crontab;
mod document;

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::{Attributes, Command, Lock, System, SystemError};

pub use document::{Document, Format, Record};

use super::paths;
use crate::error::EngineError;
use crate::plan::{Plan, State, is_absent};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, Wanted};
use crate::schema::Schema;

/// Longest file that is read, in bytes.
const LIMIT: u64 = 16 * 1024 * 1024;
/// How long a change waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where the lock files are: not beside the files, where others would take them for configuration.
const LOCKS: &str = "/run/muster";

/// A file of records.
#[derive(Debug)]
pub struct ParsedFile {
    /// How its records are written.
    pub format: &'static dyn Format,
    /// Where it is.
    pub path: PathBuf,
    /// What the file gets when it is created.
    pub created: Attributes,
    /// What its directory gets when it is created; `None`: the directory must be there.
    pub directory: Option<Attributes>,
    /// A program that takes the new content on its standard input and installs it, instead of writing the file.
    pub installer: Option<Vec<String>>,
}

impl ParsedFile {
    /// A plain file in a directory that is there.
    pub fn plain(format: &'static dyn Format, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            format,
            path,
            created: Attributes::default(),
            directory: None,
            installer: None,
        }
    }

    /// What comes before a record of this file: the file itself, where the catalog has that.
    pub fn autorequires(&self) -> Vec<Wanted> {
        vec![("file", self.path.to_string_lossy().into_owned())]
    }

    /// The records; a file that is not there has none.
    pub fn load(&self, system: &dyn System) -> Result<Document<'static>, SystemError> {
        match system.read(&self.path, LIMIT) {
            Ok(bytes) => Ok(Document::parse(self.format, &bytes)),
            Err(error) if error.is_not_found() => Ok(Document::parse(self.format, &[])),
            Err(error) => Err(error),
        }
    }

    /// The state of a resource: `ensure`, where it is, and its record.
    pub fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let document = self
            .load(cx.system)
            .map_err(self.failing("reading", resource))?;
        Ok(document
            .find(&resource.name)
            .map_or_else(State::absent, |record| self.state(record)))
    }

    /// The state that a record stands for.
    pub fn state(&self, record: &Record) -> State {
        let mut values = record.values.clone();
        values.insert("ensure".to_owned(), Value::from("present"));
        values.insert(
            "target".to_owned(),
            Value::from(self.path.to_string_lossy().into_owned()),
        );
        State { values }
    }

    /// Every record as title and properties.
    pub fn instances(&self, system: &dyn System) -> Result<Vec<(String, Values)>, SystemError> {
        let document = self.load(system)?;
        let instance = |record: &Record| (record.name.clone(), self.state(record).values);
        Ok(document.records().map(instance).collect())
    }

    /// Makes the record what the resource says: its desired properties over those that the file has.
    pub fn apply(&self, cx: &Cx<'_>, schema: &Schema, plan: &Plan) -> Result<(), EngineError> {
        let resource = &plan.resource;
        let name = record_name(plan);
        let _lock = self
            .lock(cx.system)
            .map_err(self.failing("locking", resource))?;
        let mut document = self
            .load(cx.system)
            .map_err(self.failing("reading", resource))?;
        let before = document.render();
        if resource.text("ensure") == Some("absent") {
            document.remove(&name);
        } else {
            let found = document.find(&name).cloned();
            let mut record = overlay(schema, resource, found.unwrap_or_default());
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
            .store(cx, &after)
            .map_err(self.failing("writing", resource))?;
        refused.map_or(Ok(()), |problem| {
            Err(EngineError::failed(resource, problem))
        })
    }

    /// Writes the file, or has it installed; the inner text is what the installer said against it.
    fn store(&self, cx: &Cx<'_>, content: &[u8]) -> Result<Option<String>, SystemError> {
        if let Some(argv) = &self.installer {
            let mut command = Command::new(argv.clone());
            command.stdin = content.to_vec();
            command.cancel = cx.cancel.clone();
            let output = cx.system.run(&command)?;
            let said = || {
                format!(
                    "`{}` ended with {}: {}",
                    argv.join(" "),
                    output.code,
                    output.text().trim()
                )
            };
            return Ok((!output.success()).then(said));
        }
        if let (Some(attributes), Some(directory)) = (&self.directory, self.path.parent()) {
            paths::create_dirs(cx.system, directory, attributes)?;
        }
        let exists = cx.system.metadata(&self.path)?.is_some();
        let attributes = if exists {
            Attributes::default()
        } else {
            self.created
        };
        cx.system
            .write(&self.path, content, &attributes)
            .map(|()| None)
    }

    fn lock(&self, system: &dyn System) -> Result<Box<dyn Lock>, SystemError> {
        paths::create_dirs(system, Path::new(LOCKS), &Attributes::default())?;
        let name = self.path.to_string_lossy().replace('/', "-");
        system.lock(&Path::new(LOCKS).join(format!("file{name}.lock")), PATIENCE)
    }

    fn failing(&self, verb: &str, resource: &Resource) -> impl FnOnce(SystemError) -> EngineError {
        EngineError::during(resource, format!("{verb} {}", self.path.display()))
    }
}

/// The name in the file: the resource's, unless reading found the record under another one.
fn record_name(plan: &Plan) -> String {
    let found = plan.state.get(FOUND_AS).and_then(Value::as_text);
    found.unwrap_or(&plan.resource.name).to_owned()
}

/// Under this name a state carries the record's own name, where that is not the resource's.
pub const FOUND_AS: &str = "found as";

/// Desired properties over found ones; `absent` takes one away. `ensure`, and where the file is, are no part of a record.
fn overlay(schema: &Schema, resource: &Resource, mut record: Record) -> Record {
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
