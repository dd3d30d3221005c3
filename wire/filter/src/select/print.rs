//! Prints an expression in its normal form, which parses back as the same expression. [`explain`](super::explain) writes
//! the English form.

use std::fmt::{self, Display as _};

use super::ast::{ConditionSubject, ConditionTree, SelectCondition, SourceOutput, ValueTest};
use super::lex::is_plain_word;
use crate::boolean_tree::{BooleanTree, Connective};
use crate::lookup::QuotedText;
use crate::number::NumericValue;
use crate::pattern::FilterPattern;
use crate::term::{FactOperand, FactOperator, is_nil};

impl fmt::Display for ConditionTree {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(connective, list) => {
                let conjunction = if *connective == Connective::And { " and " } else { " or " };
                for (number, tree) in list.iter().enumerate() {
                    out.write_str(if number > 0 { conjunction } else { "" })?;
                    print_bracketed(out, tree)?;
                }
                Ok(())
            }
            Self::Not(inner) => {
                out.write_str("not ")?;
                print_bracketed(out, inner)
            }
            Self::Term(condition) => condition.fmt(out),
        }
    }
}

impl fmt::Display for SelectCondition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(subject, ValueTest::Compare(operator, operand)) => {
                print_comparison(out, subject, *operator, operand)
            }
            Self::Test(subject, ValueTest::Include(member)) => {
                write!(out, "include({}, {})", SubjectCall(subject), QuotedText(&member.text))
            }
            Self::Test(subject, ValueTest::Version(constraint)) => {
                let constraint = QuotedText(constraint.as_str());
                write!(out, "semver({}, {constraint})", SubjectCall(subject))
            }
            Self::Class(pattern) => print_class(out, pattern),
            Self::Agent(pattern) => write!(out, "agent({})", QuotedText(&pattern.to_string())),
            Self::With(pattern) => write!(out, "with({})", QuotedText(&pattern.to_string())),
        }
    }
}

impl fmt::Display for SourceOutput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => self.lookup.fmt(out),
            name => write!(out, "{}.{name}", self.lookup),
        }
    }
}

/// Whether a word parses as a value, so that it can name a class only in `with(...)`.
pub(super) fn is_value(word: &str) -> bool {
    NumericValue::parse(word).is_some() || ["true", "false"].contains(&word) || is_nil(word)
}

fn print_bracketed(out: &mut fmt::Formatter<'_>, tree: &ConditionTree) -> fmt::Result {
    match tree {
        BooleanTree::List(..) => write!(out, "({tree})"),
        BooleanTree::Not(_) | BooleanTree::Term(_) => tree.fmt(out),
    }
}

fn print_comparison(
    out: &mut fmt::Formatter<'_>,
    subject: &ConditionSubject,
    operator: FactOperator,
    operand: &FactOperand,
) -> fmt::Result {
    match subject {
        ConditionSubject::Fact(path) if is_plain_word(path.as_str()) => {
            out.write_str(path.as_str())?;
        }
        other => SubjectCall(other).fmt(out)?,
    }
    write!(out, "{operator}")?;
    match operand {
        FactOperand::Literal(literal) if is_plain_word(&literal.text) && !is_nil(&literal.text) => {
            out.write_str(&literal.text)
        }
        FactOperand::Literal(literal) => QuotedText(&literal.text).fmt(out),
        // `check` delimited the regular expression already.
        FactOperand::Regex(expression) => expression.fmt(out),
    }
}

/// Prints a subject in function syntax.
struct SubjectCall<'a>(&'a ConditionSubject);

impl fmt::Display for SubjectCall<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ConditionSubject::Fact(path) => write!(out, "fact({})", QuotedText(path.as_str())),
            ConditionSubject::Output(output) => output.fmt(out),
        }
    }
}

fn print_class(out: &mut fmt::Formatter<'_>, pattern: &FilterPattern) -> fmt::Result {
    let text = pattern.to_string();
    let is_bare = match pattern {
        FilterPattern::Exact(_) => is_plain_word(&text) && !is_value(&text),
        FilterPattern::Regex(_) => true,
    };
    if is_bare { out.write_str(&text) } else { write!(out, "class({})", QuotedText(&text)) }
}
