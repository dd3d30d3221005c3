//! Holds an expression against a node. Cannot fail; costs at most each condition once.
//!
//! Three truths: what depends on a data source that did not answer is *unknown*, `not` leaves it unknown, `and` is
//! false as soon as one side is, and `or` true as soon as one side is. Facts and classes are unknown until their sources
//! were read once; agents are always known. All of these are looked at before the first data source is asked for.

use serde_json::Value;

use super::Select;
use super::ast::{Condition, Output, Subject, Test, Tree};
use super::semver::Constraint;
use crate::filter::known::{Found, Known, Lookup, Progress, Truth};
use crate::filter::term::{Literal, Operand, Operator};
use crate::state::{FactPath, NodeView};

/// Where answers of data sources come from.
type Answers<'a> = &'a dyn Fn(&Lookup) -> Option<&'a Found>;

impl Select {
    /// Whether the node is meant, when no data source can be asked: each is unknown.
    pub fn matches(&self, node: &NodeView<'_>) -> bool {
        let not_asked = Found::Unknown(String::new());
        self.0.evaluate(node, &|_| Some(&not_asked)) == Progress::Decided(Truth::True)
    }

    /// Whether the node is meant, or which data source must be asked to tell: the first, as written, that matters.
    pub fn evaluate(&self, node: &NodeView<'_>, known: &Known) -> Progress<'_> {
        self.0.evaluate(node, &|lookup| known.get(lookup))
    }

    /// Each condition in its normal form, and whether it holds; nothing, if its data source was not asked.
    pub fn conditions(&self, node: &NodeView<'_>, known: &Known) -> Vec<(String, Option<Truth>)> {
        let judge = |condition: &Condition| {
            let truth = match condition.evaluate(node, &|lookup| known.get(lookup)) {
                Progress::Decided(truth) => Some(truth),
                Progress::Needs(_) => None,
            };
            (condition.to_string(), truth)
        };
        self.0.terms().into_iter().map(judge).collect()
    }

    /// The facts that the expression asks for, as often as it does.
    pub fn facts(&self) -> Vec<&FactPath> {
        let terms = self.0.terms().into_iter();
        terms
            .filter_map(|condition| match condition {
                Condition::Of(Subject::Fact(path), _) => Some(path),
                _ => None,
            })
            .collect()
    }

    /// Whether the expression asks for classes or agents.
    pub fn asks_for_names(&self) -> bool {
        let is_name = |condition: &&Condition| !matches!(condition, Condition::Of(..));
        self.0.terms().iter().any(is_name)
    }

    /// The outputs of data sources that the expression asks for, as often as it does; the empty name is what a source stands for
    /// by itself.
    pub fn outputs(&self) -> Vec<(&Lookup, &str)> {
        let output = |condition| match condition {
            &Condition::Of(
                Subject::Output(Output {
                    ref lookup,
                    ref name,
                }),
                _,
            ) => Some((lookup, name.as_str())),
            _ => None,
        };
        self.0.terms().into_iter().filter_map(output).collect()
    }

    /// The questions to data sources that the expression may need answered, each once.
    pub fn lookups(&self) -> Vec<&Lookup> {
        let mut found = Vec::new();
        for condition in self.0.terms() {
            if let Condition::Of(Subject::Output(Output { lookup, .. }), _) = condition
                && !found.contains(&lookup)
            {
                found.push(lookup);
            }
        }
        found
    }
}

impl Tree<Condition> {
    fn evaluate(&self, node: &NodeView<'_>, answers: Answers<'_>) -> Progress<'_> {
        match self {
            Self::All(list) => joined(list, Truth::False, node, answers),
            Self::Any(list) => joined(list, Truth::True, node, answers),
            Self::Not(inner) => match inner.evaluate(node, answers) {
                Progress::Decided(truth) => Progress::Decided(!truth),
                needs @ Progress::Needs(_) => needs,
            },
            Self::Term(condition) => condition.evaluate(node, answers),
        }
    }
}

/// What a list is worth in which one element of the `decisive` truth settles all.
fn joined<'a>(
    list: &'a [Tree<Condition>],
    decisive: Truth,
    node: &NodeView<'_>,
    answers: Answers<'_>,
) -> Progress<'a> {
    let mut needs = None;
    let mut unknown = false;
    for tree in list {
        match tree.evaluate(node, answers) {
            Progress::Decided(truth) if truth == decisive => return Progress::Decided(truth),
            Progress::Decided(truth) => unknown |= truth == Truth::Unknown,
            open @ Progress::Needs(_) => needs = needs.or(Some(open)),
        }
    }
    let otherwise = if unknown { Truth::Unknown } else { !decisive };
    needs.unwrap_or(Progress::Decided(otherwise))
}

impl Condition {
    fn evaluate(&self, node: &NodeView<'_>, answers: Answers<'_>) -> Progress<'_> {
        Progress::Decided(match self {
            Self::Of(Subject::Output(output), test) => return output.evaluate(test, answers),
            Self::Of(Subject::Fact(path), _) if !node.facts.is_known(path) => Truth::Unknown,
            Self::Of(Subject::Fact(path), test) => test.holds(node.facts.lookup(path)).into(),
            Self::Agent(pattern) => pattern.finds(node.agents).into(),
            Self::With(pattern) if pattern.finds(node.agents) => Truth::True,
            Self::Class(pattern) | Self::With(pattern) => pattern.finds_class(node),
        })
    }
}

impl Output {
    fn evaluate(&self, test: &Test, answers: Answers<'_>) -> Progress<'_> {
        Progress::Decided(match answers(&self.lookup) {
            None => return Progress::Needs(&self.lookup),
            Some(Found::Unknown(_)) => Truth::Unknown,
            Some(Found::Values(values)) => values
                .get(&self.name)
                .map_or(Truth::Unknown, |value| test.holds(Some(value)).into()),
        })
    }
}

impl Test {
    fn holds(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Compare(operator, operand) => operator.holds(operand, value),
            Self::Include(member) => value.is_some_and(|value| member.is_in(value)),
            Self::Version(constraint) => value.is_some_and(|value| constraint.holds_for(value)),
        }
    }
}

impl Literal {
    fn is_in(&self, value: &Value) -> bool {
        let equal = Operand::Literal(self.clone());
        (value.is_array() || value.is_object()) && Operator::Equal.holds(&equal, Some(value))
    }
}

impl Constraint {
    /// Whether a value is such a version, or a list with such a version in it.
    fn holds_for(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.accepts(text),
            Value::Number(number) => self.accepts(&number.to_string()),
            Value::Array(items) => items.iter().any(|item| self.holds_for(item)),
            _ => false,
        }
    }
}
