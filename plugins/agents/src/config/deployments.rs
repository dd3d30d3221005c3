//! The deployments of a daemon: applies them, waits for their confirmation, and restores the earlier files without one.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::base::{error_chain, format_rfc3339, unix_millis_now};
use muster_contract::config::{
    ConfigConfirmOutput, ConfigDeployInput, ConfigDeployOutput, ConfigRevertInput,
    ConfigStatusOutput, DeployedName, deploy_state,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::changes::{self, FileChange, LinkedFiles};
use crate::config::error::{CONFIRM_SECONDS, DeployError};
use crate::config::plan::{ConfigEffect, PlannedDeployment, describe_changes, effect_of};
use crate::config::programs::{ProgramStore, StoredProgram};
use crate::config::record::{DeploymentRecord, DeploymentState, FileDigests, ProgramChange};
use crate::config::upgrades::note_ended_trial;

/// The file of the record, in the daemon's state directory.
const RECORD_FILE: &str = "config/deployment.json";

/// Pause before files that could not be restored are restored again.
const RESTORE_PAUSE: Duration = Duration::from_secs(10);

/// A program that is being fetched and checked; the error says why the daemon cannot run it.
pub type FetchedProgram<'a> =
    Pin<Box<dyn Future<Output = Result<StoredProgram, String>> + Send + 'a>>;

/// The daemon's side: where its files and programs are, and what they mean. Functions that are not asynchronous may block.
pub trait DaemonConfig: std::fmt::Debug + Send + Sync {
    fn programs(&self) -> &ProgramStore;
    /// Fetches the approved program of this name, unless it is there, and checks that it could run this daemon.
    fn fetch_program<'a>(&'a self, name: &'a str) -> FetchedProgram<'a>;
    fn locate(&self, name: &DeployedName) -> PathBuf;
    /// Checks settings and policies together with these changes, before anything is written. The error says what is wrong.
    fn check_planned(&self, changes: &[FileChange]) -> Result<(), String>;
    /// Checks everything that the daemon reads, as it is on disk now. The error says what is wrong.
    fn check_files(&self) -> Result<(), String>;
    /// Begins to put the files on disk in force. After a reload, the daemon calls [`Deployments::note_reload`].
    fn put_in_force(&self, effect: ConfigEffect);
}

#[derive(Debug)]
pub struct Deployments {
    pub(super) daemon: Arc<dyn DaemonConfig>,
    path: PathBuf,
    last: Mutex<LastDeployment>,
    changed: Notify,
    /// One program is fetched at a time.
    pub(super) fetching: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
pub(super) struct LastDeployment {
    record: Option<DeploymentRecord>,
    /// When a pending deployment is undone.
    deadline: Option<Instant>,
    /// Since when this daemon runs with the files on disk, in milliseconds since the epoch; `None` while it does not.
    in_force_since: Option<u64>,
}

impl Deployments {
    /// Continues what an earlier daemon left in the state directory: a deployment that waits for its confirmation is in force now.
    pub fn open(daemon: Arc<dyn DaemonConfig>, state_directory: &Path) -> Self {
        let path = state_directory.join(RECORD_FILE);
        let record = DeploymentRecord::read(&path).unwrap_or_else(|error| {
            tracing::error!(%error, path = %path.display(), "cannot read the record of the last deployment");
            None
        });
        let record = record.map(|record| note_ended_trial(record, daemon.programs(), &path));
        let pending = record.as_ref().filter(|record| record.state == DeploymentState::Pending);
        let deadline = pending.map(|record| {
            // The clock may have been set meanwhile: never longer than was agreed.
            let left = record.confirm_by.saturating_sub(unix_millis_now());
            Instant::now() + Duration::from_millis(left.min(record.confirm_seconds * 1000))
        });
        let last = LastDeployment { record, deadline, in_force_since: Some(0) };
        let fetching = tokio::sync::Mutex::default();
        let (last, changed) = (Mutex::new(last), Notify::new());
        Self { daemon, path, last, changed, fetching }
    }

    /// Restores the earlier files of deployments that are not confirmed in time. Runs as long as the daemon.
    pub async fn undo_unconfirmed(self: Arc<Self>) {
        loop {
            let deadline = self.lock().deadline;
            let expired = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = expired => {
                    let this = Arc::clone(&self);
                    if let Err(error) = tokio::task::spawn_blocking(move || this.expire()).await {
                        tracing::error!(%error, "cannot undo a deployment");
                    }
                }
            }
        }
    }

    /// Restores the earlier files if the time for a confirmation is over. Returns whether it did: the daemon must not start with what it read.
    pub fn undo_expired(&self) -> bool {
        let was_pending = self.lock().deadline.is_some();
        self.expire();
        was_pending && self.lock().deadline.is_none()
    }

    /// Notes that the daemon has read the files on disk again.
    pub fn note_reload(&self) {
        let mut last = self.lock();
        let needs_restart =
            last.record.as_ref().is_some_and(|record| record.effect == ConfigEffect::Restart);
        if last.in_force_since.is_none() && !needs_restart {
            last.in_force_since = Some(unix_millis_now());
        }
    }

    pub(crate) fn deploy(
        &self,
        caller: &impl ToString,
        input: ConfigDeployInput,
    ) -> Result<ConfigDeployOutput, DeployError> {
        let files = changes::read_files(&input)?;
        check_time(input.confirm_seconds)?;
        let mut last = self.lock();
        if let Some(output) = last.find_repeated(&input.deployment)? {
            return Ok(output);
        }
        last.refuse_pending()?;
        let earlier_files = last.files_in_force();
        let changes = changes::compare_files(
            &files,
            earlier_files.keys(),
            |name| self.daemon.locate(name),
            LinkedFiles::Refuse,
        )?;
        let digests = files.iter().map(|(name, content)| (name.clone(), content.digest()));
        let plan = PlannedDeployment {
            deployment: input.deployment,
            caller: caller.to_string(),
            confirm_seconds: input.confirm_seconds,
            files: digests.collect(),
            earlier_files,
            changes,
            program: None,
        };
        self.daemon.check_planned(&plan.changes).map_err(DeployError::Unusable)?;
        if input.noop {
            return Ok(plan.describe(deploy_state::PLANNED));
        }
        self.apply(&mut last, &plan)
    }

    /// Undoes a pending deployment at once, and a confirmed one by a deployment of its own.
    pub(crate) fn revert(
        &self,
        caller: &impl ToString,
        input: ConfigRevertInput,
    ) -> Result<ConfigDeployOutput, DeployError> {
        check_time(input.confirm_seconds)?;
        let mut last = self.lock();
        if let Some(output) = last.find_repeated(&input.deployment)? {
            return Ok(output);
        }
        let record = last.record.clone().ok_or(DeployError::NothingToRevert)?;
        match record.state {
            DeploymentState::Pending => {
                let reason = format!("reverted by {}", caller.to_string());
                let effect = self.restore(&mut last, reason)?;
                let state = deploy_state::REVERTED.to_owned();
                let deployment = record.deployment;
                let effect = effect.as_str().to_owned();
                return Ok(ConfigDeployOutput { deployment, state, effect, ..Default::default() });
            }
            DeploymentState::Confirmed => {}
            DeploymentState::Reverted => return Err(record.undone_error()),
        }
        let plan = PlannedDeployment {
            deployment: input.deployment,
            caller: caller.to_string(),
            confirm_seconds: input.confirm_seconds,
            changes: undo_changes(&record)?,
            files: record.earlier_files,
            earlier_files: record.files,
            program: record.program.map(ProgramChange::undo),
        };
        self.daemon.check_planned(&plan.changes).map_err(DeployError::Unusable)?;
        self.apply(&mut last, &plan)
    }

    /// Confirms a deployment by a request of its deployer that the node accepted at this time. A request from before the files were in force was allowed by the earlier
    /// policies, so it confirms nothing.
    pub(crate) fn confirm(
        &self,
        caller: &impl ToString,
        deployment: &str,
        accepted_at: u64,
    ) -> Result<ConfigConfirmOutput, DeployError> {
        let mut last = self.lock();
        let record = last.record.clone().filter(|record| record.deployment == deployment);
        let mut record = record.ok_or_else(|| DeployError::Unknown(deployment.to_owned()))?;
        if record.caller != caller.to_string() {
            let (deployment, deployer) = (record.deployment, record.caller);
            return Err(DeployError::OtherCaller { deployment, deployer });
        }
        match record.state {
            DeploymentState::Reverted => return Err(record.undone_error()),
            DeploymentState::Pending
                if last.in_force_since.is_none_or(|since| accepted_at <= since) =>
            {
                return Err(DeployError::NotInForce);
            }
            DeploymentState::Pending => {
                if record.program.is_some() {
                    self.daemon.programs().confirm()?;
                }
                record.state = DeploymentState::Confirmed;
                self.write(&mut last, record)?;
                last.deadline = None;
                self.changed.notify_one();
                tracing::info!(deployment, "the deployment was confirmed");
            }
            DeploymentState::Confirmed => {}
        }
        let (deployment, state) = (deployment.to_owned(), deploy_state::CONFIRMED.to_owned());
        Ok(ConfigConfirmOutput { deployment, state })
    }

    pub(crate) fn status(&self) -> ConfigStatusOutput {
        let program = self.daemon.programs().running_name().unwrap_or_default().into();
        let last = self.lock();
        let Some(record) = &last.record else {
            let state = deploy_state::NONE.into();
            return ConfigStatusOutput { state, program, ..ConfigStatusOutput::default() };
        };
        let files = record.files_in_force();
        let is_modified = |(name, digest): &(&DeployedName, &String)| {
            let found = changes::read_content(&self.daemon.locate(name)).ok().flatten();
            found.map(|content| content.digest()).as_ref() != Some(*digest)
        };
        ConfigStatusOutput {
            deployment: record.deployment.clone(),
            state: record.state.as_str().into(),
            caller: record.caller.as_str().into(),
            deployed_at: record.deployed_at,
            confirm_by: last.deadline.map_or(0, |_| record.confirm_by),
            reason: record.reason.as_str().into(),
            files: files.keys().map(ToString::to_string).collect(),
            modified: files
                .iter()
                .filter(is_modified)
                .map(|(name, _)| name.to_string().into())
                .collect(),
            program,
        }
    }

    /// Replaces the files, and begins to put them in force. The record is on disk before the first file changes, so that a daemon that is killed in
    /// between leaves a deployment that the next one undoes.
    pub(super) fn apply(
        &self,
        last: &mut LastDeployment,
        plan: &PlannedDeployment,
    ) -> Result<ConfigDeployOutput, DeployError> {
        let is_unchanged = plan.changes.is_empty() && plan.program.is_none();
        if is_unchanged && plan.files == plan.earlier_files {
            return Ok(plan.describe(deploy_state::UNCHANGED));
        }
        let mut record = plan.record();
        if is_unchanged {
            record.state = DeploymentState::Confirmed;
            self.write(last, record)?;
            return Ok(plan.describe(deploy_state::UNCHANGED));
        }
        let (earlier, in_force_since) = (last.record.clone(), last.in_force_since);
        self.write(last, record.clone())?;
        // From here on, a failure leaves a deployment that is undone at its deadline.
        last.in_force_since = None;
        last.deadline = Some(Instant::now() + Duration::from_secs(plan.confirm_seconds));
        self.changed.notify_one();
        let replaced = changes::replace_files(&plan.changes).map_err(|error| error_chain(&error));
        let checked = replaced.and_then(|()| self.daemon.check_files());
        if let Err(problem) = checked.and_then(|()| self.begin_trial(plan, record.confirm_by)) {
            // The daemon has not read them, so it is as if nothing had been deployed.
            changes::replace_files(&undo_changes(&record)?)?;
            self.forget(last, earlier, in_force_since)?;
            return Err(DeployError::Refused(problem));
        }
        self.daemon.put_in_force(record.effect);
        tracing::info!(deployment = record.deployment, caller = record.caller, effect = ?record.effect, "deployed files; waiting for the confirmation");
        Ok(ConfigDeployOutput {
            confirm_by: record.confirm_by,
            ..plan.describe(deploy_state::PENDING)
        })
    }

    fn expire(&self) {
        let mut last = self.lock();
        // It may have been confirmed meanwhile.
        if last.deadline.is_none_or(|deadline| deadline > Instant::now()) {
            return;
        }
        let seconds = last.record.as_ref().map_or(0, |record| record.confirm_seconds);
        let reason = format!("it was not confirmed within {seconds} s");
        if let Err(error) = self.restore(&mut last, reason) {
            tracing::error!(
                error = error_chain(&error),
                "cannot restore the files from before the last deployment; trying again"
            );
            last.deadline = Some(Instant::now() + RESTORE_PAUSE);
        }
    }

    /// Restores the files from before the last deployment, and begins to put them in force.
    fn restore(
        &self,
        last: &mut LastDeployment,
        reason: String,
    ) -> Result<ConfigEffect, DeployError> {
        let Some(mut record) = last.record.clone() else { return Ok(ConfigEffect::Nothing) };
        let undone = undo_changes(&record)?;
        changes::replace_files(&undone)?;
        tracing::warn!(
            deployment = record.deployment,
            reason,
            "restored the files from before the deployment"
        );
        let mut effect = effect_of(&undone);
        if let Some(change) = &record.program {
            self.daemon.programs().select(change.before.as_ref(), None)?;
            effect = ConfigEffect::Restart;
        }
        record.state = DeploymentState::Reverted;
        record.reason = reason;
        record.effect = effect;
        self.write(last, record)?;
        last.deadline = None;
        self.changed.notify_one();
        self.daemon.put_in_force(effect);
        Ok(effect)
    }

    fn write(
        &self,
        last: &mut LastDeployment,
        record: DeploymentRecord,
    ) -> Result<(), DeployError> {
        let failed = |source| DeployError::Record { path: self.path.clone(), source };
        record.write(&self.path).map_err(failed)?;
        last.record = Some(record);
        Ok(())
    }

    /// Returns to the deployment before, as if there had been no other.
    fn forget(
        &self,
        last: &mut LastDeployment,
        record: Option<DeploymentRecord>,
        in_force_since: Option<u64>,
    ) -> Result<(), DeployError> {
        if let Some(record) = record {
            self.write(last, record)?;
        } else {
            let failed = |source| DeployError::Record { path: self.path.clone(), source };
            changes::remove_file(&self.path).map_err(failed)?;
            last.record = None;
        }
        last.deadline = None;
        last.in_force_since = in_force_since;
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LastDeployment> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn check_time(seconds: u64) -> Result<(), DeployError> {
    let is_valid = CONFIRM_SECONDS.contains(&seconds);
    if is_valid { Ok(()) } else { Err(DeployError::ConfirmTime(seconds)) }
}

/// Files that something else has changed since stay as they are.
fn undo_changes(record: &DeploymentRecord) -> Result<Vec<FileChange>, DeployError> {
    let damaged = || DeployError::Unusable("the record of the deployment is damaged".to_owned());
    let changes = record.changes().ok_or_else(damaged)?;
    let undone: Result<Vec<_>, _> = changes.into_iter().map(FileChange::undo).collect();
    Ok(undone?.into_iter().flatten().collect())
}

impl DeploymentState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => deploy_state::PENDING,
            Self::Confirmed => deploy_state::CONFIRMED,
            Self::Reverted => deploy_state::REVERTED,
        }
    }
}

