//! Converts relaxed JSON into the expression tree: clauses, paths and literals. `operators` converts the tests of a field.

use muster_base::nearest_name;

use super::ast::{ClauseList, DocumentClause, FieldTest, LogicOperator, QueryValue};
use super::path::DocumentPath;
use super::pql::{PQL_OPERATOR, PqlQuery};
use super::read::{RelaxedEntry, RelaxedKind, RelaxedValue};
use crate::error::{FaultContext as _, FilterFault, Result, expected_at};
use crate::limits::{MAX_QUERY_CONDITIONS, MAX_QUERY_REGEXES};
use crate::pattern::FilterRegex;

/// The operator that compares loosely, which `MongoDB` does not have.
pub(super) const LOOSE_OPERATOR: &str = "$loose";

/// The operators of a field.
const FIELD_OPERATORS: [&str; 17] = [
    "$all",
    "$elemMatch",
    "$eq",
    "$exists",
    "$gt",
    "$gte",
    "$in",
    "$lt",
    "$lte",
    "$mod",
    "$ne",
    "$nin",
    "$not",
    "$options",
    "$regex",
    "$size",
    "$type",
];

/// What the keys of a query document are relative to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PathScope {
    /// The document of a node.
    Node,
    /// An element of a list.
    Element,
}

/// Counts what is limited.
#[derive(Default)]
pub(super) struct QueryCompiler {
    conditions: usize,
    regexes: usize,
}

impl QueryCompiler {
    /// Converts a query document.
    pub(super) fn compile_document(
        &mut self,
        value: RelaxedValue,
        scope: PathScope,
    ) -> Result<ClauseList> {
        let RelaxedKind::Map(entries) = value.kind else {
            return expected_at(value.at, "a query document such as { classes: 'apache' }");
        };
        let clauses = entries.into_iter().map(|entry| self.compile_clause(entry, scope));
        clauses.collect::<Result<_>>().map(ClauseList)
    }

    fn compile_clause(&mut self, entry: RelaxedEntry, scope: PathScope) -> Result<DocumentClause> {
        let RelaxedEntry { at, key, value } = entry;
        if !key.starts_with('$') {
            let path = match scope {
                PathScope::Node => DocumentPath::parse(&key),
                PathScope::Element => DocumentPath::parse_element(&key),
            };
            return Ok(DocumentClause::Field(path.shifted_by(at)?, self.compile_field(value)?));
        }
        if let Some(operator) = LogicOperator::ALL.into_iter().find(|known| known.as_str() == key) {
            let list = self.compile_documents(value, &key, scope)?;
            return Ok(DocumentClause::Logic(operator, list));
        }
        if key == LOOSE_OPERATOR {
            return self.compile_document(value, scope).map(DocumentClause::Loose);
        }
        if key == PQL_OPERATOR {
            return self.compile_pql(&value, scope);
        }
        Err(unknown_operator(at, &key, "$and, $or, $nor, $loose, $pql or the path of a field"))
    }

    fn compile_pql(&mut self, value: &RelaxedValue, scope: PathScope) -> Result<DocumentClause> {
        let RelaxedKind::Text(text) = &value.kind else {
            return expected_at(value.at, "a query in PQL in quotes after $pql");
        };
        if scope == PathScope::Element {
            return expected_at(value.at, "$pql outside of $elemMatch: it selects nodes");
        }
        let query = PqlQuery::parse(text).shifted_by(value.at + 1)?;
        self.add_pql(value.at, query)
    }

    /// Adds a query in PQL, which counts for the same limits.
    pub(super) fn add_pql(&mut self, at: usize, query: PqlQuery) -> Result<DocumentClause> {
        let usage = query.usage();
        self.conditions += usage.conditions;
        self.regexes += usage.regexes;
        self.check_counts(at)?;
        Ok(DocumentClause::Pql(Box::new(query)))
    }

    fn compile_documents(
        &mut self,
        value: RelaxedValue,
        operator: &str,
        scope: PathScope,
    ) -> Result<Vec<ClauseList>> {
        let (at, kind) = (value.at, value.kind);
        match kind {
            RelaxedKind::List(items) if !items.is_empty() => {
                items.into_iter().map(|item| self.compile_document(item, scope)).collect()
            }
            _ => expected_at(at, format!("a list of at least one query document for {operator}")),
        }
    }

    /// Converts the value of a field: a literal, a regular expression, or a document of operators.
    fn compile_field(&mut self, value: RelaxedValue) -> Result<Vec<FieldTest>> {
        match value.kind {
            RelaxedKind::Map(entries) if has_operators(&entries) => self.compile_operators(entries),
            kind => Ok(vec![self.compile_item(RelaxedValue { at: value.at, kind })?]),
        }
    }

    /// Converts a literal or a regular expression to a test.
    pub(super) fn compile_item(&mut self, value: RelaxedValue) -> Result<FieldTest> {
        match value.kind {
            RelaxedKind::Regex { source, flags } => {
                self.compile_regex(value.at + 1, &source, &flags).map(FieldTest::Match)
            }
            kind => self.compile_literal(RelaxedValue { at: value.at, kind }).map(FieldTest::Equal),
        }
    }

