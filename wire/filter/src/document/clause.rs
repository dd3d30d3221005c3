//! The clauses of a query document: paths with their tests, and the operators in place of a path: `$and`, `$or`, `$nor`, `$loose` and `$pql`.

use std::fmt::{self, Display, Formatter};
use std::slice;

use super::literal::{JsonText, QueryValue, join_texts};
use super::operators::comparison::Equality;
use super::operators::{FieldTest, FieldTests, unknown_operator};
use super::path::{DocumentPath, NameField};
use super::pql::PqlQuery;
use super::read::{RelaxedEntry, RelaxedKind, RelaxedValue};
use super::subject::{SubjectValues, TestSubject};
use super::usage::QueryUsage;
use super::walk::DocumentScope;
use crate::error::{FaultContext as _, Result, expected_at};
use crate::lookup::TruthValue;
use crate::state::MapField;
use crate::text::join_phrases;

/// A query document: all clauses must be true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClauseList(pub(super) Vec<DocumentClause>);

/// One key of a query document. Lists have at least one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentClause {
    /// A path and its tests.
    Field(DocumentPath, FieldTests),
    And(Vec<ClauseList>),
    Or(Vec<ClauseList>),
    Nor(Vec<ClauseList>),
    /// Equality and order compare numbers with texts of the same number.
    Loose(ClauseList),
    /// A query of `PuppetDB`.
    Pql(Box<PqlQuery>),
}

pub(super) const CLAUSE_OPERATORS: [&str; 5] = ["$and", "$or", "$nor", "$loose", "$pql"];

/// Their rows in the table of `docs/reference/queries.md`.
pub(super) const CLAUSE_REFERENCE: &str = "\
| `$and`, `$or`, `$nor` | | lists of query documents, which must not be empty |
| `$loose: { ... }` | | a query document that is evaluated like with `--loose`; not in MongoDB |
| `$pql: \"...\"` | | [a query in PQL](#queries-in-pql); not in MongoDB |
";

/// What the keys of a query document are relative to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PathScope {
    /// The document of a node.
    Node,
    /// An element of a list.
    Element,
}

/// Where a clause is: within `$loose`, and whether the query is true only if the clause is.
#[derive(Clone, Copy)]
pub(super) struct ClausePlace {
    pub(super) loose: bool,
    pub(super) required: bool,
}

impl ClauseList {
    pub(super) fn read(
        value: RelaxedValue,
        scope: PathScope,
        usage: &mut QueryUsage,
    ) -> Result<Self> {
        let RelaxedKind::Map(entries) = value.kind else {
            return expected_at(value.at, "a query document such as { classes: 'apache' }");
        };
        let clauses = entries.into_iter().map(|entry| DocumentClause::read(entry, scope, usage));
        clauses.collect::<Result<_>>().map(Self)
    }

    /// Whether every document matches.
    pub(super) fn is_unconditional(&self) -> bool {
        self.0.iter().all(|clause| match clause {
            DocumentClause::Field(..) | DocumentClause::Nor(_) => false,
            DocumentClause::And(list) => list.iter().all(Self::is_unconditional),
            DocumentClause::Or(list) => list.iter().any(Self::is_unconditional),
            DocumentClause::Loose(inner) => inner.is_unconditional(),
            DocumentClause::Pql(query) => query.is_unconditional(),
        })
    }

    pub(super) fn evaluate(&self, scope: DocumentScope<'_>, loose: bool) -> TruthValue {
        all_true(self.0.iter().map(|clause| clause.evaluate(scope, loose)))
    }

    pub(super) fn explain(&self) -> String {
        match self.0.as_slice() {
            [] => "with any data".to_owned(),
            [only] => only.explain(),
            all => format!("({})", join_phrases(all.iter().map(DocumentClause::explain), "and")),
        }
    }

    /// Visits the clauses that contain no others.
    pub(super) fn visit_leaves(
        &self,
        place: ClausePlace,
        visit: &mut dyn FnMut(&DocumentClause, ClausePlace),
    ) {
        for clause in &self.0 {
            let (list, place) = match clause {
                DocumentClause::Field(..) | DocumentClause::Pql(_) => {
                    visit(clause, place);
                    continue;
                }
                DocumentClause::Loose(inner) => {
                    (slice::from_ref(inner), ClausePlace { loose: true, ..place })
                }
                DocumentClause::And(list) => (list.as_slice(), place),
                DocumentClause::Or(list) if list.len() == 1 => (list.as_slice(), place),
                DocumentClause::Or(list) | DocumentClause::Nor(list) => {
                    (list.as_slice(), ClausePlace { required: false, ..place })
                }
            };
            for document in list {
                document.visit_leaves(place, visit);
            }
        }
    }
}

/// Logical and, which ends at the first false value.
fn all_true(truths: impl Iterator<Item = TruthValue>) -> TruthValue {
    let mut result = TruthValue::True;
    for truth in truths {
        result = result.and(truth);
        if result == TruthValue::False {
            break;
        }
    }
    result
}

