//! `$not`: the exact negation of operators or of a regular expression, so it is true for a missing field.

use super::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Not(FieldTests);

impl FieldOperator for Not {
    const NAMES: &'static [&'static str] = &["$not"];
    const REFERENCE: &'static str = "\
| `$not: { ... }`, `$not: /regex/` | does not satisfy these operators | true, unless they are true |
";

    fn read(_: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        let is_test = match &value.kind {
            RelaxedKind::Map(entries) => has_operators(entries),
            kind => matches!(kind, RelaxedKind::Regex { .. }),
        };
        if is_test {
            return FieldTests::read(value, usage).map(Self);
        }
        expected_at(value.at, "operators or a /regex/ after $not (use $ne for a value)")
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        !self.0.matches(subject)
    }

    fn print(&self) -> String {
        // A literal needs its operator here.
        match self.0.0.as_slice() {
            [FieldTest::Pattern(_)] => format!("\"$not\":{}", self.0.field_text()),
            _ => format!("\"$not\":{}", self.0.print()),
        }
    }

    fn explain(&self) -> String {
        format!("does not satisfy ({})", self.0.explain())
    }
}
