//! Converts the syntax tree to conditions or reports errors: every statement must be boolean, every operator must have
//! comparable operands, and every function its arguments.

use std::collections::BTreeSet;

use super::ast::{
    ComparisonOperator, ConditionSubject, ConditionTree, FunctionCall, SelectCondition,
    SelectStatement, SelectValue, SelectValueKind, StatementTree, ValueTest,
};
use super::lex::is_whole_regex;
use super::print::is_value;
use super::semver::VersionConstraint;
use super::subject::{is_lookup, parse_fact_call};
use crate::boolean_tree::{BooleanTree, Connective};
use crate::error::{FaultContext as _, FilterFault, Result, expected_at};
use crate::limits::{MAX_SELECT_REGEXES, MAX_SELECT_TERMS};
use crate::lookup::DataLookup;
use crate::parse::find_operator;
use crate::pattern::{FilterPattern, FilterRegex, split_slashed_regex};
use crate::sources::{DeclaredSources, OutputKind};
use crate::term::{FactOperand, FactOperator, FactTerm, LiteralOperand, is_nil};

/// Checks a whole expression, and its data sources if declarations are given.
pub(super) fn check_tree(
    tree: StatementTree,
    declared: Option<&DeclaredSources>,
) -> Result<ConditionTree> {
    let mut checker = SelectChecker { declared, terms: 0, regexes: 0, lookups: BTreeSet::new() };
    checker.check_subtree(tree)
}

/// The declarations and the counters of limited items.
pub(super) struct SelectChecker<'a> {
    pub(super) declared: Option<&'a DeclaredSources>,
    terms: usize,
    regexes: usize,
    pub(super) lookups: BTreeSet<DataLookup>,
}

/// The collection of a membership test.
enum MemberCollection {
    Subject(ConditionSubject),
    Classes,
    Agents,
}

