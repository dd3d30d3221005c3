//! Numbers in facts and filters, and their comparison.
//!
//! Only plain decimals parse as numbers. Exponents and `inf` are excluded, so that a commit such as `12e4567` stays
//! text. An integer that does not fit 128 bits, such as a long serial number, also stays text.

use std::cmp::Ordering;

use serde_json::Number;

#[derive(Debug, Clone, Copy)]
pub(super) enum NumericValue {
    Integer(i128),
    Decimal(f64),
}

impl NumericValue {
    /// Parses `[+-]digits[.digits]`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        match unsigned.split_once('.') {
            None if is_digits(unsigned) => text.parse().ok().map(Self::Integer),
            Some((whole, fraction)) if is_digits(whole) && is_digits(fraction) => {
                text.parse().ok().filter(|value: &f64| value.is_finite()).map(Self::Decimal)
            }
            _ => None,
        }
    }

    /// Converts a JSON number.
    pub(super) fn from_json(number: &Number) -> Option<Self> {
        number
            .as_i128()
            .map(Self::Integer)
            .or_else(|| number.as_f64().filter(|value| value.is_finite()).map(Self::Decimal))
    }

    /// Compares integers exactly, and all others as 64-bit floating point.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            (a, b) => a.to_float().partial_cmp(&b.to_float()),
        }
    }

    /// The whole part; `None` if it does not fit 128 bits.
    pub(super) fn truncate(self) -> Option<i128> {
        match self {
            Self::Integer(value) => Some(value),
            Self::Decimal(value) => format!("{:.0}", value.trunc()).parse().ok(),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a decimal on the other side is no more precise"
    )]
    pub(super) fn to_float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Decimal(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::NumericValue;

    #[test]
    fn only_plain_decimals_are_numbers() {
        for text in ["0", "-7", "+7", "007", "1.50", "-0.5"] {
            assert!(NumericValue::parse(text).is_some(), "{text}");
        }
        let huge = "9".repeat(400);
        let long = format!("{huge}.0");
        for text in [
            "", "-", ".", "1.", ".5", "1e3", "inf", "NaN", "0x10", "1.2.3", "1 ", "٣", &huge, &long,
        ] {
            assert!(NumericValue::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn integers_compare_exactly() {
        let compare = |a: &str, b: &str| NumericValue::parse(a)?.compare(NumericValue::parse(b)?);
        assert_eq!(compare("9007199254740993", "9007199254740992"), Some(Greater));
        assert_eq!(compare("10", "9.5"), Some(Greater));
        assert_eq!(compare("-1", "1"), Some(Less));
        assert_eq!(compare("1.50", "1.5"), Some(Equal));
        assert_eq!(compare("007", "7"), Some(Equal));
    }
}
