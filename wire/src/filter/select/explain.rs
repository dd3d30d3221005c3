//! Says an expression in English. `not` is carried inwards to what it denies: `not (a or b)` is said as "that do
//! not have class a and that do not have class b".

use super::Select;
use super::ast::{Condition, Subject, Test, Tree};
use crate::filter::explain::{explain_operand, listed, relation};
use crate::filter::pattern::Pattern;
use crate::filter::term::Operator;

impl Select {
    /// The expression as an English phrase, to stand behind "nodes".
    pub fn explain(&self) -> String {
        self.0.say(false)
    }

    /// The phrases that, joined by "and", say the expression.
    pub(in crate::filter) fn clauses(&self) -> Vec<String> {
        match &self.0 {
            Tree::All(list) => list.iter().map(|tree| tree.say_inside(false)).collect(),
            other => vec![other.say_inside(false)],
        }
    }
}

impl Tree<Condition> {
    fn say(&self, denied: bool) -> String {
        let (list, all) = match self {
            Self::Not(inner) => return inner.say(!denied),
            Self::Term(condition) => return condition.say(denied),
            Self::All(list) => (list, true),
            Self::Any(list) => (list, false),
        };
        let said: Vec<_> = list.iter().map(|tree| tree.say_inside(denied)).collect();
        listed(&said, if all == denied { "or" } else { "and" })
    }

    /// The same as a part of a longer phrase.
    fn say_inside(&self, denied: bool) -> String {
        let said = self.say(denied);
        match self {
            Self::Not(inner) => inner.say_inside(!denied),
            Self::All(_) | Self::Any(_) => format!("({said})"),
            Self::Term(_) => said,
        }
    }
}

impl Condition {
    fn say(&self, denied: bool) -> String {
        match self {
            Self::Of(subject, test) => {
                let of = match subject {
                    Subject::Fact(path) => format!("fact {path}"),
                    Subject::Output(output) => output.to_string(),
                };
                format!("whose {of} {}", test.say(denied))
            }
            Self::Class(pattern) => having(denied, ["a class", "any class", "class"], pattern),
            Self::Agent(pattern) => having(denied, ["an agent", "any agent", "agent"], pattern),
            Self::With(pattern) => having(
                denied,
                ["a class or agent", "any class or agent", "class or agent"],
                pattern,
            ),
        }
    }
}

impl Test {
    fn say(&self, denied: bool) -> String {
        match self {
            Self::Compare(operator, operand) => {
                let relation = if denied {
                    denial(*operator)
                } else {
                    relation(*operator)
                };
                format!("{relation} {}", explain_operand(operand))
            }
            Self::Include(member) if denied => format!("does not include \"{}\"", member.text),
            Self::Include(member) => format!("includes \"{}\"", member.text),
            Self::Version(constraint) => {
                let relation = if denied { "is no" } else { "is a" };
                let constraint = constraint.as_str();
                format!("{relation} version that satisfies \"{constraint}\"")
            }
        }
    }
}

/// What the negation of a term says of its fact, which may also be missing.
fn denial(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => relation(Operator::NotEqual),
        Operator::NotEqual => relation(Operator::Equal),
        Operator::Match => relation(Operator::NotMatch),
        Operator::NotMatch => relation(Operator::Match),
        Operator::AtMost => "is not at most",
        Operator::AtLeast => "is not at least",
        Operator::Less => "is not less than",
        Operator::Greater => "is not greater than",
    }
}

fn having(denied: bool, [one, any, kind]: [&str; 3], pattern: &Pattern) -> String {
    match (pattern, denied) {
        (Pattern::Exact(name), false) => format!("that have {kind} {name}"),
        (Pattern::Exact(name), true) => format!("that do not have {kind} {name}"),
        (Pattern::Regex(expression), false) => format!("that have {one} matching {expression}"),
        (Pattern::Regex(expression), true) => {
            format!("that do not have {any} matching {expression}")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::{Filter, Select};

    #[test]
    fn expressions_read_as_english() {
        for (text, said) in [
            ("apache", "that have class apache"),
            (
                "a or b or c",
                "that have class a, that have class b or that have class c",
            ),
            (
                "(country=uk or customer=acme) and not environment=production",
                "(whose fact country equals \"uk\" or whose fact customer equals \"acme\") \
                 and whose fact environment does not equal \"production\"",
            ),
            (
                "not (/^a/ or agent('b') and !load<2)",
                "that do not have any class matching /^a/ \
                 and (that do not have agent b or whose fact load is less than \"2\")",
            ),
            (
                "not include(fact('tags'), 'x') or semver(fact('v'), '>= 1.2') or with('/x/i')",
                "whose fact tags does not include \"x\", whose fact v is a version that satisfies \">= 1.2\" \
                 or that have a class or agent matching /x/i",
            ),
        ] {
            assert_eq!(Select::parse(text).unwrap().explain(), said, "{text}");
        }
    }

    #[test]
    fn an_expression_joins_the_other_kinds() {
        let filter = |text| Filter::default().with_select(text).unwrap();
        assert_eq!(
            filter("a or b").explain(),
            "nodes that have class a or that have class b"
        );
        assert_eq!(
            filter("a or b").with_agent("x").unwrap().explain(),
            "nodes that have agent x and (that have class a or that have class b)"
        );
        assert_eq!(
            filter("a and not b").with_agent("x").unwrap().explain(),
            "nodes that have agent x, that have class a and that do not have class b"
        );
    }
}
