//! Parses PQL into conditions.

use serde_json::Number;

use super::super::read::{RelaxedEntry, RelaxedKind, RelaxedValue};
use super::super::scan::TextScanner;
use super::{Condition, Test, operator_map};
use crate::error::{FilterFault, Result, expected_at};

/// Deepest nesting of `( )` and `!`. The converted document is nested up to three times as deep.
const MAX_DEPTH: usize = 8;

const OPERATORS: [(&str, &str); 7] = [
    ("=", "$eq"),
    ("~", "$regex"),
    (">=", "$gte"),
    (">", "$gt"),
    ("<=", "$lte"),
    ("<", "$lt"),
    ("in", "$in"),
];

/// Parses a query that is the whole text.
pub(super) fn read_query(text: &str) -> Result<Condition> {
    PqlReader { scanner: TextScanner::new(text), depth: 0 }.read_query()
}

struct PqlReader<'a> {
    scanner: TextScanner<'a>,
    depth: usize,
}

impl PqlReader<'_> {
    fn read_query(&mut self) -> Result<Condition> {
        let (at, entity) = self.read_word()?;
        if !matches!(entity.as_str(), "inventory" | "nodes") {
            return expected_at(
                at,
                format!(
                    "a query document {{ }}, or PQL that begins with inventory or nodes ({entity:?})"
                ),
            );
        }
        if self.take('[')? {
            let (at, field) = self.read_word()?;
            if field != "certname" || !self.take(']')? {
                return expected_at(at, "[certname], because the query selects nodes");
            }
        }
        let at = self.scanner.offset();
        let condition = self.read_braces(|reader| {
            if reader.next_is('}')? {
                return Ok(Condition::All(at, Vec::new()));
            }
            reader.read_or()
        })?;
        self.scanner.skip_blank()?;
        match self.scanner.peek() {
            None => Ok(condition),
            Some(_) => expected_at(
                self.scanner.offset(),
                "the end of the query (limit, offset, order by and group by are not supported)",
            ),
        }
    }

    /// `{ }` with a condition.
    fn read_braces(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Condition>,
    ) -> Result<Condition> {
        if !self.take('{')? {
            return expected_at(self.scanner.offset(), "{ and a condition");
        }
        let condition = read(self)?;
        if !self.take('}')? {
            return expected_at(self.scanner.offset(), "and, or, or the closing }");
        }
        Ok(condition)
    }

    fn read_or(&mut self) -> Result<Condition> {
        let at = self.scanner.offset();
        let mut list = vec![self.read_and()?];
        while self.take_word("or")? {
            list.push(self.read_and()?);
        }
        Ok(single_or(list, |list| Condition::Any(at, list)))
    }

    fn read_and(&mut self) -> Result<Condition> {
        let at = self.scanner.offset();
        let mut list = vec![self.read_not()?];
        while self.take_word("and")? {
            list.push(self.read_not()?);
        }
        Ok(single_or(list, |list| Condition::All(at, list)))
    }

    fn read_not(&mut self) -> Result<Condition> {
        if self.take('!')? {
            return self.read_deeper(|reader| {
                reader.read_not().map(|inner| Condition::Not(Box::new(inner)))
            });
        }
        if self.take('(')? {
            let inner = self.read_deeper(Self::read_or)?;
            if !self.take(')')? {
                return expected_at(self.scanner.offset(), "and, or, or the closing )");
            }
            return Ok(inner);
        }
        let (at, field) = self.read_field()?;
        match field.as_str() {
            "resources" => self.read_braces(Self::read_class),
            "facts" if self.next_is('{')? => self.read_braces(Self::read_named_fact),
            "certname" => self.read_test(at, "identity".to_owned(), false),
            _ if field.starts_with("facts.") => self.read_test(at, field, true),
            _ => expected_at(
                at,
                format!(
                    "certname, facts.PATH, resources {{ }} or facts {{ }} ({field:?} is not supported)"
                ),
            ),
        }
    }

    /// `type = "Class" and title = "Apache"`, within `resources { }`.
    fn read_class(&mut self) -> Result<Condition> {
        let at = self.scanner.offset();
        let (kind, title) = self.read_pair("type", "title")?;
        let is_class = matches!(&kind.operators.kind, RelaxedKind::Map(entries)
            if entries.iter().all(|entry| matches!(&entry.value.kind, RelaxedKind::Text(text) if text == "Class")));
        if !is_class {
            return expected_at(
                at,
                "type = \"Class\": nodes publish their classes, and no other resources",
            );
        }
        let test = Test { path: "classes".to_owned(), may_be_missing: false, ..title };
        Ok(Condition::Test(test))
    }

    /// `name = "os" and value = "Debian"`, within `facts { }`.
    fn read_named_fact(&mut self) -> Result<Condition> {
        let (name, value) = self.read_pair("name", "value")?;
        let RelaxedKind::Map(mut entries) = name.operators.kind else {
            return expected_at(name.at, "name = \"FACT\"");
        };
        match entries.pop() {
            Some(RelaxedEntry {
                key,
                value: RelaxedValue { kind: RelaxedKind::Text(fact), .. },
                ..
            }) if key == "$eq" && !fact.contains('"') => {
                let is_plain = fact.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
                let path =
                    if is_plain { format!("facts.{fact}") } else { format!("facts.\"{fact}\"") };
                Ok(Condition::Test(Test { path, may_be_missing: true, ..value }))
            }
            _ => expected_at(name.at, "name = \"FACT\""),
        }
    }

    /// Two tests joined by `and`, in either order.
    fn read_pair(&mut self, first: &str, second: &str) -> Result<(Test, Test)> {
        let mut found = [None, None];
        loop {
            let (at, field) = self.read_field()?;
            let slot = match field.as_str() {
                name if name == first => 0,
                name if name == second => 1,
                _ => {
                    return expected_at(
                        at,
                        format!("{first} or {second} ({field:?} is not supported)"),
                    );
                }
            };
            let Condition::Test(test) = self.read_test(at, field, false)? else {
                return expected_at(at, format!("{first} = and {second} ="));
            };
            if let Some(slot) = found.get_mut(slot) {
                *slot = Some(test);
            }
            if !self.take_word("and")? {
                break;
            }
        }
        let at = self.scanner.offset();
        let [Some(one), Some(other)] = found else {
            return expected_at(at, format!("both {first} and {second}, joined by and"));
        };
        Ok((one, other))
    }

    /// The operator and the value after a field.
    fn read_test(&mut self, at: usize, path: String, may_be_missing: bool) -> Result<Condition> {
        if self.take_word("is")? {
            let negated = self.take_word("not")?;
            if !self.take_word("null")? {
                return expected_at(self.scanner.offset(), "null");
            }
            let null = RelaxedValue { at, kind: RelaxedKind::Null };
            let operators = operator_map(at, "$eq", null);
            let test = Condition::Test(Test { at, path, operators, may_be_missing: false });
            return Ok(if negated { Condition::Not(Box::new(test)) } else { test });
        }
        let (name, operator) = self.read_operator()?;
        let value = self.read_value()?;
        let fits = match name {
            "~" => matches!(value.kind, RelaxedKind::Text(_)),
            "in" => matches!(value.kind, RelaxedKind::List(_)),
            "=" => !matches!(value.kind, RelaxedKind::List(_)),
            _ => matches!(value.kind, RelaxedKind::Number(_)),
        };
        if !fits {
            let expected = match name {
                "~" => "a regular expression in quotes",
                "in" => "a list such as [\"a\", \"b\"]",
                "=" => "a text, a number, true or false",
                _ => "a number",
            };
            return expected_at(value.at, format!("{expected} after {name}"));
        }
        let operators = operator_map(at, operator, value);
        Ok(Condition::Test(Test { at, path, operators, may_be_missing }))
    }

    fn read_operator(&mut self) -> Result<(&'static str, &'static str)> {
        self.scanner.skip_blank()?;
        let at = self.scanner.offset();
        let symbol = self.scanner.take_while(|c| "=~<>!".contains(c));
        let word = if symbol.is_empty() { self.read_word()?.1 } else { symbol.to_owned() };
        OPERATORS.into_iter().find(|(name, _)| *name == word).ok_or_else(|| {
            let hint = if word == "!=" { "; write !(field = value)" } else { "" };
            FilterFault::new(
                at,
                format!("=, ~, <, <=, >, >=, in or is ({word:?} is none of these{hint})"),
            )
        })
    }

    fn read_value(&mut self) -> Result<RelaxedValue> {
        self.scanner.skip_blank()?;
        let at = self.scanner.offset();
        let kind = match self.scanner.peek() {
            Some('"' | '\'') => RelaxedKind::Text(self.scanner.read_quoted()?),
            Some('[') => self.read_list()?,
            _ => {
                let word = self.scanner.take_while(|c| c.is_alphanumeric() || "+-._".contains(c));
                match word {
                    "true" => RelaxedKind::Boolean(true),
                    "false" => RelaxedKind::Boolean(false),
                    _ => match word.parse::<Number>() {
                        Ok(number) if number.as_f64().is_some_and(f64::is_finite) => {
                            RelaxedKind::Number(number)
                        }
                        _ => return expected_at(at, "a text in quotes, a number, true or false"),
                    },
                }
            }
        };
        Ok(RelaxedValue { at, kind })
    }

    fn read_list(&mut self) -> Result<RelaxedKind> {
        let mut items = Vec::new();
        self.take('[')?;
        while !self.take(']')? {
            if self.next_is('[')? {
                return expected_at(self.scanner.offset(), "a value, not a list");
            }
            items.push(self.read_value()?);
            if !self.take(',')? && !self.next_is(']')? {
                return expected_at(self.scanner.offset(), "a comma or the closing ]");
            }
        }
        Ok(RelaxedKind::List(items))
    }

    /// A field, with `facts.disks[0].size` as `facts.disks.0.size`.
    fn read_field(&mut self) -> Result<(usize, String)> {
        self.scanner.skip_blank()?;
        let at = self.scanner.offset();
        let mut field = self.scanner.read_bare_key()?;
        while self.scanner.peek() == Some('[') {
            self.scanner.take_char('[');
            let index = self.scanner.take_while(|c| c.is_ascii_digit());
            if index.is_empty() || !self.scanner.take_char(']') {
                return expected_at(self.scanner.offset(), "the number of an element and ]");
            }
            field = format!("{field}.{index}{}", self.scanner.read_bare_key()?);
        }
        Ok((at, field))
    }

    fn read_word(&mut self) -> Result<(usize, String)> {
        self.scanner.skip_blank()?;
        let at = self.scanner.offset();
        let word = self.scanner.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        Ok((at, word.to_owned()))
    }

    /// Consumes this word if it is the next one.
    fn take_word(&mut self, wanted: &str) -> Result<bool> {
        self.scanner.skip_blank()?;
        Ok(self.scanner.take_word(wanted))
    }

    fn take(&mut self, wanted: char) -> Result<bool> {
        self.scanner.skip_blank()?;
        Ok(self.scanner.take_char(wanted))
    }

    fn next_is(&mut self, wanted: char) -> Result<bool> {
        self.scanner.skip_blank()?;
        Ok(self.scanner.peek() == Some(wanted))
    }

    fn read_deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Condition>,
    ) -> Result<Condition> {
        if self.depth == MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH} levels of nesting");
            return expected_at(self.scanner.offset(), expected);
        }
        self.depth += 1;
        let condition = read(self);
        self.depth -= 1;
        condition
    }
}

fn single_or(
    mut list: Vec<Condition>,
    join: impl FnOnce(Vec<Condition>) -> Condition,
) -> Condition {
    match list.pop() {
        Some(only) if list.is_empty() => only,
        popped => {
            list.extend(popped);
            join(list)
        }
    }
}
