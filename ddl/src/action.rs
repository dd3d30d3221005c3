//! Actions and agents as types, which are the source of the built-in agents' DDLs.
//!
//! The type of an action says what its DDL says: the fields of its inputs and outputs with their documentation, and [`ActionProperties`]. The
//! documents in `agents/` are generated from these types, and a test of `muster-contract` compares them.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::aggregate::AggregateFunction;
use crate::display::DisplayMode;
use crate::schema::{ActionClass, ResourceInputs};

/// An agent whose actions are types. Its documentation is the description in its DDL.
pub trait AgentContract: JsonSchema + 'static {
    /// The name in subjects.
    const NAME: &'static str;
    /// The version of its DDL.
    const VERSION: &'static str = "1.0.0";
    /// Timeout of actions without their own, in seconds.
    const TIMEOUT: u64;
    /// The action that runs if the caller names none.
    const DEFAULT_ACTION: Option<&'static str> = None;

    /// Lists the actions in the order of the DDL.
    fn list_actions(list: &mut impl ActionList);
}

/// Receives the actions of an agent.
pub trait ActionList {
    /// Receives one.
    fn add<A: Action>(&mut self) -> &mut Self;
}

/// One action. Its documentation is the description in its agent's DDL.
pub trait Action: JsonSchema + 'static {
    /// The agent.
    type Agent: AgentContract;
    /// The name among the actions of the agent.
    const NAME: &'static str;
    /// The inputs. [`EmptyInput`] if there are none.
    type Input: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// The outputs.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// What the DDL says besides the description, the inputs and the outputs.
    fn properties() -> ActionProperties;
}

/// The inputs of an action that takes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyInput {}

/// Labels of a boolean that tells whether a node was changed.
const CHANGE_LABELS: &[(&str, &str)] =
    &[("true", "Changed"), ("false", "No Change"), ("noop", "Would Change")];

/// A summary of one output over all replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputAggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The summarised output.
    pub output: &'static str,
    /// Labels for values, in the order of the DDL.
    pub labels: &'static [(&'static str, &'static str)],
}

/// What a DDL says about an action besides its description, inputs and outputs.
#[derive(Debug, Clone)]
pub struct ActionProperties {
    /// The privilege that a permission for the action grants on the node.
    pub class: ActionClass,
    /// Whether repeating the action has no further effect.
    pub idempotent: bool,
    /// Which replies are displayed.
    pub display: DisplayMode,
    /// The action's own timeout, in seconds.
    pub timeout: Option<u64>,
    /// Whether the action sends progress.
    pub streams: bool,
    /// Whether undeclared inputs are passed to the plugin.
    pub additional_input: bool,
    /// The inputs that identify a resource.
    pub resource: Option<ResourceInputs>,
    /// Undeclared inputs that are sensitive.
    pub sensitive_inputs: &'static [&'static str],
    /// Descriptions of inputs that differ from those of the type, which other actions have, too.
    pub input_texts: Vec<(&'static str, &'static str)>,
    /// Descriptions of outputs that differ from those of the type.
    pub output_texts: Vec<(&'static str, &'static str)>,
    /// The summaries.
    pub aggregates: Vec<OutputAggregate>,
    /// Example requests and replies: a JSON list as in a DDL.
    pub examples: &'static str,
}

impl ActionProperties {
    /// Of an action that leaves the node unchanged.
    pub fn read() -> Self {
        Self { idempotent: true, ..Self::of_class(ActionClass::Read) }
    }

    /// Of an action that changes the node.
    pub fn change() -> Self {
        Self::of_class(ActionClass::Change)
    }

    /// Of an action with which a caller can take over the node.
    pub fn root_equivalent() -> Self {
        Self::of_class(ActionClass::RootEquivalent)
    }

    fn of_class(class: ActionClass) -> Self {
        Self {
            class,
            idempotent: false,
            display: DisplayMode::Always,
            timeout: None,
            streams: false,
            additional_input: false,
            resource: None,
            sensitive_inputs: &[],
            input_texts: Vec::new(),
            output_texts: Vec::new(),
            aggregates: Vec::new(),
            examples: "[]",
        }
    }

    /// Repeating the action has no further effect.
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// Only failed replies are displayed.
    #[must_use]
    pub fn display_failed(self) -> Self {
        Self { display: DisplayMode::Failed, ..self }
    }

    /// Sets the action's own timeout, in seconds.
    #[must_use]
    pub fn timeout(self, seconds: u64) -> Self {
        Self { timeout: Some(seconds), ..self }
    }

    /// The action sends progress.
    #[must_use]
    pub fn streams(self) -> Self {
        Self { streams: true, ..self }
    }

    /// Undeclared inputs are passed to the plugin, and these of them are sensitive.
    #[must_use]
    pub fn additional_input(self, sensitive: &'static [&'static str]) -> Self {
        Self { additional_input: true, sensitive_inputs: sensitive, ..self }
    }

    /// The action is about a resource: the inputs with the name of its type and with its attributes.
    #[must_use]
    pub fn resource(self, type_input: &str, attributes: Option<&str>) -> Self {
        let resource = ResourceInputs {
            type_input: type_input.to_owned(),
            attributes: attributes.map(str::to_owned),
        };
        Self { resource: Some(resource), ..self }
    }

    /// Describes an input of a type that several actions share.
    #[must_use]
    pub fn describe_input(mut self, name: &'static str, text: &'static str) -> Self {
        self.input_texts.push((name, text));
        self
    }

    /// Describes an output of a type that several actions share.
    #[must_use]
    pub fn describe_output(mut self, name: &'static str, text: &'static str) -> Self {
        self.output_texts.push((name, text));
        self
    }

    /// Adds a count of each value of this output.
    #[must_use]
    pub fn summary(self, output: &'static str) -> Self {
        self.aggregate(AggregateFunction::Summary, output, &[])
    }

    /// Adds a count of the nodes that were changed, from the output `changed`.
    #[must_use]
    pub fn change_summary(self) -> Self {
        self.aggregate(AggregateFunction::BooleanSummary, "changed", CHANGE_LABELS)
    }

    /// Adds a summary of this output.
    #[must_use]
    pub fn aggregate(
        mut self,
        function: AggregateFunction,
        output: &'static str,
        labels: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.aggregates.push(OutputAggregate { function, output, labels });
        self
    }

    /// Sets the examples: a JSON list as in a DDL.
    #[must_use]
    pub fn examples(self, json: &'static str) -> Self {
        Self { examples: json, ..self }
    }
}
