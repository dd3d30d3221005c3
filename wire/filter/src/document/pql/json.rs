//! JSON values as `PostgreSQL`'s type `jsonb` compares and prints them.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Whether both values are equal: lists by position, numbers by their decimal value.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has_entry =
                |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| is_equal(a, b));
            a.len() == b.len() && a.iter().all(has_entry)
        }
        _ => a == b,
    }
}

/// The operator `@>`: each element of a list on the right is contained in one on the left. A list does not contain a scalar.
pub(super) fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Array(items), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| items.iter().any(|item| contains(item, wanted)))
        }
        (Value::Object(map), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| map.get(key).is_some_and(|value| contains(value, wanted))),
        _ => is_equal(value, wanted),
    }
}

/// The order of a value to a number. By types: the empty list, null, text, number, boolean, other lists, map.
pub(super) fn compare_to_number(value: &Value, number: &Number) -> Ordering {
    match value {
        Value::Number(value) => compare_numbers(value, number),
        Value::Array(items) if items.is_empty() => Ordering::Less,
        Value::Null | Value::String(_) => Ordering::Less,
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Ordering::Greater,
    }
}

/// The text of a value, as the operator `->>` returns it; none for null.
pub(super) fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => {
            let mut text = String::new();
            write_value(&mut text, other);
            Some(text)
        }
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_quoted(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => write_map(out, map),
    }
}

/// Keys are in the order of their lengths in bytes, then of their bytes.
fn write_map(out: &mut String, map: &Map<String, Value>) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| (key.len(), *key));
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write_quoted(out, key);
        out.push_str(": ");
        write_value(out, value);
    }
    out.push('}');
}

fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A number as its significant digits, without zeros at the end, and the power of ten of the first one.
struct DecimalNumber {
    is_negative: bool,
    /// Empty for zero.
    digits: String,
    exponent: i64,
}

impl DecimalNumber {
    fn of(number: &Number) -> Self {
        let text = match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => format!("{float:e}"),
            None => number.to_string(),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let unsigned = mantissa.trim_start_matches('-');
        let whole = unsigned.split('.').next().map_or(0, str::len);
        let all: String = unsigned.chars().filter(char::is_ascii_digit).collect();
        let without_zeros = all.trim_start_matches('0');
        let leading = all.len() - without_zeros.len();
        let shift = i64::try_from(whole).unwrap_or(0) - 1 - i64::try_from(leading).unwrap_or(0);
        let exponent = exponent.parse::<i64>().unwrap_or(0) + shift;
        let digits = without_zeros.trim_end_matches('0').to_owned();
        Self { is_negative: mantissa.starts_with('-') && !digits.is_empty(), digits, exponent }
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => {
                self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits))
            }
        }
    }

    /// The text with this many digits after the point.
    fn to_plain_text(&self, scale: i64) -> String {
        let digit = |power: i64| {
            let place = usize::try_from(self.exponent - power).ok();
            place
                .and_then(|place| self.digits.as_bytes().get(place))
                .map_or('0', |b| char::from(*b))
        };
        let first = if self.digits.is_empty() { 0 } else { self.exponent.max(0) };
        let mut text = if self.is_negative { "-".to_owned() } else { String::new() };
        text.extend((0..=first).rev().map(digit));
        if scale > 0 {
            text.push('.');
            text.extend((1..=scale).map(|place| digit(-place)));
        }
        text
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    let (a, b) = (DecimalNumber::of(a), DecimalNumber::of(b));
    match (a.is_negative, b.is_negative) {
        (false, false) => a.compare_magnitude(&b),
        (true, true) => b.compare_magnitude(&a),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// The text of a number. `PuppetDB` writes a decimal with at least one digit after the point, and with an exponent if it is below 10^-3 or not below
/// 10^7. `PostgreSQL` keeps the digits after the point, and resolves the exponent.
fn number_text(number: &Number) -> String {
    if !number.is_f64() {
        return number.to_string();
    }
    let decimal = DecimalNumber::of(number);
    let count = i64::try_from(decimal.digits.len()).unwrap_or(0);
    let exponent = if decimal.digits.is_empty() { 0 } else { decimal.exponent };
    let has_exponent = !(-3..7).contains(&exponent);
    let scale =
        if has_exponent { (count - 1).max(1) - exponent } else { (count - 1 - exponent).max(1) };
    decimal.to_plain_text(scale)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{contains, is_equal, to_text};

    #[test]
    fn values_print_as_in_postgresql() {
        for (value, text) in [
            (json!(100.0), "100.0"),
            (json!(1e10), "10000000000"),
            (json!(0.0001), "0.00010"),
            (json!(0.001), "0.001"),
            (json!(1e23), "100000000000000000000000"),
            (json!(1_234_567.5), "1234567.5"),
            (json!(12_345_678.5), "12345678.5"),
            (json!(-0.0), "0.0"),
            (json!(-2.5), "-2.5"),
            (json!([1, "a\"\n", null, true]), r#"[1, "a\"\n", null, true]"#),
            (json!({"cc": 1, "b": {}, "a": []}), r#"{"a": [], "b": {}, "cc": 1}"#),
        ] {
            assert_eq!(to_text(&value).as_deref(), Some(text));
        }
    }

    #[test]
    fn numbers_compare_by_decimal_value_and_lists_contain_lists() {
        assert!(is_equal(&json!(1), &json!(1.0)));
        assert!(is_equal(&json!(0), &json!(-0.0)));
        assert!(!is_equal(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992.0)));
        assert!(contains(&json!([1, [2, 3]]), &json!([[3], 1.0])));
        assert!(!contains(&json!([1]), &json!(1)));
    }
}
