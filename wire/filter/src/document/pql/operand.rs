//! Parses the tests of PQL: paths of facts, operators and values.

use serde_json::{Number, Value};

use super::super::operators::comparison::OrderOperator;
use super::condition::{FactPathPart, FactTest, NodeTest, RowTest, TextTest};
use super::reader::PqlReader;
use super::regex::compile_regex;
use crate::boolean_tree::BooleanTree;
use crate::error::{FaultContext as _, Result, expected_at};
use crate::limits::MAX_QUERY_REGEXES;
use crate::pattern::FilterRegex;

/// Deepest nesting of lists in a value.
const MAX_LIST_DEPTH: usize = 8;

/// An operator, and what follows it.
#[derive(Clone, Copy)]
enum PqlOperator {
    Equal,
    Match,
    Order(OrderOperator),
    In,
    IsNull(bool),
}

const SYMBOLS: [(&str, PqlOperator, bool); 8] = [
    ("!=", PqlOperator::Equal, true),
    ("!~", PqlOperator::Match, true),
    ("=", PqlOperator::Equal, false),
    ("~", PqlOperator::Match, false),
    (">=", PqlOperator::Order(OrderOperator::AtLeast), false),
    (">", PqlOperator::Order(OrderOperator::Greater), false),
    ("<=", PqlOperator::Order(OrderOperator::AtMost), false),
    ("<", PqlOperator::Order(OrderOperator::Less), false),
];

fn negate_if<T>(test: T, negated: bool) -> BooleanTree<T> {
    let test = BooleanTree::Term(test);
    if negated { BooleanTree::negate_tree(test) } else { test }
}

