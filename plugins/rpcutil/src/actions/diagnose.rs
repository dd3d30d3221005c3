//! `diagnose`: reports problems of the daemon and its environment, and lists its agents. Repairs nothing.

use muster_api::{ActionError, AgentAction, CallContext, HealthFinding};
use muster_contract::rpcutil::{DiagnoseFindingRow, RpcutilDiagnoseOutput};

use super::EmptyInput;

pub(crate) struct RpcutilDiagnoseAction;

impl AgentAction for RpcutilDiagnoseAction {
    const NAME: &'static str = "diagnose";
    type Input = EmptyInput;
    type Output = RpcutilDiagnoseOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyInput,
    ) -> Result<RpcutilDiagnoseOutput, ActionError> {
        let node = std::sync::Arc::clone(&cx.node);
        let findings = cx.run_blocking(move |_| node.collect_findings()).await?;
        let row = |finding: HealthFinding| DiagnoseFindingRow {
            check: finding.check.to_owned(),
            level: finding.level.as_str().to_owned(),
            message: finding.message,
        };
        let agents = cx.node.agent_infos().into_iter();
        Ok(RpcutilDiagnoseOutput {
            problems: findings.len() as u64,
            findings: findings.into_iter().map(row).collect(),
            agents: agents.map(|info| (info.agent, info.version)).collect(),
            sandbox: cx.node.describe_sandboxes(),
            version: Some(super::VERSION.to_owned()),
        })
    }
}
