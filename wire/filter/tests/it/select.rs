//! Select expressions: compared with a model, round trips of the printed form, and arbitrary input.

use muster_filter::state::{NodeFacts, NodeView};
use muster_filter::{FactTerm, NodeFilter, SelectExpression};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

/// The model: an expression as a value, which is written in several styles and evaluated by the rules of the manual. Conditions on facts are
/// evaluated by [`FactTerm`], which `tests/it/filter.rs` compares with its own model.
#[derive(Debug, Clone)]
enum Model {
    And(Box<Model>, Box<Model>),
    Or(Box<Model>, Box<Model>),
    Not(Box<Model>),
    Leaf(Leaf),
}

#[derive(Debug, Clone)]
enum Leaf {
    Fact(&'static str, &'static str, &'static str),
    OneOf(&'static str, Vec<&'static str>),
    Include(&'static str, &'static str),
    Class(&'static str),
    Agent(&'static str),
    With(&'static str),
}

/// How a model is written. The style is the same in the whole expression, so that the model can shrink.
#[derive(Debug, Clone, Copy)]
struct Style {
    signs: bool,
    functions: bool,
    brackets: bool,
}

const PATHS: [&str; 5] = ["a", "b.c", "tags", "none", "\"x y\""];
const OPERATORS: [&str; 8] = ["=", "==", "!=", "<", "<=", ">", ">=", "=~"];
const VALUES: [&str; 7] = ["1", "2", "true", "red", "Green", "and", "x)y /"];
const NAMES: [&str; 4] = ["apache", "mysql::master", "rpcutil", "in"];

fn facts() -> NodeFacts {
    let facts = json!({
        "a": 1, "b": {"c": "Red"}, "tags": ["green", 2, true], "x y": "x)y /",
    });
    NodeFacts::from_value(facts).unwrap()
}

impl Model {
    fn holds(&self, facts: &NodeFacts, classes: &[String], agents: &[String]) -> bool {
        match self {
            Self::And(a, b) => a.holds(facts, classes, agents) & b.holds(facts, classes, agents),
            Self::Or(a, b) => a.holds(facts, classes, agents) | b.holds(facts, classes, agents),
            Self::Not(a) => !a.holds(facts, classes, agents),
            Self::Leaf(leaf) => leaf.holds(facts, classes, agents),
        }
    }

    /// Returns the binding strength and the text: 0 for `or`, 1 for `and`, 2 for anything else.
    fn write(&self, style: Style) -> (u8, String) {
        let inside = |model: &Self, least: u8| match model.write(style) {
            (strength, text) if strength < least || style.brackets => format!("( {text})"),
            (_, text) => text,
        };
        match self {
            Self::And(a, b) => {
                let sign = if style.signs { "&&" } else { " aNd " };
                (1, format!("{}{sign}{}", inside(a, 1), inside(b, 1)))
            }
            Self::Or(a, b) => {
                let sign = if style.signs { " ||" } else { " or " };
                (0, format!("{}{sign}{}", inside(a, 0), inside(b, 0)))
            }
            Self::Not(a) => {
                let sign = if style.signs { "!" } else { "not " };
                (2, format!("{sign}{}", inside(a, 2)))
            }
            Self::Leaf(leaf) => (2, leaf.write(style)),
        }
    }
}

impl Leaf {
    fn holds(&self, facts: &NodeFacts, classes: &[String], agents: &[String]) -> bool {
        let among = |names: &[String], name: &str| names.iter().any(|found| found == name);
        let term = |path, operator, value: &str| {
            let value = format!("{path}{operator}\"{value}\"");
            FactTerm::parse(&value).unwrap().matches(facts)
        };
        match self {
            Self::Fact(path, "=~", value) => term(path, "=~", &regex::escape(value)),
            Self::Fact(path, operator, value) => term(path, operator, value),
            Self::OneOf(path, values) => values.iter().any(|value| term(path, "==", value)),
            Self::Include(path, value) => {
                facts.get(path).is_some_and(|found| !found.is_string() && !found.is_number())
                    && term(path, "==", value)
            }
            Self::Class(name) => among(classes, name),
            Self::Agent(name) => among(agents, name),
            Self::With(name) => among(classes, name) || among(agents, name),
        }
    }

    fn write(&self, style: Style) -> String {
        let fact = |path: &str| {
            if style.functions || path.starts_with('"') {
                format!("fact ('{path}')")
            } else {
                path.to_owned()
            }
        };
        match self {
            Self::Fact(path, "=~", value) => {
                let word = if style.functions { " matches " } else { "=~" };
                format!("{}{word}\"{}\"", fact(path), regex::escape(value))
            }
            Self::Fact(path, operator, value) => format!("{}{operator} '{value}'", fact(path)),
            Self::OneOf(path, values) => {
                let values: Vec<_> = values.iter().map(|value| format!("\"{value}\"")).collect();
                format!("{} in [{}]", fact(path), values.join(","))
            }
            Self::Include(path, value) if style.functions => {
                format!("include({}, '{value}')", fact(path))
            }
            Self::Include(path, value) => format!("'{value}' in {}", fact(path)),
            Self::Class(name) if style.functions || *name == "in" => format!("class('{name}')"),
            Self::Class(name) => (*name).to_owned(),
            Self::Agent(name) if style.functions => format!("agent(\"{name}\")"),
            Self::Agent(name) => format!("'{name}' in agents"),
            Self::With(name) => format!("with('{name}')"),
        }
    }
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let (path, value, name) = (select(&PATHS[..]), select(&VALUES[..]), select(&NAMES[..]));
    prop_oneof![
        4 => (path.clone(), select(&OPERATORS[..]), value.clone())
            .prop_map(|(path, operator, value)| Leaf::Fact(path, operator, value)),
        1 => (path.clone(), vec(value.clone(), 1..4))
            .prop_map(|(path, values)| Leaf::OneOf(path, values)),
        1 => (path, value).prop_map(|(path, value)| Leaf::Include(path, value)),
        1 => name.clone().prop_map(Leaf::Class),
        1 => name.clone().prop_map(Leaf::Agent),
        1 => name.prop_map(Leaf::With),
    ]
}

fn model() -> impl Strategy<Value = Model> {
    leaf().prop_map(Model::Leaf).prop_recursive(6, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| Model::And(a.into(), b.into())),
            two.prop_map(|(a, b)| Model::Or(a.into(), b.into())),
            inner.prop_map(|a| Model::Not(a.into())),
        ]
    })
}

fn style() -> impl Strategy<Value = Style> {
    any::<(bool, bool, bool)>().prop_map(|(signs, functions, brackets)| Style {
        signs,
        functions,
        brackets,
    })
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec(select(&NAMES[..]).prop_map(str::to_owned), 0..3)
}

/// Text of the tokens of the language, which gets further into the parser than random characters.
fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = [
        "(",
        ")",
        "[",
        "]",
        ",",
        " ",
        "!",
        "not ",
        " and ",
        " or ",
        "||",
        "&&",
        " in ",
        " matches ",
        "=",
        "!=",
        "<",
        "=~",
        "a",
        "é",
        "1",
        "true",
        "os.family",
        ".value",
        "/x/",
        "/",
        "/i",
        "'",
        "\"",
        "\\",
        "fact(",
        "class(",
        "with(",
        "include(",
        "semver(",
        "fstat(",
        "'x'",
        "\">= 1.2\"",
        "classes",
        "\t",
        "\u{7}",
        "/x",
    ];
    prop_oneof![
        1 => "\\PC{0,40}",
        4 => vec(select(pieces.to_vec()), 0..16).prop_map(|pieces| pieces.concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn evaluator_and_model_agree(
        model in model(), style in style(), classes in names(), agents in names(),
    ) {
        let (_, text) = model.write(style);
        let facts = facts();
        let node = NodeView::new("db1", &facts).with_classes(Some(&classes)).with_agents(&agents);
        let expected = model.holds(&facts, &classes, &agents);
        let read = SelectExpression::parse(&text);
        prop_assert!(read.is_ok(), "{}: {}", text, read.unwrap_err());
        let read = read.unwrap();
        prop_assert_eq!(read.matches(&node), expected, "{}", text);
        let printed = read.to_string();
        let again = SelectExpression::parse(&printed);
        prop_assert!(again.is_ok(), "{}: {}", printed, again.unwrap_err());
        prop_assert_eq!(&again.unwrap(), &read, "{}", printed);
    }

    #[test]
    fn parsed_text_prints_and_parses_again(text in hostile_text()) {
        match SelectExpression::parse(&text) {
            Ok(read) => {
                let printed = read.to_string();
                let again = SelectExpression::parse(&printed);
                prop_assert!(again.is_ok(), "{}: {}", printed, again.unwrap_err());
                let again = again.unwrap();
                prop_assert_eq!(&again, &read, "{}", printed);
                prop_assert_eq!(again.to_string(), printed);
                prop_assert!(!read.explain().contains(char::is_control));
            }
            Err(error) => {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.column()), "{}", error);
            }
        }
    }

    #[test]
    fn several_expressions_must_all_hold_and_round_trip_through_json(
        first in model(), second in model(), style in style(), classes in names(),
    ) {
        let texts = [first.write(style).1, second.write(style).1];
        let facts = facts();
        let node = NodeView::new("db1", &facts).with_classes(Some(&classes));
        let mut filter = NodeFilter::default();
        for text in &texts {
            filter = filter.with_select(text).unwrap();
        }
        let expected = first.holds(&facts, &classes, &[]) && second.holds(&facts, &classes, &[]);
        prop_assert_eq!(filter.matches(&node), expected);
        let json = serde_json::to_string(&filter).unwrap();
        prop_assert_eq!(&serde_json::from_str::<NodeFilter>(&json).unwrap(), &filter);
    }
}
