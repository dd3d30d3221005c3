//! Converts a document of operators, such as `{ $gte: 2, $lt: 8 }`, to tests of a field.

use super::ast::{ElementTest, FieldTest, JsonType, LogicOperator, OrderOperator, QueryValue};
use super::compile::{LOOSE_OPERATOR, PathScope, QueryCompiler, has_operators, unknown_operator};
use super::read::{RelaxedEntry, RelaxedKind, RelaxedValue};
use crate::error::{Result, expected_at};

/// A number of elements, and a type number, are at most this.
const MAX_COUNT: u64 = u32::MAX as u64;

impl QueryCompiler {
    /// Converts the operators of a field. The document is not empty.
    pub(super) fn compile_operators(
        &mut self,
        entries: Vec<RelaxedEntry>,
    ) -> Result<Vec<FieldTest>> {
        let mut tests = Vec::with_capacity(entries.len());
        let (mut regex, mut options) = (None, None);
        for entry in entries {
            match entry.key.as_str() {
                "$regex" => {
                    regex = Some(entry);
                    // The test keeps its place among the others.
                    tests.push(None);
                }
                "$options" => options = Some(entry),
                _ => tests.push(Some(self.compile_operator(entry)?)),
            }
        }
        let mut pattern = match (regex, options) {
            (Some(regex), options) => Some(self.compile_pattern(regex, options)?),
            (None, Some(options)) => return expected_at(options.at, "$regex before $options"),
            (None, None) => None,
        };
        Ok(tests.into_iter().filter_map(|test| test.or_else(|| pattern.take())).collect())
    }

    fn compile_operator(&mut self, entry: RelaxedEntry) -> Result<FieldTest> {
        let RelaxedEntry { at, key, value } = entry;
        let order = OrderOperator::ALL.into_iter().find(|known| known.as_str() == key);
        if let Some(operator) = order {
            return self.compile_order(operator, value);
        }
        match key.as_str() {
            "$eq" => self.compile_literal(value).map(FieldTest::Equal),
            "$ne" => self.compile_literal(value).map(FieldTest::NotEqual),
            "$in" => self.compile_list(value, "$in").map(FieldTest::In),
            "$nin" => self.compile_list(value, "$nin").map(FieldTest::NotIn),
            "$all" => self.compile_all(value),
            "$exists" => Ok(FieldTest::Exists(read_flag(&value)?)),
            "$size" => read_count(&value).map(FieldTest::Size),
            "$type" => read_types(value).map(FieldTest::Type),
            "$mod" => read_modulo(&value),
            "$not" => self.compile_not(value),
            "$elemMatch" => self.compile_element(value).map(FieldTest::Element),
            _ if key.starts_with('$') => Err(unknown_operator(at, &key, "an operator of a field")),
            _ => expected_at(at, "an operator such as $gt (a map has either operators or keys)"),
        }
    }

    fn compile_order(&mut self, operator: OrderOperator, value: RelaxedValue) -> Result<FieldTest> {
        if matches!(value.kind, RelaxedKind::List(_) | RelaxedKind::Map(_)) {
            let name = operator.as_str();
            return expected_at(
                value.at,
                format!("a text, a number, a boolean, a date or null after {name}"),
            );
        }
        self.compile_literal(value).map(|value| FieldTest::Order(operator, value))
    }

    fn compile_list(&mut self, value: RelaxedValue, operator: &str) -> Result<Vec<FieldTest>> {
        let RelaxedKind::List(items) = value.kind else {
            return expected_at(value.at, format!("a list after {operator}"));
        };
        items
            .into_iter()
            .map(|item| match &item.kind {
                RelaxedKind::Map(entries) if has_operators(entries) => expected_at(
                    item.at,
                    format!("values and regular expressions in the list of {operator}"),
                ),
                _ => self.compile_item(item),
            })
            .collect()
    }

    /// `$all` takes values, or documents with `$elemMatch` only.
    fn compile_all(&mut self, value: RelaxedValue) -> Result<FieldTest> {
        let RelaxedKind::List(items) = value.kind else {
            return expected_at(value.at, "a list after $all");
        };
        let tests = items.into_iter().map(|item| match item.kind {
            RelaxedKind::Map(entries) if has_operators(&entries) => {
                let is_element = entries.len() == 1
                    && entries.first().is_some_and(|entry| entry.key == "$elemMatch");
                match self.compile_operators(entries)?.pop() {
                    Some(test) if is_element => Ok(test),
                    _ => {
                        expected_at(item.at, "values, or { $elemMatch: ... }, in the list of $all")
                    }
                }
            }
            kind => self.compile_item(RelaxedValue { at: item.at, kind }),
        });
        tests.collect::<Result<_>>().map(FieldTest::All)
    }

