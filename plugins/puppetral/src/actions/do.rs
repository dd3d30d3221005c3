//! `do`: applies one resource.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::change::{ChangeMode, ChangeReport, DesiredResource, ResourceChanger};

pub(crate) struct PuppetralDoAction(pub(crate) Arc<ResourceChanger>);

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetralDoInput {
    #[serde(rename = "type")]
    type_name: Option<String>,
    name: Option<String>,
    undo: Option<String>,
    noop: Option<bool>,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    attributes: Map<String, Value>,
}

impl AgentAction for PuppetralDoAction {
    const NAME: &'static str = "do";
    type Input = PuppetralDoInput;
    type Output = ChangeReport;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetralDoInput,
    ) -> Result<ChangeReport, ActionError> {
        let PuppetralDoInput { type_name, name, undo, noop, attributes } = input;
        let desired = match (undo, type_name, name) {
            (Some(id), None, None) if attributes.is_empty() => {
                self.0.recall_resource(cx, id).await?
            }
            (None, Some(type_name), Some(title)) => {
                DesiredResource { type_name, title, attributes }
            }
            _ => {
                let problem = "specify either `type` and `name`, or only `undo`";
                return Err(ActionError::invalid_input(problem));
            }
        };
        let mode = if noop == Some(true) { ChangeMode::Noop } else { ChangeMode::Apply };
        self.0.apply_resource(cx, desired, mode).await
    }
}
