//! Parses tokens into calls with arguments and blocks, and loops over lists. Evaluates nothing.

use std::iter::Peekable;
use std::vec;

use super::error::{MAX_NESTING, RubyDdlError, RubyDdlProblem, shorten_text};
use super::lexer::{RubyToken, RubyTokenKind};
use super::literals::TextPart;

/// Keywords and methods that would have to be run.
const CODE_WORDS: [&str; 24] = [
    "begin",
    "case",
    "class",
    "def",
    "eval",
    "for",
    "if",
    "include",
    "instance_eval",
    "lambda",
    "load",
    "module",
    "proc",
    "puts",
    "raise",
    "require",
    "rescue",
    "return",
    "system",
    "then",
    "unless",
    "until",
    "while",
    "yield",
];

/// A statement of a DDL.
#[derive(Debug)]
pub(super) enum RubyStatement {
    /// `name arguments do ... end`.
    Call(RubyCall),
    /// `list.each do |variable| ... end`.
    Loop { line: usize, list: RubyExpression, variable: String, body: Vec<RubyStatement> },
}

/// A call with its arguments.
#[derive(Debug)]
pub(super) struct RubyCall {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) arguments: RubyArguments,
    /// The statements of its block; empty if it has none.
    pub(super) body: Vec<RubyStatement>,
}

/// Arguments of a call: values, and then pairs.
#[derive(Debug, Default)]
pub(super) struct RubyArguments {
    pub(super) values: Vec<RubyExpression>,
    pub(super) pairs: Vec<(RubyExpression, RubyExpression)>,
}

/// A value that may contain variables.
#[derive(Debug)]
pub(super) enum RubyExpression {
    Text(Vec<TextPart>),
    Symbol(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Nil,
    Pattern(String),
    List(Vec<RubyExpression>),
    Hash(Vec<(RubyExpression, RubyExpression)>),
    /// Texts that are joined by `+`, or that follow each other.
    Joined(Vec<RubyExpression>),
    Variable {
        line: usize,
        name: String,
    },
    Method {
        line: usize,
        receiver: Box<RubyExpression>,
        name: String,
    },
    Call {
        name: String,
        arguments: RubyArguments,
    },
}

type Result<T> = std::result::Result<T, RubyDdlError>;

/// Parses a whole file.
pub(super) fn parse_statements(tokens: Vec<RubyToken>) -> Result<Vec<RubyStatement>> {
    let line = tokens.last().map_or(1, |token| token.line);
    let mut parser = RubyParser { tokens: tokens.into_iter().peekable(), line, depth: 0 };
    let statements = parser.parse_body()?;
    match parser.tokens.next() {
        None => Ok(statements),
        Some(token) => Err(unexpected("the begin of a definition", Some(&token.kind), token.line)),
    }
}

pub(super) struct RubyParser {
    tokens: Peekable<vec::IntoIter<RubyToken>>,
    /// The line of the last token.
    pub(super) line: usize,
    depth: usize,
}

impl RubyParser {
    pub(super) fn peek(&mut self) -> Option<&RubyTokenKind> {
        self.tokens.peek().map(|token| &token.kind)
    }

    pub(super) fn next(&mut self) -> Option<RubyToken> {
        let token = self.tokens.next()?;
        self.line = token.line;
        Some(token)
    }

    pub(super) fn accept(&mut self, kind: &RubyTokenKind) -> bool {
        let is_next = self.peek() == Some(kind);
        if is_next {
            self.next();
        }
        is_next
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(RubyTokenKind::Word(next)) if next == word);
        if is_next {
            self.next();
        }
        is_next
    }

    pub(super) fn expect(&mut self, mark: char, expected: &'static str) -> Result<()> {
        if self.accept(&RubyTokenKind::Mark(mark)) { Ok(()) } else { self.refuse(expected) }
    }

    pub(super) fn skip_line_ends(&mut self) {
        while self.accept(&RubyTokenKind::LineEnd) {}
    }

    pub(super) fn refuse<T>(&mut self, expected: &'static str) -> Result<T> {
        let line = self.tokens.peek().map_or(self.line, |token| token.line);
        Err(unexpected(expected, self.peek(), line))
    }

    /// Refuses one level more than there are.
    pub(super) fn check_nesting(&self, levels: usize) -> Result<()> {
        if levels < MAX_NESTING { Ok(()) } else { Err(RubyDdlProblem::TooDeep.at_line(self.line)) }
    }

