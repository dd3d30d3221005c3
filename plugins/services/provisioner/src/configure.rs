//! The step `configure`: what is delivered to a node, and the calls that deliver it.

use std::sync::Arc;
use std::time::Duration;

use muster_api::ddl::{Action, AgentContract};
use muster_api::wire::identity::Identity;
use muster_contract::provision::{
    NodeSettings, ProvisionAgent, ProvisionConfigure, ProvisionConfigureInput,
    ProvisionConfigureOutput,
};
use muster_contract::{read_values, write_values};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::helper;
use crate::options::HelperStep;
use crate::record::{FailureKind, NodeRecord, StepError};
use crate::worker::{StepWorker, single_value};

/// Pause before a node that restarts is called again.
const RESTART_POLL_INTERVAL: Duration = Duration::from_millis(500);

impl StepWorker {
    /// What this node gets: the configured settings, and over them those that the helper returns.
    pub(crate) async fn node_settings(
        &self,
        configured: &NodeSettings,
        helper: Option<&HelperStep>,
        record: &NodeRecord,
    ) -> Result<NodeSettings, StepError> {
        let Some(helper) = helper else { return Ok(configured.clone()) };
        let answer = helper::run_helper(Arc::clone(&self.system), helper, record).await?;
        let returned: NodeSettings = read_values(&answer).map_err(|error| {
            StepError::deferred(format!(
                "the helper's answer is not a set of `configuration` and `policies`: {error}"
            ))
        })?;
        Ok(merge_settings(configured.clone(), returned))
    }

    /// Delivers the settings. The node restarts to apply them; the step is done when the restarted node reports that they are in force.
    pub(crate) async fn configure_node(
        &self,
        node: &Identity,
        settings: NodeSettings,
        fence: u64,
        timeout: Duration,
    ) -> Result<Map<String, Value>, StepError> {
        if settings == NodeSettings::default() {
            return Ok(Map::new());
        }
        let NodeSettings { configuration, policies } = settings;
        let input =
            ProvisionConfigureInput { configuration, policies, noop: false, fence: Some(fence) };
        let data = write_values(&input);
        let call = || {
            let (agent, action) = (ProvisionAgent::NAME, ProvisionConfigure::NAME);
            self.fleet.call_node(node, agent, action, data.clone(), timeout)
        };
        let deadline = Instant::now() + timeout;
        let first = read_output(&call().await?)?;
        let mut is_restarting = first.restarting;
        while is_restarting {
            tokio::time::sleep(RESTART_POLL_INTERVAL).await;
            match call().await {
                Ok(answer) => is_restarting = read_output(&answer)?.restarting,
                // It is not connected while it restarts.
                Err(error) if error.kind == FailureKind::Transient && Instant::now() < deadline => {
                }
                Err(error) => return Err(error),
            }
            if is_restarting && Instant::now() >= deadline {
                let seconds = timeout.as_secs();
                return Err(StepError::transient(format!(
                    "{node} has not restarted with its new settings within {seconds} s"
                )));
            }
        }
        Ok(single_value("configure", json!({ "changed": first.changed, "files": first.files })))
    }
}

fn read_output(answer: &Map<String, Value>) -> Result<ProvisionConfigureOutput, StepError> {
    read_values(answer).map_err(|error| {
        StepError::transient(format!("invalid reply to provision.configure: {error}"))
    })
}

/// The settings of both; those of `over` replace those of `base` key by key.
fn merge_settings(base: NodeSettings, over: NodeSettings) -> NodeSettings {
    NodeSettings {
        configuration: merge_maps(base.configuration, over.configuration),
        policies: merge_maps(base.policies, over.policies),
    }
}

fn merge_maps<M: Extend<I> + IntoIterator<Item = I>, I>(
    base: Option<M>,
    over: Option<M>,
) -> Option<M> {
    match (base, over) {
        (Some(mut base), Some(over)) => {
            base.extend(over);
            Some(base)
        }
        (base, over) => over.or(base),
    }
}

#[cfg(test)]
mod tests {
    use muster_contract::provision::NodeSettings;
    use serde_json::{Value, json};

    use super::merge_settings;

    #[test]
    fn settings_of_the_helper_replace_configured_ones_key_by_key() {
        let settings = |value: Value| serde_json::from_value::<NodeSettings>(value).unwrap();
        let base = settings(json!({
            "configuration": { "log.level": "info", "log.format": "json" },
            "policies": { "service.policy": "policy default deny\n" },
        }));
        let over = settings(json!({
            "configuration": { "log.level": "debug" },
            "policies": { "package.policy": "" },
        }));
        let merged = merge_settings(base.clone(), over);
        assert_eq!(
            serde_json::to_value(&merged).unwrap(),
            json!({
                "configuration": { "log.format": "json", "log.level": "debug" },
                "policies": { "package.policy": "", "service.policy": "policy default deny\n" },
            })
        );
        assert_eq!(merge_settings(base.clone(), settings(json!({}))), base);
    }
}
