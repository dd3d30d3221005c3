//! The daemon's side of deployments: where its files are, whether it could use them, and how it reads them again.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use muster_agents::config::{ConfigEffect, DaemonConfig, FetchedProgram, FileChange, ProgramStore};
use muster_base::error_chain;
use muster_contract::config::{DeployedKind, DeployedName};
use muster_node::config::Config;
use muster_node::trust::policy;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::daemon::check::{self, CheckReport};
use crate::daemon::programs::ProgramFetcher;
use crate::services::agents::{self, PluginSetupError};

/// Settings without which the record of the deployment would not be found by the next daemon.
const FIXED_SETTINGS: &str = "`identity` and `paths.state` cannot be deployed, because the state of the deployment depends on them";

/// Wakes the daemon after its files were replaced.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileRequests {
    /// It reads policies, facts and checks again.
    pub(crate) reload: Arc<Notify>,
    /// It restarts.
    pub(crate) restart: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct DeployableFiles {
    /// Absolute.
    config_file: PathBuf,
    config: Config,
    checks: PathBuf,
    requests: FileRequests,
    programs: ProgramFetcher,
    /// What was wrong before the files changed.
    earlier_warnings: Mutex<Vec<String>>,
}

impl DeployableFiles {
    /// The files of a configuration as it was read, before values of the enrolment or the account token replaced others.
    pub(crate) fn new(
        config: &Config,
        config_file: &Path,
        requests: FileRequests,
        programs: ProgramFetcher,
    ) -> Result<Self, PluginSetupError> {
        Ok(Self {
            config_file: config.files().first().cloned().unwrap_or_else(|| config_file.to_owned()),
            checks: agents::check_schedules(config)?,
            config: config.clone(),
            requests,
            programs,
            earlier_warnings: Mutex::default(),
        })
    }

    fn check_settings(&self, changes: &[FileChange]) -> Result<Config, String> {
        let settings = changes.iter().filter(|change| change.name.kind() == DeployedKind::Setting);
        let replaced = settings.map(replaced_text).collect();
        let config = Config::load_replacing(&self.config_file, &replaced)
            .map_err(|error| error_chain(&error))?;
        let is_fixed = config.identity == self.config.identity
            && config.paths.state == self.config.paths.state;
        if is_fixed { Ok(config) } else { Err(FIXED_SETTINGS.to_owned()) }
    }

    /// Runs on a thread for blocking work, because sources of facts are programs.
    fn run_check(&self, config: &Config) -> Result<CheckReport, String> {
        Handle::current()
            .block_on(check::check_config(config, &self.config_file))
            .map_err(|error| error_chain(&error))
    }
}

impl DaemonConfig for DeployableFiles {
    fn programs(&self) -> &ProgramStore {
        &self.programs.store
    }

    fn fetch_program<'a>(&'a self, name: &'a str) -> FetchedProgram<'a> {
        Box::pin(self.programs.fetch(name))
    }

    fn locate(&self, name: &DeployedName) -> PathBuf {
        let paths = &self.config.paths;
        let file = name.file_name();
        match name.kind() {
            DeployedKind::Policy => paths.policies.join(file),
            DeployedKind::Fact => paths.facts_d.join(file),
            DeployedKind::Check => self.checks.join(file),
            DeployedKind::Setting => self.config_file.with_file_name("conf.d").join(file),
            DeployedKind::Authority => {
                let configured = self.config.broker.ca.clone();
                configured.unwrap_or_else(|| self.config_file.with_file_name(file))
            }
        }
    }

    fn check_planned(&self, changes: &[FileChange]) -> Result<(), String> {
        let config = self.check_settings(changes)?;
        let policies = changes.iter().filter(|change| change.name.kind() == DeployedKind::Policy);
        let replaced = policies.map(replaced_text).collect();
        let (_, problems) = policy::load_policies_replacing(
            &config.paths.policies,
            config.policy.default,
            &replaced,
        );
        if let Some(problem) = problems.first() {
            return Err(error_chain(problem));
        }
        // Without a report, everything that is wrong afterwards counts as new.
        let report = self.run_check(&self.config).unwrap_or_default();
        *self.earlier_warnings.lock().unwrap_or_else(PoisonError::into_inner) = report.warnings;
        Ok(())
    }

    fn check_files(&self) -> Result<(), String> {
        let config = self.check_settings(&[])?;
        let report = self.run_check(&config)?;
        let earlier = self.earlier_warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let new = report.warnings.into_iter().filter(|warning| !earlier.contains(warning));
        report.errors.into_iter().chain(new).next().map_or(Ok(()), Err)
    }

    fn put_in_force(&self, effect: ConfigEffect) {
        match effect {
            ConfigEffect::Nothing => {}
            ConfigEffect::Reload => self.requests.reload.notify_one(),
            ConfigEffect::Restart => self.requests.restart.notify_one(),
        }
    }
}

fn replaced_text(change: &FileChange) -> (String, Option<String>) {
    (change.name.file_name().to_owned(), change.new_text().map(Cow::into_owned))
}
