//! Locations of Puppet's files on this machine: as configured, else the defaults of Puppet's and Debian's packages.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use muster_api::system::{System, SystemError, SystemResult};

use crate::options::Options;

/// Where the program is searched if none is configured.
const PROGRAM_CANDIDATES: [&str; 3] =
    ["/opt/puppetlabs/bin/puppet", "/usr/bin/puppet", "/usr/local/bin/puppet"];
/// Puppet's `vardir` with the corresponding `publicdir`, which exists since Puppet 7.
const VARDIR_CANDIDATES: [(&str, &str); 3] = [
    ("/opt/puppetlabs/puppet/cache", "/opt/puppetlabs/puppet/public"),
    ("/var/cache/puppet", "/var/cache/puppet/public"),
    ("/var/lib/puppet", "/var/lib/puppet/public"),
];
/// Directories that may contain the pid file of Puppet's daemon.
const RUNDIR_CANDIDATES: [&str; 3] = ["/var/run/puppetlabs", "/run/puppetlabs", "/run/puppet"];
const SSLDIR_CANDIDATES: [&str; 3] =
    ["/etc/puppetlabs/puppet/ssl", "/var/lib/puppet/ssl", "/etc/puppet/ssl"];

/// Puppet's directories, as paths of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PuppetPaths {
    pub(crate) vardir: PathBuf,
    pub(crate) publicdir: PathBuf,
    pub(crate) rundirs: Vec<PathBuf>,
    pub(crate) ssldir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PuppetPathsError {
    #[error("Puppet is not installed or has never run: none of these directories exists: {0}")]
    State(String),
    #[error(
        "cannot find the program `puppet`, looked for {0}; set [plugins.puppet] command to its path"
    )]
    Program(String),
    #[error(transparent)]
    System(#[from] SystemError),
}

impl PuppetPaths {
    /// Uses the configured directories, else the first existing defaults.
    pub(crate) fn find(options: &Options, system: &dyn System) -> Result<Self, PuppetPathsError> {
        let mut found = None;
        for (var, public) in VARDIR_CANDIDATES {
            let vardir = PathBuf::from(var);
            if found.is_none() && path_exists(system, &vardir.join("state"))? {
                found = Some((vardir, PathBuf::from(public)));
            }
        }
        let (vardir, publicdir) = match (&options.vardir, found) {
            (Some(vardir), _) => (vardir.clone(), vardir.join("public")),
            (None, Some(found)) => found,
            (None, None) => {
                let candidates: Vec<String> =
                    VARDIR_CANDIDATES.iter().map(|(var, _)| format!("{var}/state")).collect();
                return Err(PuppetPathsError::State(candidates.join(", ")));
            }
        };
        let rundirs = match &options.rundir {
            Some(rundir) => vec![rundir.clone()],
            None => RUNDIR_CANDIDATES.map(PathBuf::from).to_vec(),
        };
        Ok(Self {
            vardir,
            publicdir: options.publicdir.clone().unwrap_or(publicdir),
            rundirs,
            ssldir: match &options.ssldir {
                Some(ssldir) => ssldir.clone(),
                None => find_ssldir(system)?,
            },
        })
    }

    /// Directory of locks and reports.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.vardir.join("state")
    }

    pub(crate) fn report_path(&self) -> PathBuf {
        self.state_dir().join("last_run_report.yaml")
    }

    /// The metadata of Puppet's report; `None` without a report. Blocks.
    pub(crate) fn report_metadata(&self, system: &dyn System) -> Option<Metadata> {
        system.host_path(&self.report_path()).metadata().ok()
    }

    pub(crate) fn run_lock_path(&self) -> PathBuf {
        self.state_dir().join("agent_catalog_run.lock")
    }

    pub(crate) fn disabled_lock_path(&self) -> PathBuf {
        self.state_dir().join("agent_disabled.lock")
    }

    /// Possible locations of the summary, most likely first: before Puppet 7 it was in the state directory.
    pub(crate) fn summary_paths(&self) -> [PathBuf; 2] {
        let name = "last_run_summary.yaml";
        [self.publicdir.join(name), self.state_dir().join(name)]
    }

    /// Directory in which agents store the last received catalog.
    pub(crate) fn catalog_dir(&self) -> PathBuf {
        self.vardir.join("client_data").join("catalog")
    }
}

pub(crate) fn find_program(
    options: &Options,
    system: &dyn System,
) -> Result<PathBuf, PuppetPathsError> {
    if let Some(command) = &options.command {
        return Ok(command.clone());
    }
    for path in PROGRAM_CANDIDATES {
        if path_exists(system, Path::new(path))? {
            return Ok(path.into());
        }
    }
    Err(PuppetPathsError::Program(PROGRAM_CANDIDATES.join(", ")))
}

fn find_ssldir(system: &dyn System) -> SystemResult<PathBuf> {
    for path in SSLDIR_CANDIDATES {
        if path_exists(system, Path::new(path))? {
            return Ok(path.into());
        }
    }
    Ok(SSLDIR_CANDIDATES.first().map(PathBuf::from).unwrap_or_default())
}

fn path_exists(system: &dyn System, path: &Path) -> SystemResult<bool> {
    Ok(system.metadata(path)?.is_some())
}
