//! Expressions with data sources compared with a three-valued model, for every kind of result.

use std::collections::BTreeMap;

use muster_filter::state::{NodeFacts, NodeView};
use muster_filter::{
    DataLookup, DataLookupResult, EvaluationProgress, KnownLookups, SelectExpression, TruthValue,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// An expression as a value.
#[derive(Debug, Clone)]
enum Model {
    And(Box<Model>, Box<Model>),
    Or(Box<Model>, Box<Model>),
    Not(Box<Model>),
    /// Whether the node has the class.
    Class(bool),
    /// An output of a source, and the value that it is compared with.
    Source(&'static str, &'static str, u8),
}

const SOURCES: [&str; 3] = ["a()", "b(\"x y\")", "b(\"\\\"\")"];
const OUTPUTS: [&str; 2] = ["one", "two"];

type SourceValues = BTreeMap<&'static str, Option<BTreeMap<&'static str, Option<u8>>>>;

impl Model {
    /// True, false, or unknown (`None`), according to the truth tables of the manual.
    fn truth(&self, world: &SourceValues) -> Option<bool> {
        match self {
            Self::And(a, b) => match (a.truth(world), b.truth(world)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(a, b) => match (a.truth(world), b.truth(world)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Not(a) => a.truth(world).map(|truth| !truth),
            Self::Class(has) => Some(*has),
            Self::Source(source, output, wanted) => {
                let outputs = world.get(source)?.as_ref()?;
                outputs.get(output).map(|value| *value == Some(*wanted))
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::And(a, b) => format!("({} and {})", a.write(), b.write()),
            Self::Or(a, b) => format!("({} or {})", a.write(), b.write()),
            Self::Not(a) => format!("not {}", a.write()),
            Self::Class(true) => "apache".to_owned(),
            Self::Class(false) => "nginx".to_owned(),
            Self::Source(source, output, wanted) => format!("{source}.{output} = {wanted}"),
        }
    }
}

fn model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Model::Class),
        4 => (select(&SOURCES[..]), select(&OUTPUTS[..]), 0..2_u8)
            .prop_map(|(source, output, wanted)| Model::Source(source, output, wanted)),
    ];
    leaf.prop_recursive(5, 20, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| Model::And(a.into(), b.into())),
            two.prop_map(|(a, b)| Model::Or(a.into(), b.into())),
            inner.prop_map(|a| Model::Not(a.into())),
        ]
    })
}

/// Sources without a result, without an output, with a null output, or with a number.
fn world() -> impl Strategy<Value = SourceValues> {
    let outputs = prop::collection::btree_map(
        select(&OUTPUTS[..]),
        prop::option::of(0..2_u8),
        0..=OUTPUTS.len(),
    );
    prop::collection::btree_map(select(&SOURCES[..]), prop::option::of(outputs), 0..=SOURCES.len())
}

fn lookup_result(world: &SourceValues, lookup: &DataLookup) -> DataLookupResult {
    match world.get(lookup.to_string().as_str()) {
        None => DataLookupResult::Unknown("no such source".to_owned()),
        Some(None) => DataLookupResult::Unknown("denied".to_owned()),
        Some(Some(outputs)) => {
            let values: Map<String, Value> =
                outputs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            DataLookupResult::Values(values)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn evaluator_and_model_agree_and_no_lookup_is_repeated(
        model in model(), world in world(),
    ) {
        let text = model.write();
        let select = SelectExpression::parse(&text).unwrap();
        prop_assert_eq!(&SelectExpression::parse(&select.to_string()).unwrap(), &select);
        let facts = NodeFacts::default();
        let classes = ["apache".to_owned()];
        let node = NodeView::new("db1", &facts).with_classes(Some(&classes));
        let mut known = KnownLookups::default();
        let truth = loop {
            match select.evaluate(&node, &known) {
                EvaluationProgress::Decided(truth) => break truth,
                EvaluationProgress::Needs(lookup) => {
                    prop_assert!(!known.contains_key(lookup));
                    known.insert(lookup.clone(), lookup_result(&world, lookup));
                }
            }
        };
        let expected = model.truth(&world).map_or(TruthValue::Unknown, TruthValue::from);
        prop_assert_eq!(truth, expected, "{}", text);
        prop_assert!(known.len() <= select.data_lookups().len());
        let nothing = model.truth(&SourceValues::new()) == Some(true);
        prop_assert_eq!(select.matches(&node), nothing, "{}", text);
        for (condition, truth) in select.evaluate_conditions(&node, &known) {
            prop_assert!(truth.is_some() || condition.contains('('), "{}", condition);
        }
    }
}
