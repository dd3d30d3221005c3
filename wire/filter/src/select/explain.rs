//! Describes an expression in English. `not` is moved inwards: `not (a or b)` becomes "that do not have class a and that
//! do not have class b".

use super::SelectExpression;
use super::ast::{BooleanTree, ConditionSubject, SelectCondition, ValueTest};
use crate::explain::{explain_operand, join_phrases, operator_phrase};
use crate::pattern::FilterPattern;
use crate::term::FactOperator;

impl SelectExpression {
    /// The expression as an English phrase that follows "nodes".
    pub fn explain(&self) -> String {
        self.0.explain_tree(false)
    }

    /// The phrases whose conjunction is the expression.
    pub(crate) fn explain_clauses(&self) -> Vec<String> {
        match &self.0 {
            BooleanTree::All(list) => list.iter().map(|tree| tree.explain_subtree(false)).collect(),
            other => vec![other.explain_subtree(false)],
        }
    }
}

impl BooleanTree<SelectCondition> {
    fn explain_tree(&self, negated: bool) -> String {
        let (list, is_all) = match self {
            Self::Not(inner) => return inner.explain_tree(!negated),
            Self::Term(condition) => return condition.explain_condition(negated),
            Self::All(list) => (list, true),
            Self::Any(list) => (list, false),
        };
        let phrases: Vec<_> = list.iter().map(|tree| tree.explain_subtree(negated)).collect();
        join_phrases(&phrases, if is_all == negated { "or" } else { "and" })
    }

    /// The phrase as a part of a longer one.
    fn explain_subtree(&self, negated: bool) -> String {
        let phrase = self.explain_tree(negated);
        match self {
            Self::Not(inner) => inner.explain_subtree(!negated),
            Self::All(_) | Self::Any(_) => format!("({phrase})"),
            Self::Term(_) => phrase,
        }
    }
}

impl SelectCondition {
    fn explain_condition(&self, negated: bool) -> String {
        match self {
            Self::Test(subject, test) => {
                let subject_phrase = match subject {
                    ConditionSubject::Fact(path) => format!("fact {path}"),
                    ConditionSubject::Output(output) => output.to_string(),
                };
                format!("whose {subject_phrase} {}", test.explain_test(negated))
            }
            Self::Class(pattern) => {
                explain_name_condition(negated, ["a class", "any class", "class"], pattern)
            }
            Self::Agent(pattern) => {
                explain_name_condition(negated, ["an agent", "any agent", "agent"], pattern)
            }
            Self::With(pattern) => explain_name_condition(
                negated,
                ["a class or agent", "any class or agent", "class or agent"],
                pattern,
            ),
        }
    }
}

impl ValueTest {
    fn explain_test(&self, negated: bool) -> String {
        match self {
            Self::Compare(operator, operand) => {
                let relation = if negated {
                    negated_operator_phrase(*operator)
                } else {
                    operator_phrase(*operator)
                };
                format!("{relation} {}", explain_operand(operand))
            }
            Self::Include(member) if negated => format!("does not include \"{}\"", member.text),
            Self::Include(member) => format!("includes \"{}\"", member.text),
            Self::Version(constraint) => {
                let relation = if negated { "is no" } else { "is a" };
                let constraint = constraint.as_str();
                format!("{relation} version that satisfies \"{constraint}\"")
            }
        }
    }
}

/// The English phrase of a negated operator. A missing fact satisfies it too.
fn negated_operator_phrase(operator: FactOperator) -> &'static str {
    match operator {
        FactOperator::Equal => operator_phrase(FactOperator::NotEqual),
        FactOperator::NotEqual => operator_phrase(FactOperator::Equal),
        FactOperator::Match => operator_phrase(FactOperator::NotMatch),
        FactOperator::NotMatch => operator_phrase(FactOperator::Match),
        FactOperator::AtMost => "is not at most",
        FactOperator::AtLeast => "is not at least",
        FactOperator::Less => "is not less than",
        FactOperator::Greater => "is not greater than",
    }
}

fn explain_name_condition(
    negated: bool,
    [with_article, with_any, kind]: [&str; 3],
    pattern: &FilterPattern,
) -> String {
    match (pattern, negated) {
        (FilterPattern::Exact(name), false) => format!("that have {kind} {name}"),
        (FilterPattern::Exact(name), true) => format!("that do not have {kind} {name}"),
        (FilterPattern::Regex(expression), false) => {
            format!("that have {with_article} matching {expression}")
        }
        (FilterPattern::Regex(expression), true) => {
            format!("that do not have {with_any} matching {expression}")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{NodeFilter, SelectExpression};

    #[test]
    fn expressions_read_as_english() {
        for (text, said) in [
            ("apache", "that have class apache"),
            ("a or b or c", "that have class a, that have class b or that have class c"),
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
            assert_eq!(SelectExpression::parse(text).unwrap().explain(), said, "{text}");
        }
    }

    #[test]
    fn an_expression_joins_the_other_kinds() {
        let filter = |text| NodeFilter::default().with_select(text).unwrap();
        assert_eq!(filter("a or b").explain(), "nodes that have class a or that have class b");
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