impl SelectChecker<'_> {
    fn check_subtree(&mut self, tree: StatementTree) -> Result<ConditionTree> {
        match tree {
            BooleanTree::List(connective, list) => {
                let checked = list.into_iter().map(|tree| self.check_subtree(tree));
                Ok(BooleanTree::join_list(connective, checked.collect::<Result<_>>()?))
            }
            BooleanTree::Not(inner) => self.check_subtree(*inner).map(BooleanTree::negate_tree),
            BooleanTree::Term(statement) => self.check_statement(statement),
        }
    }

    fn check_statement(&mut self, statement: SelectStatement) -> Result<ConditionTree> {
        let at = statement.left.at;
        match statement.comparison {
            None => self.check_bare_value(statement.left, statement.end),
            Some((ComparisonOperator::Operator(operator), right)) => {
                let subject = self.parse_subject(statement.left)?;
                let right_at = right.at;
                let (operator, operand) = self.parse_operand(operator, right)?;
                let condition =
                    self.value_condition(right_at, subject, ValueTest::Compare(operator, operand))?;
                self.count_term(at, condition)
            }
            Some((ComparisonOperator::In, right)) => self.parse_membership(statement.left, right),
            Some((ComparisonOperator::NotIn, right)) => {
                self.parse_membership(statement.left, right).map(BooleanTree::negate_tree)
            }
        }
    }

    /// A value without a comparison: a class, or a boolean function.
    fn check_bare_value(&mut self, value: SelectValue, end: usize) -> Result<ConditionTree> {
        let at = value.at;
        let condition = match value.kind {
            SelectValueKind::Word(word) if is_value(&word) => {
                let expected = format!("a condition, not a value (class(\"{word}\") is a class)");
                return expected_at(at, expected);
            }
            SelectValueKind::Word(text) | SelectValueKind::Regex(text) => {
                SelectCondition::Class(self.parse_class_pattern(at, &text)?)
            }
            SelectValueKind::Text(_) | SelectValueKind::List(_) => {
                return expected_at(at, "a condition, not a string (class(\"...\") is a class)");
            }
            SelectValueKind::Call(call) => self.check_call(at, call, end)?,
        };
        self.count_term(at, condition)
    }

    fn value_condition(
        &self,
        at: usize,
        subject: ConditionSubject,
        test: ValueTest,
    ) -> Result<SelectCondition> {
        self.check_test_kind(at, &subject, &test)?;
        let test = match (&subject, test) {
            // Facts match regardless of case, outputs of data sources as written.
            (
                ConditionSubject::Fact(_),
                ValueTest::Compare(operator, FactOperand::Regex(regex)),
            ) => {
                let regex = regex.ignoring_case().shifted_by(at)?;
                ValueTest::Compare(operator, FactOperand::Regex(regex))
            }
            (_, test) => test,
        };
        Ok(SelectCondition::Test(subject, test))
    }

    fn check_call(&mut self, at: usize, call: FunctionCall, end: usize) -> Result<SelectCondition> {
        if is_lookup(&call) {
            return self.check_bare_output(at, call, end);
        }
        if call.source == "fact" {
            parse_fact_call(at, call)?;
            return expected_at(end, "a comparison after fact(...)");
        }
        expect_no_field(at, &call)?;
        match call.source.as_str() {
            "include" => {
                let [collection, member] =
                    expect_arguments(at, call.arguments, "include(fact(\"name\"), \"value\")")?;
                self.include_condition(member, collection)
            }
            "semver" => {
                let [version, constraint] =
                    expect_arguments(at, call.arguments, "semver(fact(\"name\"), \">= 1.2\")")?;
                let version_at = version.at;
                let subject = self.parse_subject(version)?;
                let (at, constraint) = expect_quoted_text(constraint)?;
                let constraint = VersionConstraint::parse_part(&constraint).shifted_by(at)?;
                self.value_condition(version_at, subject, ValueTest::Version(constraint))
            }
            name => {
                let usage = format!("{name}(\"name\")");
                match (name, expect_arguments(at, call.arguments, &usage)?) {
                    ("agent", [name]) => self.pattern_from_value(name).map(SelectCondition::Agent),
                    ("class", [name]) => self.class_from_value(name).map(SelectCondition::Class),
                    (_, [word]) => self.parse_with_call(word),
                }
            }
        }
    }

    /// A boolean output without a comparison: `service("sshd").running`.
    fn check_bare_output(
        &mut self,
        at: usize,
        call: FunctionCall,
        end: usize,
    ) -> Result<SelectCondition> {
        let output = self.parse_output(at, call)?;
        let name = output.to_string();
        let subject = ConditionSubject::Output(output);
        if let Some(kind) = self.declared_kind(&subject)
            && !matches!(kind, OutputKind::Boolean | OutputKind::Any)
        {
            let expected =
                format!("a comparison after {name}, because it is {}", kind.description_phrase());
            return expected_at(end, expected);
        }
        let truth = FactOperand::Literal(LiteralOperand::parse_part("true")?);
        self.value_condition(at, subject, ValueTest::Compare(FactOperator::Equal, truth))
    }

    /// `with("apache")`, `with("/^web/")`, `with("country=uk")`.
    fn parse_with_call(&mut self, word: SelectValue) -> Result<SelectCondition> {
        let (at, word) = expect_quoted_text(word)?;
        if word.starts_with('/') || find_operator(&word).is_none() {
            return self.parse_class_pattern(at, &word).map(SelectCondition::With);
        }
        let FactTerm { path, operator, operand } = FactTerm::parse_part(&word).shifted_by(at)?;
        let operand = match operand {
            FactOperand::Regex(regex) => FactOperand::Regex(self.delimit_regex(at, regex)?),
            literal @ FactOperand::Literal(_) => literal,
        };
        let test = ValueTest::Compare(operator, operand);
        self.value_condition(at, ConditionSubject::Fact(path), test)
    }

    /// `value in collection`, `fact in [values]`.
    fn parse_membership(&mut self, left: SelectValue, right: SelectValue) -> Result<ConditionTree> {
        let at = left.at;
        let SelectValueKind::List(items) = right.kind else {
            let condition = self.include_condition(left, right)?;
            return self.count_term(at, condition);
        };
        let subject = self.parse_subject(left)?;
        let mut choices = Vec::new();
        for item in items {
            let item_at = item.at;
            let (operator, operand) = self.parse_operand(FactOperator::Equal, item)?;
            let test = ValueTest::Compare(operator, operand);
            let condition = self.value_condition(item_at, subject.clone(), test)?;
            choices.push(self.count_term(at, condition)?);
        }
        if choices.is_empty() {
            return expected_at(right.at, "a list of at least one value");
        }
        Ok(BooleanTree::join_list(Connective::Or, choices))
    }

    fn parse_collection(&mut self, value: SelectValue) -> Result<MemberCollection> {
        match &value.kind {
            SelectValueKind::Word(word) if word == "classes" => Ok(MemberCollection::Classes),
            SelectValueKind::Word(word) if word == "agents" => Ok(MemberCollection::Agents),
            _ => self.parse_subject(value).map(MemberCollection::Subject),
        }
    }

    fn include_condition(
        &mut self,
        member: SelectValue,
        collection: SelectValue,
    ) -> Result<SelectCondition> {
        let collection_at = collection.at;
        match self.parse_collection(collection)? {
            MemberCollection::Classes => self.class_from_value(member).map(SelectCondition::Class),
            MemberCollection::Agents => self.pattern_from_value(member).map(SelectCondition::Agent),
            MemberCollection::Subject(subject) => {
                let (at, member) = match member.kind {
                    SelectValueKind::Word(word) if is_value(&word) => (member.at, word),
                    _ => expect_quoted_text(member)?,
                };
                let literal = LiteralOperand::parse_part(&member).shifted_by(at)?;
                self.value_condition(collection_at, subject, ValueTest::Include(literal))
            }
        }
    }

    /// The operand of a fact comparison; a regular expression turns equality into a match, as everywhere in filters.
    fn parse_operand(
        &mut self,
        operator: FactOperator,
        value: SelectValue,
    ) -> Result<(FactOperator, FactOperand)> {
        let at = value.at;
        let operand = match value.kind {
            SelectValueKind::Regex(regex) if operator.with_regex().takes_regex() => {
                let regex = FilterRegex::parse_slashed(&regex).shifted_by(at)?;
                let regex = self.delimit_regex(at, regex)?;
                return Ok((operator.with_regex(), FactOperand::Regex(regex)));
            }
            SelectValueKind::Regex(_) => {
                let expected = format!("a value after {operator}, not a regular expression");
                return expected_at(at, expected);
            }
            SelectValueKind::Text(text) => self.parse_literal_operand(at + 1, operator, &text),
            SelectValueKind::Word(word) if is_nil(&word) => {
                LiteralOperand::parse_unquoted(&word).map(FactOperand::Literal).shifted_by(at)
            }
            SelectValueKind::Word(word) => self.parse_literal_operand(at, operator, &word),
            SelectValueKind::List(_) => expected_at(at, "one value (`in` takes a list)"),
            SelectValueKind::Call(_) => expected_at(at, "a literal value, not a function"),
        };
        Ok((operator, operand?))
    }

    fn parse_literal_operand(
        &mut self,
        at: usize,
        operator: FactOperator,
        text: &str,
    ) -> Result<FactOperand> {
        if operator.takes_regex() {
            let expression = FilterRegex::compile_regex(text, false);
            let expression = expression.shifted_by(at)?;
            self.delimit_regex(at, expression).map(FactOperand::Regex)
        } else {
            LiteralOperand::parse_part(text).map(FactOperand::Literal).shifted_by(at)
        }
    }

    fn pattern_from_value(&mut self, value: SelectValue) -> Result<FilterPattern> {
        if let SelectValueKind::Regex(regex) = &value.kind {
            return self.parse_pattern(value.at, regex);
        }
        let (at, name) = expect_quoted_text(value)?;
        self.parse_pattern(at, &name)
    }

    fn class_from_value(&mut self, value: SelectValue) -> Result<FilterPattern> {
        let at = value.at;
        self.pattern_from_value(value)?.ignoring_case().shifted_by(at)
    }

    fn parse_class_pattern(&mut self, at: usize, text: &str) -> Result<FilterPattern> {
        self.parse_pattern(at, text)?.ignoring_case().shifted_by(at)
    }

    fn parse_pattern(&mut self, at: usize, text: &str) -> Result<FilterPattern> {
        match FilterPattern::parse_part(text).shifted_by(at)? {
            FilterPattern::Regex(regex) => self.delimit_regex(at, regex).map(FilterPattern::Regex),
            exact @ FilterPattern::Exact(_) => Ok(exact),
        }
    }

    /// Converts a quoted regular expression to one that parses between slashes in any context: inner slashes that would end it
    /// are escaped.
    fn delimit_regex(&mut self, at: usize, expression: FilterRegex) -> Result<FilterRegex> {
        self.regexes += 1;
        if self.regexes > MAX_SELECT_REGEXES {
            return expected_at(at, format!("at most {MAX_SELECT_REGEXES} regular expressions"));
        }
        let printed = expression.to_string();
        if is_whole_regex(&printed) {
            return Ok(expression);
        }
        let (source, ignore_case) = split_slashed_regex(&printed).unwrap_or((&printed, false));
        FilterRegex::compile_regex(&with_escaped_slashes(source), ignore_case)
            .map_err(|fault| FilterFault::new(at, fault.into_expected()))
    }

    /// Counts a condition against the limit.
    fn count_term(&mut self, at: usize, condition: SelectCondition) -> Result<ConditionTree> {
        self.terms += 1;
        if self.terms > MAX_SELECT_TERMS {
            return expected_at(at, format!("at most {MAX_SELECT_TERMS} conditions"));
        }
        Ok(BooleanTree::Term(condition))
    }
}

/// A quoted text, and the offset of its content.
pub(super) fn expect_quoted_text(value: SelectValue) -> Result<(usize, String)> {
    match value.kind {
        SelectValueKind::Text(text) => Ok((value.at + 1, text)),
        _ => expected_at(value.at, "a string in quotes"),
    }
}

pub(super) fn expect_arguments<const N: usize>(
    at: usize,
    arguments: Vec<SelectValue>,
    usage: &str,
) -> Result<[SelectValue; N]> {
    <[SelectValue; N]>::try_from(arguments).map_err(|_| FilterFault::new(at, usage.to_owned()))
}

fn expect_no_field(at: usize, call: &FunctionCall) -> Result<()> {
    match &call.field {
        None => Ok(()),
        Some(field) => expected_at(at, format!("{}(...) without .{}", call.source, field.name)),
    }
}

fn with_escaped_slashes(source: &str) -> String {
    let mut escaped = false;
    let mut output = String::with_capacity(source.len() + 8);
    for c in source.chars() {
        if c == '/' && !escaped {
            output.push('\\');
        }
        escaped = c == '\\' && !escaped;
        output.push(c);
    }
    output
}
