//! The necessary conditions of a query: equality with scalars, `$in` and `$all` of them, in clauses that must all be true.

use super::DocumentQuery;
use super::ast::{ClauseList, DocumentClause, FieldTest, LogicOperator, QueryValue};
use super::path::{DocumentPath, NameField};
use super::value::boolean_word;
use crate::fact_names::ReferencedFacts;
use crate::necessary::{FactIndexKey, NecessaryCondition};
use crate::number::NumericValue;
use crate::pattern::lower_case;

impl DocumentQuery {
    /// Conditions that every matching node satisfies. There may be none.
    pub fn necessary_conditions(&self) -> Vec<NecessaryCondition> {
        let mut conditions = Vec::new();
        gather_conditions(&self.0, false, &mut conditions);
        conditions
    }
}

impl DocumentQuery {
    /// Adds the facts that the query reads.
    pub(crate) fn add_referenced_facts(query: &Self, found: &mut ReferencedFacts) {
        visit_fields(&query.0, &mut |field| match field {
            DocumentClause::Field(DocumentPath::Facts(Some(path)), _) => found.add_path(path),
            DocumentClause::Field(DocumentPath::Facts(None), _) => found.add_all(),
            DocumentClause::Pql(query) => query.add_referenced_facts(found),
            _ => {}
        });
    }

    /// Adds the parts of the state that the query reads.
    pub(crate) fn add_referenced_state(query: &Self, found: &mut ReferencedFacts) {
        visit_fields(&query.0, &mut |field| match field {
            DocumentClause::Field(DocumentPath::State(Some(path)), _) => found.add_path(path),
            DocumentClause::Field(DocumentPath::State(None), _) => found.add_all(),
            _ => {}
        });
    }
}

/// Visits the clauses that contain no others.
fn visit_fields(document: &ClauseList, visit: &mut dyn FnMut(&DocumentClause)) {
    for clause in &document.0 {
        match clause {
            DocumentClause::Field(..) | DocumentClause::Pql(_) => visit(clause),
            DocumentClause::Loose(inner) => visit_fields(inner, visit),
            DocumentClause::Logic(_, list) => {
                for document in list {
                    visit_fields(document, visit);
                }
            }
        }
    }
}

fn gather_conditions(document: &ClauseList, loose: bool, found: &mut Vec<NecessaryCondition>) {
    for clause in &document.0 {
        match clause {
            DocumentClause::Field(path, tests) => {
                let alternatives = tests.iter().flat_map(equal_values);
                found.extend(alternatives.filter_map(|values| condition(path, &values, loose)));
            }
            DocumentClause::Loose(inner) => gather_conditions(inner, true, found),
            DocumentClause::Pql(query) => query.gather_conditions(found),
            DocumentClause::Logic(LogicOperator::And, list) => {
                for document in list {
                    gather_conditions(document, loose, found);
                }
            }
            DocumentClause::Logic(LogicOperator::Or, list) if list.len() == 1 => {
                for document in list {
                    gather_conditions(document, loose, found);
                }
            }
            DocumentClause::Logic(LogicOperator::Or | LogicOperator::Nor, _) => {}
        }
    }
}

/// Lists of values, of each of which the field must equal one.
fn equal_values(test: &FieldTest) -> Vec<Vec<&QueryValue>> {
    match test {
        FieldTest::Equal(value) => vec![vec![value]],
        FieldTest::In(items) => {
            items.iter().map(value_of).collect::<Option<Vec<_>>>().into_iter().collect()
        }
        FieldTest::All(items) => {
            items.iter().filter_map(value_of).map(|value| vec![value]).collect()
        }
        _ => Vec::new(),
    }
}

fn value_of(test: &FieldTest) -> Option<&QueryValue> {
    match test {
        FieldTest::Equal(value) => Some(value),
        _ => None,
    }
}

/// The condition that the field equals one of these values; none if one of them is no scalar.
fn condition(
    path: &DocumentPath,
    values: &[&QueryValue],
    loose: bool,
) -> Option<NecessaryCondition> {
    let names = |convert: fn(&str) -> String| {
        let texts = values.iter().map(|value| value.as_text().map(convert));
        texts.collect::<Option<Vec<_>>>()
    };
    match path {
        DocumentPath::Identity => names(lower_case).map(NecessaryCondition::Identity),
        DocumentPath::Names(NameField::Classes, _) => {
            names(lower_case).map(NecessaryCondition::Class)
        }
        DocumentPath::Names(NameField::Agents, _) => {
            names(lower_case).map(NecessaryCondition::Agent)
        }
        DocumentPath::Names(NameField::Collectives, _) => {
            names(str::to_owned).map(NecessaryCondition::Collective)
        }
        DocumentPath::Facts(Some(path)) => {
            let keys = values.iter().map(|value| value_keys(value, loose));
            let keys = keys.collect::<Option<Vec<_>>>()?;
            Some(NecessaryCondition::Fact(path.clone(), keys.into_iter().flatten().collect()))
        }
        DocumentPath::State(Some(path)) => {
            let keys = values.iter().map(|value| value_keys(value, loose));
            let keys = keys.collect::<Option<Vec<_>>>()?;
            Some(NecessaryCondition::State(path.clone(), keys.into_iter().flatten().collect()))
        }
        DocumentPath::Facts(None) | DocumentPath::State(None) | DocumentPath::Element(_) => None,
    }
}

/// The keys of values that equal this one; none if a value without a key may be equal.
fn value_keys(value: &QueryValue, loose: bool) -> Option<Vec<FactIndexKey>> {
    Some(match value {
        QueryValue::Boolean(value) => {
            let text = loose.then(|| FactIndexKey::Text(value.to_string()));
            [FactIndexKey::Boolean(*value)].into_iter().chain(text).collect()
        }
        // Texts of the same number have the key of the number.
        QueryValue::Number(number) => {
            vec![FactIndexKey::of_number(NumericValue::from_json(number)?)]
        }
        QueryValue::Text(text) if loose => {
            let boolean = boolean_word(text).map(FactIndexKey::Boolean);
            FactIndexKey::of_text(text).chain(boolean).collect()
        }
        QueryValue::Text(text) => vec![FactIndexKey::Text(lower_case(text))],
        QueryValue::Null | QueryValue::Date(_) | QueryValue::List(_) | QueryValue::Map(_) => {
            return None;
        }
    })
}
