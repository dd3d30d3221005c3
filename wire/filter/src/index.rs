//! What an index of many nodes asks a filter: the conditions that every matching node satisfies, and the facts and states that decide.

use crate::ast::NodeFilter;
use crate::fact_names::ReferencedFacts;
use crate::necessary::{FactIndexKey, NecessaryCondition};
use crate::pattern::FilterPattern;
use crate::select::SelectExpression;
use crate::state::MapField;
use crate::term::{FactOperand, FactOperator, FactTerm, parse_boolean};

impl NodeFilter {
    /// Conditions that every matching node satisfies. There may be none.
    pub fn necessary_conditions(&self) -> Vec<NecessaryCondition> {
        let mut conditions: Vec<_> = self.facts().iter().filter_map(fact_condition).collect();
        let exact_names = |patterns: &[FilterPattern]| {
            let names = patterns.iter().filter_map(FilterPattern::exact_name);
            names.map(|name| vec![name.to_owned()]).collect::<Vec<_>>()
        };
        conditions.extend(exact_names(self.classes()).into_iter().map(NecessaryCondition::Class));
        conditions.extend(exact_names(self.agents()).into_iter().map(NecessaryCondition::Agent));
        let identities = self.identities().iter().map(FilterPattern::exact_name);
        match identities.map(|name| name.map(str::to_owned)).collect::<Option<Vec<_>>>() {
            Some(names) if !names.is_empty() => {
                conditions.push(NecessaryCondition::Identity(names));
            }
            _ => {}
        }
        if let Some(query) = self.query() {
            conditions.extend(query.necessary_conditions());
        }
        conditions
    }

    /// The values of a map that decide whether a node matches.
    pub fn referenced_values(&self, field: MapField) -> ReferencedFacts {
        let mut found = ReferencedFacts::none();
        if field == MapField::Facts {
            let selected = self.select().map(SelectExpression::fact_paths).unwrap_or_default();
            let terms = self.facts().iter().map(FactTerm::fact_path);
            terms.chain(selected).for_each(|path| found.add_path(path));
        }
        if let Some(query) = self.query() {
            query.add_referenced_values(field, &mut found);
        }
        found
    }
}

/// The condition of a term that requires a value. Its literal equals numbers, booleans and texts.
fn fact_condition(term: &FactTerm) -> Option<NecessaryCondition> {
    let FactOperand::Literal(literal) = &term.operand else { return None };
    if term.operator != FactOperator::Equal {
        return None;
    }
    let boolean = parse_boolean(&literal.text).map(FactIndexKey::Boolean);
    let keys = FactIndexKey::of_text(&literal.text).chain(boolean).collect();
    Some(NecessaryCondition::Value(MapField::Facts, term.path.clone(), keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filter: &NodeFilter) -> Vec<String> {
        match filter.referenced_values(MapField::Facts) {
            ReferencedFacts::All => vec!["*".to_owned()],
            ReferencedFacts::Named(names) => names.into_iter().collect(),
        }
    }

    #[test]
    fn every_kind_of_condition_names_its_facts() {
        let filter = NodeFilter::default();
        assert_eq!(names(&filter), [""; 0]);
        let filter = filter.with_fact("os.family=Debian").unwrap();
        let filter = filter.with_select("fact('load.average') > 3 or not country=de").unwrap();
        let query =
            "{'$or': [{'facts.disks.0.size': 5}, {'$nor': [{'facts.\"a.b\"': 1}]}], identity: 'x'}";
        let filter = filter.with_query(query).unwrap();
        let expected = [
            "\"a.b\"",
            "a.b",
            "country",
            "disks",
            "disks.0.size",
            "load",
            "load.average",
            "os",
            "os.family",
        ];
        assert_eq!(names(&filter), expected);
        let filter = filter.with_query("{facts: {a: 1}}").unwrap();
        assert_eq!(names(&filter), ["*"]);
        let filter = NodeFilter::default().with_query("{'state.puppet.disabled': true}").unwrap();
        assert_eq!(names(&filter), [""; 0]);
        let wanted = ["puppet", "puppet.disabled"].map(str::to_owned).into();
        assert_eq!(filter.referenced_values(MapField::State), ReferencedFacts::Named(wanted));
    }
}
