//! Parses relaxed JSON into values with their offsets: quotes of both kinds, keys and values without quotes, comments, trailing
//! commas, `/regex/flags` and `ISODate("...")`.
//!
//! Knows nothing of operators. Nesting is limited while it is read, so every later stage may recurse.

use serde_json::Number;

use super::date::QueryDate;
use super::scan::TextScanner;
use crate::error::{FaultContext as _, Result, expected_at};
use crate::limits::MAX_QUERY_DEPTH;

/// Words that look like literals, in any case.
const REFUSED_WORDS: [&str; 9] =
    ["true", "false", "null", "nil", "undef", "undefined", "nan", "infinity", "new"];

/// A value and its byte offset.
pub(super) struct RelaxedValue {
    pub(super) at: usize,
    pub(super) kind: RelaxedKind,
}

/// The kinds of values.
pub(super) enum RelaxedKind {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    Date(QueryDate),
    Regex { source: String, flags: String },
    List(Vec<RelaxedValue>),
    Map(Vec<RelaxedEntry>),
}

/// A key, its byte offset, and its value.
pub(super) struct RelaxedEntry {
    pub(super) at: usize,
    pub(super) key: String,
    pub(super) value: RelaxedValue,
}

/// Whether a map is a document of operators rather than a literal.
pub(super) fn has_operators(entries: &[RelaxedEntry]) -> bool {
    entries.first().is_some_and(|entry| entry.key.starts_with('$'))
}

/// Parses one value that is the whole text.
pub(super) fn read_relaxed_json(text: &str) -> Result<RelaxedValue> {
    let mut reader = RelaxedReader { scanner: TextScanner::new(text), depth: 0 };
    let value = reader.read_value()?;
    reader.scanner.skip_blank()?;
    match reader.scanner.peek() {
        None => Ok(value),
        Some(_) => expected_at(
            reader.scanner.offset(),
            "the end of the query (combine queries with $and, or repeat -Q)",
        ),
    }
}

struct RelaxedReader<'a> {
    scanner: TextScanner<'a>,
    depth: usize,
}