impl LastDeployment {
    /// The reply to a request that was executed before: its first reply may have been lost.
    pub(super) fn find_repeated(
        &self,
        deployment: &str,
    ) -> Result<Option<ConfigDeployOutput>, DeployError> {
        let Some(record) = self.record.as_ref().filter(|found| found.deployment == deployment)
        else {
            return Ok(None);
        };
        if record.state == DeploymentState::Reverted {
            return Err(record.undone_error());
        }
        let changes = record.changes().unwrap_or_default();
        Ok(Some(ConfigDeployOutput {
            deployment: record.deployment.clone(),
            state: record.state.as_str().to_owned(),
            changes: describe_changes(&changes, record.program.as_ref()),
            effect: record.effect.as_str().to_owned(),
            confirm_by: self.deadline.map_or(0, |_| record.confirm_by),
        }))
    }

    pub(super) fn refuse_pending(&self) -> Result<(), DeployError> {
        match &self.record {
            Some(record) if record.state == DeploymentState::Pending => Err(DeployError::Pending {
                deployment: record.deployment.clone(),
                caller: record.caller.clone(),
                until: format_rfc3339(record.confirm_by),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn files_in_force(&self) -> FileDigests {
        self.record.as_ref().map(|record| record.files_in_force().clone()).unwrap_or_default()
    }
}

impl DeploymentRecord {
    fn undone_error(&self) -> DeployError {
        let (deployment, reason) = (self.deployment.clone(), self.reason.clone());
        DeployError::Undone { deployment, reason }
    }
}
