//! The necessary conditions of a query: equality with scalars, `$in` and `$all` of them, in clauses that must all be true.

use super::DocumentQuery;
use super::clause::{ClausePlace, DocumentClause};
use super::literal::QueryValue;
use super::operators::FieldTest;
use super::path::{DocumentPath, NameField};
use crate::fact_names::ReferencedFacts;
use crate::necessary::NecessaryCondition;
use crate::pattern::lower_case;
use crate::state::MapField;

impl DocumentQuery {
    /// Conditions that every matching node satisfies. There may be none.
    pub fn necessary_conditions(&self) -> Vec<NecessaryCondition> {
        let mut found = Vec::new();
        self.visit_leaves(&mut |clause, place| match clause {
            _ if !place.required => {}
            DocumentClause::Field(path, tests) => {
                let alternatives = tests.0.iter().flat_map(FieldTest::necessary);
                found.extend(
                    alternatives.filter_map(|values| condition(path, &values, place.loose)),
                );
            }
            DocumentClause::Pql(query) => query.gather_conditions(&mut found),
            _ => {}
        });
        found
    }

    /// Adds the values of a map that the query reads.
    pub(crate) fn add_referenced_values(&self, field: MapField, found: &mut ReferencedFacts) {
        self.visit_leaves(&mut |clause, _| match clause {
            DocumentClause::Field(DocumentPath::Map(map, path), _) if *map == field => match path {
                Some(path) => found.add_path(path),
                None => found.add_all(),
            },
            DocumentClause::Pql(query) if field == MapField::Facts => {
                query.add_referenced_facts(found);
            }
            _ => {}
        });
    }

    fn visit_leaves(&self, visit: &mut dyn FnMut(&DocumentClause, ClausePlace)) {
        self.0.visit_leaves(ClausePlace { loose: false, required: true }, visit);
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
    let keys = || {
        let keys =
            values.iter().map(|value| value.index_keys(loose)).collect::<Option<Vec<_>>>()?;
        Some(keys.into_iter().flatten().collect())
    };
    match path {
        DocumentPath::Identity => names(lower_case).map(NecessaryCondition::Identity),
        DocumentPath::Names(field, _) => match field {
            NameField::Classes => names(lower_case).map(NecessaryCondition::Class),
            NameField::Agents => names(lower_case).map(NecessaryCondition::Agent),
            NameField::Collectives => names(str::to_owned).map(NecessaryCondition::Collective),
        },
        DocumentPath::Map(field, Some(path)) => {
            Some(NecessaryCondition::Value(*field, path.clone(), keys()?))
        }
        DocumentPath::Map(_, None) | DocumentPath::Element(_) => None,
    }
}
