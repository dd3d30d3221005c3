//! Reads the tokens of relaxed JSON: white space and comments, quoted texts, bare words, keys and regular expressions.

use crate::error::{FilterFault, Result, expected_at};

/// A position in the text of a query.
#[derive(Clone, Copy)]
pub(super) struct TextScanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> TextScanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The byte offset of the next character.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// What was consumed since an earlier position.
    pub(super) fn text_since(&self, before: &Self) -> &'a str {
        self.text.get(before.at..self.at).unwrap_or_default()
    }

    /// The next character, which is not consumed.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes the next character.
    pub(super) fn next_char(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Consumes this character if it is the next one.
    pub(super) fn take_char(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Consumes this word if it is the next one, and not the beginning of a longer one.
    pub(super) fn take_word(&mut self, wanted: &str) -> bool {
        let found = self
            .rest()
            .strip_prefix(wanted)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        if found {
            self.at += wanted.len();
        }
        found
    }

    /// Skips white space, `// comments` and `/* comments */`.
    pub(super) fn skip_blank(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let rest = self.rest();
            if let Some(comment) = rest.strip_prefix("//") {
                self.at += 2 + comment.find('\n').unwrap_or(comment.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return expected_at(self.text.len(), "*/ at the end of the comment");
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// The characters while they are accepted.
    pub(super) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// A text in single or double quotes. Both kinds have the escapes of JSON, and `\'`.
    pub(super) fn read_quoted(&mut self) -> Result<String> {
        let start = self.at;
        let quote = self.next_char();
        let mut content = String::new();
        loop {
            let at = self.at;
            match self.next_char() {
                None => {
                    return expected_at(
                        self.text.len(),
                        format!("the closing quote of the text that begins at byte {}", start + 1),
                    );
                }
                found if found == quote => return Ok(content),
                Some('\\') => content.push(self.read_escape(at)?),
                Some(c) if c.is_control() => {
                    return expected_at(at, "an escape such as \\n instead of a control character");
                }
                Some(c) => content.push(c),
            }
        }
    }

    /// The character after a backslash at `at`.
    fn read_escape(&mut self, at: usize) -> Result<char> {
        Ok(match self.next_char() {
            Some(c @ ('"' | '\'' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.read_unicode_escape(at),
            _ => {
                return expected_at(
                    at,
                    "an escape of JSON (write \\\\ for a backslash, or a regular expression as /\\d+/)",
                );
            }
        })
    }

    /// `\u00e9`, or a pair of surrogates.
    fn read_unicode_escape(&mut self, at: usize) -> Result<char> {
        let high = self.read_hex_digits(at)?;
        let code = if (0xd800..0xdc00).contains(&high) && self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.read_hex_digits(at)?;
            let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400);
            low.map(|low| 0x1_0000 + ((high - 0xd800) << 10) + low)
        } else {
            Some(high)
        };
        code.and_then(char::from_u32)
            .ok_or_else(|| FilterFault::new(at, "an escape of a valid character"))
    }

    fn read_hex_digits(&mut self, at: usize) -> Result<u32> {
        let digits =
            self.rest().get(..4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or_else(|| FilterFault::new(at, "four hexadecimal digits after \\u"))
    }

    /// A key without quotes: `facts.os.family`, `facts."a.b".c`, `$and`. `::` is a part of a key, one colon is not.
    pub(super) fn read_bare_key(&mut self) -> Result<String> {
        let start = self.at;
        while let Some(c) = self.peek() {
            let rest = self.rest();
            if c.is_alphanumeric() || matches!(c, '_' | '$' | '-') {
                self.at += c.len_utf8();
            } else if rest.starts_with("::") {
                self.at += 2;
            } else if c == '.' {
                self.at += 1;
                if let Some(quote) = self.peek().filter(|c| matches!(c, '"' | '\'')) {
                    self.skip_quoted_segment(quote)?;
                }
            } else {
                break;
            }
        }
        Ok(self.text.get(start..self.at).unwrap_or_default().to_owned())
    }

    /// A quoted segment of a path, which has no escapes.
    fn skip_quoted_segment(&mut self, quote: char) -> Result<()> {
        let at = self.at;
        let body = self.rest().get(1..).unwrap_or_default();
        let Some(end) = body.find(quote) else {
            return expected_at(at, "a closing quote of this part of the key");
        };
        self.at += end + 2;
        Ok(())
    }

    /// `/source/flags`: the source without escapes of slashes, and the flags. A slash in brackets needs no escape.
    pub(super) fn read_regex(&mut self) -> Result<(String, &'a str)> {
        self.at += 1;
        let mut source = String::new();
        let mut in_brackets = false;
        loop {
            match self.next_char() {
                Some('/') if !in_brackets => break,
                Some('\\') => match self.next_char() {
                    Some('/') => source.push('/'),
                    Some(c) => source.extend(['\\', c]),
                    None => {}
                },
                Some(c) => {
                    in_brackets = c == '[' || (in_brackets && c != ']');
                    source.push(c);
                }
                None => {
                    return expected_at(
                        self.text.len(),
                        "a closing / after the regular expression",
                    );
                }
            }
        }
        Ok((source, self.take_while(char::is_alphanumeric)))
    }
}