impl RelaxedReader<'_> {
    fn read_value(&mut self) -> Result<RelaxedValue> {
        self.scanner.skip_blank()?;
        let at = self.scanner.offset();
        let kind = match self.scanner.peek() {
            Some('{') => self.read_nested(Self::read_map)?,
            Some('[') => self.read_nested(Self::read_list)?,
            Some('"' | '\'') => RelaxedKind::Text(self.scanner.read_quoted()?),
            Some('/') => {
                let (source, flags) = self.scanner.read_regex()?;
                RelaxedKind::Regex { source, flags: flags.to_owned() }
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => {
                self.read_number(at)?
            }
            Some(c) if c.is_alphabetic() || c == '_' => self.read_word(at)?,
            Some('$') => {
                return expected_at(at, "a value (a text that begins with $ needs quotes)");
            }
            _ => return expected_at(at, "a value: a text, a number, a /regex/, { } or [ ]"),
        };
        Ok(RelaxedValue { at, kind })
    }

    /// Reads a list or a map one level deeper.
    fn read_nested(&mut self, read: fn(&mut Self) -> Result<RelaxedKind>) -> Result<RelaxedKind> {
        if self.depth == MAX_QUERY_DEPTH {
            return expected_at(self.scanner.offset(), "at most 32 levels of nesting");
        }
        self.depth += 1;
        let open = self.scanner.peek().unwrap_or_default();
        self.scanner.take_char(open);
        let kind = read(self);
        self.depth -= 1;
        kind
    }

    fn read_list(&mut self) -> Result<RelaxedKind> {
        let mut items = Vec::new();
        loop {
            self.scanner.skip_blank()?;
            if self.scanner.take_char(']') {
                return Ok(RelaxedKind::List(items));
            }
            items.push(self.read_value()?);
            self.read_separator(']')?;
        }
    }

    fn read_map(&mut self) -> Result<RelaxedKind> {
        let mut entries: Vec<RelaxedEntry> = Vec::new();
        loop {
            self.scanner.skip_blank()?;
            if self.scanner.take_char('}') {
                return Ok(RelaxedKind::Map(entries));
            }
            let (at, key) = self.read_key()?;
            if entries.iter().any(|entry| entry.key == key) {
                let expected = format!(
                    "each key once ({key:?} is repeated; put both conditions into $and, or into one document)"
                );
                return expected_at(at, expected);
            }
            self.scanner.skip_blank()?;
            if !self.scanner.take_char(':') {
                return expected_at(self.scanner.offset(), "a colon after the key");
            }
            let value = self.read_value()?;
            entries.push(RelaxedEntry { at, key, value });
            self.read_separator('}')?;
        }
    }

    /// A key, and the offset of its content.
    fn read_key(&mut self) -> Result<(usize, String)> {
        let at = self.scanner.offset();
        match self.scanner.peek() {
            Some('"' | '\'') => Ok((at + 1, self.scanner.read_quoted()?)),
            Some(c) if c.is_alphabetic() || matches!(c, '_' | '$') => {
                Ok((at, self.scanner.read_bare_key()?))
            }
            _ => expected_at(
                at,
                "a key, or the closing } (a key with other characters needs quotes)",
            ),
        }
    }

    /// A comma, unless the next character closes.
    fn read_separator(&mut self, close: char) -> Result<()> {
        self.scanner.skip_blank()?;
        if self.scanner.take_char(',') || self.scanner.peek() == Some(close) {
            return Ok(());
        }
        expected_at(
            self.scanner.offset(),
            format!(
                "a comma or the closing {close} (a text with spaces or other characters needs quotes)"
            ),
        )
    }

    fn read_number(&mut self, at: usize) -> Result<RelaxedKind> {
        let text = self.scanner.take_while(|c| c.is_alphanumeric() || "+-._:@%".contains(c));
        match text.parse::<Number>() {
            Ok(number) if number.as_f64().is_some_and(f64::is_finite) => {
                Ok(RelaxedKind::Number(number))
            }
            _ => expected_at(at, format!("a number, or a text in quotes ({text:?})")),
        }
    }

    /// A word without quotes is a text, unless it is a literal.
    fn read_word(&mut self, at: usize) -> Result<RelaxedKind> {
        let word = self.scanner.take_while(|c| c.is_alphanumeric() || "_-.:@+%".contains(c));
        self.scanner.skip_blank()?;
        if self.scanner.peek() == Some('(') {
            return self.read_call(at, word);
        }
        Ok(match word {
            "true" => RelaxedKind::Boolean(true),
            "false" => RelaxedKind::Boolean(false),
            "null" => RelaxedKind::Null,
            _ if REFUSED_WORDS.contains(&word.to_ascii_lowercase().as_str()) => {
                let expected =
                    format!("true, false or null, or a text in quotes ({word:?}), not {word}");
                return expected_at(at, expected);
            }
            _ => RelaxedKind::Text(word.to_owned()),
        })
    }

    /// `ISODate("...")`, the only call.
    fn read_call(&mut self, at: usize, name: &str) -> Result<RelaxedKind> {
        if name != "ISODate" {
            return expected_at(at, "ISODate(\"...\") as the only function");
        }
        self.scanner.take_char('(');
        self.scanner.skip_blank()?;
        let text_at = self.scanner.offset();
        if !matches!(self.scanner.peek(), Some('"' | '\'')) {
            return expected_at(text_at, "a date in quotes");
        }
        let text = self.scanner.read_quoted()?;
        let date = QueryDate::parse(&text).shifted_by(text_at + 1)?;
        self.scanner.skip_blank()?;
        if !self.scanner.take_char(')') {
            return expected_at(self.scanner.offset(), "a closing parenthesis after the date");
        }
        Ok(RelaxedKind::Date(date))
    }
}
