//! `$in`, `$nin` and `$all`: one, none or all of the literals and regular expressions of a list.

use super::prelude::*;
use super::{FieldTest, FieldTests};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct Membership {
    items: Vec<FieldTest>,
    negated: bool,
}

impl FieldOperator for Membership {
    const NAMES: &'static [&'static str] = &["$in", "$nin"];
    const REFERENCE: &'static str = "\
| `$in: [ ... ]` | equals one of the values or matches one of the regular expressions | if `null` is listed |
| `$nin: [ ... ]` | does none of that | true, unless `null` is listed |
";

    fn read(name: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        let RelaxedKind::List(items) = value.kind else {
            return expected_at(value.at, format!("a list after {name}"));
        };
        let items = items.into_iter().map(|item| match &item.kind {
            RelaxedKind::Map(entries) if has_operators(entries) => {
                let expected = format!("values and regular expressions in the list of {name}");
                expected_at(item.at, expected)
            }
            _ => FieldTest::read_item(item, usage),
        });
        Ok(Self { items: items.collect::<Result<_>>()?, negated: name == "$nin" })
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        self.items.iter().any(|item| item.matches(subject)) != self.negated
    }

    fn print(&self) -> String {
        print_items(if self.negated { "$nin" } else { "$in" }, &self.items)
    }

    fn explain(&self) -> String {
        let quantity = if self.negated { "none" } else { "one" };
        format!("is {quantity} of {}", explain_items(&self.items, "or"))
    }

    fn necessary(&self) -> Vec<Vec<&QueryValue>> {
        let values = self.items.iter().map(|item| match item {
            FieldTest::Equality(equality) => Some(&equality.value),
            _ => None,
        });
        values.collect::<Option<_>>().into_iter().filter(|_| !self.negated).collect()
    }
}

/// Takes documents with `$elemMatch`, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::document) struct All(Vec<FieldTest>);

impl FieldOperator for All {
    const NAMES: &'static [&'static str] = &["$all"];
    const REFERENCE: &'static str =
        "| `$all: [ ... ]` | contains all of these; `[]` is never true | only for `[ null ]` |\n";

    fn read(_: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        let RelaxedKind::List(items) = value.kind else {
            return expected_at(value.at, "a list after $all");
        };
        let tests = items.into_iter().map(|item| match item.kind {
            RelaxedKind::Map(entries) if has_operators(&entries) => {
                let mut tests = FieldTests::read_operators(entries, usage)?.0;
                match tests.pop() {
                    Some(test @ FieldTest::Element(_)) if tests.is_empty() => Ok(test),
                    _ => {
                        expected_at(item.at, "values, or { $elemMatch: ... }, in the list of $all")
                    }
                }
            }
            _ => FieldTest::read_item(item, usage),
        });
        tests.collect::<Result<_>>().map(Self)
    }

    fn matches(&self, subject: TestSubject<'_>) -> bool {
        !self.0.is_empty() && self.0.iter().all(|item| item.matches(subject))
    }

    fn print(&self) -> String {
        print_items("$all", &self.0)
    }

    fn explain(&self) -> String {
        format!("contains all of {}", explain_items(&self.0, "and"))
    }

    fn necessary(&self) -> Vec<Vec<&QueryValue>> {
        self.0.iter().flat_map(FieldTest::necessary).collect()
    }
}

fn print_items(operator: &str, items: &[FieldTest]) -> String {
    let items = items
        .iter()
        .map(|item| item.item_text().unwrap_or_else(|| format!("{{{}}}", item.print())));
    format!("\"{operator}\":[{}]", join_texts(items))
}

fn explain_items(items: &[FieldTest], conjunction: &str) -> String {
    let phrases = items.iter().map(|item| item.item_text().unwrap_or_else(|| item.explain()));
    if items.is_empty() { "nothing".to_owned() } else { join_phrases(phrases, conjunction) }
}
