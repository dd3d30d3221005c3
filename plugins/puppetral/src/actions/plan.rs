//! `plan`: reports what `do` would change, or that it would be rejected.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::change::{ChangeMode, ChangeReport, DesiredResource, ResourceChanger};

pub(crate) struct PuppetralPlanAction(pub(crate) Arc<ResourceChanger>);

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetralPlanInput {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    attributes: Map<String, Value>,
}

impl AgentAction for PuppetralPlanAction {
    const NAME: &'static str = "plan";
    type Input = PuppetralPlanInput;
    type Output = ChangeReport;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetralPlanInput,
    ) -> Result<ChangeReport, ActionError> {
        let PuppetralPlanInput { type_name, name: title, attributes } = input;
        self.0
            .apply_resource(cx, DesiredResource { type_name, title, attributes }, ChangeMode::Plan)
            .await
    }
}
