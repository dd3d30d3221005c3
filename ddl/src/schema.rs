//! The checked form of an agent's DDL, in the layout that Choria publishes plus keys of ours
//! (`default_action`, `class`, `read_only`, `idempotent`, `streams`, `dangerous`, `timeout` of an action, `additional_input`,
//! `sensitive`, `sensitive_inputs`, `examples`). Serialises back to that layout.
//!
//! Values of these types exist only after every check of `check` has passed; this file reads
//! nothing itself.

use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::aggregate::AggregateFunction;
use crate::display::DisplayMode;
use crate::validate::ValidationRule;
use crate::value_type::ValueType;

/// An agent's schema: who it is, and the actions it offers.
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

    /// The agent's version, as its author writes it.
    pub fn version(&self) -> &str {
        &self.metadata.version
    }

    /// How long an action may run that has no limit of its own.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.metadata.timeout)
    }

    /// How long this action may run: by its own limit, shorter or longer than the agent's, or else by that.
    pub fn timeout_of(&self, action: &ActionSchema) -> Duration {
        action.timeout().unwrap_or(self.timeout())
    }

    /// The action that is meant when a caller names none.
    pub fn default_action(&self) -> Option<&str> {
        self.default_action.as_deref()
    }

    /// Author, licence and the like.
    pub fn metadata(&self) -> &DdlMetadata {
        &self.metadata
    }

    /// The action called `name`.
    pub fn find_action(&self, name: &str) -> Option<&ActionSchema> {
        self.actions.iter().find(|action| action.name == name)
    }

    /// All actions, in the document's order.
    pub fn actions(&self) -> &[ActionSchema] {
        &self.actions
    }

    /// What was odd about the document and yet tolerated: unknown keys, unusable defaults.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Who made the agent, and how it is hosted.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct DdlMetadata {
    /// The agent's name, as used in subjects and on the command line.
    pub name: String,
    /// What the agent is for, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Who maintains the agent.
    #[serde(default)]
    pub author: String,
    /// The licence of the agent, usually an SPDX name.
    #[serde(default)]
    pub license: String,
    /// The agent's version.
    #[serde(default)]
    pub version: String,
    /// Where to read more.
    #[serde(default)]
    pub url: String,
    /// Seconds that an action may run that says nothing else.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
    /// What hosts the agent, `external` for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether any one node of a group answers, instead of every node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub service: bool,
    /// What a program outside of the daemon needs of the machine; nothing else is open to it where the kernel can
    /// see to that. Absent: it is not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<AgentCapabilities>,
    /// Documents may say it here or beside the metadata; `check` moves it to the latter place.
    #[serde(default, skip_serializing)]
    pub(crate) default_action: Option<String>,
}

/// What an external agent declares to need, beyond the system's programs and libraries and its own directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentCapabilities {
    /// Files and directories (with all below) that it reads; absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Files and directories (with all below) that it reads and changes; absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Whether it opens or accepts TCP connections.
    #[serde(default, skip_serializing_if = "is_false")]
    pub network: bool,
}

const fn default_timeout() -> u64 {
    10
}

/// How much power over the node a permission for an action gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionClass {
    /// It leaves the node as it was, and starts no program of the caller's choosing.
    Read,
    /// It changes the node within the bounds of the action.
    Change,
    /// It can run programs of the caller's choosing as root, hand the node to another authority, or destroy data.
    RootEquivalent,
}

impl ActionClass {
    /// The word for it in a DDL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change => "change",
            Self::RootEquivalent => "root_equivalent",
        }
    }
}

