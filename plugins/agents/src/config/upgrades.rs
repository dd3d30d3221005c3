//! Upgrades of the daemon's program: deployments whose only change is the program of the next start.

use std::path::Path;
use std::sync::Arc;

use muster_api::base::error_chain;
use muster_contract::config::{ConfigDeployOutput, ConfigUpgradeInput, deploy_state};

use crate::config::deployments::{Deployments, check_time};
use crate::config::error::DeployError;
use crate::config::plan::PlannedDeployment;
use crate::config::programs::{ProgramStore, StoredProgram};
use crate::config::record::{DeploymentRecord, DeploymentState, ProgramChange};

impl Deployments {
    /// Selects an approved program, and begins to run it.
    pub(crate) async fn upgrade(
        self: Arc<Self>,
        caller: String,
        input: ConfigUpgradeInput,
    ) -> Result<ConfigDeployOutput, DeployError> {
        check_time(input.confirm_seconds)?;
        {
            let last = self.lock();
            if let Some(output) = last.find_repeated(&input.deployment)? {
                return Ok(output);
            }
            last.refuse_pending()?;
        }
        let _fetching = self.fetching.lock().await;
        let program = self.daemon.fetch_program(&input.program).await;
        let program = program.map_err(DeployError::Unusable)?;
        let this = Arc::clone(&self);
        let select = move || this.select_program(caller, input, program);
        let selected = tokio::task::spawn_blocking(select).await;
        selected.unwrap_or_else(|error| Err(DeployError::Unusable(error.to_string())))
    }

    fn select_program(
        &self,
        caller: String,
        input: ConfigUpgradeInput,
        program: StoredProgram,
    ) -> Result<ConfigDeployOutput, DeployError> {
        let mut last = self.lock();
        if let Some(output) = last.find_repeated(&input.deployment)? {
            return Ok(output);
        }
        last.refuse_pending()?;
        let (before, _) = self.daemon.programs().selected()?;
        let change = ProgramChange { before, after: Some(program) };
        let files = last.files_in_force();
        let plan = PlannedDeployment {
            deployment: input.deployment,
            caller,
            confirm_seconds: input.confirm_seconds,
            earlier_files: files.clone(),
            files,
            changes: Vec::new(),
            program: change.is_change().then_some(change),
        };
        if input.noop {
            return Ok(plan.describe(deploy_state::PLANNED));
        }
        self.apply(&mut last, &plan)
    }

    /// The next start runs the program of the plan, on trial.
    pub(super) fn begin_trial(
        &self,
        plan: &PlannedDeployment,
        confirm_by: u64,
    ) -> Result<(), String> {
        let Some(change) = &plan.program else { return Ok(()) };
        let selected = self.daemon.programs().select(change.after.as_ref(), Some(confirm_by));
        selected.map_err(|error| error_chain(&error))
    }
}

/// A program that did not survive its trial was replaced by the earlier one before this daemon started.
pub(super) fn note_ended_trial(
    mut record: DeploymentRecord,
    programs: &ProgramStore,
    path: &Path,
) -> DeploymentRecord {
    let Some(change) = &record.program else { return record };
    let (selected, reason) = match programs.selected() {
        Ok(found) => found,
        Err(error) => {
            tracing::error!(error = error_chain(&error), "cannot read which program is selected");
            return record;
        }
    };
    if record.state == DeploymentState::Pending && selected != change.after {
        record.state = DeploymentState::Reverted;
        record.reason = reason.unwrap_or_else(|| "another program was selected".to_owned());
        tracing::error!(
            deployment = record.deployment,
            reason = record.reason,
            "returned to the program from before the upgrade"
        );
        if let Err(error) = record.write(path) {
            tracing::error!(%error, "cannot write the record of the last deployment");
        }
    }
    record
}
