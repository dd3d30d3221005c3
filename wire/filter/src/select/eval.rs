//! Evaluates an expression for a node. Cannot fail; evaluates each condition at most once.
//!
//! Evaluation uses three truth values: a condition on a data source without a result is *unknown*, `not` keeps it unknown, `and`
//! is false if one side is, and `or` is true if one side is. Facts and classes are unknown until their sources were read once;
//! agents are always known. All of these are evaluated before the first data source lookup.

use std::ops::Not;

use serde_json::Value;

use super::SelectExpression;
use super::ast::{ConditionSubject, ConditionTree, SelectCondition, SourceOutput, ValueTest};
use super::semver::VersionConstraint;
use crate::boolean_tree::Connective;
use crate::lookup::{DataLookup, DataLookupResult, EvaluationProgress, KnownLookups, TruthValue};
use crate::pattern::{FilterPattern, FilterRegex};
use crate::state::{FactPath, NodeView};
use crate::term::{FactOperand, FactOperator, LiteralOperand};

/// Returns the results of lookups.
type LookupAnswers<'a> = &'a dyn Fn(&DataLookup) -> Option<&'a DataLookupResult>;

impl SelectExpression {
    /// Whether the expression matches the node. All data sources are unknown.
    pub fn matches(&self, node: &NodeView<'_>) -> bool {
        let unknown = DataLookupResult::Unknown(String::new());
        self.0.evaluate_tree(node, &|_| Some(&unknown))
            == EvaluationProgress::Decided(TruthValue::True)
    }

    /// Evaluates the expression, or returns the first needed lookup, in the order as written.
    pub fn evaluate(&self, node: &NodeView<'_>, known: &KnownLookups) -> EvaluationProgress<'_> {
        self.0.evaluate_tree(node, &|lookup| known.get(lookup))
    }

    /// Each condition in its normal form with its truth value; `None` if its data source was not queried.
    pub fn evaluate_conditions(
        &self,
        node: &NodeView<'_>,
        known: &KnownLookups,
    ) -> Vec<(String, Option<TruthValue>)> {
        let evaluate_one = |condition: &SelectCondition| {
            let truth = match condition.evaluate_condition(node, &|lookup| known.get(lookup)) {
                EvaluationProgress::Decided(truth) => Some(truth),
                EvaluationProgress::Needs(_) => None,
            };
            (condition.to_string(), truth)
        };
        self.0.leaf_terms().into_iter().map(evaluate_one).collect()
    }

    /// The facts in the expression, including duplicates.
    pub fn fact_paths(&self) -> Vec<&FactPath> {
        let terms = self.0.leaf_terms().into_iter();
        terms
            .filter_map(|condition| match condition {
                SelectCondition::Test(ConditionSubject::Fact(path), _) => Some(path),
                _ => None,
            })
            .collect()
    }

    /// The exact names of classes in the expression, including duplicates; those that may also be of an agent are in the second list.
    pub fn class_names(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut classes, mut either) = (Vec::new(), Vec::new());
        for condition in self.0.leaf_terms() {
            match condition {
                SelectCondition::Class(FilterPattern::Exact(name)) => classes.push(name.as_str()),
                SelectCondition::With(FilterPattern::Exact(name)) => either.push(name.as_str()),
                _ => {}
            }
        }
        (classes, either)
    }

    /// The regular expressions on facts and classes.
    pub(crate) fn folded_regexes(&self) -> Vec<&FilterRegex> {
        let terms = self.0.leaf_terms().into_iter();
        terms
            .filter_map(|condition| match condition {
                SelectCondition::Test(
                    ConditionSubject::Fact(_),
                    ValueTest::Compare(_, FactOperand::Regex(regex)),
                )
                | SelectCondition::Class(FilterPattern::Regex(regex))
                | SelectCondition::With(FilterPattern::Regex(regex)) => Some(regex),
                _ => None,
            })
            .collect()
    }

    /// Whether the expression has class or agent conditions.
    pub fn has_name_conditions(&self) -> bool {
        let is_name =
            |condition: &&SelectCondition| !matches!(condition, SelectCondition::Test(..));
        self.0.leaf_terms().iter().any(is_name)
    }

    /// The data source outputs in the expression, including duplicates; the empty name is a source's default output.
    pub fn source_outputs(&self) -> Vec<(&DataLookup, &str)> {
        self.outputs().map(|output| (&output.lookup, output.name.as_str())).collect()
    }

