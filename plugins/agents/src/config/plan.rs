//! What a deployment is going to change, and how the daemon puts it in force.

use muster_api::base::unix_millis_now;
use muster_contract::config::{ConfigDeployOutput, DeployedChange, DeployedKind};
use serde::{Deserialize, Serialize};

use crate::config::changes::FileChange;
use crate::config::record::{
    DeploymentRecord, DeploymentState, FileDigests, ProgramChange, ReplacedFile,
};

/// How a daemon puts files in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigEffect {
    /// No file differs.
    Nothing,
    /// It reads policies, facts and checks again.
    Reload,
    /// It restarts, to read its settings.
    Restart,
}

impl ConfigEffect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Reload => "reload",
            Self::Restart => "restart",
        }
    }
}

/// A deployment that was checked and compared with the files on disk.
pub(crate) struct PlannedDeployment {
    pub(crate) deployment: String,
    pub(crate) caller: String,
    pub(crate) confirm_seconds: u64,
    pub(crate) files: FileDigests,
    pub(crate) earlier_files: FileDigests,
    pub(crate) changes: Vec<FileChange>,
    pub(crate) program: Option<ProgramChange>,
}

impl PlannedDeployment {
    pub(crate) fn describe(&self, state: &str) -> ConfigDeployOutput {
        ConfigDeployOutput {
            deployment: self.deployment.clone(),
            state: state.to_owned(),
            changes: describe_changes(&self.changes, self.program.as_ref()),
            effect: self.effect().as_str().to_owned(),
            confirm_by: 0,
        }
    }

    pub(crate) fn record(&self) -> DeploymentRecord {
        let now = unix_millis_now();
        DeploymentRecord {
            deployment: self.deployment.clone(),
            caller: self.caller.clone(),
            state: DeploymentState::Pending,
            deployed_at: now,
            confirm_by: now + self.confirm_seconds * 1000,
            confirm_seconds: self.confirm_seconds,
            effect: self.effect(),
            reason: String::new(),
            files: self.files.clone(),
            earlier_files: self.earlier_files.clone(),
            replaced: self.changes.iter().map(ReplacedFile::new).collect(),
            program: self.program.clone(),
        }
    }

    fn effect(&self) -> ConfigEffect {
        if self.program.is_some() { ConfigEffect::Restart } else { effect_of(&self.changes) }
    }
}

pub(crate) fn effect_of(changes: &[FileChange]) -> ConfigEffect {
    let effect = |change: &FileChange| match change.name.kind() {
        DeployedKind::Policy | DeployedKind::Fact | DeployedKind::Check => ConfigEffect::Reload,
        DeployedKind::Setting | DeployedKind::Authority => ConfigEffect::Restart,
    };
    changes.iter().map(effect).max().unwrap_or(ConfigEffect::Nothing)
}

pub(crate) fn describe_changes(
    changes: &[FileChange],
    program: Option<&ProgramChange>,
) -> Vec<DeployedChange> {
    let files = changes.iter().map(FileChange::describe);
    files.chain(program.map(ProgramChange::describe)).collect()
}
