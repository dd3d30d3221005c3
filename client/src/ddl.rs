//! The schemas that a caller knows: the built-in ones, and files in a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use muster_ddl::{AgentDdl, BUILTIN_AGENTS, DdlError};

/// Schemas by agent name.
#[derive(Debug, Clone, Default)]
pub struct DdlStore {
    /// From files and from nodes; these win.
    given: BTreeMap<String, AgentDdl>,
    /// Those that come with the product, each read when it is first asked for: a command needs one of them, and to read all takes
    /// longer than to ask a node.
    builtin: BTreeMap<&'static str, OnceLock<AgentDdl>>,
}

/// Why schemas cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DdlStoreError {
    /// A file or the directory.
    #[error("cannot read schemas from {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A schema that is none.
    #[error("{} is not a usable DDL", path.display())]
    Ddl {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DdlError,
    },
}

impl DdlStore {
    /// The built-in schemas, and those in `directory/*.json`, which win. A directory that does not exist has none.
    pub fn load(directory: Option<&Path>) -> Result<Self, DdlStoreError> {
        let builtin = BUILTIN_AGENTS
            .iter()
            .map(|(name, _)| (*name, OnceLock::new()));
        let mut store = Self {
            given: BTreeMap::new(),
            builtin: builtin.collect(),
        };
        for path in directory.map_or_else(|| Ok(Vec::new()), json_files)? {
            store.add_file(&path, &read_file(&path)?)?;
        }
        Ok(store)
    }

    fn add_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), DdlStoreError> {
        let ddl = AgentDdl::from_slice(bytes).map_err(|source| DdlStoreError::Ddl {
            path: path.to_owned(),
            source,
        })?;
        self.given.insert(ddl.name().to_owned(), ddl);
        Ok(())
    }

    /// Adds a schema from elsewhere, unless one of that name is known already: what comes with the product, and what the
    /// user has put into the directory, wins. Tells whether it was added.
    pub fn add_absent(&mut self, ddl: AgentDdl) -> bool {
        let absent = self.get(ddl.name()).is_none();
        if absent {
            self.given.insert(ddl.name().to_owned(), ddl);
        }
        absent
    }

    /// One agent's schema.
    pub fn get(&self, agent: &str) -> Option<&AgentDdl> {
        self.given.get(agent).or_else(|| self.builtin_ddl(agent))
    }

    /// All schemas, by name.
    pub fn all(&self) -> impl Iterator<Item = &AgentDdl> {
        let given = self.given.keys().map(String::as_str);
        let names: BTreeSet<&str> = given.chain(self.builtin.keys().copied()).collect();
        names.into_iter().filter_map(|name| self.get(name))
    }

    /// One that comes with the product; a test of `ddl` proves that all of them can be read.
    fn builtin_ddl(&self, agent: &str) -> Option<&AgentDdl> {
        let place = self.builtin.get(agent)?;
        if place.get().is_none() {
            let document = muster_ddl::builtin_agent(agent)?;
            let read = AgentDdl::from_slice(document.as_bytes()).ok()?;
            // Who came first has read the same.
            let _ = place.set(read);
        }
        place.get()
    }
}

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, DdlStoreError> {
    std::fs::read(path).map_err(|source| DdlStoreError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The documents in a directory, sorted. A directory that does not exist has none.
pub(crate) fn json_files(directory: &Path) -> Result<Vec<PathBuf>, DdlStoreError> {
    let failed = |source| DdlStoreError::Read {
        path: directory.to_owned(),
        source,
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
