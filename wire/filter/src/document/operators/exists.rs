//! `$exists`: has a value, or has none. Null is a value.

use super::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Exists(bool);

impl FieldOperator for Exists {
    const NAMES: &'static [&'static str] = &["$exists"];
    const REFERENCE: &'static str =
        "| `$exists: true`, `false` | exists; null exists | `$exists: false` |\n";

    fn read(_: &str, value: RelaxedValue, _: &mut QueryUsage) -> Result<Self> {
        match &value.kind {
            RelaxedKind::Boolean(flag) => Ok(Self(*flag)),
            RelaxedKind::Number(number) if number.as_i64() == Some(1) => Ok(Self(true)),
            RelaxedKind::Number(number) if number.as_i64() == Some(0) => Ok(Self(false)),
            _ => expected_at(value.at, "true or false after $exists"),
        }
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        subject.any_whole(&mut |value| value.is_some()) == self.0
    }

    fn print(&self) -> String {
        format!("\"$exists\":{}", self.0)
    }

    fn explain(&self) -> String {
        if self.0 { "exists" } else { "does not exist" }.to_owned()
    }
}
