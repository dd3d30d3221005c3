//! The actions of `motd`. Fragments are resources of the engine, so `register` twice changes once.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::motd::{
    MotdChangeOutput, MotdRegisterInput, MotdRenderInput, MotdRenderOutput, MotdUnregisterInput,
};
use muster_engine::ResourceEngine;
use muster_engine::types::motd_fragment::{DEFAULT_FRAGMENT_ORDER, FragmentTarget};
use serde_json::{Map, Value, json};

use crate::motd::renderer::{MotdRenderer, NodeSnapshot};

/// The engine's type of fragments.
const FRAGMENT_TYPE: &str = "motd_fragment";

/// Writes a fragment, then all texts.
pub(crate) fn register_fragment(
    renderer: &Arc<MotdRenderer>,
    cx: &BlockingContext,
    input: MotdRegisterInput,
) -> Result<MotdChangeOutput, ActionError> {
    let target = read_target(input.target.as_deref())?;
    let order = input.order.unwrap_or(DEFAULT_FRAGMENT_ORDER);
    // A template without a text on this node would only remove the fragment that it replaces.
    let node = NodeSnapshot::of_node(&*cx.node);
    let content = input.content.as_deref().unwrap_or_default();
    if let Some(problem) = renderer.template_problem(target, content, &node) {
        return Err(ActionError::invalid_input(format!("content has no text here: {problem}")));
    }
    let mut values = json!({"order": order, "target": target.as_str()});
    for (name, value) in [("content", input.content), ("class", input.class)] {
        if let (Some(object), Some(value)) = (values.as_object_mut(), value) {
            object.insert(name.to_owned(), Value::String(value));
        }
    }
    change_fragment(renderer, cx, &input.name, target, &values)
}

/// Removes a fragment, then writes all texts.
pub(crate) fn unregister_fragment(
    renderer: &Arc<MotdRenderer>,
    cx: &BlockingContext,
    input: MotdUnregisterInput,
) -> Result<MotdChangeOutput, ActionError> {
    let MotdUnregisterInput { name, target } = input;
    let target = read_target(target.as_deref())?;
    let values = json!({"ensure": "absent", "target": target.as_str()});
    change_fragment(renderer, cx, &name, target, &values)
}

/// The text as it is now. Writes nothing.
pub(crate) fn render_text(
    renderer: &Arc<MotdRenderer>,
    cx: &BlockingContext,
    input: MotdRenderInput,
) -> Result<MotdRenderOutput, ActionError> {
    let MotdRenderInput { target } = input;
    let target = read_target(target.as_deref())?;
    let report = renderer.report(&*cx.system, &NodeSnapshot::of_node(&*cx.node), target);
    let files = renderer.output_files(target).map(|path| path.display().to_string());
    Ok(MotdRenderOutput { text: report.text, files: files.collect(), problems: report.problems })
}

fn change_fragment(
    renderer: &MotdRenderer,
    cx: &BlockingContext,
    name: &str,
    target: FragmentTarget,
    values: &Value,
) -> Result<MotdChangeOutput, ActionError> {
    let engine = ResourceEngine::new(Arc::clone(&cx.system));
    let values = values.as_object().cloned().unwrap_or_else(Map::new);
    let resource = engine.check_resource(FRAGMENT_TYPE, name, &values);
    let resource = resource.map_err(|error| ActionError::invalid_input(error.reason()))?;
    let outcome = engine.apply_resource(&resource, cx.cancel_flag.clone(), false);
    if let Some(error) = outcome.error {
        return Err(ActionError::from_cause(error));
    }
    let node = NodeSnapshot::of_node(&*cx.node);
    let mut problems = renderer.refresh(&*cx.system, &node).problems;
    let report = renderer.report(&*cx.system, &node, target);
    problems.extend(report.problems);
    problems.sort_unstable();
    problems.dedup();
    Ok(MotdChangeOutput { changed: !outcome.events.is_empty(), text: report.text, problems })
}

fn read_target(target: Option<&str>) -> Result<FragmentTarget, ActionError> {
    let Some(name) = target else { return Ok(FragmentTarget::Motd) };
    FragmentTarget::from_name(name).ok_or_else(|| {
        ActionError::invalid_input(format!("target `{name}` is not motd, issue or prompt"))
    })
}