impl DocumentClause {
    fn read(entry: RelaxedEntry, scope: PathScope, usage: &mut QueryUsage) -> Result<Self> {
        let RelaxedEntry { at, key, value } = entry;
        let mut read_list = |value: RelaxedValue| match value.kind {
            RelaxedKind::List(items) if !items.is_empty() => {
                let documents = items.into_iter().map(|item| ClauseList::read(item, scope, usage));
                documents.collect::<Result<_>>()
            }
            _ => {
                let expected = format!("a list of at least one query document for {key}");
                expected_at(value.at, expected)
            }
        };
        match key.as_str() {
            "$and" => read_list(value).map(Self::And),
            "$or" => read_list(value).map(Self::Or),
            "$nor" => read_list(value).map(Self::Nor),
            "$loose" => ClauseList::read(value, scope, usage).map(Self::Loose),
            "$pql" => Self::read_pql(&value, scope, usage),
            _ if key.starts_with('$') => {
                let expected = "$and, $or, $nor, $loose, $pql or the path of a field";
                Err(unknown_operator(at, &key, expected))
            }
            _ => {
                let path = match scope {
                    PathScope::Node => DocumentPath::parse(&key),
                    PathScope::Element => DocumentPath::parse_element(&key),
                };
                Ok(Self::Field(path.shifted_by(at)?, FieldTests::read(value, usage)?))
            }
        }
    }

    fn read_pql(value: &RelaxedValue, scope: PathScope, usage: &mut QueryUsage) -> Result<Self> {
        let RelaxedKind::Text(text) = &value.kind else {
            return expected_at(value.at, "a query in PQL in quotes after $pql");
        };
        if scope == PathScope::Element {
            return expected_at(value.at, "$pql outside of $elemMatch: it selects nodes");
        }
        let query = PqlQuery::parse(text).shifted_by(value.at + 1)?;
        usage.add(value.at, query.usage)?;
        Ok(Self::Pql(Box::new(query)))
    }

    pub(super) fn evaluate(&self, scope: DocumentScope<'_>, loose: bool) -> TruthValue {
        let evaluate = |document: &ClauseList| document.evaluate(scope, loose);
        match self {
            Self::Field(path, _) if !path.is_known(scope) => TruthValue::Unknown,
            Self::Field(path, tests) => tests
                .matches(TestSubject { values: SubjectValues::Path(path, scope), loose })
                .into(),
            Self::And(list) => all_true(list.iter().map(evaluate)),
            Self::Or(list) => !all_true(list.iter().map(|document| !evaluate(document))),
            Self::Nor(list) => all_true(list.iter().map(|document| !evaluate(document))),
            Self::Loose(inner) => inner.evaluate(scope, true),
            Self::Pql(query) => match scope {
                DocumentScope::Node(node) => query.evaluate(node),
                // It is refused when it is read.
                DocumentScope::Element(_) => TruthValue::False,
            },
        }
    }

    pub(super) fn explain(&self) -> String {
        let join_list = |list: &[ClauseList], conjunction| {
            join_phrases(list.iter().map(ClauseList::explain), conjunction)
        };
        match self {
            Self::Field(path, tests) => explain_field(path, tests),
            Self::And(list) => format!("({})", join_list(list, "and")),
            Self::Or(list) if list.len() == 1 => join_list(list, "or"),
            Self::Or(list) => format!("({})", join_list(list, "or")),
            Self::Nor(list) => format!("not ({})", join_list(list, "or")),
            Self::Loose(inner) => {
                format!("{} (numbers equal texts of the same number)", inner.explain())
            }
            Self::Pql(query) => format!("that PuppetDB would select with {}", &query.text),
        }
    }
}

fn explain_field(path: &DocumentPath, tests: &FieldTests) -> String {
    if let (DocumentPath::Names(field, None), [test]) = (path, tests.0.as_slice()) {
        let (name, verbs) = match test {
            FieldTest::Equality(Equality { value: name @ QueryValue::Text(_), negated }) => {
                (name, if *negated { ("do not have", "are not") } else { ("have", "are") })
            }
            _ => return format!("whose {} list {}", field.singular(), test.explain()),
        };
        return match field {
            NameField::Collectives => format!("that {} in collective {name}", verbs.1),
            _ => format!("that {} {} {name}", verbs.0, field.singular()),
        };
    }
    let subject = match path {
        DocumentPath::Map(MapField::Facts, Some(path)) => format!("fact {path}"),
        DocumentPath::Names(field, None) => format!("{} list", field.singular()),
        other => other.to_string(),
    };
    format!("whose {subject} {}", tests.explain())
}

impl Display for ClauseList {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{{{}}}", join_texts(&self.0))
    }
}

impl Display for DocumentClause {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(path, tests) => {
                write!(out, "{}:{}", JsonText(&path.to_string()), tests.field_text())
            }
            Self::And(list) => write!(out, "\"$and\":[{}]", join_texts(list)),
            Self::Or(list) => write!(out, "\"$or\":[{}]", join_texts(list)),
            Self::Nor(list) => write!(out, "\"$nor\":[{}]", join_texts(list)),
            Self::Loose(inner) => write!(out, "\"$loose\":{inner}"),
            Self::Pql(query) => write!(out, "\"$pql\":{}", JsonText(&query.text)),
        }
    }
}
