//! Prints an expression in its normal form, which reads back as the same expression. [`explain`](super::explain)
//! is for people.

use std::fmt::{self, Display as _};

use super::ast::{Condition, Tree};
use super::lex::is_plain_word;
use crate::filter::number::Numeric;
use crate::filter::pattern::Pattern;
use crate::filter::term::{FactTerm, Operand};

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
            Self::Fact(term) => fact(out, term),
            Self::Include(term) => {
                let (path, value) = (Quoted(term.fact().as_str()), term.value());
                write!(out, "include(fact({path}), {})", Quoted(&value))
            }
            Self::Version(path, constraint) => {
                let (path, constraint) = (Quoted(path.as_str()), constraint.as_str());
                write!(out, "semver(fact({path}), {})", Quoted(constraint))
            }
            Self::Class(pattern) => class(out, pattern),
            Self::Agent(pattern) => write!(out, "agent({})", Quoted(&pattern.to_string())),
            Self::With(pattern) => write!(out, "with({})", Quoted(&pattern.to_string())),
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

fn fact(out: &mut fmt::Formatter<'_>, term: &FactTerm) -> fmt::Result {
    let path = term.fact().as_str();
    if is_plain_word(path) {
        out.write_str(path)?;
    } else {
        write!(out, "fact({})", Quoted(path))?;
    }
    write!(out, "{}", term.operator())?;
    match &term.operand {
        Operand::Literal(literal) if is_plain_word(&literal.text) => out.write_str(&literal.text),
        Operand::Literal(literal) => Quoted(&literal.text).fmt(out),
        // A regular expression was made whole when it was checked.
        Operand::Regex(expression) => expression.fmt(out),
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

/// A text between quotes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        write!(out, "\"{escaped}\"")
    }
}
