//! Operators of other tests: `$not`, their exact negation, which is true for a missing field, and `$elemMatch`, one element of a list that satisfies all.

use super::super::clause::{ClauseList, PathScope};
use super::super::subject::SubjectValues;
use super::super::walk::DocumentScope;
use super::prelude::*;
use super::{FieldTest, FieldTests};
use crate::lookup::TruthValue;

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) enum Element {
    Values(FieldTests),
    Document(ClauseList),
}

impl FieldOperator for Element {
    const NAMES: &'static [&'static str] = &["$elemMatch"];
    const REFERENCE: &'static str = "\
| `$elemMatch: { ... }` | is a list with one element that satisfies all operators, or all keys | false |
";

    fn read(_: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        let RelaxedKind::Map(entries) = &value.kind else {
            let expected = "operators, or a query document for an element, after $elemMatch";
            return expected_at(value.at, expected);
        };
        let joins = |key: &str| matches!(key, "$and" | "$or" | "$nor" | "$loose");
        if has_operators(entries) && !entries.first().is_some_and(|entry| joins(&entry.key)) {
            return FieldTests::read(value, usage).map(Self::Values);
        }
        ClauseList::read(value, PathScope::Element, usage).map(Self::Document)
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        let accepts = |element: NodeValue<'_>| match self {
            Self::Values(tests) => {
                tests.matches(TestSubject { values: SubjectValues::Element(element), ..subject })
            }
            Self::Document(document) => element.as_map().is_some_and(|map| {
                let truth = document.evaluate(DocumentScope::Element(map), subject.loose);
                truth == TruthValue::True
            }),
        };
        subject.any_whole(&mut |value: Option<NodeValue<'_>>| {
            value.is_some_and(|value| value.any_element(&mut |element| accepts(element)))
        })
    }

    fn print(&self) -> String {
        match self {
            Self::Values(tests) => format!("\"$elemMatch\":{}", tests.print()),
            Self::Document(document) => format!("\"$elemMatch\":{document}"),
        }
    }

    fn explain(&self) -> String {
        match self {
            Self::Values(tests) => format!("has an element that ({})", tests.explain()),
            Self::Document(document) if document.0.is_empty() => {
                "has an element that is a map".to_owned()
            }
            Self::Document(document) => format!("has an element {}", document.explain()),
        }
    }
}
