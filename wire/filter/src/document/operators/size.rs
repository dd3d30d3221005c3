//! `$size`: the number of elements of a list.

use super::prelude::*;

const MAX_SIZE: u64 = u32::MAX as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Size(u64);

impl FieldOperator for Size {
    const NAMES: &'static [&'static str] = &["$size"];
    const REFERENCE: &'static str = "| `$size: 2` | is a list of two elements | false |\n";

    fn read(_: &str, value: RelaxedValue, _: &mut QueryUsage) -> Result<Self> {
        let RelaxedKind::Number(number) = &value.kind else {
            return expected_at(value.at, "the number of elements after $size");
        };
        match number.as_u64() {
            Some(count) if count <= MAX_SIZE => Ok(Self(count)),
            _ => expected_at(value.at, "a whole number of elements, 0 or more, after $size"),
        }
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        subject.any_whole(&mut |value| {
            let length = value.and_then(NodeValue::list_length);
            length.is_some_and(|length| u64::try_from(length) == Ok(self.0))
        })
    }

    fn print(&self) -> String {
        format!("\"$size\":{}", self.0)
    }

    fn explain(&self) -> String {
        let noun = if self.0 == 1 { "element" } else { "elements" };
        format!("is a list of {} {noun}", self.0)
    }
}
