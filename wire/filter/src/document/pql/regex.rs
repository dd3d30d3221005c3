//! Regular expressions of `PostgreSQL`, as far as they match the same texts here.
//!
//! `.` also matches a line break, and `$` matches only at the end of the text. What has another meaning there, or none, is refused: other escapes
//! (`\b` is a backspace there), references, conditions on the text before or after, and flags other than `(?i)` at the beginning.

use std::iter::Peekable;
use std::str::Chars;

use crate::error::{FilterFault, Result, expected_at};
use crate::pattern::FilterRegex;

/// Most repetitions in `PostgreSQL`.
const MAX_REPETITIONS: u32 = 255;
const DIGIT: &str = "0-9";
const SPACE: &str = " \\t\\n\\x0b\\x0c\\r";
const WORD: &str = "\\w";

/// Compiles a regular expression. Errors are relative to its beginning.
pub(in super::super) fn compile_regex(pattern: &str) -> Result<FilterRegex> {
    let (body, ignore_case) = match pattern.strip_prefix("(?i)") {
        Some(body) => (body, true),
        None => (pattern, false),
    };
    let mut translator = RegexTranslator {
        rest: body.chars().peekable(),
        out: "(?s)".to_owned(),
        ignore_case,
        has_atom: false,
        depth: 0,
    };
    translator.translate()?;
    FilterRegex::compile_regex(&translator.out, false)
}

struct RegexTranslator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    ignore_case: bool,
    /// Whether the next character may be a quantifier.
    has_atom: bool,
    depth: usize,
}

fn other_meaning<T>(part: &str) -> Result<T> {
    let expected = format!(
        "a regular expression that PostgreSQL reads as nodes do ({part} has another meaning there, or none)"
    );
    expected_at(0, expected)
}

