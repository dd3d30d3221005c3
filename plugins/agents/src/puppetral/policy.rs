//! Decides which resources may be changed, by type and name. Pure; everything that is not allowed is denied.

use std::collections::BTreeSet;

use muster_api::ActionError;
use muster_engine::ResourceEngine;
use muster_engine::resource::{Resource, ResourceValue};

use crate::puppetral::options::Options;

const EXEC_TYPE: &str = "exec";

/// Parameters that contain command lines: denied wherever `exec` is denied.
const COMMAND_PARAMETERS: [(&str, &str); 6] = [
    ("file", "validate_cmd"),
    ("service", "start"),
    ("service", "stop"),
    ("service", "restart"),
    ("service", "status"),
    ("service", "binary"),
];

/// Checks whether resources of this type may be changed.
pub(crate) fn check_type(options: &Options, type_name: &str) -> Result<(), ActionError> {
    let rule = match &options.allow_types {
        _ if is_denied(options, type_name) => "deny_types",
        Some(allowed) if !allowed.contains(type_name) => "allow_types",
        _ => return Ok(()),
    };
    let message = format!("this node does not allow changes to resources of type {type_name}");
    Err(ActionError::denied_by_rule(message, format!("plugins.puppetral.{rule}")))
}

/// Checks whether this resource may be changed, after its type was checked.
pub(crate) fn check_resource(
    options: &Options,
    engine: &ResourceEngine,
    resource: &Resource,
) -> Result<(), ActionError> {
    let type_name = resource.type_name.as_str();
    let command = COMMAND_PARAMETERS.iter().find(|(command_type, parameter)| {
        *command_type == type_name && resource.get(parameter).is_some()
    });
    if let Some((_, parameter)) = command.filter(|_| check_type(options, EXEC_TYPE).is_err()) {
        let message = format!(
            "`{parameter}` of a {type_name} is a command, and this node does not allow commands"
        );
        return Err(ActionError::denied_by_rule(message, "plugins.puppetral.deny_types"));
    }
    let name = resource_name(engine, resource);
    match options.allow_names.get(type_name) {
        Some(names) if !names.contains(&name) => {
            let message = format!("this node does not allow changes to the {type_name} `{name}`");
            let rule = format!("plugins.puppetral.allow_names.{type_name}");
            Err(ActionError::denied_by_rule(message, rule))
        }
        _ => Ok(()),
    }
}

fn is_denied(options: &Options, type_name: &str) -> bool {
    let names = |types: &Option<BTreeSet<String>>| {
        types.as_ref().is_some_and(|types| types.contains(type_name))
    };
    match options.deny_types {
        Some(_) => names(&options.deny_types),
        None => type_name == EXEC_TYPE && !names(&options.allow_types),
    }
}

/// Name by which the machine identifies the resource: the value of its namevar, not its title. A command given as a list is joined into one line.
fn resource_name(engine: &ResourceEngine, resource: &Resource) -> String {
    let schema = engine.type_schemas().find(|schema| schema.type_name == resource.type_name);
    match schema.and_then(|schema| resource.get(schema.namevar)) {
        Some(ResourceValue::List(values)) => values.join(" "),
        Some(other) => other.to_string(),
        None => resource.name.clone(),
    }
}
