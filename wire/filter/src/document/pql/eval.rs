//! Evaluates a query in PQL for a node. Cannot fail.
//!
//! What `PuppetDB` 7.12 evaluates for a test of `facts.PATH`, and when the result is null:
//!
//! | test | SQL | null |
//! |---|---|---|
//! | `=` | `facts @> {path: value}` | never: a missing fact is false |
//! | `=`, a part has only digits | `facts #> path = value` | if there is no value |
//! | `=`, a part has an index; `>`, `<`, `>=`, `<=` | `facts->a->b = value AND facts ? a` | if there is no value, but the first part exists |
//! | `~` | `facts->a->>b ~ value AND facts ? a` | the same, and for a null |
//! | `is null`, `is not null` | `jsonb_typeof(facts->a->b) = 'null'` | if there is no value |
//!
//! `!` precedes the text of the SQL without parentheses, so it binds to the comparison and not to the `AND` after it. Therefore `!(facts.a > 1)` is
//! false for a node without the fact, as `facts.a > 1` is.

use serde_json::{Map, Value};

use super::condition::{FactPathPart, FactTest, NodeTest, PqlQuery, RowTest, TextTest};
use super::json;
use crate::boolean_tree::{BooleanTree, Connective};
use crate::lookup::TruthValue;
use crate::state::NodeView;

/// The class of the manifest outside of classes. It is in every catalog, with this title, and not in the list of classes.
pub(super) const MAIN_CLASS: &str = "main";

/// The result of a condition in SQL, or unknown because facts or classes were never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SqlTruth {
    False,
    /// Decides a conjunction with all but false: it could be any of the others.
    Unknown,
    Null,
    True,
}

impl SqlTruth {
    fn and(self, other: Self) -> Self {
        let has = |truth| self == truth || other == truth;
        [Self::False, Self::Unknown, Self::Null]
            .into_iter()
            .find(|truth| has(*truth))
            .unwrap_or(Self::True)
    }

    fn negate_if(self, negated: bool) -> Self {
        match self {
            Self::True if negated => Self::False,
            Self::False if negated => Self::True,
            other => other,
        }
    }

    /// The result of `IN (SELECT ...)`, which is true for what is selected, and false for all others.
    fn of_selection(self) -> Self {
        if self == Self::Null { Self::False } else { self }
    }
}

impl From<bool> for SqlTruth {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

impl PqlQuery {
    /// Evaluates the query; unknown if facts or classes that were never read could decide it.
    pub(in super::super) fn evaluate(&self, node: &NodeView<'_>) -> TruthValue {
        let Some(condition) = &self.condition else { return TruthValue::True };
        match evaluate_node(condition, node) {
            SqlTruth::True => TruthValue::True,
            SqlTruth::Unknown => TruthValue::Unknown,
            SqlTruth::False | SqlTruth::Null => TruthValue::False,
        }
    }
}

impl<T> BooleanTree<T> {
    /// Evaluates the condition. `test` receives a test, and whether it is negated.
    fn evaluate(&self, test: &dyn Fn(&T, bool) -> SqlTruth) -> SqlTruth {
        let (mut inner, mut negated) = (self, false);
        while let Self::Not(next) = inner {
            (inner, negated) = (next, !negated);
        }
        let all = |list: &[Self], negated: bool| {
            let truths = list.iter().map(|inner| inner.evaluate(test).negate_if(negated));
            truths.fold(SqlTruth::True, SqlTruth::and).negate_if(negated)
        };
        match inner {
            Self::Term(found) => test(found, negated),
            Self::List(Connective::And, list) => all(list, false).negate_if(negated),
            Self::List(Connective::Or, list) => all(list, true).negate_if(negated),
            // The loop ends at another kind.
            Self::Not(_) => SqlTruth::Null,
        }
    }
}

fn evaluate_node(condition: &BooleanTree<NodeTest>, node: &NodeView<'_>) -> SqlTruth {
    condition.evaluate(&|test, negated| match test {
        NodeTest::Certname(test) => test.accepts(node.identity).negate_if(negated),
        NodeTest::Fact(path, test) => {
            let first = path.first().map_or("", |part| part.name.as_str());
            if node.facts.is_name_known(first) {
                evaluate_fact(node.facts.as_map(), path, test, negated)
            } else {
                SqlTruth::Unknown
            }
        }
        NodeTest::FactRows(rows) => select_fact(rows, node).negate_if(negated),
        NodeTest::ClassRows(rows) => select_class(rows, node).negate_if(negated),
        NodeTest::Inventory(inner) => evaluate_node(inner, node).of_selection().negate_if(negated),
    })
}

fn evaluate_fact(
    facts: &Map<String, Value>,
    path: &[FactPathPart],
    test: &FactTest,
    negated: bool,
) -> SqlTruth {
    let has_index = path.iter().any(|part| part.index.is_some());
    match test {
        FactTest::Equal(wanted) if !has_index => {
            let is_number = |part: &FactPathPart| part.name.bytes().all(|b| b.is_ascii_digit());
            let truth = if path.iter().any(is_number) {
                find_by_text(facts, path)
                    .map_or(SqlTruth::Null, |found| json::is_equal(found, wanted).into())
            } else {
                find_by_key(facts, path).is_some_and(|found| json::contains(found, wanted)).into()
            };
            truth.negate_if(negated)
        }
        FactTest::IsNull(_) => {
            let found = find_by_key(facts, path);
            found.map_or(SqlTruth::Null, |value| test.accepts(value)).negate_if(negated)
        }
        FactTest::Equal(_) | FactTest::Order(..) | FactTest::Match(_) => {
            let found = find_by_key(facts, path);
            let truth = found.map_or(SqlTruth::Null, |value| test.accepts(value));
            let first = path.first().map_or("", |part| part.name.as_str());
            truth.negate_if(negated).and(facts.contains_key(first).into())
        }
    }
}

impl FactTest {
    fn accepts(&self, value: &Value) -> SqlTruth {
        match self {
            Self::Equal(wanted) => json::is_equal(value, wanted).into(),
            Self::Order(operator, number) => {
                operator.accepts(json::compare_to_number(value, number)).into()
            }
            Self::Match(regex) => {
                json::to_text(value).map_or(SqlTruth::Null, |text| regex.is_match(&text).into())
            }
            Self::IsNull(wanted) => (value.is_null() == *wanted).into(),
        }
    }
}

impl TextTest {
    fn accepts(&self, text: &str) -> SqlTruth {
        match self {
            Self::In(texts) => texts.iter().any(|wanted| wanted == text).into(),
            Self::Match(regex) => regex.is_match(text).into(),
            Self::IsNull(wanted) => (!wanted).into(),
        }
    }
}

/// The operator `->`: a key only of maps, an index only of lists. The index 0 of a scalar is the scalar.
fn find_by_key<'a>(facts: &'a Map<String, Value>, path: &[FactPathPart]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let start = find_element(facts.get(&first.name)?, first.index)?;
    rest.iter().try_fold(start, |value, part| {
        find_element(value.as_object()?.get(&part.name)?, part.index)
    })
}

