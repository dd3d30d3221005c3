//! `$mod`: has this remainder when divided, without the fraction of a decimal.

use super::prelude::*;

/// The divisor is not 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Modulo {
    divisor: i64,
    remainder: i64,
}

impl FieldOperator for Modulo {
    const NAMES: &'static [&'static str] = &["$mod"];
    const REFERENCE: &'static str = "\
| `$mod: [ 4, 0 ]` | is a number that, without its fraction, has this remainder when divided by 4 | false |
";

    fn read(_: &str, value: RelaxedValue, _: &mut QueryUsage) -> Result<Self> {
        let number = |item: &RelaxedValue| match &item.kind {
            RelaxedKind::Number(number) => number.as_i64(),
            _ => None,
        };
        let parts = match &value.kind {
            RelaxedKind::List(items) => items.iter().map(number).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        match parts.as_deref() {
            Some(&[divisor, remainder]) if divisor != 0 => Ok(Self { divisor, remainder }),
            _ => expected_at(
                value.at,
                "[divisor, remainder] after $mod: two whole numbers, the first not 0",
            ),
        }
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        let (divisor, remainder) = (i128::from(self.divisor), i128::from(self.remainder));
        subject.any_part(&mut |value: Option<NodeValue<'_>>| {
            let number = value.and_then(NodeValue::as_integer);
            number.is_some_and(|number| number.checked_rem(divisor) == Some(remainder))
        })
    }

    fn print(&self) -> String {
        format!("\"$mod\":[{},{}]", self.divisor, self.remainder)
    }

    fn explain(&self) -> String {
        format!("leaves the remainder {} when divided by {}", self.remainder, self.divisor)
    }
}