    fn compile_not(&mut self, value: RelaxedValue) -> Result<FieldTest> {
        match value.kind {
            RelaxedKind::Map(entries) if has_operators(&entries) => {
                self.compile_operators(entries).map(FieldTest::Not)
            }
            kind @ RelaxedKind::Regex { .. } => {
                let test = self.compile_item(RelaxedValue { at: value.at, kind })?;
                Ok(FieldTest::Not(vec![test]))
            }
            _ => expected_at(value.at, "operators or a /regex/ after $not (use $ne for a value)"),
        }
    }

    fn compile_element(&mut self, value: RelaxedValue) -> Result<ElementTest> {
        match value.kind {
            RelaxedKind::Map(entries) if has_operators(&entries) && !has_logic(&entries) => {
                self.compile_operators(entries).map(ElementTest::Values)
            }
            kind @ RelaxedKind::Map(_) => self
                .compile_document(RelaxedValue { at: value.at, kind }, PathScope::Element)
                .map(ElementTest::Document),
            _ => expected_at(
                value.at,
                "operators, or a query document for an element, after $elemMatch",
            ),
        }
    }

    fn compile_pattern(
        &mut self,
        regex: RelaxedEntry,
        options: Option<RelaxedEntry>,
    ) -> Result<FieldTest> {
        let options_at = options.as_ref().map(|entry| entry.value.at);
        let options = match options.map(|entry| entry.value) {
            None => None,
            Some(RelaxedValue { kind: RelaxedKind::Text(flags), .. }) => Some(flags),
            Some(other) => return expected_at(other.at, "a text with the flags i, m, s and x"),
        };
        let at = regex.value.at + 1;
        let (source, flags) = match regex.value.kind {
            RelaxedKind::Text(source) => (source, options.unwrap_or_default()),
            RelaxedKind::Regex { source, flags } => match options {
                Some(_) if !flags.is_empty() => {
                    let expected = "flags after the regular expression, or $options, not both";
                    return expected_at(options_at.unwrap_or(at), expected);
                }
                options => (source, options.unwrap_or(flags)),
            },
            _ => return expected_at(regex.value.at, "a regular expression in quotes or slashes"),
        };
        self.compile_regex(at, &source, &flags).map(FieldTest::Match)
    }
}

/// Whether the first operator joins query documents.
fn has_logic(entries: &[RelaxedEntry]) -> bool {
    let is_logic = |key: &str| {
        key == LOOSE_OPERATOR || LogicOperator::ALL.iter().any(|known| known.as_str() == key)
    };
    entries.first().is_some_and(|entry| is_logic(&entry.key))
}

fn read_flag(value: &RelaxedValue) -> Result<bool> {
    match &value.kind {
        RelaxedKind::Boolean(flag) => Ok(*flag),
        RelaxedKind::Number(number) if number.as_i64() == Some(1) => Ok(true),
        RelaxedKind::Number(number) if number.as_i64() == Some(0) => Ok(false),
        _ => expected_at(value.at, "true or false after $exists"),
    }
}

fn read_count(value: &RelaxedValue) -> Result<u64> {
    let RelaxedKind::Number(number) = &value.kind else {
        return expected_at(value.at, "the number of elements after $size");
    };
    match number.as_u64() {
        Some(count) if count <= MAX_COUNT => Ok(count),
        _ => expected_at(value.at, "a whole number of elements, 0 or more, after $size"),
    }
}

fn read_types(value: RelaxedValue) -> Result<Vec<JsonType>> {
    let at = value.at;
    match value.kind {
        RelaxedKind::List(items) if !items.is_empty() => items.iter().map(read_type).collect(),
        kind => Ok(vec![read_type(&RelaxedValue { at, kind })?]),
    }
}

fn read_type(value: &RelaxedValue) -> Result<JsonType> {
    let found = JsonType::ALL.into_iter().find(|(known, number)| match &value.kind {
        RelaxedKind::Text(name) => known.as_str() == name,
        RelaxedKind::Number(code) => code.as_u64().is_some() && code.as_u64() == *number,
        RelaxedKind::Null => *known == JsonType::Null,
        _ => false,
    });
    match found {
        Some((found, _)) => Ok(found),
        None => expected_at(
            value.at,
            "a type of JSON: array, bool, double, int, long, null, number, object or string",
        ),
    }
}

fn read_modulo(value: &RelaxedValue) -> Result<FieldTest> {
    let number = |item: &RelaxedValue| match &item.kind {
        RelaxedKind::Number(number) => number.as_i64(),
        _ => None,
    };
    let parts = match &value.kind {
        RelaxedKind::List(items) => items.iter().map(number).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    match parts.as_deref() {
        Some([divisor, remainder]) if *divisor != 0 => Ok(FieldTest::Modulo(*divisor, *remainder)),
        _ => expected_at(
            value.at,
            "[divisor, remainder] after $mod: two whole numbers, the first not 0",
        ),
    }
}

impl QueryValue {
    /// The text, of a text.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}
