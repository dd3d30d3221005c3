//! `config`: deploys the daemon's own files and programs, checks the result, and restores the earlier ones unless the deployment is confirmed in time.
//!
//! A caller who deploys files that lock himself out cannot confirm them, so the node undoes them by itself. What the files mean is the daemon's
//! part: see [`DaemonConfig`].

mod changes;
mod deployments;
mod error;
mod plan;
mod programs;
mod record;
#[cfg(test)]
mod tests;
mod upgrades;

use std::sync::Arc;

use muster_api::wire::identity::SubjectName;
use muster_api::{
    ActionError, Agent, AgentError, BlockingContext, CallContext, CallerVerdict, DaemonContext,
    NoOptions, NoState, NodePlugin, PluginResult,
};
use muster_contract::config::{
    ConfigAgent, ConfigCallerRow, ConfigConfirm, ConfigConfirmInput, ConfigConfirmOutput,
    ConfigDeploy, ConfigDeployInput, ConfigDeployOutput, ConfigRevert, ConfigRevertInput,
    ConfigStatus, ConfigUpgrade, ConfigUpgradeInput, ConfigWho, ConfigWhoInput, ConfigWhoOutput,
};

pub use changes::{
    DeployedFiles, FileChange, FileChangeError, FileContent, LinkedFiles, compare_files,
    replace_files,
};
pub use deployments::{DaemonConfig, Deployments, FetchedProgram};
pub use plan::ConfigEffect;
pub use programs::{ProgramChoice, ProgramStore, StoredProgram};

#[derive(Debug)]
pub struct ConfigPlugin(DeploymentHandle);

/// The deployments, if the daemon runs.
#[derive(Debug, Clone)]
struct DeploymentHandle(Option<Arc<Deployments>>);

impl NodePlugin for ConfigPlugin {
    const NAME: &'static str = "config";
    type Options = NoOptions;
    type Shared = Option<Arc<Deployments>>;

    fn configure(_: NoOptions, _: &DaemonContext, deployments: Self::Shared) -> PluginResult<Self> {
        Ok(Self(DeploymentHandle(deployments)))
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        let Self(deployments) = self;
        Agent::builder_for::<ConfigAgent>()?
            .blocking_action(ConfigDeploy, deployments, deploy_files)
            .action(ConfigUpgrade, deployments, upgrade_program)
            .blocking_action(ConfigRevert, deployments, revert_files)
            .blocking_action(ConfigConfirm, deployments, confirm_files)
            .blocking_action(ConfigStatus, deployments, |deployments, _, _| {
                Ok(deployments.get()?.status())
            })
            .blocking_action(ConfigWho, &NoState, decide_callers)
            .build()
    }
}

fn decide_callers(
    _: &NoState,
    cx: &BlockingContext,
    ConfigWhoInput { agent, action }: ConfigWhoInput,
) -> Result<ConfigWhoOutput, ActionError> {
    let parse = |text: &str| {
        SubjectName::parse(text).map_err(|error| ActionError::invalid_input(error.to_string()))
    };
    let (agent, action) = (parse(&agent)?, parse(&action)?);
    let hidden = || {
        ActionError::failed(
            "this node does not disclose its policies: `policy.tell_rules` is false",
        )
    };
    let row =
        |CallerVerdict { caller, allowed, rule, approved_by }: CallerVerdict| ConfigCallerRow {
            caller: caller.into(),
            allowed,
            rule: rule.into(),
            approved_by: approved_by.unwrap_or_default().into(),
        };
    let callers = cx.node.decide_callers(&agent, &action).ok_or_else(hidden)?;
    Ok(ConfigWhoOutput { callers: callers.into_iter().map(row).collect() })
}

fn deploy_files(
    deployments: &DeploymentHandle,
    cx: &BlockingContext,
    input: ConfigDeployInput,
) -> Result<ConfigDeployOutput, ActionError> {
    Ok(deployments.get()?.deploy(&cx.caller, input)?)
}

async fn upgrade_program(
    deployments: DeploymentHandle,
    cx: CallContext,
    input: ConfigUpgradeInput,
) -> Result<ConfigDeployOutput, ActionError> {
    let deployments = Arc::clone(deployments.get()?);
    Ok(deployments.upgrade(cx.caller.to_string(), input).await?)
}

fn revert_files(
    deployments: &DeploymentHandle,
    cx: &BlockingContext,
    input: ConfigRevertInput,
) -> Result<ConfigDeployOutput, ActionError> {
    Ok(deployments.get()?.revert(&cx.caller, input)?)
}

fn confirm_files(
    deployments: &DeploymentHandle,
    cx: &BlockingContext,
    ConfigConfirmInput { deployment }: ConfigConfirmInput,
) -> Result<ConfigConfirmOutput, ActionError> {
    let owner = cx.owner();
    let requests = cx.node.running_requests();
    let own = requests.iter().find(|found| found.id == cx.request && found.owner == owner);
    let accepted_at = own.map_or(0, |found| found.since);
    Ok(deployments.get()?.confirm(&cx.caller, &deployment, accepted_at)?)
}

impl DeploymentHandle {
    fn get(&self) -> Result<&Arc<Deployments>, ActionError> {
        self.0.as_ref().ok_or_else(|| {
            ActionError::failed("this daemon has no configuration files to which it can deploy")
        })
    }
}
