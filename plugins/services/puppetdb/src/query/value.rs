//! Compares values by the kinds of their fields. Pure.

use std::cmp::Ordering;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Number, Value};

use super::entity::FieldKind;
use super::error::{Result, invalid};
use super::field::QueryField;

/// How a field is compared with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareOperator {
    Equal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl CompareOperator {
    pub(super) fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "=" => Self::Equal,
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::Greater,
            ">=" => Self::AtLeast,
            _ => return invalid(format!("'{text}' is not a query operator")),
        })
    }

    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// The value that a query compares with, in the type of its field. A time is a number of milliseconds.
pub(super) fn check_wanted(
    field: &QueryField,
    operator: CompareOperator,
    wanted: &Value,
) -> Result<Value> {
    let is_equal = operator == CompareOperator::Equal;
    let refused = || {
        let column = field.column;
        invalid(format!("Argument {wanted} is incompatible with this operator for {column}"))
    };
    match (field.kind, wanted) {
        (_, Value::Null) => invalid(format!("use null? for {}, not null", field.column)),
        (FieldKind::Boolean, Value::Bool(_))
        | (FieldKind::Text, Value::String(_))
        | (FieldKind::Path, Value::Array(_))
        | (FieldKind::Any | FieldKind::Json, _)
            if is_equal =>
        {
            Ok(wanted.clone())
        }
        (FieldKind::Number | FieldKind::Any | FieldKind::Json, Value::Number(_)) => {
            Ok(wanted.clone())
        }
        (FieldKind::Boolean, Value::String(text)) if is_equal => match text.as_str() {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => refused(),
        },
        (FieldKind::Text, Value::Bool(_) | Value::Number(_)) if is_equal => {
            Ok(wanted.to_string().into())
        }
        (FieldKind::List, Value::String(text)) if is_equal => Ok(text.to_lowercase().into()),
        (FieldKind::Time, Value::String(text)) => match parse_time(text) {
            Some(millis) => Ok(millis.into()),
            None => invalid(format!("'{text}' is not a valid timestamp value")),
        },
        (FieldKind::Number, Value::String(text)) => match text.parse::<Number>() {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) => refused(),
        },
        _ => refused(),
    }
}

/// Compares a value of a row; `None` is null.
pub(super) fn compare(
    kind: FieldKind,
    found: &Value,
    operator: CompareOperator,
    wanted: &Value,
) -> Option<bool> {
    if found.is_null() {
        return None;
    }
    match kind {
        FieldKind::List => {
            let items = found.as_array().into_iter().flatten().filter_map(Value::as_str);
            Some(items.into_iter().any(|item| wanted == &Value::from(item.to_lowercase())))
        }
        FieldKind::Time => {
            let (found, wanted) = (parse_time(found.as_str()?)?, wanted.as_i64()?);
            Some(operator.accepts(found.cmp(&wanted)))
        }
        _ => match (found, wanted) {
            (Value::Number(found), Value::Number(wanted)) => {
                compare_numbers(found, wanted).map(|order| operator.accepts(order))
            }
            _ if operator == CompareOperator::Equal => Some(found == wanted),
            // Values of other types are skipped.
            _ => None,
        },
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Milliseconds since the epoch. Without an offset, a time is UTC; without a time, a date begins at midnight.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let time = text.parse::<Timestamp>().ok().or_else(|| {
        let local: DateTime = text.parse().ok()?;
        local.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    time.map(Timestamp::as_millisecond)
}

/// A text that is equal for equal values, as they are compared by `=`.
pub(super) fn key_of(parts: &[(FieldKind, &Value)]) -> String {
    let parts = parts.iter().map(|(kind, value)| match (kind, value) {
        (FieldKind::Time, Value::String(text)) => parse_time(text).into(),
        (FieldKind::List, Value::String(text)) => text.to_lowercase().into(),
        (_, Value::Number(number)) if number.is_f64() => whole_number(number),
        _ => (*value).clone(),
    });
    parts.collect::<Value>().to_string()
}

/// `5` for `5.0`.
fn whole_number(number: &Number) -> Value {
    let text = number.to_string();
    let whole = text.strip_suffix(".0").and_then(|whole| whole.parse::<i64>().ok());
    whole.map_or_else(|| Value::Number(number.clone()), Value::from)
}

/// The order of rows: null last, then numbers, texts and others.
pub(super) fn order_of(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::Bool(_) => 1,
        Value::String(_) => 2,
        Value::Array(_) | Value::Object(_) => 3,
        Value::Null => 4,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
            a.to_string().cmp(&b.to_string())
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
