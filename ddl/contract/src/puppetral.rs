//! The agent `puppetral`: single resources.

use std::fmt;

use muster_ddl::aggregate::AggregateFunction;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of a type.
const TYPE_PATTERN: &str = "^[a-zA-Z][a-zA-Z0-9_:]*$";

/// Brings single resources to a described state, and reads their current state.
#[derive(Debug, JsonSchema)]
pub struct PuppetralAgent;

impl AgentContract for PuppetralAgent {
    const NAME: &'static str = "puppetral";
    const TIMEOUT: u64 = 180;
    const DEFAULT_ACTION: Option<&'static str> = Some("do");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<PuppetralDo>()
            .add::<PuppetralPlan>()
            .add::<PuppetralFind>()
            .add::<PuppetralSearch>();
    }
}

/// Bring one resource to the described state.
#[derive(Debug, JsonSchema)]
pub struct PuppetralDo;

impl Action for PuppetralDo {
    type Agent = PuppetralAgent;
    const NAME: &'static str = "do";
    type Input = PuppetralDoInput;
    type Output = PuppetralDoOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .additional_input(&["password"])
            .resource("type", Some("params"))
            .change_summary()
            .examples(include_str!("puppetral/do.json"))
    }
}

/// Inputs of `do`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetralDoInput {
    /// The type of the resource, `user` for example.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Resource Type", length(max = 90), regex(pattern = TYPE_PATTERN), extend("x-required-unless" = "undo"))]
    pub type_name: Option<String>,
    /// The name of the resource, unique among those of its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Resource Name", length(max = 1024), extend("x-required-unless" = "undo"))]
    pub name: Option<String>,
    /// Undo the changes of an earlier request: the id of that request; with `force=true`, also what was changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), regex(pattern = "^[0-9a-f-]{36}$"))]
    pub undo: Option<String>,
    /// Report what would change, but change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noop: Option<bool>,
    /// Attributes of the resource whose names are inputs of this action, too: `params.type=ssh-ed25519`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Parameters")]
    pub params: Option<Map<String, Value>>,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    pub attributes: Map<String, Value>,
}

/// Omits the attributes, which may contain passwords.
impl fmt::Debug for PuppetralDoInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_name, name, undo, noop, .. } = self;
        f.debug_struct("PuppetralDoInput")
            .field("type_name", type_name)
            .field("name", name)
            .field("undo", undo)
            .field("noop", noop)
            .finish_non_exhaustive()
    }
}

/// Outputs of `do`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetralDoOutput {
    /// Whether anything changed, or would change with noop.
    pub changed: bool,
    /// The result in a sentence.
    pub result: String,
    /// Each property that changed, failed, or would have changed.
    pub events: Vec<PropertyChangeRow>,
    /// The resource as Puppet writes it.
    pub resource: String,
    /// What changed in the content of a file, or would change, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Log messages, for example the output of a command.
    pub log: Vec<String>,
}

/// One change of one property.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PropertyChangeRow {
    /// The resource, such as `User[rip]`.
    pub resource: String,
    /// The property.
    pub property: String,
    /// The value found; null if it was not set. Sensitive values are `[redacted]`.
    pub previous_value: Value,
    /// The described value.
    pub desired_value: Value,
    /// `success`, `failure` or `noop`.
    pub status: String,
    /// The change in a sentence, with Puppet's wording.
    pub message: String,
}

/// Report what `do` would change. Changes nothing and runs no command of the resource: what depends on one is reported as not evaluated.
#[derive(Debug, JsonSchema)]
pub struct PuppetralPlan;

impl Action for PuppetralPlan {
    type Agent = PuppetralAgent;
    const NAME: &'static str = "plan";
    type Input = PuppetralPlanInput;
    type Output = PuppetralPlanOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .additional_input(&["password"])
            .resource("type", Some("params"))
            .aggregate(
                AggregateFunction::BooleanSummary,
                "changed",
                &[("true", "Changed"), ("false", "No Change")],
            )
            .examples(include_str!("puppetral/plan.json"))
    }
}

/// Inputs of `plan`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetralPlanInput {
    /// The type of the resource, `user` for example.
    #[serde(rename = "type")]
    #[schemars(title = "Resource Type", length(max = 90), regex(pattern = TYPE_PATTERN))]
    pub type_name: String,
    /// The name of the resource, unique among those of its type.
    #[schemars(title = "Resource Name", length(max = 1024))]
    pub name: String,
    /// Attributes of the resource whose names are inputs of this action, too: `params.type=ssh-ed25519`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Parameters")]
    pub params: Option<Map<String, Value>>,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    pub attributes: Map<String, Value>,
}

/// Omits the attributes, which may contain passwords.
impl fmt::Debug for PuppetralPlanInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_name, name, .. } = self;
        f.debug_struct("PuppetralPlanInput")
            .field("type_name", type_name)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

/// Outputs of `plan`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetralPlanOutput {
    /// Whether anything would change, or could change if the resource was not evaluated.
    pub changed: bool,
    /// What would happen, in a sentence.
    pub result: String,
    /// Each property that would change.
    pub events: Vec<PropertyChangeRow>,
    /// The resource as Puppet writes it.
    pub resource: String,
    /// Log messages, for example the output of a command.
    pub log: Vec<String>,
}

/// Read the state of one resource.
#[derive(Debug, JsonSchema)]
pub struct PuppetralFind;

impl Action for PuppetralFind {
    type Agent = PuppetralAgent;
    const NAME: &'static str = "find";
    type Input = PuppetralFindInput;
    type Output = PuppetralFindOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .resource("type", None)
            .examples(include_str!("puppetral/find.json"))
    }
}

/// Inputs of `find`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetralFindInput {
    /// The type of the resource, `user` for example.
    #[serde(rename = "type")]
    #[schemars(title = "Resource Type", length(max = 90), regex(pattern = TYPE_PATTERN))]
    pub type_name: String,
    /// The name of the resource, unique among those of its type.
    #[schemars(title = "Resource Name", length(max = 1024))]
    pub name: String,
}

/// Outputs of `find`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetralFindOutput {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The name of the resource.
    pub name: String,
    /// Whether Puppet manages the resource: true, false, or "unknown".
    pub managed: Value,
    /// The properties of the resource and their values.
    pub properties: Map<String, Value>,
}

/// Read the state of all resources of a type.
#[derive(Debug, JsonSchema)]
pub struct PuppetralSearch;

impl Action for PuppetralSearch {
    type Agent = PuppetralAgent;
    const NAME: &'static str = "search";
    type Input = PuppetralSearchInput;
    type Output = PuppetralSearchOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .resource("type", None)
            .examples(include_str!("puppetral/search.json"))
    }
}

/// Inputs of `search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetralSearchInput {
    /// The type of the resources, `host` for example.
    #[serde(rename = "type")]
    #[schemars(title = "Resource Type", length(max = 90), regex(pattern = TYPE_PATTERN))]
    pub type_name: String,
}

/// Outputs of `search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetralSearchOutput {
    /// The type of the resources.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The properties of each resource, by name.
    pub resources: Map<String, Value>,
    /// Number of resources.
    pub count: usize,
}
