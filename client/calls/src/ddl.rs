//! DDLs of agents: the built-in ones, and files in a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use muster_ddl::{AgentDdl, BUILTIN_AGENTS, DdlError, MAX_DDL_BYTES};

/// DDLs by agent name.
#[derive(Debug, Default)]
pub struct DdlStore {
    /// From files and from nodes; these take precedence over the built-in ones.
    given: BTreeMap<String, AgentDdl>,
    /// Files that cannot be used, by file name without extension: the agent that they were to describe.
    problems: BTreeMap<String, DdlStoreError>,
    /// Built-in DDLs, each parsed on first use: a command needs one of them, and parsing all of them takes longer than a request to a node.
    builtin: BTreeMap<&'static str, OnceLock<AgentDdl>>,
}

/// Why DDLs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DdlStoreError {
    /// A file or the directory cannot be read.
    #[error("cannot read DDLs from {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A file that is not a valid DDL.
    #[error("{} is not a valid DDL", path.display())]
    Ddl {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: DdlError,
    },
}

impl DdlStore {
    /// Loads the built-in DDLs, and those in `directory/*.json`, which take precedence. A missing directory counts as empty, and a file that
    /// cannot be used is a problem of its agent only; see [`Self::problems`].
    pub fn load(directory: Option<&Path>) -> Result<Self, DdlStoreError> {
        let builtin = BUILTIN_AGENTS.iter().map(|(name, _)| (*name, OnceLock::new()));
        let mut store = Self { builtin: builtin.collect(), ..Self::default() };
        for (path, read) in read_json_files(directory)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let parsed = read.and_then(|bytes| {
                AgentDdl::from_slice(&bytes).map_err(|source| DdlStoreError::Ddl { path, source })
            });
            match parsed {
                Ok(ddl) => drop(store.given.insert(ddl.name().to_owned(), ddl)),
                Err(problem) => drop(store.problems.insert(name, problem)),
            }
        }
        Ok(store)
    }

    /// The files that cannot be used, with the agents that they were to describe.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &DdlStoreError)> {
        self.problems.iter().map(|(agent, problem)| (agent.as_str(), problem))
    }

    /// Why the file of this agent cannot be used. A built-in DDL does not replace it, because the file was to replace that.
    pub fn problem_of(&self, agent: &str) -> Option<&DdlStoreError> {
        self.problems.get(agent).filter(|_| !self.given.contains_key(agent))
    }

    /// Adds a DDL from another source, unless that name is known already: built-in DDLs and those in the user's directory take precedence. Returns
    /// whether it was added.
    pub fn add_absent(&mut self, ddl: AgentDdl) -> bool {
        let absent = self.get(ddl.name()).is_none() && self.problem_of(ddl.name()).is_none();
        if absent {
            self.replace(ddl);
        }
        absent
    }

    /// Adds a DDL, or replaces the one of the same name.
    pub fn replace(&mut self, ddl: AgentDdl) {
        self.given.insert(ddl.name().to_owned(), ddl);
    }

    /// The DDL of one agent.
    pub fn get(&self, agent: &str) -> Option<&AgentDdl> {
        self.given.get(agent).or_else(|| self.builtin_ddl(agent))
    }

    /// All DDLs, by name.
    pub fn all(&self) -> impl Iterator<Item = &AgentDdl> {
        let given = self.given.keys().map(String::as_str);
        let names: BTreeSet<&str> = given.chain(self.builtin.keys().copied()).collect();
        names.into_iter().filter_map(|name| self.get(name))
    }

    /// A built-in DDL; a test of `ddl` ensures that all of them parse.
    fn builtin_ddl(&self, agent: &str) -> Option<&AgentDdl> {
        let cell = self.builtin.get(agent)?;
        if cell.get().is_none() {
            let document = muster_ddl::builtin_agent(agent)?;
            let ddl = AgentDdl::from_slice(document.as_bytes()).ok()?;
            // Another thread may have set it first, to the same value.
            let _ = cell.set(ddl);
        }
        cell.get()
    }
}

/// A file's content, or why it cannot be read.
type JsonFile = (PathBuf, Result<Vec<u8>, DdlStoreError>);

/// The paths and contents of the JSON files in a directory, in the order of their names. A missing directory is empty.
pub(crate) fn read_json_files(directory: Option<&Path>) -> Result<Vec<JsonFile>, DdlStoreError> {
    let Some(directory) = directory else {
        return Ok(Vec::new());
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| DdlStoreError::Read { path, source }
    };
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed(directory))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let bytes = read_prefix(&path).map_err(failed(&path));
            files.push((path, bytes));
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(files)
}

/// Reads at most one byte more than a DDL may have, which suffices to refuse a larger file.
fn read_prefix(path: &Path) -> io::Result<Vec<u8>> {
    muster_files::read_prefix(File::open(path)?, MAX_DDL_BYTES as u64 + 1)
}
