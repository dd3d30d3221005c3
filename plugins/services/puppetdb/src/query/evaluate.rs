//! Evaluates a condition for a row with the three truth values of SQL; `None` is null.

use serde_json::Value;

use super::condition::{Condition, PathPattern, ValueSet};
use super::entity::FieldKind;
use super::error::Result;
use super::row::Row;
use super::value::{self, CompareOperator};

impl Condition {
    /// Whether the row is selected.
    pub(super) fn selects(&self, row: &Row<'_>) -> Result<bool> {
        Ok(self.evaluate(row)? == Some(true))
    }

    fn evaluate(&self, row: &Row<'_>) -> Result<Option<bool>> {
        match self {
            Self::Constant(truth) => Ok(Some(*truth)),
            Self::All(list) => evaluate_list(list, row, false),
            Self::Any(list) => evaluate_list(list, row, true),
            Self::Not(inner) => Ok(inner.evaluate(row)?.map(|truth| !truth)),
            Self::Compare { field, operator, wanted } => {
                Ok(match row.value(field)? {
                    Some(found) => value::compare(field.kind, found, *operator, wanted),
                    // Containment in a map is never null.
                    None => (*operator == CompareOperator::Equal).then_some(false),
                })
            }
            Self::Match { field, regex } => Ok(row.value(field)?.and_then(|found| match found {
                Value::Null => None,
                Value::Array(items) if field.kind == FieldKind::List => {
                    Some(items.iter().filter_map(Value::as_str).any(|item| regex.is_match(item)))
                }
                Value::String(text) => Some(regex.is_match(text)),
                other => Some(regex.is_match(&other.to_string())),
            })),
            Self::MatchPath { field, patterns } => Ok(row
                .value(field)?
                .and_then(Value::as_array)
                .map(|path| matches_path(path, patterns))),
            Self::IsNull { field, wanted } => {
                Ok(row.value(field)?.map(|found| found.is_null() == *wanted))
            }
            Self::In { fields, values: ValueSet::Known(keys) } => {
                let mut parts = Vec::new();
                for field in fields {
                    match row.value(field)? {
                        None | Some(Value::Null) => return Ok(None),
                        Some(found) => parts.push((field.kind, found)),
                    }
                }
                if let [(FieldKind::List, Value::Array(items))] = parts.as_slice() {
                    let is_known = |item| keys.contains(&value::key_of(&[(FieldKind::List, item)]));
                    return Ok(Some(items.iter().any(is_known)));
                }
                Ok(Some(keys.contains(&value::key_of(&parts))))
            }
            // Subqueries are evaluated before the rows are read.
            Self::In { values: ValueSet::Query(_), .. } => Ok(None),
        }
    }
}

/// `and` if `decisive` is false, `or` if it is true.
fn evaluate_list(list: &[Condition], row: &Row<'_>, decisive: bool) -> Result<Option<bool>> {
    let mut truth = Some(!decisive);
    for inner in list {
        match inner.evaluate(row)? {
            Some(found) if found == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => truth = None,
        }
    }
    Ok(truth)
}

fn matches_path(path: &[Value], patterns: &[PathPattern]) -> bool {
    let matches = |(part, pattern): (&Value, &PathPattern)| match (part, pattern) {
        (Value::Number(number), PathPattern::Index(index)) => number.as_u64() == Some(*index),
        (_, PathPattern::Index(_)) => false,
        (Value::String(key), PathPattern::Match(regex)) => regex.is_match(key),
        (other, PathPattern::Match(regex)) => regex.is_match(&other.to_string()),
    };
    path.len() == patterns.len() && path.iter().zip(patterns).all(matches)
}
