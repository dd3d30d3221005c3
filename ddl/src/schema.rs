//! The checked form of an agent's DDL, in the layout that Choria publishes plus additional keys
//! (`default_action`, `class`, `read_only`, `idempotent`, `streams`, `dangerous`, `timeout` of an action, `additional_input`,
//! `resource`, `schema` of an input or output, `sensitive`, `sensitive_inputs`, `examples`). Serialises back to that layout.
//!
//! Values of these types have passed all checks of `check`. This file parses nothing itself.

use std::time::Duration;

use serde::ser::Serializer;
use serde_json::{Map, Value};

use crate::aggregate::function::AggregateFunction;
use crate::display::DisplayMode;
pub use crate::metadata::{AgentCapabilities, DdlMetadata};
use crate::validate::ValidationRule;
use crate::value_schema::ValueSchema;
use crate::value_type::ValueType;

/// An agent's schema: its metadata and its actions.
#[derive(Debug, Clone, serde::Serialize)]
pub struct AgentDdl {
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<String>,
    pub(crate) metadata: DdlMetadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_action: Option<String>,
    pub(crate) actions: Vec<ActionSchema>,
    #[serde(skip)]
    pub(crate) warnings: Vec<String>,
}

impl AgentDdl {
    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The agent's version, as written by its author.
    pub fn version(&self) -> &str {
        &self.metadata.version
    }

    /// Timeout of actions without their own.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.metadata.timeout)
    }

    /// Timeout of this action: its own, which may be shorter or longer than the agent's, else the agent's.
    pub fn timeout_of(&self, action: &ActionSchema) -> Duration {
        action.timeout().unwrap_or(self.timeout())
    }

    /// The action that runs if the caller names none.
    pub fn default_action(&self) -> Option<&str> {
        self.default_action.as_deref()
    }

    /// Author, licence and the like.
    pub fn metadata(&self) -> &DdlMetadata {
        &self.metadata
    }

    /// What implements the agent: `builtin`, `external` for separate programs, or the name in its metadata.
    pub fn provider(&self) -> &str {
        let has_programs = self.actions.iter().any(|action| action.implemented_by.is_some());
        let usual = if has_programs { "external" } else { "builtin" };
        self.metadata.provider.as_deref().unwrap_or(usual)
    }

    /// The action called `name`.
    pub fn find_action(&self, name: &str) -> Option<&ActionSchema> {
        self.actions.iter().find(|action| action.name == name)
    }

    /// All actions, in document order.
    pub fn actions(&self) -> &[ActionSchema] {
        &self.actions
    }

    /// Tolerated problems of the document: unknown keys, unusable defaults.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// The privilege that a permission for an action grants on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionClass {
    /// Does not change the node, and starts no program chosen by the caller.
    Read,
    /// Changes the node within the bounds of the action.
    Change,
    /// Can run programs of the caller's choice as root, transfer control of the node, or destroy data.
    RootEquivalent,
}

impl ActionClass {
    /// The keyword in a DDL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change => "change",
            Self::RootEquivalent => "root_equivalent",
        }
    }
}

/// One action of an agent.
#[derive(Debug, Clone, serde::Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate key of the document")]
pub struct ActionSchema {
    #[serde(rename = "action")]
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) display: DisplayMode,
    #[serde(rename = "input", serialize_with = "inputs_as_map")]
    pub(crate) inputs: Vec<InputSchema>,
    #[serde(rename = "output", serialize_with = "outputs_as_map")]
    pub(crate) outputs: Vec<OutputSchema>,
    #[serde(rename = "aggregate", skip_serializing_if = "Vec::is_empty")]
    pub(crate) aggregates: Vec<AggregateSchema>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) read_only: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) idempotent: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) streams: bool,
    pub(crate) class: ActionClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) additional_input: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) implemented_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<ResourceInputs>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive_inputs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) examples: Vec<ActionExample>,
}

impl ActionSchema {
    /// The action's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the action does, in a sentence.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Which replies are displayed.
    pub fn display(&self) -> DisplayMode {
        self.display
    }

    /// The declared inputs, in document order.
    pub fn inputs(&self) -> &[InputSchema] {
        &self.inputs
    }

    /// The declared input called `name`.
    pub fn find_input(&self, name: &str) -> Option<&InputSchema> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// The declared outputs, in document order.
    pub fn outputs(&self) -> &[OutputSchema] {
        &self.outputs
    }

    /// The declared output called `name`.
    pub fn find_output(&self, name: &str) -> Option<&OutputSchema> {
        self.outputs.iter().find(|output| output.name == name)
    }

    /// The summaries to compute over all replies.
    pub fn aggregates(&self) -> &[AggregateSchema] {
        &self.aggregates
    }

    /// Whether the action leaves the node unchanged.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether repeating the action has no further effect.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether the action sends progress, which callers then request by default.
    pub fn streams_progress(&self) -> bool {
        self.streams
    }