impl PqlReader<'_> {
    /// The operator and the value after a field that is a text.
    pub(super) fn read_text_test<T>(
        &mut self,
        at: usize,
        convert: fn(TextTest) -> T,
    ) -> Result<BooleanTree<T>> {
        let (operator, negated) = self.read_operator()?;
        let value_at = self.scanner.offset();
        let test = match operator {
            PqlOperator::IsNull(wanted) => TextTest::IsNull(wanted),
            PqlOperator::Match => TextTest::Match(self.read_regex()?),
            PqlOperator::Equal => match self.read_value(0)? {
                Value::String(text) => TextTest::In(vec![text]),
                _ => return expected_at(value_at, "a text in quotes"),
            },
            PqlOperator::In => {
                let texts = self.read_list(0)?.into_iter().map(|item| match item {
                    Value::String(text) => Ok(text),
                    _ => expected_at(value_at, "a list of texts in quotes"),
                });
                TextTest::In(texts.collect::<Result<_>>()?)
            }
            PqlOperator::Order(_) => {
                return expected_at(at, "=, ~, in or is null (PuppetDB does not order texts)");
            }
        };
        Ok(negate_if(convert(test), negated))
    }

    /// The operator and the value after the field `value` of a fact.
    pub(super) fn read_value_test(&mut self) -> Result<BooleanTree<RowTest>> {
        let (operator, negated) = self.read_operator()?;
        let test = match operator {
            PqlOperator::In => RowTest::ValueIn(self.read_list(0)?),
            operator => RowTest::Value(self.read_operand(operator)?),
        };
        Ok(negate_if(test, negated))
    }

    /// The path, the operator and the value after `facts`.
    pub(super) fn read_fact_test(&mut self, at: usize) -> Result<BooleanTree<NodeTest>> {
        let path = self.read_path()?;
        if path.first().is_some_and(|part| part.name == "trusted") {
            return expected_at(at, "another fact: nodes do not publish trusted facts");
        }
        let (operator, negated) = self.read_operator()?;
        let has_index = path.iter().any(|part| part.index.is_some());
        let test = match operator {
            PqlOperator::In => {
                return expected_at(
                    at,
                    "another field before in (PuppetDB has no in for facts.PATH; write facts { name = \"...\" and value in [ ... ] })",
                );
            }
            PqlOperator::IsNull(_) if has_index => {
                return expected_at(at, "a path without an index (PuppetDB ignores it in is null)");
            }
            operator => self.read_operand(operator)?,
        };
        Ok(negate_if(NodeTest::Fact(path, test), negated))
    }

    fn read_operand(&mut self, operator: PqlOperator) -> Result<FactTest> {
        let at = self.scanner.offset();
        Ok(match operator {
            PqlOperator::IsNull(wanted) => FactTest::IsNull(wanted),
            PqlOperator::Match => FactTest::Match(self.read_regex()?),
            PqlOperator::Order(order) => match self.read_value(0)? {
                Value::Number(number) => FactTest::Order(order, number),
                _ => {
                    return expected_at(
                        at,
                        "a number (the order of texts depends on PuppetDB's database)",
                    );
                }
            },
            PqlOperator::Equal | PqlOperator::In => FactTest::Equal(self.read_value(0)?),
        })
    }

    /// The parts of a path: `.os.family`, `.disks[0]`, `."a.b"`.
    fn read_path(&mut self) -> Result<Vec<FactPathPart>> {
        let mut path = Vec::new();
        while self.scanner.take_char('.') {
            let at = self.scanner.offset();
            let text = match self.scanner.peek() {
                Some('"') => self.read_quoted_name()?,
                _ => self.read_plain_name()?,
            };
            path.push(split_index(&text).shifted_by(at)?);
        }
        Ok(path)
    }

    fn read_plain_name(&mut self) -> Result<String> {
        let at = self.scanner.offset();
        let name =
            self.scanner.take_while(|c| c.is_alphanumeric() || "_-:/$@%+".contains(c)).to_owned();
        if name.is_empty() {
            return expected_at(at, "the name of a fact");
        }
        let mut index = String::new();
        if self.scanner.take_char('[') {
            index = format!("[{}]", self.scanner.take_while(|c| c.is_ascii_digit()));
            if index == "[]" || !self.scanner.take_char(']') {
                return expected_at(self.scanner.offset(), "the number of an element and ]");
            }
        }
        let ends = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || ".=<>~!".contains(c);
        match self.scanner.peek() {
            Some(c) if !ends(c) => expected_at(
                self.scanner.offset(),
                "a dot, an operator, or quotes around a name with other characters",
            ),
            _ => Ok(name + &index),
        }
    }

    /// A name in double quotes, which has no escapes. `PuppetDB` needs a dot or white space after it.
    fn read_quoted_name(&mut self) -> Result<String> {
        let at = self.scanner.offset();
        self.scanner.take_char('"');
        let name = self.scanner.take_while(|c| c != '"').to_owned();
        let is_closed = self.scanner.take_char('"');
        let ends = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || c == '.';
        if !is_closed || !self.scanner.peek().is_some_and(ends) {
            return expected_at(at, "a closing quote, and a dot or white space after it");
        }
        if name.is_empty() || name.contains(|c: char| c == '\\' || c.is_control()) {
            return expected_at(at, "a name without backslashes and control characters");
        }
        Ok(name)
    }

    fn read_operator(&mut self) -> Result<(PqlOperator, bool)> {
        self.skip_spaces();
        let at = self.scanner.offset();
        for (text, wanted) in [("is null", true), ("is not null", false)] {
            if self.scanner.take_word(text) {
                return Ok((PqlOperator::IsNull(wanted), false));
            }
        }
        if self.scanner.take_word("in") {
            self.skip_spaces();
            return Ok((PqlOperator::In, false));
        }
        let symbol = self.scanner.take_while(|c| "=~<>!".contains(c));
        match SYMBOLS.into_iter().find(|(text, ..)| *text == symbol) {
            Some((_, operator, negated)) => {
                self.skip_spaces();
                Ok((operator, negated))
            }
            None => {
                expected_at(at, "=, !=, ~, !~, <, <=, >, >=, in, or is null with one space in it")
            }
        }
    }

    fn read_regex(&mut self) -> Result<FilterRegex> {
        let at = self.scanner.offset();
        match self.read_value(0)? {
            Value::String(text) => {
                self.usage.regexes += 1;
                if self.usage.regexes > MAX_QUERY_REGEXES {
                    return expected_at(
                        at,
                        format!("at most {MAX_QUERY_REGEXES} regular expressions"),
                    );
                }
                compile_regex(&text).shifted_by(at)
            }
            _ => expected_at(at, "a regular expression in quotes"),
        }
    }

    pub(super) fn read_value(&mut self, depth: usize) -> Result<Value> {
        self.usage.conditions += 1;
        let at = self.scanner.offset();
        match self.scanner.peek() {
            Some(quote @ ('"' | '\'')) => self.read_text(quote).map(Value::String),
            Some('[') => self.read_list(depth).map(Value::Array),
            Some(c) if c == '-' || c.is_ascii_digit() => self.read_number(at),
            _ => {
                for (word, value) in [("true", true), ("false", false)] {
                    if self.scanner.take_word(word) {
                        return Ok(Value::Bool(value));
                    }
                }
                expected_at(at, "a text in quotes, a number, true, false or a list of these")
            }
        }
    }

    pub(super) fn read_list(&mut self, depth: usize) -> Result<Vec<Value>> {
        let at = self.scanner.offset();
        if depth == MAX_LIST_DEPTH || !self.scanner.take_char('[') {
            return expected_at(
                at,
                format!("a list such as [\"a\", \"b\"], with at most {MAX_LIST_DEPTH} levels"),
            );
        }
        let mut items = Vec::new();
        loop {
            self.skip_spaces();
            items.push(self.read_value(depth + 1)?);
            if self.take(']') {
                return Ok(items);
            }
            if !self.take(',') {
                return expected_at(self.scanner.offset(), "a comma or the closing ]");
            }
        }
    }

    /// A text. In double quotes it has the escapes of JSON; in single quotes only `\'` is one, and all other backslashes stay.
    fn read_text(&mut self, quote: char) -> Result<String> {
        let at = self.scanner.offset();
        self.scanner.take_char(quote);
        let mut raw = String::new();
        loop {
            raw.push_str(self.scanner.take_while(|c| c != quote && c != '\\' && !c.is_control()));
            match self.scanner.next_char() {
                Some('\\') => {
                    raw.push('\\');
                    match self.scanner.next_char() {
                        Some(c) if !c.is_control() => raw.push(c),
                        _ => return expected_at(at, "a text without control characters"),
                    }
                }
                Some(c) if c == quote => break,
                None => return expected_at(at, "a closing quote"),
                Some(_) => return expected_at(at, "a text without control characters"),
            }
        }
        let text = if quote == '\'' {
            raw.replace("\\'", "'")
        } else {
            match serde_json::from_str::<String>(&format!("\"{raw}\"")) {
                Ok(text) => text,
                Err(_) => return expected_at(at, "the escapes of JSON within double quotes"),
            }
        };
        if text.contains('\0') {
            return expected_at(at, "a text without the character 0, which PuppetDB replaces");
        }
        Ok(text)
    }

    /// `-5`, `007`, `1.5`, `1.0e3`.
    fn read_number(&mut self, at: usize) -> Result<Value> {
        let mut text = if self.scanner.take_char('-') { "-".to_owned() } else { String::new() };
        let is_digit = |c: char| c.is_ascii_digit();
        let whole = self.scanner.take_while(is_digit);
        text.push_str(whole);
        let refused =
            "a whole number of 64 bits, or a decimal with digits before and after the point";
        if whole.is_empty() {
            return expected_at(at, refused);
        }
        if !self.scanner.take_char('.') {
            let number = text.parse::<i64>().ok().map(|number| Value::Number(number.into()));
            return number.map_or_else(|| expected_at(at, refused), Ok);
        }
        let fraction = self.scanner.take_while(is_digit);
        text = format!("{text}.{fraction}");
        if self.scanner.take_char('e') || self.scanner.take_char('E') {
            text.push('e');
            if self.scanner.take_char('-') {
                text.push('-');
            } else {
                self.scanner.take_char('+');
            }
            text.push_str(self.scanner.take_while(is_digit));
        }
        let number = text.parse().ok().and_then(Number::from_f64).filter(|_| !fraction.is_empty());
        number.map_or_else(|| expected_at(at, refused), |number| Ok(Value::Number(number)))
    }
}

/// `disks[0]` as a name and an index.
fn split_index(text: &str) -> Result<FactPathPart> {
    let split = text.strip_suffix(']').and_then(|body| body.rsplit_once('['));
    match split {
        Some((name, digits))
            if !name.is_empty()
                && !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            match digits.parse::<i32>().ok().and_then(|index| usize::try_from(index).ok()) {
                Some(index) => Ok(FactPathPart { name: name.to_owned(), index: Some(index) }),
                None => expected_at(0, "an index of at most 2,147,483,647"),
            }
        }
        _ => Ok(FactPathPart { name: text.to_owned(), index: None }),
    }
}
