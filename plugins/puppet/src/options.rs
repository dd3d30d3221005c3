//! Options of the agent: the table `plugins.puppet` of the daemon's configuration.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A catalog that one run applies with `puppet apply`, whatever the options name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCatalog {
    /// The file.
    pub file: PathBuf,
    /// Puppet's `libdir` for this catalog: types and providers that are not of Puppet itself.
    pub libdir: Option<PathBuf>,
}

/// Unknown keys are rejected.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether the node has the agent.
    pub enabled: bool,
    pub engine: CatalogEngine,
    /// Puppet's program; when absent, that of Puppet's packages or of the distribution.
    pub command: Option<PathBuf>,
    pub application: PuppetApplication,
    /// The catalog: what `application = "apply"` or `engine = "native"` applies.
    pub catalog: Option<PathBuf>,
    /// The manifest that `application = "apply"` applies if there is no catalog.
    pub manifest: Option<PathBuf>,
    /// Additional arguments of Puppet, after the generated ones.
    pub arguments: Vec<String>,
    /// `--confdir`. This and the following are Puppet's directories, if they differ from those of its packages; each is also passed to Puppet.
    pub confdir: Option<PathBuf>,
    pub codedir: Option<PathBuf>,
    /// `--vardir`: contains the state directory with locks and reports.
    pub vardir: Option<PathBuf>,
    /// `--rundir`: contains the pid file of Puppet's daemon.
    pub rundir: Option<PathBuf>,
    pub logdir: Option<PathBuf>,
    /// `--publicdir`: contains the summary of the last run.
    pub publicdir: Option<PathBuf>,
    pub ssldir: Option<PathBuf>,
    pub certname: Option<String>,
    /// Default for spreading runs over time, if the caller does not say; Puppet's own setting applies when absent.
    pub splay: Option<bool>,
    /// Longest splay, in seconds.
    pub splaylimit: Option<u64>,
    /// Whether callers may name another server. That server can run code on this node.
    pub allow_server_override: bool,
    pub pool: String,
    /// Default limit of concurrent runs in the pool, if the caller does not say. 0: the run imposes no limit, and keeps those of other runs.
    pub limit: u32,
    /// Whether a run that was started outside (cron, console) takes a place in the pool.
    pub occupy: bool,
    /// Default for the longest wait for other runs of the node, and again for a permit, in seconds.
    pub wait: u64,
    /// Longest run, in seconds; it is stopped after that.
    pub timeout: u64,
    /// Time between SIGTERM and SIGKILL, in seconds.
    pub grace: u64,
    /// Number of runs whose records are kept.
    pub keep: usize,
    /// Directory of the run records; below the daemon's state directory when absent.
    pub state_dir: PathBuf,
    /// Directory of the engine's ledger and run lock; that of `[plugins.catalog]` when absent.
    pub engine_dir: PathBuf,
}

impl Options {
    /// The options of a run that applies this catalog, if there is one.
    pub(crate) fn for_catalog(&self, catalog: Option<&RunCatalog>) -> Self {
        let Some(catalog) = catalog else { return self.clone() };
        // Arguments for another application would be errors.
        let is_same = self.application == PuppetApplication::Apply;
        let mut arguments = if is_same { self.arguments.clone() } else { Vec::new() };
        if let Some(libdir) = &catalog.libdir {
            arguments.extend(["--libdir".to_owned(), libdir.display().to_string()]);
        }
        Self {
            engine: CatalogEngine::Puppet,
            application: PuppetApplication::Apply,
            catalog: Some(catalog.file.clone()),
            manifest: None,
            arguments,
            ..self.clone()
        }
    }

    /// The files and directories whose content a run executes or applies. Puppet's own state may belong to Puppet's user.
    pub(crate) fn applied_paths(&self) -> impl Iterator<Item = &Path> {
        [&self.catalog, &self.manifest, &self.confdir, &self.codedir]
            .into_iter()
            .filter_map(|path| path.as_deref())
    }

    /// Puppet's `client_datadir` of a run that compiles the manifest: Puppet stores the compiled catalog in it, for a replay of owed refreshes.
    /// `None` if a run gets its catalog otherwise.
    pub(crate) fn compiled_dir(&self) -> Option<PathBuf> {
        let is_compiled = self.application == PuppetApplication::Apply && self.catalog.is_none();
        is_compiled.then(|| self.state_dir.join("compiled"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatalogEngine {
    /// The machine's Puppet.
    #[default]
    Puppet,
    /// The native engine, which applies the catalog in `catalog`.
    Native,
}

impl CatalogEngine {
    /// The name as used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Puppet => "puppet",
            Self::Native => "native",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PuppetApplication {
    /// `puppet agent`: requests the catalog from a server.
    #[default]
    Agent,
    /// `puppet apply`: applies a local catalog or manifest.
    Apply,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: true,
            engine: CatalogEngine::default(),
            command: None,
            application: PuppetApplication::default(),
            catalog: None,
            manifest: None,
            arguments: Vec::new(),
            confdir: None,
            codedir: None,
            vardir: None,
            rundir: None,
            logdir: None,
            publicdir: None,
            ssldir: None,
            certname: None,
            splay: None,
            splaylimit: None,
            allow_server_override: false,
            pool: "puppet".to_owned(),
            limit: 0,
            occupy: true,
            wait: 300,
            timeout: 3600,
            grace: 10,
            keep: 200,
            state_dir: PathBuf::new(),
            engine_dir: PathBuf::new(),
        }
    }
}
