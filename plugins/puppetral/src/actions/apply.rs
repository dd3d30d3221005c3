//! `do` applies one resource; `plan` reports what `do` would change, or that it would be rejected.

use std::sync::Arc;

use muster_api::{ActionError, CallContext};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::change::{AppliedChange, ChangeMode, ChangeReport, DesiredResource, ResourceChanger};

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize, JsonSchema)]
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

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PuppetralPlanInput {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    attributes: Map<String, Value>,
}

pub(crate) async fn apply_resource(
    changer: Arc<ResourceChanger>,
    cx: CallContext,
    input: PuppetralDoInput,
) -> Result<AppliedChange, ActionError> {
    let PuppetralDoInput { type_name, name, undo, noop, attributes } = input;
    let desired = match (undo, type_name, name) {
        (Some(id), None, None) if attributes.is_empty() => changer.recall_resource(&cx, id).await?,
        (None, Some(type_name), Some(title)) => DesiredResource { type_name, title, attributes },
        _ => {
            let problem = "specify either `type` and `name`, or only `undo`";
            return Err(ActionError::invalid_input(problem));
        }
    };
    let mode = if noop == Some(true) { ChangeMode::Noop } else { ChangeMode::Apply };
    changer.apply_resource(&cx, desired, mode).await
}

pub(crate) async fn plan_resource(
    changer: Arc<ResourceChanger>,
    cx: CallContext,
    input: PuppetralPlanInput,
) -> Result<ChangeReport, ActionError> {
    let PuppetralPlanInput { type_name, name: title, attributes } = input;
    let desired = DesiredResource { type_name, title, attributes };
    Ok(changer.apply_resource(&cx, desired, ChangeMode::Plan).await?.report)
}
