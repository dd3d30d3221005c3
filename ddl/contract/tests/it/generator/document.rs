//! The keys of a DDL, in the order in which they are written.

use muster_ddl::{
    Action, ActionClass, ActionProperties, AgentContract, DisplayMode, OrderedJson, OrderedMap,
    OutputAggregate, ResourceInputs,
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::fields::{InputDocument, OutputDocument, describe_type, list_inputs, list_outputs};

/// What all built-in agents have in common.
const AUTHOR: &str = "Muster";
const LICENSE: &str = "Apache-2.0";

#[derive(Serialize)]
pub(super) struct AgentDocument {
    metadata: MetadataDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_action: Option<&'static str>,
    actions: Vec<ActionDocument>,
}

#[derive(Serialize)]
struct MetadataDocument {
    name: &'static str,
    description: String,
    author: &'static str,
    license: &'static str,
    version: &'static str,
    timeout: u64,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate key of the document")]
pub(super) struct ActionDocument {
    action: &'static str,
    class: ActionClass,
    description: String,
    display: DisplayMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    idempotent: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    streams: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    additional_input: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceInputs>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sensitive_inputs: &'static [&'static str],
    input: OrderedMap<InputDocument>,
    output: OrderedMap<OutputDocument>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aggregate: Vec<AggregateDocument>,
    examples: Vec<OrderedJson>,
}

impl AgentDocument {
    pub(super) fn new<T: AgentContract>(actions: Vec<ActionDocument>) -> Result<Self, String> {
        let metadata = MetadataDocument {
            name: T::NAME,
            description: describe::<T>()?,
            author: AUTHOR,
            license: LICENSE,
            version: T::VERSION,
            timeout: T::TIMEOUT,
        };
        Ok(Self { metadata, default_action: T::DEFAULT_ACTION, actions })
    }
}

impl ActionDocument {
    pub(super) fn new<A: Action>() -> Result<Self, String> {
        let ActionProperties {
            class,
            idempotent,
            display,
            timeout,
            streams,
            additional_input,
            resource,
            sensitive_inputs,
            input_texts,
            output_texts,
            aggregates,
            examples,
        } = A::properties();
        let examples: Vec<OrderedJson> =
            serde_json::from_str(examples).map_err(|error| format!("the examples: {error}"))?;
        let mut input = list_inputs::<A::Input>()?;
        for (name, text) in input_texts {
            find_field(&mut input, name)?.description = text.to_owned();
        }
        let mut output = list_outputs::<A::Output>()?;
        for (name, text) in output_texts {
            find_field(&mut output, name)?.description = text.to_owned();
        }
        Ok(Self {
            action: A::NAME,
            class,
            description: describe::<A>()?,
            display,
            timeout,
            read_only: class == ActionClass::Read,
            idempotent,
            streams,
            additional_input,
            resource,
            sensitive_inputs,
            input,
            output,
            aggregate: aggregates.into_iter().map(AggregateDocument).collect(),
            examples,
        })
    }
}

fn find_field<'a, T>(fields: &'a mut OrderedMap<T>, name: &str) -> Result<&'a mut T, String> {
    let found = fields.0.iter_mut().find(|(known, _)| known == name);
    found.map(|(_, field)| field).ok_or_else(|| format!("there is no field `{name}`"))
}

/// The documentation of a type as a description.
fn describe<T: JsonSchema>() -> Result<String, String> {
    let schema = schemars::schema_for!(T);
    let keys: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
    describe_type(&keys)
        .ok_or_else(|| format!("the type {} has no documentation", T::schema_name()))
}

struct AggregateDocument(OutputAggregate);

impl Serialize for AggregateDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OutputAggregate { function, output, labels } = &self.0;
        let mut arguments = vec![OrderedJson::Scalar(json!(output))];
        let labels = labels.iter();
        let labels: Vec<(String, OrderedJson)> = labels
            .map(|(value, label)| ((*value).to_owned(), OrderedJson::Scalar(json!(label))))
            .collect();
        if !labels.is_empty() {
            arguments.push(OrderedJson::Object(OrderedMap(labels)));
        }
        let keys = [
            ("function", OrderedJson::Scalar(json!(function.name()))),
            ("args", OrderedJson::List(arguments)),
        ];
        serializer.collect_map(keys)
    }
}
