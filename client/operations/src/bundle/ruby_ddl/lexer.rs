//! Splits the text of a Ruby DDL into tokens with line numbers. `literals` reads texts and patterns.

use super::error::{RubyDdlError, RubyDdlProblem};
use super::literals::TextPart;

/// A token and its line.
#[derive(Debug, Clone)]
pub(super) struct RubyToken {
    pub(super) kind: RubyTokenKind,
    pub(super) line: usize,
}

/// The kinds of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RubyTokenKind {
    /// A name or keyword.
    Word(String),
    /// `name:` before a value.
    Label(String),
    /// `:name`.
    Symbol(String),
    /// A text, with insertions of variables.
    Text(Vec<TextPart>),
    /// `%w[a b]`, and `%i[a b]`, whose items are symbols.
    WordList(Vec<String>),
    Integer(i64),
    Float(f64),
    /// A regular expression.
    Pattern(String),
    /// `=>`.
    Arrow,
    /// One of `( ) [ ] { } , . + |`.
    Mark(char),
    /// A line break or `;`.
    LineEnd,
}

/// Position in the text.
pub(super) struct RubyLexer<'a> {
    pub(super) rest: &'a str,
    pub(super) line: usize,
    /// The text after the bodies of the heredocs of this line, and its line number.
    pub(super) after_heredocs: Option<(&'a str, usize)>,
}

/// All tokens of the text.
pub(super) fn split_tokens(text: &str) -> Result<Vec<RubyToken>, RubyDdlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = RubyLexer { rest: text, line: 1, after_heredocs: None };
    let mut tokens = Vec::new();
    lexer.skip_block_comments()?;
    while let Some(token) = lexer.next_token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

impl<'a> RubyLexer<'a> {
    pub(super) fn error<T>(&self, problem: RubyDdlProblem) -> Result<T, RubyDdlError> {
        Err(problem.at_line(self.line))
    }

