//! `do` applies one resource; `plan` reports what `do` would change, or that it would be rejected.

use std::sync::Arc;

use muster_api::{ActionError, CallContext};
use muster_contract::puppetral::{
    PuppetralDoInput, PuppetralDoOutput, PuppetralPlanInput, PuppetralPlanOutput,
};
use serde_json::{Map, Value};

use crate::puppetral::change::{ChangeMode, DesiredResource, ResourceChanger};

/// The names of inputs that can be the names of attributes, too.
const AMBIGUOUS_NAMES: [&str; 5] = ["type", "name", "undo", "noop", "params"];

/// Adds the attributes that have the names of inputs. All others are inputs of their own, so that sensitive ones are treated as such.
fn merge_params(
    mut attributes: Map<String, Value>,
    params: Option<Map<String, Value>>,
) -> Result<Map<String, Value>, ActionError> {
    for (name, value) in params.into_iter().flatten() {
        if !AMBIGUOUS_NAMES.contains(&name.as_str()) {
            let problem = format!(
                "`params` holds only attributes with the names of inputs: {}; specify `{name}` as an input of its own",
                AMBIGUOUS_NAMES.join(", ")
            );
            return Err(ActionError::invalid_input(problem));
        }
        attributes.insert(name, value);
    }
    Ok(attributes)
}

pub(crate) async fn apply_resource(
    changer: Arc<ResourceChanger>,
    cx: CallContext,
    input: PuppetralDoInput,
) -> Result<PuppetralDoOutput, ActionError> {
    let PuppetralDoInput { type_name, name, undo, noop, params, attributes } = input;
    let attributes = merge_params(attributes, params)?;
    let mode = if noop == Some(true) { ChangeMode::Noop } else { ChangeMode::Apply };
    match (undo, type_name, name) {
        (Some(id), None, None) => {
            let force = undo_force(&attributes)?;
            changer.undo_request(&cx, id, force, mode).await
        }
        (None, Some(type_name), Some(title)) => {
            let desired = DesiredResource { type_name, title, attributes };
            changer.apply_resource(&cx, desired, mode).await
        }
        _ => Err(undo_usage_error()),
    }
}

/// The only attribute beside `undo`: `force`, from the command line as text.
fn undo_force(attributes: &Map<String, Value>) -> Result<bool, ActionError> {
    if attributes.keys().any(|name| name != "force") {
        return Err(undo_usage_error());
    }
    match attributes.get("force") {
        None | Some(Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(Value::String(word)) if word == "true" => Ok(true),
        Some(Value::String(word)) if word == "false" => Ok(false),
        Some(_) => Err(ActionError::invalid_input("`force` must be true or false")),
    }
}

fn undo_usage_error() -> ActionError {
    ActionError::invalid_input("specify either `type` and `name`, or only `undo` and `force`")
}

pub(crate) async fn plan_resource(
    changer: Arc<ResourceChanger>,
    cx: CallContext,
    input: PuppetralPlanInput,
) -> Result<PuppetralPlanOutput, ActionError> {
    let PuppetralPlanInput { type_name, name: title, params, attributes } = input;
    let attributes = merge_params(attributes, params)?;
    let desired = DesiredResource { type_name, title, attributes };
    let planned = changer.apply_resource(&cx, desired, ChangeMode::Plan).await?;
    // The diff of a file shows its content, for which `plan` grants no privilege.
    let PuppetralDoOutput { changed, result, events, resource, diff: _, log } = planned;
    Ok(PuppetralPlanOutput { changed, result, events, resource, log })
}
