//! Data sources from the daemon's memory: `agent("puppetral")`, `class("mysql::master")`, `collective("eu")`, `config_item("identity")` and
//! `fact("os.family")`.

use muster_api::CallContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rpcutil::secret;

/// Whether the node offers the agent, and its metadata.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AgentDataOutput {
    exists: bool,
    agent: String,
    description: Option<String>,
    author: Option<String>,
    license: Option<String>,
    version: Option<String>,
    url: Option<String>,
    timeout: Option<u64>,
}

/// Whether configuration management assigned the class to the node.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClassDataOutput {
    exists: bool,
}

/// Whether the node is a member of the collective.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CollectiveDataOutput {
    member: bool,
}

/// One value of the daemon's configuration with secrets redacted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ConfigItemDataOutput {
    exists: bool,
    value: Value,
}

/// Whether the node has the fact, and its value.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FactDataOutput {
    exists: bool,
    value: Value,
    value_encoding: Option<String>,
}

pub(crate) fn find_agent(cx: &CallContext, name: &str) -> AgentDataOutput {
    match cx.node.agent_ddl(name).map(|ddl| ddl.metadata().clone()) {
        Some(metadata) => AgentDataOutput {
            exists: true,
            agent: metadata.name,
            description: Some(metadata.description),
            author: Some(metadata.author),
            license: Some(metadata.license),
            version: Some(metadata.version),
            url: Some(metadata.url),
            timeout: Some(metadata.timeout),
        },
        None => AgentDataOutput { agent: name.to_owned(), ..AgentDataOutput::default() },
    }
}

pub(crate) fn find_class(cx: &CallContext, name: &str) -> ClassDataOutput {
    // The node stores class names in lower case, because Puppet compares them case-insensitively.
    ClassDataOutput { exists: cx.node.classes().contains(&name.to_lowercase()) }
}

pub(crate) fn find_collective(cx: &CallContext, name: &str) -> CollectiveDataOutput {
    let mut collectives = cx.node.collectives().iter();
    CollectiveDataOutput { member: collectives.any(|collective| collective.as_str() == name) }
}

pub(crate) fn find_config_item(cx: &CallContext, item: &str) -> ConfigItemDataOutput {
    let found = cx.node.config_item(item).map(|value| secret::redact_item(item, value));
    ConfigItemDataOutput {
        exists: found.is_some(),
        value: found.map(flatten_value).unwrap_or_default(),
    }
}

pub(crate) fn find_fact(cx: &CallContext, path: &str) -> FactDataOutput {
    let found = cx.node.facts().get(path).cloned();
    let encoding = found.as_ref().map(|value| match value {
        Value::Array(_) | Value::Object(_) => "application/json",
        _ => "text/plain",
    });
    FactDataOutput {
        exists: found.is_some(),
        value_encoding: encoding.map(str::to_owned),
        value: found.map(flatten_value).unwrap_or_default(),
    }
}

/// Flattens a value for a reply: scalars stay, tables and lists become JSON text.
fn flatten_value(value: Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
        scalar => scalar,
    }
}
