//! Random nodes whose facts have few names and values, so that queries often match some of them.

use muster_filter::state::{MapField, NodeFacts, NodeView};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::node_record::{NodeContent, NodeRecord};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

const KEYS: [&str; 8] = ["a", "b", "c", "a.b", "0", "$d", "os", "family"];
pub(crate) const TEXTS: [&str; 12] =
    ["a", "b", "B", "Ä", "ä", "5", "05", "5.0", "-3", "true", "Debian", "x y"];
const CLASSES: [&str; 4] = ["apache", "common", "mysql::master", "role::web"];
const AGENTS: [&str; 4] = ["package", "puppetral", "rpcutil", "service"];

/// One node: its name and what it publishes.
#[derive(Debug, Clone)]
pub(crate) struct RandomNode {
    pub(crate) name: Identity,
    pub(crate) content: NodeContent,
    pub(crate) classes: Vec<String>,
    pub(crate) agents: Vec<String>,
    pub(crate) collectives: Vec<String>,
}

impl RandomNode {
    pub(crate) fn new(number: usize, content: NodeContent) -> Self {
        Self {
            name: Identity::parse(&format!("node{number}.acme.net")).unwrap(),
            classes: content.classes.clone().unwrap_or_default(),
            agents: content.agents.keys().cloned().collect(),
            collectives: content.collectives.iter().map(SubjectName::to_string).collect(),
            content,
        }
    }

    /// The node's own view, with which it decides whether it is asked.
    pub(crate) fn view(&self) -> NodeView<'_> {
        NodeView::new(self.name.as_str(), &self.content.facts)
            .with_classes(self.content.classes.as_deref())
            .with_agents(&self.agents)
            .with_collectives(&self.collectives)
            .with_map(MapField::State, self.content.map(MapField::State))
    }

    pub(crate) fn record(&self, time: u64) -> NodeRecord {
        NodeRecord::new(self.name.clone(), time, &self.content, &self.content).unwrap()
    }
}

pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        3 => (-4_i64..8).prop_map(Value::from),
        1 => Just(Value::from(9_007_199_254_740_993_u64)),
        1 => (-8_i32..12).prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
        1 => any::<f64>().prop_map(Value::from),
        4 => select(&TEXTS[..]).prop_map(Value::from),
    ]
}

fn nested_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(select(&KEYS[..]).prop_map(str::to_owned), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

pub(crate) fn content() -> impl Strategy<Value = NodeContent> {
    let names =
        |names: &'static [&'static str]| btree_set(select(names).prop_map(str::to_owned), 0..4);
    let facts = btree_map(select(&KEYS[..]).prop_map(str::to_owned), nested_value(), 0..6);
    let states = btree_map(select(&KEYS[..]).prop_map(str::to_owned), nested_value(), 0..4);
    let states = proptest::option::weighted(0.9, states);
    let classes = proptest::option::weighted(0.9, names(&CLASSES));
    (facts, classes, names(&AGENTS), any::<bool>(), states).prop_map(
        |(facts, classes, agents, is_second, state)| {
            let collectives = if is_second { &["muster", "second"][..] } else { &["muster"] };
            let state = state.map(|map| NodeFacts::from_map(map.into_iter().collect()).unwrap());
            NodeContent {
                version: "0.1.0".to_owned(),
                collectives: collectives
                    .iter()
                    .map(|name| SubjectName::parse(name).unwrap())
                    .collect(),
                agents: agents.into_iter().map(|name| (name, "1.0.0".to_owned())).collect(),
                classes: classes.map(|classes| classes.into_iter().collect()),
                facts: NodeFacts::from_map(facts.into_iter().collect()).unwrap(),
                heartbeat_seconds: 60,
                optional_maps: state.map(|state| (MapField::State, state)).into_iter().collect(),
            }
        },
    )
}