    /// Converts a literal.
    pub(super) fn compile_literal(&mut self, value: RelaxedValue) -> Result<QueryValue> {
        self.count_condition(value.at)?;
        Ok(match value.kind {
            RelaxedKind::Null => QueryValue::Null,
            RelaxedKind::Boolean(value) => QueryValue::Boolean(value),
            RelaxedKind::Number(number) => QueryValue::Number(number),
            RelaxedKind::Text(text) => QueryValue::Text(text),
            RelaxedKind::Date(date) => QueryValue::Date(date),
            RelaxedKind::Regex { .. } => {
                let expected = "a value (a regular expression is permitted after a path, $regex, $in, $nin, $all and $not)";
                return expected_at(value.at, expected);
            }
            RelaxedKind::List(items) => {
                let items = items.into_iter().map(|item| self.compile_literal(item));
                QueryValue::List(items.collect::<Result<_>>()?)
            }
            RelaxedKind::Map(entries) => {
                let entries = entries.into_iter().map(|entry| self.compile_literal_entry(entry));
                QueryValue::Map(entries.collect::<Result<_>>()?)
            }
        })
    }

    fn compile_literal_entry(&mut self, entry: RelaxedEntry) -> Result<(String, QueryValue)> {
        if entry.key.starts_with('$') {
            let expected = format!(
                "a key of the compared map (write the operator {} after a dotted path, such as facts.os.family)",
                entry.key
            );
            return expected_at(entry.at, expected);
        }
        Ok((entry.key, self.compile_literal(entry.value)?))
    }

    /// Compiles a regular expression. The flags m, s and x become a part of its source: `/(?m)^a/i`.
    pub(super) fn compile_regex(
        &mut self,
        at: usize,
        source: &str,
        flags: &str,
    ) -> Result<FilterRegex> {
        self.regexes += 1;
        self.count_condition(at)?;
        if flags.contains(|c| !"imsx".contains(c)) {
            return expected_at(
                at,
                format!("the flags i, m, s and x of a regular expression, not {flags:?}"),
            );
        }
        if source.is_empty() {
            return expected_at(at, "a regular expression that is not empty");
        }
        let inline: String = "msx".chars().filter(|flag| flags.contains(*flag)).collect();
        let prefix = if inline.is_empty() { String::new() } else { format!("(?{inline})") };
        let source = prefix + &unescape_slashes(source);
        FilterRegex::compile_regex(&source, flags.contains('i')).shifted_by(at)
    }

    fn count_condition(&mut self, at: usize) -> Result<()> {
        self.conditions += 1;
        self.check_counts(at)
    }

    fn check_counts(&self, at: usize) -> Result<()> {
        if self.regexes > MAX_QUERY_REGEXES {
            return expected_at(at, format!("at most {MAX_QUERY_REGEXES} regular expressions"));
        }
        if self.conditions > MAX_QUERY_CONDITIONS {
            return expected_at(
                at,
                format!("at most {MAX_QUERY_CONDITIONS} conditions and values"),
            );
        }
        Ok(())
    }
}

/// Whether a map is a document of operators rather than a literal.
pub(super) fn has_operators(entries: &[RelaxedEntry]) -> bool {
    entries.first().is_some_and(|entry| entry.key.starts_with('$'))
}

/// The error for an operator that is not available at this position.
pub(super) fn unknown_operator(at: usize, name: &str, expected: &str) -> FilterFault {
    let reason = match name {
        "$where" | "$function" | "$accumulator" | "$expr" | "$jsonSchema" => {
            format!("{name} is not supported: queries contain no code and no schemas")
        }
        "$text" | "$search" => format!("{name} is not supported; use a regular expression"),
        _ if FIELD_OPERATORS.contains(&name) => {
            format!("write {name} after the path of a field: {{ 'facts.a': {{ {name}: ... }} }}")
        }
        _ if matches!(name, LOOSE_OPERATOR | PQL_OPERATOR)
            || LogicOperator::ALL.iter().any(|known| known.as_str() == name) =>
        {
            format!("write {name} in place of a path: {{ {name}: ... }}")
        }
        _ => {
            let known = FIELD_OPERATORS.into_iter().chain([
                "$and",
                "$or",
                "$nor",
                LOOSE_OPERATOR,
                PQL_OPERATOR,
            ]);
            match nearest_name(name, known) {
                Some(nearest) => format!("{name} is unknown; did you mean {nearest}?"),
                None => format!("{name} is unknown"),
            }
        }
    };
    FilterFault::new(at, format!("{expected} ({reason})"))
}

/// The source without escapes of slashes, which only the literal form needs.
fn unescape_slashes(source: &str) -> String {
    let mut unescaped = String::with_capacity(source.len());
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('\\', Some(next)) => {
                if next != '/' {
                    unescaped.push(c);
                }
                unescaped.push(next);
                chars.next();
            }
            _ => unescaped.push(c),
        }
    }
    unescaped
}
