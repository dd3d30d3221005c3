//! Parses tokens: `not` binds tighter than `and`, and `and` tighter than `or`.
//!
//! ```text
//! expression = all { or all }                    or  = "or"  | "||"
//! all        = one { and one }                   and = "and" | "&&"
//! one        = not one | "(" expression ")" | statement
//! statement  = value [ operator right | [ "not" ] "in" ( list | value ) ]
//! right      = value | "(" value ")"
//! list       = "[" value { "," value } "]"
//! value      = word | "text" | /regex/ | word "(" [ value { "," value } ] ")" [ ".field" ]
//! ```
//!
//! [`check`](super::check) interprets the values and checks that they fit together.

use std::iter::Peekable;
use std::vec;

use super::ast::{
    CallField, ComparisonOperator, FunctionCall, SelectStatement, SelectValue, SelectValueKind,
    StatementTree,
};
use super::lex::{SelectToken, SelectTokenKind, tokenize_select};
use crate::boolean_tree::{BooleanTree, Connective};
use crate::error::{FilterFault, Result, expected_at};
use crate::limits::MAX_SELECT_DEPTH;

/// Parses an expression.
pub(super) fn parse_select(text: &str) -> Result<StatementTree> {
    let mut parser = SelectParser {
        tokens: tokenize_select(text)?.into_iter().peekable(),
        end: text.len(),
        depth: 0,
    };
    let tree = parser.parse_or()?;
    match parser.tokens.peek() {
        None => Ok(tree),
        Some(token) => expected_at(token.at, "and, or, or the end"),
    }
}

pub(super) fn too_deep(at: usize) -> FilterFault {
    let expected = format!("an expression nested at most {MAX_SELECT_DEPTH} levels deep");
    FilterFault::new(at, expected)
}

struct SelectParser {
    tokens: Peekable<vec::IntoIter<SelectToken>>,
    /// The length of the text.
    end: usize,
    depth: usize,
}

impl SelectParser {
    fn parse_or(&mut self) -> Result<StatementTree> {
        self.parse_joined(Connective::Or, &SelectTokenKind::Or, Self::parse_and)
    }

    fn parse_and(&mut self) -> Result<StatementTree> {
        self.parse_joined(Connective::And, &SelectTokenKind::And, Self::parse_unary)
    }

    /// One or more elements, separated by the token of the connective.
    fn parse_joined(
        &mut self,
        connective: Connective,
        separator: &SelectTokenKind,
        parse_element: fn(&mut Self) -> Result<StatementTree>,
    ) -> Result<StatementTree> {
        let mut elements = vec![parse_element(self)?];
        while self.accept_token(separator) {
            elements.push(parse_element(self)?);
        }
        Ok(BooleanTree::join_list(connective, elements))
    }

    fn parse_unary(&mut self) -> Result<StatementTree> {
        let at = self.next_offset();
        if self.accept_token(&SelectTokenKind::Not) {
            return self.parse_nested(at, Self::parse_unary).map(BooleanTree::negate_tree);
        }
        if self.accept_token(&SelectTokenKind::Open) {
            let tree = self.parse_nested(at, Self::parse_or)?;
            self.expect_token(&SelectTokenKind::Close, "and, or, or a closing parenthesis")?;
            return Ok(tree);
        }
        self.parse_statement().map(BooleanTree::Term)
    }

    fn parse_statement(&mut self) -> Result<SelectStatement> {
        let expected =
            "a condition: a class, a fact such as country=uk, not, or an opening parenthesis";
        let left = self.parse_value(expected)?;
        let comparison = match self.parse_comparison()? {
            None => None,
            Some(operator @ ComparisonOperator::Operator(_)) => {
                Some((operator, self.parse_right_operand()?))
            }
            Some(membership) => Some((membership, self.parse_members()?)),
        };
        let end = self.next_offset();
        Ok(SelectStatement { left, comparison, end })
    }

    fn parse_comparison(&mut self) -> Result<Option<ComparisonOperator>> {
        let found = match self.tokens.peek().map(|token| &token.kind) {
            Some(&SelectTokenKind::Compare(operator)) => ComparisonOperator::Operator(operator),
            Some(SelectTokenKind::In) => ComparisonOperator::In,
            Some(SelectTokenKind::Not) => {
                self.tokens.next();
                self.expect_token(&SelectTokenKind::In, "`in` after not, or `and` before it")?;
                return Ok(Some(ComparisonOperator::NotIn));
            }
            _ => return Ok(None),
        };
        self.tokens.next();
        Ok(Some(found))
    }

