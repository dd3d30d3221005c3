//! Puts tokens in order: `not` binds before `and`, and `and` before `or`.
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
//! What the values mean, and whether they fit together, is told by [`check`](super::check).

use std::iter::Peekable;
use std::vec;

use super::MAX_SELECT_DEPTH;
use super::ast::{Call, Comparison, Field, Statement, Tree, Value, ValueKind};
use super::lex::{Kind, Token, lex};
use crate::filter::error::Fault;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Tree<Statement>, Fault> {
    let mut parser = Parser {
        tokens: lex(text)?.into_iter().peekable(),
        end: text.len(),
        depth: 0,
    };
    let tree = parser.any()?;
    match parser.tokens.peek() {
        None => Ok(tree),
        Some(token) => Err(Fault::new(token.at, "and, or, or the end")),
    }
}

pub(super) fn too_deep(at: usize) -> Fault {
    let expected = format!("an expression nested at most {MAX_SELECT_DEPTH} levels deep");
    Fault::new(at, expected)
}

struct Parser {
    tokens: Peekable<vec::IntoIter<Token>>,
    /// The length of the text.
    end: usize,
    depth: usize,
}

impl Parser {
    fn any(&mut self) -> Result<Tree<Statement>, Fault> {
        let first = self.all()?;
        let mut others = Vec::new();
        while self.accept(&Kind::Or) {
            others.push(self.all()?);
        }
        Ok(Tree::any(first, others))
    }

    fn all(&mut self) -> Result<Tree<Statement>, Fault> {
        let first = self.one()?;
        let mut others = Vec::new();
        while self.accept(&Kind::And) {
            others.push(self.one()?);
        }
        Ok(Tree::all(first, others))
    }

    fn one(&mut self) -> Result<Tree<Statement>, Fault> {
        let at = self.at();
        if self.accept(&Kind::Not) {
            return self.deeper(at, Self::one).map(Tree::not);
        }
        if self.accept(&Kind::Open) {
            let tree = self.deeper(at, Self::any)?;
            self.demand(&Kind::Close, "and, or, or a closing parenthesis")?;
            return Ok(tree);
        }
        self.statement().map(Tree::Term)
    }

    fn statement(&mut self) -> Result<Statement, Fault> {
        let expected =
            "a condition: a class, a fact such as country=uk, not, or an opening parenthesis";
        let left = self.value(expected)?;
        let comparison = match self.comparison()? {
            None => None,
            Some(Comparison::Operator(operator)) => {
                Some((Comparison::Operator(operator), self.right()?))
            }
            Some(membership) => Some((membership, self.members()?)),
        };
        let end = self.at();
        Ok(Statement {
            left,
            comparison,
            end,
        })
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, Fault> {
        let found = match self.tokens.peek().map(|token| &token.kind) {
            Some(&Kind::Compare(operator)) => Comparison::Operator(operator),
            Some(Kind::In) => Comparison::In,
            Some(Kind::Not) => {
                self.tokens.next();
                self.demand(&Kind::In, "`in` after not, or `and` before it")?;
                return Ok(Some(Comparison::NotIn));
            }
            _ => return Ok(None),
        };
        self.tokens.next();
        Ok(Some(found))
    }

    /// What stands after an operator. Choria's own examples write `matches('x')`.
    fn right(&mut self) -> Result<Value, Fault> {
        let expected = "a value after the operator (in quotes, if it is a word of the language)";
        let at = self.at();
        if self.accept(&Kind::OpenList) {
            return Err(Fault::new(at, "one value (`in` takes a list)"));
        }
        if !self.accept(&Kind::Open) {
            return self.value(expected);
        }
        let value = self.value(expected)?;
        self.demand(&Kind::Close, "a closing parenthesis after the value")?;
        Ok(value)
    }

    /// What stands after `in`.
    fn members(&mut self) -> Result<Value, Fault> {
        let at = self.at();
        if !self.accept(&Kind::OpenList) {
            return self.value("a list such as [\"uk\", \"de\"], a fact, classes or agents");
        }
        let items = self.values(&Kind::CloseList, "a comma or ] after the value")?;
        let kind = ValueKind::List(items);
        Ok(Value { at, kind })
    }

    /// Values and commas up to the end that is given; none if it comes at once.
    fn values(&mut self, end: &Kind, expected: &'static str) -> Result<Vec<Value>, Fault> {
        let mut values = Vec::new();
        if self.accept(end) {
            return Ok(values);
        }
        loop {
            values.push(self.value("a value")?);
            if !self.accept(&Kind::Comma) {
                self.demand(end, expected)?;
                return Ok(values);
            }
        }
    }

    fn value(&mut self, expected: &'static str) -> Result<Value, Fault> {
        let end = self.end;
        let found = self
            .tokens
            .next_if(|token| matches!(token.kind, Kind::Word(_) | Kind::Text(_) | Kind::Regex(_)));
        let Some(Token { at, kind }) = found else {
            let at = self.tokens.peek().map_or(end, |token| token.at);
            return Err(Fault::new(at, expected));
        };
        let kind = match kind {
            Kind::Text(text) => ValueKind::Text(text),
            Kind::Regex(regex) => ValueKind::Regex(regex),
            Kind::Word(word) if self.accept(&Kind::Open) => {
                ValueKind::Call(self.deeper(at, |parser| parser.call(word))?)
            }
            Kind::Word(word) => ValueKind::Word(word),
            _ => return Err(Fault::new(at, expected)),
        };
        Ok(Value { at, kind })
    }

    /// A call after its opening parenthesis.
    fn call(&mut self, source: String) -> Result<Call, Fault> {
        let arguments = self.values(&Kind::Close, "a comma or a closing parenthesis")?;
        let field = self
            .tokens
            .next_if(|token| matches!(&token.kind, Kind::Word(word) if word.starts_with('.')));
        let field = field.and_then(|token| match token.kind {
            Kind::Word(word) => word.strip_prefix('.').map(|name| Field {
                at: token.at + 1,
                name: name.to_owned(),
            }),
            _ => None,
        });
        Ok(Call {
            source,
            arguments,
            field,
        })
    }

    fn deeper<T>(
        &mut self,
        at: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.depth == MAX_SELECT_DEPTH {
            return Err(too_deep(at));
        }
        self.depth += 1;
        let found = read(self)?;
        self.depth -= 1;
        Ok(found)
    }

    fn accept(&mut self, kind: &Kind) -> bool {
        self.tokens.next_if(|token| token.kind == *kind).is_some()
    }

    fn demand(&mut self, kind: &Kind, expected: &'static str) -> Result<(), Fault> {
        if self.accept(kind) {
            return Ok(());
        }
        Err(Fault::new(self.at(), expected))
    }

    /// Where the next token begins.
    fn at(&mut self) -> usize {
        self.tokens.peek().map_or(self.end, |token| token.at)
    }
}
