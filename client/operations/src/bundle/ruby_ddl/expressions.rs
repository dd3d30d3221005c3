//! Parses the arguments of calls: literals, lists, hashes, and calls inside arguments.

use super::error::RubyDdlError;
use super::lexer::{RubyToken, RubyTokenKind};
use super::literals::TextPart;
use super::parser::{RubyArguments, RubyExpression, RubyParser, is_code, unexpected};

type Result<T> = std::result::Result<T, RubyDdlError>;

impl RubyParser {
    /// Arguments up to the end of the line or a block, with or without parentheses.
    pub(super) fn parse_arguments(&mut self) -> Result<RubyArguments> {
        if self.accept(&RubyTokenKind::Mark('(')) {
            let mut arguments = RubyArguments::default();
            self.skip_line_ends();
            while !self.accept(&RubyTokenKind::Mark(')')) {
                self.parse_argument(&mut arguments)?;
                self.skip_line_ends();
                if !self.accept(&RubyTokenKind::Mark(',')) {
                    self.expect(')', "`,` or `)`")?;
                    break;
                }
                self.skip_line_ends();
            }
            return Ok(arguments);
        }
        let mut arguments = RubyArguments::default();
        if self.is_before_value() {
            self.parse_argument(&mut arguments)?;
            while self.accept(&RubyTokenKind::Mark(',')) {
                self.skip_line_ends();
                self.parse_argument(&mut arguments)?;
            }
        }
        Ok(arguments)
    }

    fn is_before_value(&mut self) -> bool {
        match self.peek() {
            Some(RubyTokenKind::Word(word)) => word != "do" && word != "end" && !is_code(word),
            Some(RubyTokenKind::Mark(mark)) => matches!(mark, '[' | '{'),
            Some(RubyTokenKind::LineEnd | RubyTokenKind::Arrow) | None => false,
            Some(_) => true,
        }
    }

    /// A value, or a pair.
    fn parse_argument(&mut self, arguments: &mut RubyArguments) -> Result<()> {
        if let Some(pair) = self.parse_label_pair()? {
            arguments.pairs.push(pair);
            return Ok(());
        }
        let value = self.nested(Self::parse_expression)?;
        if self.accept(&RubyTokenKind::Arrow) {
            self.skip_line_ends();
            arguments.pairs.push((value, self.nested(Self::parse_expression)?));
        } else if arguments.pairs.is_empty() {
            arguments.values.push(value);
        } else {
            return self.refuse("`=>` after the key");
        }
        Ok(())
    }

    /// `name: value`.
    fn parse_label_pair(&mut self) -> Result<Option<(RubyExpression, RubyExpression)>> {
        let Some(RubyTokenKind::Label(name)) = self.peek() else {
            return Ok(None);
        };
        let key = RubyExpression::Symbol(name.clone());
        self.next();
        self.skip_line_ends();
        Ok(Some((key, self.nested(Self::parse_expression)?)))
    }

    /// A value, with the methods that are called on it, and what is joined to it.
    fn parse_expression(&mut self) -> Result<RubyExpression> {
        let mut parts = vec![self.parse_receiver()?];
        loop {
            if self.accept(&RubyTokenKind::Mark('+')) {
                self.skip_line_ends();
            } else if !matches!(self.peek(), Some(RubyTokenKind::Text(_))) {
                break;
            }
            parts.push(self.parse_receiver()?);
        }
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                parts.extend(last);
                Ok(RubyExpression::Joined(parts))
            }
        }
    }

    fn parse_receiver(&mut self) -> Result<RubyExpression> {
        let mut value = self.parse_primary()?;
        let mut method_count = 0;
        while self.accept(&RubyTokenKind::Mark('.')) {
            self.check_nesting(method_count)?;
            method_count += 1;
            match self.next() {
                Some(RubyToken { kind: RubyTokenKind::Word(name), line }) => {
                    value = RubyExpression::Method { line, receiver: Box::new(value), name };
                }
                other => {
                    let other = other.map(|token| token.kind);
                    return Err(unexpected("a method", other.as_ref(), self.line));
                }
            }
        }
        Ok(value)
    }

    pub(super) fn parse_primary(&mut self) -> Result<RubyExpression> {
        let expected = "a text, symbol, number, list or hash";
        if !self.is_before_value() && self.peek() != Some(&RubyTokenKind::Mark('(')) {
            return self.refuse(expected);
        }
        let Some(RubyToken { kind, line }) = self.next() else {
            return self.refuse(expected);
        };
        Ok(match kind {
            RubyTokenKind::Text(parts) => RubyExpression::Text(parts),
            RubyTokenKind::Symbol(name) => RubyExpression::Symbol(name),
            RubyTokenKind::Integer(number) => RubyExpression::Integer(number),
            RubyTokenKind::Float(number) => RubyExpression::Float(number),
            RubyTokenKind::Pattern(pattern) => RubyExpression::Pattern(pattern),
            RubyTokenKind::WordList(words) => {
                let text = |word| RubyExpression::Text(vec![TextPart::Literal(word)]);
                RubyExpression::List(words.into_iter().map(text).collect())
            }
            RubyTokenKind::Mark('[') => {
                let items =
                    self.nested(|parser| parser.parse_items(']', Self::parse_expression))?;
                RubyExpression::List(items)
            }
            RubyTokenKind::Mark('{') => {
                let items = self.nested(|parser| parser.parse_items('}', Self::parse_pair))?;
                RubyExpression::Hash(items)
            }
            RubyTokenKind::Mark('(') => {
                let value = self.nested(Self::parse_expression)?;
                self.expect(')', "`)`")?;
                value
            }
            RubyTokenKind::Word(word) => match word.as_str() {
                "true" => RubyExpression::Boolean(true),
                "false" => RubyExpression::Boolean(false),
                "nil" => RubyExpression::Nil,
                _ => return self.parse_named(line, word),
            },
            other => return Err(unexpected(expected, Some(&other), line)),
        })
    }

    /// A variable, or a call inside an argument, such as `summary(:status)`.
    fn parse_named(&mut self, line: usize, name: String) -> Result<RubyExpression> {
        match self.peek() {
            Some(RubyTokenKind::Mark('(') | RubyTokenKind::Symbol(_)) => {
                let arguments = self.nested(Self::parse_arguments)?;
                Ok(RubyExpression::Call { name, arguments })
            }
            _ => Ok(RubyExpression::Variable { line, name }),
        }
    }

    /// Items separated by commas up to this mark; a comma before it is permitted.
    fn parse_items<T>(
        &mut self,
        closing: char,
        parse: impl Fn(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        self.skip_line_ends();
        while !self.accept(&RubyTokenKind::Mark(closing)) {
            items.push(parse(self)?);
            self.skip_line_ends();
            if !self.accept(&RubyTokenKind::Mark(',')) {
                self.expect(closing, "`,` or the end of the list")?;
                break;
            }
            self.skip_line_ends();
        }
        Ok(items)
    }

    fn parse_pair(&mut self) -> Result<(RubyExpression, RubyExpression)> {
        if let Some(pair) = self.parse_label_pair()? {
            return Ok(pair);
        }
        let key = self.nested(Self::parse_expression)?;
        if !self.accept(&RubyTokenKind::Arrow) {
            return self.refuse("`=>` after the key");
        }
        self.skip_line_ends();
        Ok((key, self.nested(Self::parse_expression)?))
    }
}