    /// The distinct data source lookups that evaluation may need.
    pub fn data_lookups(&self) -> Vec<&DataLookup> {
        let mut lookups = Vec::new();
        for SourceOutput { lookup, .. } in self.outputs() {
            if !lookups.contains(&lookup) {
                lookups.push(lookup);
            }
        }
        lookups
    }

    fn outputs(&self) -> impl Iterator<Item = &SourceOutput> {
        self.0.leaf_terms().into_iter().filter_map(|condition| match condition {
            SelectCondition::Test(ConditionSubject::Output(output), _) => Some(output),
            _ => None,
        })
    }
}

impl ConditionTree {
    fn evaluate_tree(
        &self,
        node: &NodeView<'_>,
        answers: LookupAnswers<'_>,
    ) -> EvaluationProgress<'_> {
        match self {
            Self::List(connective, list) => {
                let decisive = TruthValue::from(*connective == Connective::Or);
                evaluate_list(list, decisive, node, answers)
            }
            Self::Not(inner) => inner.evaluate_tree(node, answers).map(Not::not),
            Self::Term(condition) => condition.evaluate_condition(node, answers),
        }
    }
}

/// Evaluates a list in which one element with the `decisive` truth value decides the result.
fn evaluate_list<'a>(
    list: &'a [ConditionTree],
    decisive: TruthValue,
    node: &NodeView<'_>,
    answers: LookupAnswers<'_>,
) -> EvaluationProgress<'a> {
    let mut needs = None;
    let mut unknown = false;
    for tree in list {
        match tree.evaluate_tree(node, answers) {
            EvaluationProgress::Decided(truth) if truth == decisive => {
                return EvaluationProgress::Decided(truth);
            }
            EvaluationProgress::Decided(truth) => unknown |= truth == TruthValue::Unknown,
            // Continue after a needed lookup: a later element may decide the list without it.
            pending @ EvaluationProgress::Needs(_) => needs = needs.or(Some(pending)),
        }
    }
    let default = if unknown { TruthValue::Unknown } else { !decisive };
    needs.unwrap_or(EvaluationProgress::Decided(default))
}

impl SelectCondition {
    fn evaluate_condition(
        &self,
        node: &NodeView<'_>,
        answers: LookupAnswers<'_>,
    ) -> EvaluationProgress<'_> {
        EvaluationProgress::Decided(match self {
            Self::Test(ConditionSubject::Output(output), test) => {
                return output.evaluate_output(test, answers);
            }
            Self::Test(ConditionSubject::Fact(path), _) if !node.facts.is_known(path) => {
                TruthValue::Unknown
            }
            Self::Test(ConditionSubject::Fact(path), test) => {
                test.matches_value(node.facts.get_path(path)).into()
            }
            Self::Agent(pattern) => pattern.matches_any(node.agents).into(),
            Self::With(pattern) if pattern.matches_any(node.agents) => TruthValue::True,
            Self::Class(pattern) | Self::With(pattern) => pattern.matches_node_class(node),
        })
    }
}

impl SourceOutput {
    fn evaluate_output(
        &self,
        test: &ValueTest,
        answers: LookupAnswers<'_>,
    ) -> EvaluationProgress<'_> {
        EvaluationProgress::Decided(match answers(&self.lookup) {
            None => return EvaluationProgress::Needs(&self.lookup),
            Some(DataLookupResult::Unknown(_)) => TruthValue::Unknown,
            Some(DataLookupResult::Values(values)) => values
                .get(&self.name)
                .map_or(TruthValue::Unknown, |value| test.matches_value(Some(value)).into()),
        })
    }
}

impl ValueTest {
    fn matches_value(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Compare(operator, operand) => operator.compare_value(operand, value),
            Self::Include(member) => value.is_some_and(|value| member.is_member_of(value)),
            Self::Version(constraint) => value.is_some_and(|value| constraint.matches_value(value)),
        }
    }
}

impl LiteralOperand {
    fn is_member_of(&self, value: &Value) -> bool {
        let operand = FactOperand::Literal(self.clone());
        (value.is_array() || value.is_object())
            && FactOperator::Equal.compare_value(&operand, Some(value))
    }
}

impl VersionConstraint {
    /// Whether a value is a matching version, or a list that contains one.
    fn matches_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.accepts_version(text),
            Value::Number(number) => self.accepts_version(&number.to_string()),
            Value::Array(items) => items.iter().any(|item| self.matches_value(item)),
            _ => false,
        }
    }
}
