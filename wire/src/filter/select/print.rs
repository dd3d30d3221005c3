//! Prints an expression in its normal form, which reads back as the same expression. [`explain`](super::explain)
//! is for people.

use std::fmt::{self, Display as _};

use super::ast::{Condition, Output, Subject, Test, Tree};
use super::lex::is_plain_word;
use crate::filter::known::Quoted;
use crate::filter::number::Numeric;
use crate::filter::pattern::Pattern;
use crate::filter::term::{Operand, Operator};

impl fmt::Display for Tree<Condition> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(list) => joined(out, list, " and "),
            Self::Any(list) => joined(out, list, " or "),
            Self::Not(inner) => {
                out.write_str("not ")?;
                bracketed(out, inner)
            }
            Self::Term(condition) => condition.fmt(out),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(subject, Test::Compare(operator, operand)) => {
                compared(out, subject, *operator, operand)
            }
            Self::Of(subject, Test::Include(member)) => {
                write!(
                    out,
                    "include({}, {})",
                    Called(subject),
                    Quoted(&member.text)
                )
            }
            Self::Of(subject, Test::Version(constraint)) => {
                let constraint = Quoted(constraint.as_str());
                write!(out, "semver({}, {constraint})", Called(subject))
            }
            Self::Class(pattern) => class(out, pattern),
            Self::Agent(pattern) => write!(out, "agent({})", Quoted(&pattern.to_string())),
            Self::With(pattern) => write!(out, "with({})", Quoted(&pattern.to_string())),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => self.lookup.fmt(out),
            name => write!(out, "{}.{name}", self.lookup),
        }
    }
}

/// Whether a word stands for a value and cannot name a class unless it is told so.
pub(super) fn is_value(word: &str) -> bool {
    Numeric::parse(word).is_some() || ["true", "false"].contains(&word)
}

fn joined(
    out: &mut fmt::Formatter<'_>,
    list: &[Tree<Condition>],
    conjunction: &str,
) -> fmt::Result {
    for (number, tree) in list.iter().enumerate() {
        if number > 0 {
            out.write_str(conjunction)?;
        }
        bracketed(out, tree)?;
    }
    Ok(())
}

fn bracketed(out: &mut fmt::Formatter<'_>, tree: &Tree<Condition>) -> fmt::Result {
    match tree {
        Tree::All(_) | Tree::Any(_) => write!(out, "({tree})"),
        Tree::Not(_) | Tree::Term(_) => tree.fmt(out),
    }
}

fn compared(
    out: &mut fmt::Formatter<'_>,
    subject: &Subject,
    operator: Operator,
    operand: &Operand,
) -> fmt::Result {
    match subject {
        Subject::Fact(path) if is_plain_word(path.as_str()) => out.write_str(path.as_str())?,
        other => Called(other).fmt(out)?,
    }
    write!(out, "{operator}")?;
    match operand {
        Operand::Literal(literal) if is_plain_word(&literal.text) => out.write_str(&literal.text),
        Operand::Literal(literal) => Quoted(&literal.text).fmt(out),
        // A regular expression was made whole when it was checked.
        Operand::Regex(expression) => expression.fmt(out),
    }
}

/// A subject in the style of a function.
struct Called<'a>(&'a Subject);

impl fmt::Display for Called<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Subject::Fact(path) => write!(out, "fact({})", Quoted(path.as_str())),
            Subject::Output(output) => output.fmt(out),
        }
    }
}

fn class(out: &mut fmt::Formatter<'_>, pattern: &Pattern) -> fmt::Result {
    let text = pattern.to_string();
    let bare = match pattern {
        Pattern::Exact(_) => is_plain_word(&text) && !is_value(&text),
        Pattern::Regex(_) => true,
    };
    if bare {
        out.write_str(&text)
    } else {
        write!(out, "class({})", Quoted(&text))
    }
}