fn find_element(value: &Value, index: Option<usize>) -> Option<&Value> {
    match (index, value) {
        (None, _) => Some(value),
        (Some(index), Value::Array(items)) => items.get(index),
        (Some(_), Value::Object(_)) => None,
        (Some(index), _) => (index == 0).then_some(value),
    }
}

/// The operator `#>`: each part is a key of a map, or an index of a list, from its end if it is negative.
fn find_by_text<'a>(facts: &'a Map<String, Value>, path: &[FactPathPart]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(facts.get(&first.name)?, |value, part| match value {
        Value::Object(map) => map.get(&part.name),
        Value::Array(items) => {
            let index = part.name.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
            match index.parse::<i32>().ok()? {
                index @ 0.. => items.get(usize::try_from(index).ok()?),
                index => {
                    let from_end = usize::try_from(index.unsigned_abs()).ok()?;
                    items.get(items.len().checked_sub(from_end)?)
                }
            }
        }
        _ => None,
    })
}

fn select_fact(rows: &BooleanTree<RowTest>, node: &NodeView<'_>) -> SqlTruth {
    if !node.facts.is_complete() {
        return SqlTruth::Unknown;
    }
    let mut facts = node.facts.iter();
    facts.any(|(name, value)| is_selected(rows, node, name, Some(value))).into()
}

fn select_class(rows: &BooleanTree<RowTest>, node: &NodeView<'_>) -> SqlTruth {
    if !node.classes_known {
        return SqlTruth::Unknown;
    }
    class_titles(node.classes).iter().any(|title| is_selected(rows, node, title, None)).into()
}

fn is_selected(
    rows: &BooleanTree<RowTest>,
    node: &NodeView<'_>,
    name: &str,
    value: Option<&Value>,
) -> bool {
    let truth = rows.evaluate(&|test, negated| {
        let truth = match test {
            RowTest::Certname(test) => test.accepts(node.identity),
            RowTest::Name(test) => test.accepts(name),
            RowTest::Type(test) => test.accepts("Class"),
            RowTest::Value(test) => {
                value.map_or(SqlTruth::Null, |value| accepts_value(test, value))
            }
            RowTest::ValueIn(wanted) => value
                .is_some_and(|value| wanted.iter().any(|wanted| json::is_equal(value, wanted)))
                .into(),
        };
        truth.negate_if(negated)
    });
    truth == SqlTruth::True
}

/// Unlike a test of a path, one of the field `value` that orders is false for all other types than numbers.
fn accepts_value(test: &FactTest, value: &Value) -> SqlTruth {
    match test {
        FactTest::Order(..) if !value.is_number() => SqlTruth::False,
        _ => test.accepts(value),
    }
}

/// The titles of the class resources in the node's catalog. The list of classes also has the node's definition (`default`), which is no class.
fn class_titles(classes: &[String]) -> Vec<String> {
    let mut titles: Vec<String> = classes
        .iter()
        .filter(|class| is_class_name(class) && *class != "default")
        .map(|class| class.split("::").map(capitalise).collect::<Vec<_>>().join("::"))
        .collect();
    if !classes.is_empty() {
        titles.push(MAIN_CLASS.to_owned());
    }
    titles
}

fn is_class_name(class: &str) -> bool {
    class.split("::").all(|part| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn capitalise(part: &str) -> String {
    let mut chars = part.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