    /// Runs a parser one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_nesting(self.depth)?;
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Statements up to `end`, `}` or the end of the file, which is not consumed.
    fn parse_body(&mut self) -> Result<Vec<RubyStatement>> {
        let mut statements = Vec::new();
        loop {
            self.skip_line_ends();
            match self.peek() {
                None | Some(RubyTokenKind::Mark('}')) => return Ok(statements),
                Some(RubyTokenKind::Word(word)) if word == "end" => return Ok(statements),
                Some(_) => statements.push(self.nested(Self::parse_statement)?),
            }
            if !matches!(
                self.peek(),
                None | Some(RubyTokenKind::LineEnd | RubyTokenKind::Mark('}'))
            ) && !matches!(self.peek(), Some(RubyTokenKind::Word(word)) if word == "end")
            {
                return self.refuse("the end of the line");
            }
        }
    }

    fn parse_statement(&mut self) -> Result<RubyStatement> {
        match self.peek() {
            Some(RubyTokenKind::Word(_)) => self.parse_call().map(RubyStatement::Call),
            Some(RubyTokenKind::Mark('[') | RubyTokenKind::WordList(_)) => self.parse_loop(),
            _ => self.refuse("a definition such as `action`, or a list with `each`"),
        }
    }

    fn parse_call(&mut self) -> Result<RubyCall> {
        let Some(RubyToken { kind: RubyTokenKind::Word(name), line }) = self.next() else {
            return self.refuse("a definition");
        };
        if is_code(&name) || self.peek() == Some(&RubyTokenKind::Mark('.')) {
            let code = format!("`{}`", shorten_text(&name));
            return Err(RubyDdlProblem::RubyCode(code).at_line(line));
        }
        let arguments = self.parse_arguments()?;
        if let Some(RubyTokenKind::Word(word)) = self.peek()
            && is_code(word)
        {
            let code = format!("`{}`", shorten_text(word));
            return Err(RubyDdlProblem::RubyCode(code).at_line(self.line));
        }
        let body = if self.accept_word("do") { self.parse_block_end("end")? } else { Vec::new() };
        Ok(RubyCall { line, name, arguments, body })
    }

    /// The statements of a block, and its end.
    fn parse_block_end(&mut self, end: &str) -> Result<Vec<RubyStatement>> {
        let line = self.line;
        let body = self.parse_body()?;
        let is_ended = if end == "end" {
            self.accept_word("end")
        } else {
            self.accept(&RubyTokenKind::Mark('}'))
        };
        if is_ended { Ok(body) } else { Err(RubyDdlProblem::Unterminated("block").at_line(line)) }
    }

    /// `list.each do |variable| ... end`, or with braces.
    fn parse_loop(&mut self) -> Result<RubyStatement> {
        let line = self.tokens.peek().map_or(self.line, |token| token.line);
        let list = self.parse_primary()?;
        self.expect('.', "`.each` after the list")?;
        if !self.accept_word("each") {
            return self.refuse("`each`, the only method of a list that is understood");
        }
        let has_braces = self.accept(&RubyTokenKind::Mark('{'));
        if !has_braces && !self.accept_word("do") {
            return self.refuse("`do`");
        }
        self.expect('|', "`|variable|`")?;
        let variable = match self.next().map(|token| token.kind) {
            Some(RubyTokenKind::Word(name)) => name,
            other => return Err(unexpected("a variable", other.as_ref(), self.line)),
        };
        self.expect('|', "`|` after one variable")?;
        let body = self.parse_block_end(if has_braces { "}" } else { "end" })?;
        Ok(RubyStatement::Loop { line, list, variable, body })
    }
}

pub(super) fn is_code(word: &str) -> bool {
    CODE_WORDS.contains(&word)
}

pub(super) fn unexpected(
    expected: &'static str,
    found: Option<&RubyTokenKind>,
    line: usize,
) -> RubyDdlError {
    let found = found.map_or_else(|| "the end of the file".to_owned(), describe_token);
    RubyDdlProblem::Unexpected { expected, found }.at_line(line)
}

fn describe_token(kind: &RubyTokenKind) -> String {
    match kind {
        RubyTokenKind::Word(word) => format!("`{}`", shorten_text(word)),
        RubyTokenKind::Label(word) => format!("`{}:`", shorten_text(word)),
        RubyTokenKind::Symbol(name) => format!("`:{}`", shorten_text(name)),
        RubyTokenKind::Text(_) => "a text".to_owned(),
        RubyTokenKind::WordList(_) => "a list of words".to_owned(),
        RubyTokenKind::Integer(number) => format!("`{number}`"),
        RubyTokenKind::Float(number) => format!("`{number}`"),
        RubyTokenKind::Pattern(_) => "a pattern".to_owned(),
        RubyTokenKind::Arrow => "`=>`".to_owned(),
        RubyTokenKind::Mark(mark) => format!("`{mark}`"),
        RubyTokenKind::LineEnd => "the end of the line".to_owned(),
    }
}