    /// Consumes one character, and counts lines.
    pub(super) fn advance(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next()?;
        self.rest = characters.as_str();
        self.line += usize::from(character == '\n');
        Some(character)
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Consumes this text, which contains no line break.
    pub(super) fn accept(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes the characters that are accepted.
    pub(super) fn take_while(&mut self, is_accepted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !is_accepted(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn next_token(&mut self) -> Result<Option<RubyToken>, RubyDdlError> {
        self.skip_blanks();
        let line = self.line;
        let Some(first) = self.peek() else {
            return Ok(None);
        };
        if first == '\n' {
            self.end_line()?;
            return Ok(Some(RubyToken { kind: RubyTokenKind::LineEnd, line }));
        }
        let kind = match first {
            ';' => self.take_mark(RubyTokenKind::LineEnd),
            '"' | '\'' | '%' | '/' => self.read_quoted(first)?,
            ':' => self.read_symbol()?,
            '<' => self.read_heredoc()?,
            '=' if self.accept("=>") => RubyTokenKind::Arrow,
            '0'..='9' | '-' => self.read_number()?,
            '(' | ')' | '[' | ']' | '{' | '}' | ',' | '.' | '+' | '|' => {
                self.take_mark(RubyTokenKind::Mark(first))
            }
            _ if is_name_start(first) => self.read_word(),
            '=' if self.accept("==") => {
                return self.error(RubyDdlProblem::RubyCode("a comparison".to_owned()));
            }
            '=' => return self.error(RubyDdlProblem::RubyCode("an assignment".to_owned())),
            other => return self.error(RubyDdlProblem::Character(other)),
        };
        Ok(Some(RubyToken { kind, line }))
    }

    fn take_mark(&mut self, kind: RubyTokenKind) -> RubyTokenKind {
        self.advance();
        kind
    }

    /// Skips spaces, comments, and line breaks after a backslash.
    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|character| matches!(character, ' ' | '\t' | '\r'));
            if self.peek() == Some('#') {
                self.take_while(|character| character != '\n');
            } else if self.accept("\\\n") || self.accept("\\\r\n") {
                self.line += 1;
            } else {
                return;
            }
        }
    }

    fn end_line(&mut self) -> Result<(), RubyDdlError> {
        self.advance();
        if let Some((rest, line)) = self.after_heredocs.take() {
            (self.rest, self.line) = (rest, line);
        }
        self.skip_block_comments()
    }

    /// Skips `=begin` to `=end`, and everything after `__END__`, at the start of a line.
    fn skip_block_comments(&mut self) -> Result<(), RubyDdlError> {
        while self.rest.starts_with("=begin") {
            let Some(end) = self.rest.find("\n=end") else {
                return self.error(RubyDdlProblem::Unterminated("comment"));
            };
            let (comment, rest) = self.rest.split_at(end + 1);
            self.line += comment.matches('\n').count();
            self.rest = rest;
            self.take_while(|character| character != '\n');
            self.advance();
        }
        if self.rest.lines().next() == Some("__END__") {
            self.rest = "";
        }
        Ok(())
    }

    fn read_word(&mut self) -> RubyTokenKind {
        let mut word = self.take_while(is_name_part).to_owned();
        if self.rest.starts_with(['?', '!']) && !self.rest.starts_with("!=") {
            word.extend(self.advance());
        }
        if self.rest.starts_with(':') && !self.rest.starts_with("::") {
            self.advance();
            return RubyTokenKind::Label(word);
        }
        RubyTokenKind::Word(word)
    }

    fn read_symbol(&mut self) -> Result<RubyTokenKind, RubyDdlError> {
        if self.rest.starts_with("::") {
            return self.error(RubyDdlProblem::RubyCode("a constant".to_owned()));
        }
        self.advance();
        match self.peek() {
            Some(quote @ ('"' | '\'')) => match self.read_quoted(quote)? {
                RubyTokenKind::Text(parts) => match parts.as_slice() {
                    [] => Ok(RubyTokenKind::Symbol(String::new())),
                    [TextPart::Literal(name)] => Ok(RubyTokenKind::Symbol(name.clone())),
                    _ => self.error(RubyDdlProblem::RubyCode("a symbol with `#{`".to_owned())),
                },
                // `"name":` would be a label, which follows no colon.
                _ => self.error(RubyDdlProblem::Character(quote)),
            },
            Some(first) if is_name_start(first) => {
                let mut name = self.take_while(is_name_part).to_owned();
                if self.rest.starts_with(['?', '!']) {
                    name.extend(self.advance());
                }
                Ok(RubyTokenKind::Symbol(name))
            }
            _ => self.error(RubyDdlProblem::Character(':')),
        }
    }

    fn read_number(&mut self) -> Result<RubyTokenKind, RubyDdlError> {
        let start = self.rest;
        self.accept("-");
        let is_digit = |character: char| character.is_ascii_digit() || character == '_';
        self.take_while(is_digit);
        let mut has_fraction = false;
        if let Some(fraction) = self.rest.strip_prefix('.')
            && fraction.starts_with(|character: char| character.is_ascii_digit())
        {
            has_fraction = true;
            self.rest = fraction;
            self.take_while(is_digit);
        }
        let text = start.get(..start.len() - self.rest.len()).unwrap_or_default().replace('_', "");
        let number = if has_fraction {
            text.parse().ok().map(RubyTokenKind::Float)
        } else {
            text.parse().ok().map(RubyTokenKind::Integer)
        };
        let is_complete = !self.rest.starts_with(is_name_part);
        number.filter(|_| is_complete).map_or_else(
            || {
                let found = format!("`{}`", super::error::shorten_text(&text));
                self.error(RubyDdlProblem::Unexpected { expected: "a decimal number", found })
            },
            Ok,
        )
    }
}

pub(super) fn is_name_start(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_'
}

pub(super) fn is_name_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