    /// The right operand. Parentheses are accepted because Choria's own examples write `matches('x')`.
    fn parse_right_operand(&mut self) -> Result<SelectValue> {
        let expected = "a value after the operator (in quotes, if it is a keyword)";
        let at = self.next_offset();
        if self.accept_token(&SelectTokenKind::OpenList) {
            return expected_at(at, "one value (`in` takes a list)");
        }
        if !self.accept_token(&SelectTokenKind::Open) {
            return self.parse_value(expected);
        }
        let value = self.parse_value(expected)?;
        self.expect_token(&SelectTokenKind::Close, "a closing parenthesis after the value")?;
        Ok(value)
    }

    /// The right side of `in`.
    fn parse_members(&mut self) -> Result<SelectValue> {
        let at = self.next_offset();
        if !self.accept_token(&SelectTokenKind::OpenList) {
            return self.parse_value("a list such as [\"uk\", \"de\"], a fact, classes or agents");
        }
        let items =
            self.parse_values(&SelectTokenKind::CloseList, "a comma or ] after the value")?;
        let kind = SelectValueKind::List(items);
        Ok(SelectValue { at, kind })
    }

    /// Comma-separated values up to the given end token; possibly none.
    fn parse_values(
        &mut self,
        end: &SelectTokenKind,
        expected: &'static str,
    ) -> Result<Vec<SelectValue>> {
        let mut values = Vec::new();
        if self.accept_token(end) {
            return Ok(values);
        }
        loop {
            values.push(self.parse_value("a value")?);
            if !self.accept_token(&SelectTokenKind::Comma) {
                self.expect_token(end, expected)?;
                return Ok(values);
            }
        }
    }

    fn parse_value(&mut self, expected: &'static str) -> Result<SelectValue> {
        let end = self.end;
        let found = self.tokens.next_if(|token| {
            matches!(
                token.kind,
                SelectTokenKind::Word(_) | SelectTokenKind::Text(_) | SelectTokenKind::Regex(_)
            )
        });
        let Some(SelectToken { at, kind }) = found else {
            let at = self.tokens.peek().map_or(end, |token| token.at);
            return expected_at(at, expected);
        };
        let kind = match kind {
            SelectTokenKind::Text(text) => SelectValueKind::Text(text),
            SelectTokenKind::Regex(regex) => SelectValueKind::Regex(regex),
            SelectTokenKind::Word(word) if self.accept_token(&SelectTokenKind::Open) => {
                SelectValueKind::Call(self.parse_nested(at, |parser| parser.parse_call(word))?)
            }
            SelectTokenKind::Word(word) => SelectValueKind::Word(word),
            _ => return expected_at(at, expected),
        };
        Ok(SelectValue { at, kind })
    }

    /// A call, after its opening parenthesis.
    fn parse_call(&mut self, source: String) -> Result<FunctionCall> {
        let arguments =
            self.parse_values(&SelectTokenKind::Close, "a comma or a closing parenthesis")?;
        let field = self.tokens.next_if(
            |token| matches!(&token.kind, SelectTokenKind::Word(word) if word.starts_with('.')),
        );
        let field = field.and_then(|token| match token.kind {
            SelectTokenKind::Word(word) => word
                .strip_prefix('.')
                .map(|name| CallField { at: token.at + 1, name: name.to_owned() }),
            _ => None,
        });
        Ok(FunctionCall { source, arguments, field })
    }

    fn parse_nested<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.depth == MAX_SELECT_DEPTH {
            return Err(too_deep(at));
        }
        self.depth += 1;
        let found = parse(self)?;
        self.depth -= 1;
        Ok(found)
    }

    fn accept_token(&mut self, kind: &SelectTokenKind) -> bool {
        self.tokens.next_if(|token| token.kind == *kind).is_some()
    }

    fn expect_token(&mut self, kind: &SelectTokenKind, expected: &'static str) -> Result<()> {
        if self.accept_token(kind) {
            return Ok(());
        }
        expected_at(self.next_offset(), expected)
    }

    /// Byte offset of the next token.
    fn next_offset(&mut self) -> usize {
        self.tokens.peek().map_or(self.end, |token| token.at)
    }
}
