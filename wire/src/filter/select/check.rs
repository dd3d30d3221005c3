//! Turns what was written into conditions, or says what is wrong with it: every statement must be true or false
//! of a node, every operator must have values that it can compare, every function its arguments.

use std::collections::BTreeSet;

use super::ast::{Call, Comparison, Condition, Statement, Subject, Test, Tree, Value, ValueKind};
use super::lex::is_whole_regex;
use super::print::is_value;
use super::semver::Constraint;
use super::subject::{fact, is_lookup};
use super::{MAX_SELECT_REGEXES, MAX_SELECT_TERMS};
use crate::filter::error::Fault;
use crate::filter::known::Lookup;
use crate::filter::parse::find_operator;
use crate::filter::pattern::{Expression, Pattern, slashed};
use crate::filter::sources::{Kind, Sources};
use crate::filter::term::{FactTerm, Literal, Operand, Operator};

/// Checks a whole expression; its data sources too, if it is known which there are.
pub(super) fn check(
    tree: Tree<Statement>,
    declared: Option<&Sources>,
) -> Result<Tree<Condition>, Fault> {
    let mut checker = Checker {
        declared,
        terms: 0,
        regexes: 0,
        lookups: BTreeSet::new(),
    };
    checker.tree(tree)
}

/// What the data sources are, and what there has been of that is limited.
pub(super) struct Checker<'a> {
    pub(super) declared: Option<&'a Sources>,
    terms: usize,
    regexes: usize,
    pub(super) lookups: BTreeSet<Lookup>,
}

/// Where a member is looked for.
enum Collection {
    Of(Subject),
    Classes,
    Agents,
}

