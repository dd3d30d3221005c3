//! The operators of a field, each in a file of its own or of its family. A new one is a file and its two lines here.

pub(super) mod comparison;
mod exists;
mod membership;
mod modulo;
mod nested;
mod pattern;
mod prelude;
mod size;
mod types;

use muster_base::nearest_name;

use self::comparison::Equality;
use self::pattern::Pattern;
use self::prelude::*;
use super::clause::CLAUSE_OPERATORS;
use super::read::RelaxedEntry;
use crate::error::FilterFault;

macro_rules! field_operators {
    ($($module:ident::$operator:ident,)*) => {
        /// One test of a field.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) enum FieldTest {
            $($operator($module::$operator),)*
        }

        const FIELD_OPERATORS: &[&[&str]] = &[$($module::$operator::NAMES,)*];
        pub(super) const FIELD_REFERENCE: &[&str] = &[$($module::$operator::REFERENCE,)*];

        impl FieldTest {
            /// Reads an operand; `None` if no operator has this name.
            fn read(name: &str, value: RelaxedValue, usage: &mut QueryUsage) -> Option<Result<Self>> {
                $(if $module::$operator::NAMES.contains(&name) {
                    return Some($module::$operator::read(name, value, usage).map(Self::$operator));
                })*
                None
            }

            pub(super) fn matches(&self, subject: TestSubject<'_>) -> bool {
                match self { $(Self::$operator(test) => test.matches(subject),)* }
            }

            pub(super) fn explain(&self) -> String {
                match self { $(Self::$operator(test) => test.explain(),)* }
            }

            pub(super) fn necessary(&self) -> Vec<Vec<&QueryValue>> {
                match self { $(Self::$operator(test) => test.necessary(),)* }
            }

            fn print(&self) -> String {
                match self { $(Self::$operator(test) => test.print(),)* }
            }
        }
    };
}

// In the order of the reference.
field_operators! {
    comparison::Equality,
    pattern::Pattern,
    comparison::Order,
    membership::Membership,
    exists::Exists,
    types::Types,
    nested::Not,
    membership::All,
    size::Size,
    nested::Element,
    modulo::Modulo,
}

/// Tests of a field or of an element, all of which must be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldTests(pub(super) Vec<FieldTest>);

impl FieldTests {
    /// Reads a literal, a regular expression, or a document of operators.
    pub(super) fn read(value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        match value.kind {
            RelaxedKind::Map(entries) if has_operators(&entries) => {
                Self::read_operators(entries, usage)
            }
            _ => Ok(Self(vec![FieldTest::read_item(value, usage)?])),
        }
    }

    /// Reads a document of operators, such as `{ $gte: 2, $lt: 8 }`.
    fn read_operators(entries: Vec<RelaxedEntry>, usage: &mut QueryUsage) -> Result<Self> {
        let mut tests = Vec::with_capacity(entries.len());
        let (mut regex, mut options) = (None, None);
        for RelaxedEntry { at, key, value } in entries {
            match key.as_str() {
                // The test keeps its place among the others.
                "$regex" => regex = Some((tests.len(), value)),
                "$options" => options = Some((at, value)),
                _ => match FieldTest::read(&key, value, usage) {
                    Some(test) => tests.push(test?),
                    None if key.starts_with('$') => {
                        return Err(unknown_operator(at, &key, "an operator of a field"));
                    }
                    None => {
                        let expected =
                            "an operator such as $gt (a map has either operators or keys)";
                        return expected_at(at, expected);
                    }
                },
            }
        }
        match (regex, options) {
            (Some((place, regex)), options) => {
                let options = options.map(|(_, value)| value);
                let pattern = Pattern::read_with_options(regex, options, usage)?;
                tests.insert(place, FieldTest::Pattern(pattern));
            }
            (None, Some((at, _))) => return expected_at(at, "$regex before $options"),
            (None, None) => {}
        }
        Ok(Self(tests))
    }

    pub(super) fn matches(&self, subject: TestSubject<'_>) -> bool {
        self.0.iter().all(|test| test.matches(subject))
    }

    fn print(&self) -> String {
        format!("{{{}}}", join_texts(self.0.iter().map(FieldTest::print)))
    }

    pub(super) fn explain(&self) -> String {
        join_phrases(self.0.iter().map(FieldTest::explain), "and")
    }

    /// The text after a path, which a single literal or regular expression follows without an operator.
    pub(super) fn field_text(&self) -> String {
        match self.0.as_slice() {
            [test] => test.item_text().unwrap_or_else(|| self.print()),
            _ => self.print(),
        }
    }
}

impl FieldTest {
    /// Reads a literal or a regular expression.
    fn read_item(value: RelaxedValue, usage: &mut QueryUsage) -> Result<Self> {
        match value.kind {
            RelaxedKind::Regex { .. } => {
                Pattern::read_with_options(value, None, usage).map(Self::Pattern)
            }
            _ => Equality::read("$eq", value, usage).map(Self::Equality),
        }
    }

    /// The form without an operator, which a literal and a regular expression have.
    fn item_text(&self) -> Option<String> {
        match self {
            Self::Equality(equality) if !equality.negated => Some(equality.value.to_string()),
            Self::Pattern(pattern) => Some(pattern.text()),
            _ => None,
        }
    }
}

/// The error for an operator that is not available at this position.
pub(super) fn unknown_operator(at: usize, name: &str, expected: &str) -> FilterFault {
    let field_operators = FIELD_OPERATORS.iter().copied().flatten().copied();
    let reason = match name {
        "$where" | "$function" | "$accumulator" | "$expr" | "$jsonSchema" => {
            format!("{name} is not supported: queries contain no code and no schemas")
        }
        "$text" | "$search" => format!("{name} is not supported; use a regular expression"),
        _ if field_operators.clone().any(|known| known == name) => {
            format!("write {name} after the path of a field: {{ 'facts.a': {{ {name}: ... }} }}")
        }
        _ if CLAUSE_OPERATORS.contains(&name) => {
            format!("write {name} in place of a path: {{ {name}: ... }}")
        }
        _ => match nearest_name(name, field_operators.chain(CLAUSE_OPERATORS)) {
            Some(nearest) => format!("{name} is unknown; did you mean {nearest}?"),
            None => format!("{name} is unknown"),
        },
    };
    FilterFault::new(at, format!("{expected} ({reason})"))
}