    /// The privilege that a permission for this action grants on the node.
    pub fn class(&self) -> ActionClass {
        self.class
    }

    /// Whether a node may require a second person's approval: true for every root-equivalent action.
    pub fn is_dangerous(&self) -> bool {
        self.class == ActionClass::RootEquivalent
    }

    /// The action's own timeout, if any; see [`AgentDdl::timeout_of`].
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_secs)
    }

    /// Whether undeclared inputs are passed to the plugin, which checks them itself.
    pub fn additional_input(&self) -> bool {
        self.additional_input
    }

    /// The inputs that identify a resource, if the action is about one.
    pub fn resource_inputs(&self) -> Option<&ResourceInputs> {
        self.resource.as_ref()
    }

    /// The script of the action in `MCollective`'s convention: a file in the agent's own directory, or an absolute path.
    pub fn implemented_by(&self) -> Option<&str> {
        self.implemented_by.as_deref()
    }

    /// Example requests and replies; each satisfies this schema.
    pub fn examples(&self) -> &[ActionExample] {
        &self.examples
    }

    /// The names of all sensitive inputs, declared or additional.
    pub fn sensitive_inputs(&self) -> impl Iterator<Item = &str> {
        let declared = self.inputs.iter().filter(|input| input.sensitive);
        declared
            .map(|input| input.name.as_str())
            .chain(self.sensitive_inputs.iter().map(String::as_str))
    }

    /// Whether input `name` is sensitive. Letter case is ignored, so that a mistyped name cannot expose a password.
    pub fn is_sensitive(&self, name: &str) -> bool {
        self.sensitive_inputs().any(|sensitive| sensitive.eq_ignore_ascii_case(name))
    }
}

/// The inputs of an action on a resource. Not in Choria's layout.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceInputs {
    /// The input with the name of the resource type.
    #[serde(rename = "type")]
    pub type_input: String,
    /// The hash with those attributes whose names are inputs of the action, too. If it is declared, the undeclared inputs are the other attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<String>,
}

/// An input of an action.
#[derive(Debug, Clone, serde::Serialize)]
pub struct InputSchema {
    /// The input's name.
    #[serde(skip)]
    pub name: String,
    /// The question that a user interface displays.
    pub prompt: String,
    /// What the input means.
    pub description: String,
    /// The type of the value.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// The value if the caller gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether the caller may omit it.
    pub optional: bool,
    /// If this other input is given, this one may be omitted. Not in Choria's layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_unless: Option<String>,
    #[serde(rename = "validation", skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<ValidationRule>,
    /// Longest string, in characters; 0 means no limit.
    #[serde(rename = "maxlength", skip_serializing_if = "is_zero")]
    pub max_length: u64,
    /// The choices of an input of type `list`.
    #[serde(rename = "list", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// What is inside a value of type `array`, `hash` or `any`. Not in Choria's layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<ValueSchema>,
    /// Whether the value must not be displayed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

impl InputSchema {
    /// The validator's name or the regular expression for strings.
    pub fn validation_text(&self) -> Option<&str> {
        self.rule.as_ref().map(ValidationRule::rule_text)
    }
}

/// An output of an action.
#[derive(Debug, Clone, serde::Serialize)]
pub struct OutputSchema {
    /// The output's name.
    #[serde(skip)]
    pub name: String,
    /// What the output means.
    pub description: String,
    /// The title in results and summaries.
    pub display_as: String,
    /// The type of the value.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// What is inside a value of type `array`, `hash` or `any`. Not in Choria's layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<ValueSchema>,
    /// The value if the action returns none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether the value must not be displayed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A summary of one output over all replies.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct AggregateSchema {
    pub(crate) function: AggregateFunction,
    #[serde(rename = "args")]
    pub(crate) arguments: Vec<Value>,
    #[serde(skip)]
    pub(crate) output: String,
}

impl AggregateSchema {
    /// The function.
    pub fn function(&self) -> AggregateFunction {
        self.function
    }

    /// The summarised output.
    pub fn output_name(&self) -> &str {
        &self.output
    }

    /// The arguments after the output's name, merged: `format`, and labels for values.
    pub(crate) fn label_options(&self) -> impl Iterator<Item = (&str, &str)> {
        let objects = self.arguments.iter().filter_map(Value::as_object).flatten();
        objects.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// An example request and reply, for documentation and as a test of the schema.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ActionExample {
    /// What the example shows.
    pub description: String,
    /// The request's inputs.
    pub input: Map<String, Value>,
    /// The reply's outputs.
    pub output: Map<String, Value>,
}

fn inputs_as_map<S: Serializer>(inputs: &[InputSchema], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(inputs.iter().map(|input| (&input.name, input)))
}

fn outputs_as_map<S: Serializer>(
    outputs: &[OutputSchema],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(outputs.iter().map(|output| (&output.name, output)))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