impl Checker<'_> {
    fn tree(&mut self, tree: Tree<Statement>) -> Result<Tree<Condition>, Fault> {
        match tree {
            Tree::All(list) => self.list(list, Tree::all),
            Tree::Any(list) => self.list(list, Tree::any),
            Tree::Not(inner) => self.tree(*inner).map(Tree::not),
            Tree::Term(statement) => self.statement(statement),
        }
    }

    fn list(
        &mut self,
        list: Vec<Tree<Statement>>,
        join: fn(Tree<Condition>, Vec<Tree<Condition>>) -> Tree<Condition>,
    ) -> Result<Tree<Condition>, Fault> {
        let mut checked = list.into_iter().map(|tree| self.tree(tree));
        let Some(first) = checked.next() else {
            return Err(Fault::new(0, "a condition"));
        };
        let first = first?;
        Ok(join(first, checked.collect::<Result<_, _>>()?))
    }

    fn statement(&mut self, statement: Statement) -> Result<Tree<Condition>, Fault> {
        let at = statement.left.at;
        match statement.comparison {
            None => self.alone(statement.left, statement.end),
            Some((Comparison::Operator(operator), right)) => {
                let subject = self.subject(statement.left)?;
                let right_at = right.at;
                let (operator, operand) = self.operand(operator, right)?;
                let condition = self.of(right_at, subject, Test::Compare(operator, operand))?;
                self.term(at, condition)
            }
            Some((Comparison::In, right)) => self.member(statement.left, right),
            Some((Comparison::NotIn, right)) => self.member(statement.left, right).map(Tree::not),
        }
    }

    /// What stands without a comparison: a class, or a function that is true or false.
    fn alone(&mut self, value: Value, end: usize) -> Result<Tree<Condition>, Fault> {
        let at = value.at;
        let condition = match value.kind {
            ValueKind::Word(word) if is_value(&word) => {
                let expected = format!("a condition, not a value (class(\"{word}\") is a class)");
                return Err(Fault::new(at, expected));
            }
            ValueKind::Word(text) | ValueKind::Regex(text) => {
                Condition::Class(self.pattern(at, &text)?)
            }
            ValueKind::Text(_) | ValueKind::List(_) => {
                let expected = "a condition, not a text (class(\"...\") is a class)";
                return Err(Fault::new(at, expected));
            }
            ValueKind::Call(call) => self.call(at, call, end)?,
        };
        self.term(at, condition)
    }

    fn of(&self, at: usize, subject: Subject, test: Test) -> Result<Condition, Fault> {
        self.fits(at, &subject, &test)?;
        Ok(Condition::Of(subject, test))
    }

    fn call(&mut self, at: usize, call: Call, end: usize) -> Result<Condition, Fault> {
        if is_lookup(&call) {
            return self.output_alone(at, call, end);
        }
        if call.source == "fact" {
            fact(at, call)?;
            return Err(Fault::new(end, "a comparison after fact(...)"));
        }
        no_field(at, &call)?;
        match call.source.as_str() {
            "include" => {
                let [collection, member] =
                    arguments(at, call, "include(fact(\"name\"), \"value\")")?;
                self.include(member, collection)
            }
            "semver" => {
                let [version, demand] = arguments(at, call, "semver(fact(\"name\"), \">= 1.2\")")?;
                let version_at = version.at;
                let subject = self.subject(version)?;
                let (at, demand) = text(demand)?;
                let demand = Constraint::read(&demand).map_err(|fault| fault.further(at))?;
                self.of(version_at, subject, Test::Version(demand))
            }
            "agent" => {
                let [name] = arguments(at, call, "agent(\"name\")")?;
                self.pattern_of(name).map(Condition::Agent)
            }
            "class" => {
                let [name] = arguments(at, call, "class(\"name\")")?;
                self.pattern_of(name).map(Condition::Class)
            }
            _ => {
                let [word] = arguments(at, call, "with(\"name\")")?;
                self.with(word)
            }
        }
    }

    /// An output that is true or false by itself: `service("sshd").running`.
    fn output_alone(&mut self, at: usize, call: Call, end: usize) -> Result<Condition, Fault> {
        let output = self.output(at, call)?;
        let name = output.to_string();
        let subject = Subject::Output(output);
        if let Some(kind) = self.kind(&subject)
            && !matches!(kind, Kind::Boolean | Kind::Any)
        {
            let expected = format!("a comparison after {name}, for it is {}", kind.phrase());
            return Err(Fault::new(end, expected));
        }
        let truth = Operand::Literal(Literal::read("true")?);
        self.of(at, subject, Test::Compare(Operator::Equal, truth))
    }

    /// `with("apache")`, `with("/^web/")`, `with("country=uk")`.
    fn with(&mut self, word: Value) -> Result<Condition, Fault> {
        let (at, word) = text(word)?;
        if word.starts_with('/') || find_operator(&word).is_none() {
            return self.pattern(at, &word).map(Condition::With);
        }
        let FactTerm {
            path,
            operator,
            operand,
        } = FactTerm::read(&word).map_err(|fault| fault.further(at))?;
        let operand = match operand {
            Operand::Regex(expression) => Operand::Regex(self.whole(at, expression)?),
            literal @ Operand::Literal(_) => literal,
        };
        let test = Test::Compare(operator, operand);
        Ok(Condition::Of(Subject::Fact(path), test))
    }

    /// `value in collection`, `fact in [values]`.
    fn member(&mut self, left: Value, right: Value) -> Result<Tree<Condition>, Fault> {
        let at = left.at;
        let ValueKind::List(items) = right.kind else {
            let condition = self.include(left, right)?;
            return self.term(at, condition);
        };
        let subject = self.subject(left)?;
        let mut choices = Vec::new();
        for item in items {
            let item_at = item.at;
            let (operator, operand) = self.operand(Operator::Equal, item)?;
            let test = Test::Compare(operator, operand);
            let condition = self.of(item_at, subject.clone(), test)?;
            choices.push(self.term(at, condition)?);
        }
        let mut choices = choices.into_iter();
        let Some(first) = choices.next() else {
            return Err(Fault::new(right.at, "a list of one value or more"));
        };
        Ok(Tree::any(first, choices.collect()))
    }

    fn collection(&mut self, value: Value) -> Result<Collection, Fault> {
        match &value.kind {
            ValueKind::Word(word) if word == "classes" => Ok(Collection::Classes),
            ValueKind::Word(word) if word == "agents" => Ok(Collection::Agents),
            _ => self.subject(value).map(Collection::Of),
        }
    }

    fn include(&mut self, member: Value, collection: Value) -> Result<Condition, Fault> {
        let collection_at = collection.at;
        match self.collection(collection)? {
            Collection::Classes => self.pattern_of(member).map(Condition::Class),
            Collection::Agents => self.pattern_of(member).map(Condition::Agent),
            Collection::Of(subject) => {
                let (at, member) = match member.kind {
                    ValueKind::Word(word) if is_value(&word) => (member.at, word),
                    _ => text(member)?,
                };
                let literal = Literal::read(&member).map_err(|fault| fault.further(at))?;
                self.of(collection_at, subject, Test::Include(literal))
            }
        }
    }

    /// What a fact is compared with; an expression turns equality into a match, as everywhere in filters.
    fn operand(&mut self, operator: Operator, value: Value) -> Result<(Operator, Operand), Fault> {
        let at = value.at;
        let (operator, operand) = match (value.kind, operator) {
            (ValueKind::Regex(regex), Operator::Equal | Operator::Match) => {
                (Operator::Match, self.slashed(at, &regex)?)
            }
            (ValueKind::Regex(regex), Operator::NotEqual | Operator::NotMatch) => {
                (Operator::NotMatch, self.slashed(at, &regex)?)
            }
            (ValueKind::Regex(_), _) => {
                let expected = format!("a value after {operator}, not a regular expression");
                return Err(Fault::new(at, expected));
            }
            (ValueKind::Text(text), _) => (operator, self.written(at + 1, operator, &text)?),
            (ValueKind::Word(word), _) => (operator, self.written(at, operator, &word)?),
            (ValueKind::List(_), _) => {
                return Err(Fault::new(at, "one value (`in` takes a list)"));
            }
            (ValueKind::Call(_), _) => {
                let expected = "a value that is written here, not a function";
                return Err(Fault::new(at, expected));
            }
        };
        Ok((operator, operand))
    }

    fn written(&mut self, at: usize, operator: Operator, text: &str) -> Result<Operand, Fault> {
        if operator.takes_regex() {
            let expression = Expression::compile(text, false);
            let expression = expression.map_err(|fault| fault.further(at))?;
            self.whole(at, expression).map(Operand::Regex)
        } else {
            Literal::read(text)
                .map(Operand::Literal)
                .map_err(|fault| fault.further(at))
        }
    }

    fn slashed(&mut self, at: usize, regex: &str) -> Result<Operand, Fault> {
        let expression = Expression::read_slashed(regex).map_err(|fault| fault.further(at))?;
        self.whole(at, expression).map(Operand::Regex)
    }

    fn pattern_of(&mut self, value: Value) -> Result<Pattern, Fault> {
        let at = value.at;
        if let ValueKind::Regex(regex) = &value.kind {
            return self.pattern(at, regex);
        }
        let (at, name) = text(value)?;
        self.pattern(at, &name)
    }

    fn pattern(&mut self, at: usize, text: &str) -> Result<Pattern, Fault> {
        match Pattern::read(text).map_err(|fault| fault.further(at))? {
            Pattern::Regex(expression) => self.whole(at, expression).map(Pattern::Regex),
            exact @ Pattern::Exact(_) => Ok(exact),
        }
    }

    /// An expression that reads back between slashes whatever follows it: slashes inside are escaped where they
    /// would end it. Written in quotes, they needed no escape.
    fn whole(&mut self, at: usize, expression: Expression) -> Result<Expression, Fault> {
        self.regexes += 1;
        if self.regexes > MAX_SELECT_REGEXES {
            let expected = format!("at most {MAX_SELECT_REGEXES} regular expressions");
            return Err(Fault::new(at, expected));
        }
        let printed = expression.to_string();
        if is_whole_regex(&printed) {
            return Ok(expression);
        }
        let (source, ignore_case) = slashed(&printed).unwrap_or((&printed, false));
        Expression::compile(&with_escaped_slashes(source), ignore_case)
            .map_err(|fault| Fault::new(at, fault.into_expected()))
    }

    /// A condition, if there are not too many.
    fn term(&mut self, at: usize, condition: Condition) -> Result<Tree<Condition>, Fault> {
        self.terms += 1;
        if self.terms > MAX_SELECT_TERMS {
            let expected = format!("at most {MAX_SELECT_TERMS} conditions");
            return Err(Fault::new(at, expected));
        }
        Ok(Tree::Term(condition))
    }
}

/// A text between quotes, and where it begins behind them.
pub(super) fn text(value: Value) -> Result<(usize, String), Fault> {
    match value.kind {
        ValueKind::Text(text) => Ok((value.at + 1, text)),
        _ => Err(Fault::new(value.at, "a text in quotes")),
    }
}

pub(super) fn arguments<const N: usize>(
    at: usize,
    call: Call,
    form: &str,
) -> Result<[Value; N], Fault> {
    <[Value; N]>::try_from(call.arguments).map_err(|_| Fault::new(at, form.to_owned()))
}

fn no_field(at: usize, call: &Call) -> Result<(), Fault> {
    match &call.field {
        None => Ok(()),
        Some(field) => {
            let expected = format!("{}(...) without .{}", call.source, field.name);
            Err(Fault::new(at, expected))
        }
    }
}

fn with_escaped_slashes(source: &str) -> String {
    let mut escaped = false;
    let mut written = String::with_capacity(source.len() + 8);
    for c in source.chars() {
        if c == '/' && !escaped {
            written.push('\\');
        }
        escaped = c == '\\' && !escaped;
        written.push(c);
    }
    written
}
