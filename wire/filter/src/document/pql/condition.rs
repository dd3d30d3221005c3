//! The expression tree of a query in PQL, and what it reads.

use serde_json::{Number, Value};

use super::super::operators::comparison::OrderOperator;
use super::super::usage::QueryUsage;
use crate::boolean_tree::BooleanTree;
use crate::fact_names::ReferencedFacts;
use crate::necessary::{FactIndexKey, NecessaryCondition};
use crate::number::NumericValue;
use crate::pattern::{FilterRegex, lower_case};
use crate::state::path::quote_segment_if_needed;
use crate::state::{FactPath, MapField};

/// A query, its text in one line, and how much of the limits it uses.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct PqlQuery {
    pub(in super::super) text: String,
    /// `None` if the query selects all nodes.
    pub(super) condition: Option<BooleanTree<NodeTest>>,
    pub(in super::super) usage: QueryUsage,
}

impl Eq for PqlQuery {}

/// A test of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeTest {
    Certname(TextTest),
    Fact(Vec<FactPathPart>, FactTest),
    /// `facts { }`: the condition is true for one of the top-level facts.
    FactRows(BooleanTree<RowTest>),
    /// `resources { }`: the condition is true for one of the classes.
    ClassRows(BooleanTree<RowTest>),
    /// `inventory { }` in a query of `nodes`.
    Inventory(Box<BooleanTree<Self>>),
}

/// A part of a fact's path: `disks[0]` has an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FactPathPart {
    pub(super) name: String,
    pub(super) index: Option<usize>,
}

/// A test of the value at a path of `facts`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FactTest {
    Equal(Value),
    Order(OrderOperator, Number),
    Match(FilterRegex),
    IsNull(bool),
}

/// A test of a row of `facts { }` or `resources { }`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RowTest {
    Certname(TextTest),
    /// The name of the fact, or the title of the resource.
    Name(TextTest),
    /// The type of the resource.
    Type(TextTest),
    /// The value of the fact.
    Value(FactTest),
    /// The value of the fact is one of these.
    ValueIn(Vec<Value>),
}

/// A test of a text that is never null.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextTest {
    In(Vec<String>),
    Match(FilterRegex),
    IsNull(bool),
}

impl PqlQuery {
    /// Whether the query selects all nodes.
    pub(in super::super) fn is_unconditional(&self) -> bool {
        self.condition.is_none()
    }

    /// Adds the facts that the query reads.
    pub(in super::super) fn add_referenced_facts(&self, found: &mut ReferencedFacts) {
        if let Some(condition) = &self.condition {
            add_facts(condition, found);
        }
    }

    /// Adds conditions that every selected node satisfies.
    pub(in super::super) fn gather_conditions(&self, found: &mut Vec<NecessaryCondition>) {
        if let Some(condition) = &self.condition {
            gather_node_conditions(condition, found);
        }
    }
}

fn add_facts(condition: &BooleanTree<NodeTest>, found: &mut ReferencedFacts) {
    condition.leaf_terms().into_iter().for_each(|test| match test {
        NodeTest::Fact(path, _) => {
            if let Some(first) = path.first() {
                found.add_name(&first.name);
            }
        }
        NodeTest::FactRows(_) => found.add_all(),
        NodeTest::Inventory(inner) => add_facts(inner, found),
        NodeTest::Certname(_) | NodeTest::ClassRows(_) => {}
    });
}

fn gather_node_conditions(condition: &BooleanTree<NodeTest>, found: &mut Vec<NecessaryCondition>) {
    condition.required_terms().into_iter().for_each(|test| match test {
        NodeTest::Certname(TextTest::In(names)) => {
            found.push(NecessaryCondition::Identity(names.clone()));
        }
        NodeTest::Fact(path, FactTest::Equal(value)) => found.extend(fact_condition(path, value)),
        NodeTest::ClassRows(rows) => rows.required_terms().into_iter().for_each(|row| {
            if let RowTest::Name(TextTest::In(titles)) = row {
                // Every node with a catalog has the class main, which classes do not list.
                if !titles.iter().any(|title| title == super::eval::MAIN_CLASS) {
                    let names = titles.iter().map(|title| lower_case(title)).collect();
                    found.push(NecessaryCondition::Class(names));
                }
            }
        }),
        NodeTest::Inventory(inner) => gather_node_conditions(inner, found),
        NodeTest::Certname(_) | NodeTest::Fact(..) | NodeTest::FactRows(_) => {}
    });
}

/// The condition for an index; none if a part has an index, because that of a scalar can be the scalar itself.
fn fact_condition(path: &[FactPathPart], value: &Value) -> Option<NecessaryCondition> {
    let key = match value {
        Value::Bool(value) => FactIndexKey::Boolean(*value),
        Value::Number(number) => FactIndexKey::of_number(NumericValue::from_json(number)?),
        Value::String(text) => FactIndexKey::Text(lower_case(text)),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    if path.iter().any(|part| part.index.is_some()) {
        return None;
    }
    let names: Vec<_> = path.iter().map(|part| quote_segment_if_needed(&part.name)).collect();
    let path = FactPath::parse(&names.join(".")).ok()?;
    // A name that contains both kinds of quotes is another path.
    let is_same = path.segments().eq(names.iter().map(|name| name.trim_matches(['"', '\''])));
    is_same.then(|| NecessaryCondition::Value(MapField::Facts, path, [key].into()))
}