impl RegexTranslator<'_> {
    fn translate(&mut self) -> Result<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '*' | '+' | '?' => self.read_quantifier(&c.to_string())?,
                '{' => {
                    let bound = self.read_bound()?;
                    self.read_quantifier(&bound)?;
                }
                '(' => self.open_group()?,
                ')' if self.depth == 0 => return other_meaning("a ) without ("),
                ')' => {
                    self.depth -= 1;
                    self.push(")", true);
                }
                '|' | '^' | '$' => self.push(&c.to_string(), false),
                '.' => self.push(".", true),
                '[' => self.read_brackets()?,
                '\\' => {
                    let text = self.read_escape()?;
                    self.push(&text, true);
                }
                c => self.push_literal(c)?,
            }
        }
        if self.depth > 0 { other_meaning("a ( without )") } else { Ok(()) }
    }

    fn push(&mut self, text: &str, is_atom: bool) {
        self.out.push_str(text);
        self.has_atom = is_atom;
    }

    fn push_literal(&mut self, c: char) -> Result<()> {
        if self.ignore_case && c.is_alphabetic() {
            if !c.is_ascii() {
                return other_meaning("(?i) with letters beyond ASCII");
            }
            let both = format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase());
            self.push(&both, true);
        } else {
            self.push(&regex::escape(&c.to_string()), true);
        }
        Ok(())
    }

    fn read_quantifier(&mut self, text: &str) -> Result<()> {
        if !self.has_atom {
            return other_meaning(&format!("the quantifier {text} after nothing"));
        }
        self.push(text, false);
        if self.rest.next_if_eq(&'?').is_some() {
            self.push("?", false);
        }
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,5}`.
    fn read_bound(&mut self) -> Result<String> {
        let mut bound = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => bound.push(c),
                _ => return other_meaning("a { without a number and }"),
            }
        }
        let number =
            |text: &str| text.parse::<u32>().ok().filter(|count| *count <= MAX_REPETITIONS);
        let is_valid = match bound.split_once(',') {
            None => number(&bound).is_some(),
            Some((least, "")) => number(least).is_some(),
            Some((least, most)) => {
                number(least).zip(number(most)).is_some_and(|(least, most)| least <= most)
            }
        };
        if is_valid { Ok(format!("{{{bound}}}")) } else { other_meaning(&format!("{{{bound}}}")) }
    }

    fn open_group(&mut self) -> Result<()> {
        if self.rest.next_if_eq(&'?').is_some() && self.rest.next() != Some(':') {
            return other_meaning("(?");
        }
        self.depth += 1;
        self.push("(?:", false);
        Ok(())
    }

    fn read_escape(&mut self) -> Result<String> {
        Ok(match self.rest.next() {
            Some('d') => format!("[{DIGIT}]"),
            Some('D') => format!("[^{DIGIT}]"),
            Some('s') => format!("[{SPACE}]"),
            Some('S') => format!("[^{SPACE}]"),
            Some('w') => WORD.to_owned(),
            Some('W') => "\\W".to_owned(),
            Some(c) => regex::escape(&escaped_char(c)?.to_string()),
            None => return other_meaning("a \\ at the end"),
        })
    }

    fn read_brackets(&mut self) -> Result<()> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut items = String::new();
        let mut has_class = false;
        let mut is_first = true;
        loop {
            match self.rest.next() {
                None => return other_meaning("a [ without ]"),
                Some(']') if !is_first => break,
                Some('[') if self.rest.peek().is_some_and(|c| ".=:".contains(*c)) => {
                    items.push_str(self.read_named_class()?);
                    has_class = true;
                }
                Some('\\') if self.rest.peek().is_some_and(|c| "dsw".contains(*c)) => {
                    let name = self.rest.next();
                    items.push_str(match name {
                        Some('d') => DIGIT,
                        Some('s') => SPACE,
                        _ => WORD,
                    });
                    has_class = true;
                }
                Some('-') if !is_first && self.rest.peek() != Some(&']') => {
                    return other_meaning("a - within [ ]");
                }
                Some(c) => self.read_range(c, &mut items)?,
            }
            is_first = false;
        }
        let negation = if is_negated { "^" } else { "" };
        if !self.ignore_case {
            self.push(&format!("[{negation}{items}]"), true);
        } else if is_negated || has_class || !items.is_ascii() {
            return other_meaning("(?i) with [^ ], classes or letters beyond ASCII");
        } else {
            self.push(&format!("(?i-u:[{items}])"), true);
        }
        Ok(())
    }

    /// One character, or a range of them.
    fn read_range(&mut self, first: char, items: &mut String) -> Result<()> {
        let first = self.bracket_char(first)?;
        items.push_str(&regex::escape(&first.to_string()));
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.peek(), Some(']') | None) {
            return Ok(());
        }
        self.rest.next();
        let last = match self.rest.next() {
            Some(c) if c != '[' => self.bracket_char(c)?,
            _ => return other_meaning("a range that ends with ["),
        };
        if last < first {
            return other_meaning(&format!("the range {first}-{last}"));
        }
        items.push('-');
        items.push_str(&regex::escape(&last.to_string()));
        Ok(())
    }

    fn bracket_char(&mut self, c: char) -> Result<char> {
        match c {
            '\\' => match self.rest.next() {
                Some(next) => escaped_char(next),
                None => other_meaning("a \\ at the end"),
            },
            c => Ok(c),
        }
    }

    /// `[:digit:]`, after its first bracket.
    fn read_named_class(&mut self) -> Result<&'static str> {
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != ']') {
            name.push(c);
        }
        self.rest.next();
        match name.as_str() {
            ":digit:" => Ok(DIGIT),
            ":space:" => Ok(SPACE),
            ":alpha:" => Ok("\\p{Alphabetic}"),
            ":alnum:" => Ok("\\p{Alphabetic}\\p{Nd}"),
            other => other_meaning(&format!("[{other}]")),
        }
    }
}

/// The character of an escape that is no class.
fn escaped_char(c: char) -> Result<char> {
    match c {
        't' => Ok('\t'),
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        c if c.is_ascii_punctuation() && c != '_' => Ok(c),
        c => Err(FilterFault::new(
            0,
            format!(
                "a regular expression that PostgreSQL reads as nodes do (\\{c} has another meaning there, or none)"
            ),
        )),
    }
}
