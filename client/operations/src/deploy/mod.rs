//! Deploys files and programs to the daemons of nodes with the agent `config`: sends them, and confirms each deployment once the node answers with the new files
//! in force. A node that cannot be reached then restores its earlier files by itself.

mod files;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_base::NodeText;
use muster_calls::ClientError;
use muster_client::{
    BatchPace, FleetConnection, FleetRequestError, Located, RequestEvent, RequestObserver,
};
use muster_contract::config::{
    ConfigConfirm, ConfigConfirmInput, ConfigConfirmOutput, ConfigDeploy, ConfigDeployInput,
    ConfigDeployOutput, ConfigRevert, ConfigRevertInput, ConfigUpgrade, ConfigUpgradeInput,
    deploy_state,
};
use muster_wire::identity::Identity;
use uuid::Uuid;

pub use files::{DeployDirectory, DeployDirectoryError};
pub use report::{DeployReport, NodeDeployOutcome, NodeDeployResult};

use crate::batches::collect_results;
use crate::steps::{Step, StepAnswer, StepChannel};

/// Time limit of a deployment on a node: it runs all sources of facts twice.
const DEPLOY_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit of an upgrade on a node: it fetches the program.
const UPGRADE_TIMEOUT: Duration = Duration::from_mins(5);
/// Time limit of a confirmation.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before a node that restarts is asked again.
const CONFIRM_PAUSE: Duration = Duration::from_millis(500);

const DEPLOY: Step<ConfigDeploy> = Step::first(DEPLOY_TIMEOUT);
const UPGRADE: Step<ConfigUpgrade> = Step::first(UPGRADE_TIMEOUT);
const REVERT: Step<ConfigRevert> = Step::first(DEPLOY_TIMEOUT);
const CONFIRM: Step<ConfigConfirm> = Step::later(CONFIRM_TIMEOUT);

/// What nodes are to do.
#[derive(Debug, Clone, Copy)]
pub enum DeployChange<'a> {
    /// Have these files.
    Deploy {
        /// The files.
        directory: &'a DeployDirectory,
        /// Whether they only report what would change.
        noop: bool,
    },
    /// Run an approved program.
    Upgrade {
        /// Its name.
        program: &'a str,
        /// Whether they only fetch and check it.
        noop: bool,
    },
    /// Have the files or the program from before the last deployment.
    Revert,
}

/// A change of the files of daemons.
#[derive(Debug, Clone, Copy)]
pub struct DeployRequest<'a> {
    /// The change.
    pub change: DeployChange<'a>,
    /// Time until a node restores its earlier files without a confirmation.
    pub confirm: Duration,
    /// Batches and stop conditions.
    pub pace: BatchPace,
}

/// The first step, with its inputs.
enum FirstStep {
    Deploy(ConfigDeployInput),
    Upgrade(ConfigUpgradeInput),
    Revert(ConfigRevertInput),
}

impl DeployRequest<'_> {
    fn first_step(&self, deployment: &str) -> FirstStep {
        let (deployment, confirm_seconds) = (deployment.to_owned(), self.confirm.as_secs());
        match self.change {
            DeployChange::Deploy { directory, noop } => {
                let DeployDirectory { files, executables } = directory.clone();
                FirstStep::Deploy(ConfigDeployInput {
                    deployment,
                    files,
                    executables,
                    confirm_seconds,
                    noop,
                })
            }
            DeployChange::Upgrade { program, noop } => FirstStep::Upgrade(ConfigUpgradeInput {
                deployment,
                program: program.to_owned(),
                confirm_seconds,
                noop,
            }),
            DeployChange::Revert => {
                FirstStep::Revert(ConfigRevertInput { deployment, confirm_seconds })
            }
        }
    }
}

/// Changes the files of the nodes' daemons, batch by batch. An interrupt ends the command; nodes whose deployment was not confirmed restore their
/// earlier files.
pub async fn deploy_config(
    fleet: &FleetConnection,
    request: &DeployRequest<'_>,
    found: Located,
    observer: &dyn RequestObserver,
) -> Result<DeployReport, FleetRequestError> {
    let Located { nodes, filter, .. } = found;
    let deployment = Uuid::now_v7().to_string();
    let deployer = ConfigDeployer {
        channel: StepChannel::new(fleet, filter),
        first: request.first_step(&deployment),
        deployment: deployment.clone(),
        confirm: request.confirm,
    };
    observer.observe(RequestEvent::CallsStarted(nodes.len()));
    let results = collect_results(nodes, request.pace, observer, async |batch, results| {
        let ended = deployer.deploy_to_batch(batch, results).await;
        observer.observe(RequestEvent::RepliesCounted(results.len()));
        ended
    });
    Ok(DeployReport { deployment, results: results.await? })
}

/// Sends a deployment to nodes.
struct ConfigDeployer {
    channel: StepChannel,
    first: FirstStep,
    deployment: String,
    confirm: Duration,
}

