//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`: equality with a literal, and the order within one type. A missing value equals null.

use std::cmp::Ordering;

use super::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Equality {
    pub(in crate::document) value: QueryValue,
    pub(in crate::document) negated: bool,
}

impl FieldOperator for Equality {
    const NAMES: &'static [&'static str] = &["$eq", "$ne"];
    const REFERENCE: &'static str = "\
| `path: VALUE`, `$eq` | equals the value | only for `null` |
| `$ne` | does not equal the value | true, except for `null` |
";

    fn read(name: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        Ok(Self { value: QueryValue::read(value, usage)?, negated: name == "$ne" })
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        let is_equal = |value: Option<NodeValue<'_>>| match value {
            Some(value) => value.equals(&self.value, subject.loose),
            None => self.value == QueryValue::Null,
        };
        subject.any_part(&mut { is_equal }) != self.negated
    }

    fn print(&self) -> String {
        let name = if self.negated { "$ne" } else { "$eq" };
        format!("\"{name}\":{}", self.value)
    }

    fn explain(&self) -> String {
        match (&self.value, self.negated) {
            (QueryValue::Null, false) => "is null or missing".to_owned(),
            (QueryValue::Null, true) => "is neither null nor missing".to_owned(),
            (value, false) => format!("equals {value}"),
            (value, true) => format!("does not equal {value}"),
        }
    }

    fn necessary(&self) -> Vec<Vec<&QueryValue>> {
        if self.negated { Vec::new() } else { vec![vec![&self.value]] }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Order {
    operator: OrderOperator,
    value: QueryValue,
}

/// Operators that order, which PQL has, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::document) enum OrderOperator {
    Greater,
    AtLeast,
    Less,
    AtMost,
}

impl OrderOperator {
    fn name_and_phrase(self) -> (&'static str, &'static str) {
        match self {
            Self::Greater => ("$gt", "is greater than"),
            Self::AtLeast => ("$gte", "is at least"),
            Self::Less => ("$lt", "is less than"),
            Self::AtMost => ("$lte", "is at most"),
        }
    }

    /// Whether this order of a value to the operand satisfies the operator.
    pub(in crate::document) fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Greater => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
        }
    }
}

impl FieldOperator for Order {
    const NAMES: &'static [&'static str] = &["$gt", "$gte", "$lt", "$lte"];
    const REFERENCE: &'static str = "\
| `$gt`, `$gte`, `$lt`, `$lte` | has the type of the value, and this order | only `$gte: null`, `$lte: null` |
";

    fn read(name: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        if matches!(value.kind, RelaxedKind::List(_) | RelaxedKind::Map(_)) {
            let expected = format!("a text, a number, a boolean, a date or null after {name}");
            return expected_at(value.at, expected);
        }
        let operator = match name {
            "$gt" => OrderOperator::Greater,
            "$gte" => OrderOperator::AtLeast,
            "$lt" => OrderOperator::Less,
            _ => OrderOperator::AtMost,
        };
        Ok(Self { operator, value: QueryValue::read(value, usage)? })
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        subject.any_part(&mut |value: Option<NodeValue<'_>>| {
            let ordering = match value {
                Some(value) => value.compare(&self.value, subject.loose),
                None => (self.value == QueryValue::Null).then_some(Ordering::Equal),
            };
            ordering.is_some_and(|ordering| self.operator.accepts(ordering))
        })
    }

    fn print(&self) -> String {
        format!("\"{}\":{}", self.operator.name_and_phrase().0, self.value)
    }

    fn explain(&self) -> String {
        format!("{} {}", self.operator.name_and_phrase().1, self.value)
    }
}
