//! What the operator of a node says of Puppet: the table `plugins.puppet` of the daemon's configuration.

use std::path::PathBuf;

use serde::Deserialize;

/// The options. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether the node has the agent at all.
    pub enabled: bool,
    /// What applies catalogs.
    pub engine: CatalogEngine,
    /// Puppet's program; the one of its packages, or the distribution's, when absent.
    pub command: Option<PathBuf>,
    /// Which of Puppet's applications makes a run.
    pub application: PuppetApplication,
    /// The catalog: what `application = "apply"` or `engine = "native"` applies.
    pub catalog: Option<PathBuf>,
    /// The manifest that `application = "apply"` applies, where there is no catalog.
    pub manifest: Option<PathBuf>,
    /// More arguments of Puppet, after our own.
    pub arguments: Vec<String>,
    /// `--confdir`. This and the next are Puppet's directories, where they are not those of its packages; each is told to Puppet too.
    pub confdir: Option<PathBuf>,
    /// `--codedir`.
    pub codedir: Option<PathBuf>,
    /// `--vardir`: the state with locks and reports is below it.
    pub vardir: Option<PathBuf>,
    /// `--rundir`: the number of Puppet's daemon is there.
    pub rundir: Option<PathBuf>,
    /// `--logdir`.
    pub logdir: Option<PathBuf>,
    /// `--publicdir`: the summary of the last run is there.
    pub publicdir: Option<PathBuf>,
    /// `--ssldir`.
    pub ssldir: Option<PathBuf>,
    /// `--certname`.
    pub certname: Option<String>,
    /// Whether runs are spread over time unless the caller says otherwise; Puppet's own setting counts when absent.
    pub splay: Option<bool>,
    /// The longest such time, in seconds.
    pub splaylimit: Option<u64>,
    /// Whether callers may name another server: a server that they name runs code here.
    pub allow_server_override: bool,
    /// The pool of permits.
    pub pool: String,
    /// How many runs of the pool may go on at once, where the caller does not say it. Zero: no permit is asked for.
    pub limit: u32,
    /// Whether a run that somebody else starts (cron, a person) takes room in the pool.
    pub occupy: bool,
    /// The longest wait for other runs of the node, and again for a permit, in seconds, where the caller does not say it.
    pub wait: u64,
    /// The longest run, in seconds; it is ended then.
    pub timeout: u64,
    /// What a run has between TERM and KILL, in seconds.
    pub grace: u64,
    /// How many runs are remembered.
    pub keep: usize,
    /// Where runs are remembered; below the daemon's own state when absent.
    pub state_dir: PathBuf,
    /// Where the engine keeps its ledger and its run lock; that of `[plugins.catalog]` when absent.
    pub engine_dir: PathBuf,
}

/// What applies catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatalogEngine {
    /// The machine's Puppet.
    #[default]
    Puppet,
    /// Our own engine, which applies the catalog in `catalog`.
    Native,
}

impl CatalogEngine {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Puppet => "puppet",
            Self::Native => "native",
        }
    }
}

/// One of Puppet's applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PuppetApplication {
    /// `puppet agent`: asks a server for the catalog.
    #[default]
    Agent,
    /// `puppet apply`: has a catalog or a manifest.
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