/// One thing an agent can be asked to do.
#[derive(Debug, Clone, serde::Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the document"
)]
pub struct ActionSchema {
    #[serde(rename = "action")]
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) display: DisplayMode,
    #[serde(rename = "input", serialize_with = "as_map")]
    pub(crate) inputs: Vec<InputSchema>,
    #[serde(rename = "output", serialize_with = "as_map")]
    pub(crate) outputs: Vec<OutputSchema>,
    #[serde(rename = "aggregate", skip_serializing_if = "Vec::is_empty")]
    pub(crate) aggregates: Vec<AggregateSchema>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) read_only: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) idempotent: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) streams: bool,
    pub(crate) class: ActionClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) additional_input: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) implemented_by: Option<String>,
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

    /// Which replies are worth showing.
    pub fn display(&self) -> DisplayMode {
        self.display
    }

    /// The declared inputs, in the document's order.
    pub fn inputs(&self) -> &[InputSchema] {
        &self.inputs
    }

    /// The declared input called `name`.
    pub fn find_input(&self, name: &str) -> Option<&InputSchema> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// The declared outputs, in the document's order.
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

    /// Whether the action leaves the node as it was.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether asking twice has the effect of asking once.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether the action tells of its progress, and callers want to hear it unless they say otherwise.
    pub fn streams_progress(&self) -> bool {
        self.streams
    }

    /// How much power over the node a permission for this action gives.
    pub fn class(&self) -> ActionClass {
        self.class
    }

    /// Whether a node may demand that a second person approves it: every root-equivalent action.
    pub fn is_dangerous(&self) -> bool {
        self.class == ActionClass::RootEquivalent
    }

    /// How long it may run, where that is another time than the agent's; see [`AgentDdl::timeout_of`].
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_secs)
    }

    /// Whether inputs that are not declared reach the plugin, which then checks them itself.
    pub fn additional_input(&self) -> bool {
        self.additional_input
    }

    /// The script that does the action, where `MCollective`'s convention for such scripts is kept: a file in the
    /// agent's own directory, or an absolute path.
    pub fn implemented_by(&self) -> Option<&str> {
        self.implemented_by.as_deref()
    }

    /// Requests and replies that show how the action is used; each satisfies this schema.
    pub fn examples(&self) -> &[ActionExample] {
        &self.examples
    }

    /// The names of all inputs whose values must not be shown, declared or additional.
    pub fn sensitive_inputs(&self) -> impl Iterator<Item = &str> {
        let declared = self.inputs.iter().filter(|input| input.sensitive);
        declared
            .map(|input| input.name.as_str())
            .chain(self.sensitive_inputs.iter().map(String::as_str))
    }

    /// Whether the value of input `name` must not be shown. Letter case is ignored: a mistyped
    /// name must not publish a password.
    pub fn is_sensitive(&self, name: &str) -> bool {
        self.sensitive_inputs()
            .any(|sensitive| sensitive.eq_ignore_ascii_case(name))
    }
}

/// A value that an action takes.
#[derive(Debug, Clone, serde::Serialize)]
pub struct InputSchema {
    /// The input's name.
    #[serde(skip)]
    pub name: String,
    /// The question a user interface asks.
    pub prompt: String,
    /// What the input means.
    pub description: String,
    /// The type of the value.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// What is used when the caller gives nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether the caller may leave it out.
    pub optional: bool,
    /// Another input: when it is given, this one may be left out. A key of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_unless: Option<String>,
    #[serde(rename = "validation", skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<ValidationRule>,
    /// The greatest length of a string, in characters; 0 means no limit.
    #[serde(rename = "maxlength", skip_serializing_if = "is_zero")]
    pub max_length: u64,
    /// What an input of type `list` may be.
    #[serde(rename = "list", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Whether the value must not be shown.
    #[serde(skip_serializing_if = "is_false")]
    pub sensitive: bool,
}

impl InputSchema {
    /// The validator's name or the regular expression that strings must satisfy.
    pub fn validation_text(&self) -> Option<&str> {
        self.rule.as_ref().map(ValidationRule::rule_text)
    }
}

/// A value that an action answers with.
#[derive(Debug, Clone, serde::Serialize)]
pub struct OutputSchema {
    /// The output's name.
    #[serde(skip)]
    pub name: String,
    /// What the output means.
    pub description: String,
    /// The title under which results and summaries show it.
    pub display_as: String,
    /// The type of the value.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// What is used when the action gives nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether the value must not be shown.
    #[serde(skip_serializing_if = "is_false")]
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
    /// What is computed.
    pub fn function(&self) -> AggregateFunction {
        self.function
    }

    /// The output that is summarised.
    pub fn output_name(&self) -> &str {
        &self.output
    }

    /// The arguments after the output's name, merged: `format`, and labels for values.
    pub(crate) fn label_options(&self) -> impl Iterator<Item = (&str, &str)> {
        let objects = self.arguments.iter().filter_map(Value::as_object).flatten();
        objects.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// A request and its reply, for documentation and as a proof that code and schema agree.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ActionExample {
    /// What the example shows.
    #[serde(default)]
    pub description: String,
    /// The request's inputs.
    #[serde(default)]
    pub input: Map<String, Value>,
    /// The reply's outputs.
    #[serde(default)]
    pub output: Map<String, Value>,
}

/// Something that a document keeps under its name.
pub(crate) trait NamedDefinition {
    fn name(&self) -> &str;
}

impl NamedDefinition for InputSchema {
    fn name(&self) -> &str {
        &self.name
    }
}

impl NamedDefinition for OutputSchema {
    fn name(&self) -> &str {
        &self.name
    }
}

fn as_map<T: NamedDefinition + Serialize, S: Serializer>(
    items: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(items.len()))?;
    for item in items {
        map.serialize_entry(item.name(), item)?;
    }
    map.end()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
