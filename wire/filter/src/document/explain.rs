//! Describes a query in English, as a phrase that follows "nodes".

use super::DocumentQuery;
use super::ast::{
    ClauseList, DocumentClause, ElementTest, FieldTest, LogicOperator, OrderOperator, QueryValue,
};
use super::path::{DocumentPath, NameField};
use super::print::RegexText;
use crate::explain::join_phrases;

impl DocumentQuery {
    /// The query as an English phrase.
    pub fn explain(&self) -> String {
        match self.explain_clauses() {
            clauses if clauses.is_empty() => "with any data".to_owned(),
            clauses => join_phrases(&clauses, "and"),
        }
    }

    /// The phrases whose conjunction is the query.
    pub(crate) fn explain_clauses(&self) -> Vec<String> {
        self.conditions().into_iter().map(DocumentClause::explain_clause).collect()
    }
}

impl ClauseList {
    fn explain_document(&self) -> String {
        match self.0.as_slice() {
            [] => "with any data".to_owned(),
            [only] => only.explain_clause(),
            clauses => {
                let phrases: Vec<_> = clauses.iter().map(DocumentClause::explain_clause).collect();
                format!("({})", join_phrases(&phrases, "and"))
            }
        }
    }
}

impl DocumentClause {
    fn explain_clause(&self) -> String {
        match self {
            Self::Field(path, tests) => explain_field(path, tests),
            Self::Loose(inner) => {
                format!("{} (numbers equal texts of the same number)", inner.explain_document())
            }
            Self::Pql(query) => format!("that PuppetDB would select with {}", query.text()),
            Self::Logic(operator, list) => {
                let phrases: Vec<_> = list.iter().map(ClauseList::explain_document).collect();
                match operator {
                    LogicOperator::And => format!("({})", join_phrases(&phrases, "and")),
                    LogicOperator::Or if phrases.len() == 1 => join_phrases(&phrases, "or"),
                    LogicOperator::Or => format!("({})", join_phrases(&phrases, "or")),
                    LogicOperator::Nor => format!("not ({})", join_phrases(&phrases, "or")),
                }
            }
        }
    }
}

fn explain_field(path: &DocumentPath, tests: &[FieldTest]) -> String {
    if let (DocumentPath::Names(field, None), [test]) = (path, tests) {
        let (name, verbs) = match test {
            FieldTest::Equal(name @ QueryValue::Text(_)) => (name, ("have", "are")),
            FieldTest::NotEqual(name @ QueryValue::Text(_)) => (name, ("do not have", "are not")),
            _ => return format!("whose {} list {}", field.singular(), test.explain_test()),
        };
        return match field {
            NameField::Collectives => format!("that {} in collective {name}", verbs.1),
            _ => format!("that {} {} {name}", verbs.0, field.singular()),
        };
    }
    let subject = match path {
        DocumentPath::Facts(Some(path)) => format!("fact {path}"),
        DocumentPath::Names(field, None) => format!("{} list", field.singular()),
        other => other.to_string(),
    };
    format!("whose {subject} {}", explain_tests(tests))
}

fn explain_tests(tests: &[FieldTest]) -> String {
    let phrases: Vec<_> = tests.iter().map(FieldTest::explain_test).collect();
    join_phrases(&phrases, "and")
}

impl FieldTest {
    fn explain_test(&self) -> String {
        match self {
            Self::Equal(QueryValue::Null) => "is null or missing".to_owned(),
            Self::Equal(value) => format!("equals {value}"),
            Self::NotEqual(QueryValue::Null) => "is neither null nor missing".to_owned(),
            Self::NotEqual(value) => format!("does not equal {value}"),
            Self::Order(operator, value) => format!("{} {value}", operator.phrase()),
            Self::In(items) => format!("is one of {}", list_items(items, "or")),
            Self::NotIn(items) => format!("is none of {}", list_items(items, "or")),
            Self::All(items) => format!("contains all of {}", list_items(items, "and")),
            Self::Exists(true) => "exists".to_owned(),
            Self::Exists(false) => "does not exist".to_owned(),
            Self::Size(1) => "is a list of 1 element".to_owned(),
            Self::Size(count) => format!("is a list of {count} elements"),
            Self::Type(types) => {
                let names: Vec<_> = types.iter().map(|found| found.as_str().to_owned()).collect();
                format!("has the type {}", join_phrases(&names, "or"))
            }
            Self::Modulo(divisor, remainder) => {
                format!("leaves the remainder {remainder} when divided by {divisor}")
            }
            Self::Match(regex) => format!("matches {}", RegexText(regex)),
            Self::Not(tests) => format!("does not satisfy ({})", explain_tests(tests)),
            Self::Element(ElementTest::Values(tests)) => {
                format!("has an element that ({})", explain_tests(tests))
            }
            Self::Element(ElementTest::Document(document)) => {
                format!("has an element {}", document.explain_element())
            }
        }
    }
}

impl ClauseList {
    fn explain_element(&self) -> String {
        if self.0.is_empty() { "that is a map".to_owned() } else { self.explain_document() }
    }
}

fn list_items(items: &[FieldTest], conjunction: &str) -> String {
    let phrases: Vec<_> = items
        .iter()
        .map(|item| match item {
            FieldTest::Equal(value) => value.to_string(),
            FieldTest::Match(regex) => RegexText(regex).to_string(),
            other => other.explain_test(),
        })
        .collect();
    if phrases.is_empty() { "nothing".to_owned() } else { join_phrases(&phrases, conjunction) }
}

impl OrderOperator {
    fn phrase(self) -> &'static str {
        match self {
            Self::Greater => "is greater than",
            Self::AtLeast => "is at least",
            Self::Less => "is less than",
            Self::AtMost => "is at most",
        }
    }
}
