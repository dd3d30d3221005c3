//! Tests of the generator with types that no agent has.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::generate_document;

/// Tests the generator.
#[derive(JsonSchema)]
struct SampleAgent<A>(std::marker::PhantomData<A>);

impl<A: Action + 'static> AgentContract for SampleAgent<A> {
    const NAME: &'static str = "sample";
    const TIMEOUT: u64 = 5;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<A>();
    }
}

/// Uses every attribute.
///
/// This paragraph is for readers of the code.
#[derive(JsonSchema)]
struct Everything;

impl Action for Everything {
    type Agent = SampleAgent<Self>;
    const NAME: &'static str = "everything";
    type Input = EverythingInput;
    type Output = EverythingOutput;

    fn properties() -> ActionProperties {
        let example = r#"[{"description": "d", "input": {"zone": "z", "secret": "s"}, "output": {"zone": 1, "also": "x", "more": {"b": 1, "a": 2}}}]"#;
        ActionProperties::change().change_summary().timeout(9).examples(example)
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    Red,
    DarkBlue,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct EverythingInput {
    /// A zone, over
    /// two lines.
    #[schemars(length(max = 9), regex(pattern = "^z"))]
    zone: String,
    /// An old name is read, too.
    #[serde(alias = "password")]
    #[schemars(extend("x-sensitive" = true, "x-validation" = "shellsafe"))]
    secret: String,
    /// One of two.
    #[serde(default)]
    colour: Option<Colour>,
    /// With a default.
    #[schemars(title = "Tries", extend("x-default" = 3))]
    count: Option<u8>,
    /// What the DDL fills in is not what serde fills in.
    #[serde(default)]
    noop: bool,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct EverythingOutput {
    /// A number.
    zone: Option<f64>,
    #[serde(flatten)]
    rest: FlattenedOutput,
    /// Whether it changed.
    #[schemars(extend("x-type" = "any"))]
    changed: bool,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct FlattenedOutput {
    /// Anything.
    more: Value,
    /// Text.
    also: String,
}

#[test]
fn every_attribute_has_its_key() {
    let (name, document) = generate_document::<SampleAgent<Everything>>();
    let document: Value = serde_json::from_str(&document.unwrap()).unwrap();
    assert_eq!((name, &document["metadata"]["timeout"]), ("sample", &json!(5)));
    assert_eq!(document["metadata"]["description"], "Tests the generator");
    let action = &document["actions"][0];
    assert_eq!(action["description"], "Uses every attribute");
    assert_eq!((&action["class"], &action["timeout"]), (&json!("change"), &json!(9)));
    let input = json!({
        "zone": {"prompt": "Zone", "description": "A zone, over two lines", "type": "string", "optional": false, "validation": "^z", "maxlength": 9},
        "secret": {"prompt": "Secret", "description": "An old name is read, too", "type": "string", "optional": false, "validation": "shellsafe", "sensitive": true},
        "colour": {"prompt": "Colour", "description": "One of two", "type": "list", "list": ["red", "dark_blue"], "optional": true},
        "count": {"prompt": "Tries", "description": "With a default", "type": "integer", "optional": true, "default": 3},
        "noop": {"prompt": "No-op", "description": "What the DDL fills in is not what serde fills in", "type": "boolean", "optional": true},
    });
    assert_eq!(action["input"], input);
    assert_eq!(action["output"]["zone"]["type"], "float");
    assert_eq!(action["output"]["more"]["type"], "any");
    assert_eq!(action["output"]["changed"]["type"], "any");
}

#[test]
fn fields_and_examples_keep_their_order() {
    let (_, document) = generate_document::<SampleAgent<Everything>>();
    let document = document.unwrap();
    let places = |words: &[&str]| {
        let found = words.iter().map(|word| document.find(&format!("\"{word}\": ")).unwrap());
        found.collect::<Vec<_>>()
    };
    assert!(places(&["zone", "secret", "colour", "count", "noop"]).is_sorted());
    let output = document.find("\"output\"").unwrap();
    let outputs = &document[output..];
    let declared =
        ["zone", "more", "also", "changed"].map(|name| outputs.find(&format!("\"{name}\": {{")));
    assert!(declared.is_sorted(), "{outputs}");
    assert!(places(&["b", "a"]).is_sorted());
}

macro_rules! sample_action {
    ($name:ident, $input:ty, $output:ty, $example:expr) => {
        /// A sample.
        #[derive(JsonSchema)]
        struct $name;

        impl Action for $name {
            type Agent = SampleAgent<Self>;
            const NAME: &'static str = "act";
            type Input = $input;
            type Output = $output;

            fn properties() -> ActionProperties {
                ActionProperties::read().examples($example)
            }
        }
    };
}

const EMPTY_EXAMPLE: &str = r#"[{"description": "d", "input": {}, "output": {}}]"#;

/// A row. Its fields are not in the order of the alphabet.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Row {
    /// The name.
    name: String,
    /// What is below, or
    /// nothing.
    children: Option<Vec<Row>>,
    /// A number.
    count: u8,
    /// Anything.
    any: Value,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Containers {
    /// Rows.
    rows: Vec<Row>,
    /// Names.
    names: Option<Vec<String>>,
    /// A number or a text.
    #[schemars(extend("x-type" = "any"))]
    either: Option<String>,
    /// A map that says no more than its type.
    plain: Map<String, Value>,
    /// Anything.
    anything: Value,
    /// A text.
    text: String,
}

sample_action!(ContainerAction, EmptyInput, Containers, EMPTY_EXAMPLE);

#[test]
fn what_is_inside_arrays_and_hashes_is_in_one_line() {
    let (_, document) = generate_document::<SampleAgent<ContainerAction>>();
    let document = document.unwrap();
    let schemas: Vec<&str> =
        document.lines().filter_map(|line| line.trim().strip_prefix("\"schema\": ")).collect();
    let row = r##"{"description":"A row. Its fields are not in the order of the alphabet","type":"object","properties":{"name":{"description":"The name","type":"string"},"children":{"description":"What is below, or nothing","type":["array","null"],"items":{"$ref":"#/$defs/Row"}},"count":{"description":"A number","type":"integer","minimum":0,"maximum":255},"any":{"description":"Anything"}}}"##;
    let rows =
        format!(r##"{{"type":"array","items":{{"$ref":"#/$defs/Row"}},"$defs":{{"Row":{row}}}}}"##);
    let names = r#"{"type":"array","items":{"type":"string"}}"#;
    assert_eq!(schemas, [rows.as_str(), names, r#"{"type":"string"}"#]);
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Mistyped {
    /// A secret.
    #[schemars(extend("x-sensitve" = true))]
    key: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nested {
    /// Secrets.
    keys: Vec<NestedKey>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct NestedKey {
    /// A secret.
    #[schemars(extend("x-sensitive" = true))]
    key: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Undocumented {
    key: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Validated {
    /// An output.
    #[schemars(regex(pattern = "x"))]
    key: Option<String>,
}

sample_action!(MistypedAction, Mistyped, EmptyInput, EMPTY_EXAMPLE);
sample_action!(NestedAction, EmptyInput, Nested, EMPTY_EXAMPLE);
sample_action!(UndocumentedAction, Undocumented, EmptyInput, EMPTY_EXAMPLE);
sample_action!(ValidatedAction, EmptyInput, Validated, EMPTY_EXAMPLE);
sample_action!(UnshownAction, EmptyInput, EmptyInput, "[]");
sample_action!(MisreadAction, EmptyInput, Map<String, Value>, r#"[{"input": {}, "output": {"a": 1}}]"#);

#[test]
fn types_without_a_document_are_refused_with_the_reason() {
    let problems = [
        generate_document::<SampleAgent<MistypedAction>>(),
        generate_document::<SampleAgent<NestedAction>>(),
        generate_document::<SampleAgent<UndocumentedAction>>(),
        generate_document::<SampleAgent<ValidatedAction>>(),
        generate_document::<SampleAgent<UnshownAction>>(),
        generate_document::<SampleAgent<MisreadAction>>(),
    ];
    let expected = [
        "sample: act: input key: the attribute for `x-sensitve` has no meaning in a DDL here",
        "sample: act: output keys: `x-sensitive` inside a value has no meaning in a DDL",
        "sample: act: input key: the field has no documentation",
        "sample: act: output key: the attribute for `pattern` has no meaning in a DDL here",
        "sample: act: there is no example",
        "sample: action `act`, example 1: the example's output is invalid: ",
    ];
    for ((_, document), expected) in problems.into_iter().zip(expected) {
        let problem = document.unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
    }
}
