//! Describes an expression in English. `not` is moved inwards: `not (a or b)` becomes "that do not have class a and that
//! do not have class b".

use super::SelectExpression;
use super::ast::{ConditionSubject, ConditionTree, SelectCondition, ValueTest};
use crate::boolean_tree::{BooleanTree, Connective};
use crate::explain::{explain_name, explain_operand, operator_phrase};
use crate::term::FactOperator;
use crate::text::join_phrases;

impl SelectExpression {
    /// The expression as an English phrase that follows "nodes".
    pub fn explain(&self) -> String {
        self.0.explain_tree(false)
    }

    /// The phrases whose conjunction is the expression.
    pub(crate) fn explain_clauses(&self) -> Vec<String> {
        match &self.0 {
            BooleanTree::List(Connective::And, list) => {
                list.iter().map(|tree| tree.explain_subtree(false)).collect()
            }
            other => vec![other.explain_subtree(false)],
        }
    }
}

impl ConditionTree {
    fn explain_tree(&self, negated: bool) -> String {
        match self {
            Self::Not(inner) => inner.explain_tree(!negated),
            Self::Term(condition) => condition.explain_condition(negated),
            Self::List(connective, list) => {
                let phrases = list.iter().map(|tree| tree.explain_subtree(negated));
                let is_all = *connective == Connective::And;
                join_phrases(phrases, if is_all == negated { "or" } else { "and" })
            }
        }
    }

    /// The phrase as a part of a longer one.
    fn explain_subtree(&self, negated: bool) -> String {
        let phrase = self.explain_tree(negated);
        match self {
            Self::Not(inner) => inner.explain_subtree(!negated),
            Self::List(..) => format!("({phrase})"),
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
            Self::Class(pattern) => explain_name("a", "class", pattern, negated),
            Self::Agent(pattern) => explain_name("an", "agent", pattern, negated),
            Self::With(pattern) => explain_name("a", "class or agent", pattern, negated),
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

#[cfg(test)]
mod tests {
    use crate::{NodeFilter, SelectExpression};

    #[test]
    fn expressions_are_explained_in_english() {
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
    fn expression_is_combined_with_the_other_conditions() {
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