impl ConfigDeployer {
    async fn deploy_to_batch(
        &self,
        batch: BTreeSet<Identity>,
        results: &mut BTreeMap<Identity, NodeDeployResult>,
    ) -> Result<(), ClientError> {
        let answers = match &self.first {
            FirstStep::Deploy(input) => self.channel.ask_nodes(&DEPLOY, input, batch).await?,
            FirstStep::Upgrade(input) => self.channel.ask_nodes(&UPGRADE, input, batch).await?,
            FirstStep::Revert(input) => self.channel.ask_nodes(&REVERT, input, batch).await?,
        };
        // A node counts from when it replaced its files, which is later than this.
        let deadline = Instant::now() + self.confirm;
        let mut waiting = BTreeMap::new();
        for (node, answer) in answers {
            match read_first_answer(answer) {
                FirstAnswer::Pending(output) => drop(waiting.insert(node, output)),
                FirstAnswer::Ended(result) => drop(results.insert(node, result)),
            }
        }
        self.confirm_nodes(waiting, deadline, results).await
    }

    /// Confirms until all nodes have replied, or until they have restored their earlier files.
    async fn confirm_nodes(
        &self,
        mut waiting: BTreeMap<Identity, ConfigDeployOutput>,
        deadline: Instant,
        results: &mut BTreeMap<Identity, NodeDeployResult>,
    ) -> Result<(), ClientError> {
        let input = ConfigConfirmInput { deployment: self.deployment.clone() };
        while !waiting.is_empty() {
            let nodes: BTreeSet<Identity> = waiting.keys().cloned().collect();
            let is_last = Instant::now() + CONFIRM_PAUSE >= deadline;
            for (node, answer) in self.channel.ask_once(&CONFIRM, &input, nodes).await? {
                let Some(outcome) = read_confirmation(answer, is_last) else { continue };
                let Some(output) = waiting.remove(&node) else { continue };
                let outcome = match outcome {
                    // It did not reply to the first step either.
                    NodeDeployOutcome::Unconfirmed(_) if output.deployment.is_empty() => {
                        NodeDeployOutcome::NoReply("no reply to the deployment".into())
                    }
                    outcome => outcome,
                };
                results.insert(node, NodeDeployResult::new(outcome, output));
            }
            if !waiting.is_empty() {
                tokio::time::sleep(CONFIRM_PAUSE).await;
            }
        }
        Ok(())
    }
}

/// How the first step ended on a node.
enum FirstAnswer {
    /// It waits for the confirmation.
    Pending(ConfigDeployOutput),
    /// Nothing is to be confirmed.
    Ended(NodeDeployResult),
}

fn read_first_answer(answer: StepAnswer<ConfigDeployOutput>) -> FirstAnswer {
    let ended =
        |outcome| FirstAnswer::Ended(NodeDeployResult::new(outcome, ConfigDeployOutput::default()));
    let output = match answer {
        StepAnswer::Done(output) => output,
        StepAnswer::Failed(message) | StepAnswer::Busy(message) => {
            return ended(NodeDeployOutcome::Failed(message));
        }
        StepAnswer::Absent => return ended(NodeDeployOutcome::NoReply("not connected".into())),
        // It may have replaced its files: then it accepts the confirmation.
        StepAnswer::Silent => return FirstAnswer::Pending(ConfigDeployOutput::default()),
    };
    let outcome = match output.state.as_str() {
        deploy_state::UNCHANGED => NodeDeployOutcome::Unchanged,
        deploy_state::PLANNED => NodeDeployOutcome::Planned,
        deploy_state::CONFIRMED => NodeDeployOutcome::Confirmed,
        deploy_state::REVERTED => NodeDeployOutcome::Reverted,
        _ => return FirstAnswer::Pending(output),
    };
    FirstAnswer::Ended(NodeDeployResult::new(outcome, output))
}

/// The outcome of a confirmation; `None` if it is to be repeated. A refusal stays one: the node restores its files.
fn read_confirmation(
    answer: StepAnswer<ConfigConfirmOutput>,
    is_last: bool,
) -> Option<NodeDeployOutcome> {
    let unconfirmed = |message: NodeText| Some(NodeDeployOutcome::Unconfirmed(message));
    match answer {
        StepAnswer::Done(output) => {
            if output.state == deploy_state::CONFIRMED {
                Some(NodeDeployOutcome::Confirmed)
            } else {
                unconfirmed(format!("unexpected state {:?}", output.state).into())
            }
        }
        StepAnswer::Failed(message) => unconfirmed(message),
        _ if !is_last => None,
        StepAnswer::Busy(message) => unconfirmed(message),
        StepAnswer::Absent => unconfirmed("not connected".into()),
        StepAnswer::Silent => unconfirmed("no reply".into()),
    }
}
