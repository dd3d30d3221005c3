//! Parses PQL. Accepts only what `PuppetDB` accepts: white space around `and` and `or`, no comments, `is null` with one space.

use super::super::scan::TextScanner;
use super::super::usage::QueryUsage;
use super::condition::{NodeTest, PqlQuery, RowTest, TextTest};
use crate::boolean_tree::{BooleanTree, Connective};
use crate::error::{Result, expected_at};

/// Deepest nesting of `( )`, `!` and `{ }`.
const MAX_DEPTH: usize = 16;
/// White space of PQL.
const SPACES: &str = " \t\n\u{b}\u{c}\r";

/// The entity of a query or of a part in `{ }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PqlEntity {
    Inventory,
    Nodes,
    Facts,
    Resources,
    /// One whose fields are not known here.
    Any,
}

impl PqlQuery {
    /// Parses a query that is the whole text.
    pub(in super::super) fn parse(text: &str) -> Result<Self> {
        let mut reader = PqlReader::new(text);
        let condition = reader.read_query()?;
        let is_space = |c| SPACES.contains(c);
        let one_line = text.trim_matches(is_space).replace(is_space, " ");
        Ok(Self { text: one_line, condition, usage: reader.usage })
    }
}

pub(super) struct PqlReader<'a> {
    pub(super) scanner: TextScanner<'a>,
    depth: usize,
    pub(super) usage: QueryUsage,
}

type ReadTest<'a, T> = fn(&mut PqlReader<'a>, PqlEntity) -> Result<BooleanTree<T>>;

impl<'a> PqlReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { scanner: TextScanner::new(text), depth: 0, usage: QueryUsage::default() }
    }

    fn read_query(&mut self) -> Result<Option<BooleanTree<NodeTest>>> {
        self.skip_spaces();
        let (at, name) = self.read_word();
        let entity = match name {
            "inventory" => PqlEntity::Inventory,
            "nodes" => PqlEntity::Nodes,
            _ => {
                return expected_at(
                    at,
                    format!(
                        "a query document {{ }}, or PQL that begins with inventory or nodes ({name:?})"
                    ),
                );
            }
        };
        if self.take('[') {
            self.skip_spaces();
            let (at, field) = self.read_word();
            if field != "certname" || !self.take(']') {
                return expected_at(at, "[certname], because the query selects nodes");
            }
        }
        if !self.take('{') {
            return expected_at(self.scanner.offset(), "{ and a condition");
        }
        let condition = if self.take('}') {
            None
        } else {
            Some(self.read_condition(entity, Self::read_node_test)?)
        };
        self.skip_spaces();
        match self.scanner.peek() {
            None => Ok(condition),
            Some(_) => expected_at(
                self.scanner.offset(),
                "the end of the query (limit, offset, order by and group by are not supported)",
            ),
        }
    }

    /// A condition and the closing brace.
    fn read_condition<T>(
        &mut self,
        entity: PqlEntity,
        read_test: ReadTest<'a, T>,
    ) -> Result<BooleanTree<T>> {
        let condition = self.read_deeper(|reader| {
            reader.skip_spaces();
            reader.read_or(entity, read_test)
        })?;
        if self.take('}') {
            return Ok(condition);
        }
        expected_at(
            self.scanner.offset(),
            "and, or, or the closing } (white space is required around and, or; limit, offset, order by and group by are not supported)",
        )
    }

    pub(super) fn read_or<T>(
        &mut self,
        entity: PqlEntity,
        read_test: ReadTest<'a, T>,
    ) -> Result<BooleanTree<T>> {
        let mut list = vec![self.read_and(entity, read_test)?];
        while self.take_joining_word("or") {
            list.push(self.read_and(entity, read_test)?);
        }
        Ok(BooleanTree::join_list(Connective::Or, list))
    }

    fn read_and<T>(
        &mut self,
        entity: PqlEntity,
        read_test: ReadTest<'a, T>,
    ) -> Result<BooleanTree<T>> {
        let mut list = vec![self.read_not(entity, read_test)?];
        while self.take_joining_word("and") {
            list.push(self.read_not(entity, read_test)?);
        }
        Ok(BooleanTree::join_list(Connective::And, list))
    }

    fn read_not<T>(
        &mut self,
        entity: PqlEntity,
        read_test: ReadTest<'a, T>,
    ) -> Result<BooleanTree<T>> {
        if self.scanner.take_char('!') {
            self.skip_spaces();
            let inner = self.read_deeper(|reader| reader.read_not(entity, read_test))?;
            return Ok(BooleanTree::negate_tree(inner));
        }
        if self.scanner.take_char('(') {
            self.skip_spaces();
            let inner = self.read_deeper(|reader| reader.read_or(entity, read_test))?;
            if !self.take(')') {
                return expected_at(self.scanner.offset(), "and, or, or the closing )");
            }
            return Ok(inner);
        }
        read_test(self, entity)
    }

    fn read_node_test(&mut self, entity: PqlEntity) -> Result<BooleanTree<NodeTest>> {
        let (at, field) = self.read_word();
        match field {
            "certname" => self.read_text_test(at, NodeTest::Certname),
            "facts" if self.scanner.peek() == Some('.') => {
                if entity == PqlEntity::Nodes {
                    return expected_at(
                        at,
                        "certname, facts { }, resources { } or inventory { } (PuppetDB has no facts.PATH in nodes; write inventory { facts.PATH ... })",
                    );
                }
                self.read_fact_test(at)
            }
            "facts" if self.take('{') => {
                let rows = self.read_condition(PqlEntity::Facts, Self::read_row_test)?;
                Ok(BooleanTree::Term(NodeTest::FactRows(rows)))
            }
            "resources" if self.take('{') => {
                let rows = self.read_condition(PqlEntity::Resources, Self::read_row_test)?;
                let is_class = |test: &RowTest| matches!(test, RowTest::Type(TextTest::In(types)) if types.iter().all(|name| name == "Class"));
                if rows.requires(&is_class) {
                    return Ok(BooleanTree::Term(NodeTest::ClassRows(rows)));
                }
                expected_at(
                    at,
                    "type = \"Class\": nodes publish their classes, and no other resources",
                )
            }
            "inventory" if entity == PqlEntity::Nodes && self.take('{') => {
                let inner = self.read_condition(PqlEntity::Inventory, Self::read_node_test)?;
                Ok(BooleanTree::Term(NodeTest::Inventory(Box::new(inner))))
            }
            _ => expected_at(
                at,
                format!(
                    "certname, facts.PATH, facts {{ }} or resources {{ }} ({field:?} is not supported)"
                ),
            ),
        }
    }

    fn read_row_test(&mut self, entity: PqlEntity) -> Result<BooleanTree<RowTest>> {
        let (at, field) = self.read_word();
        match (entity, field) {
            (_, "certname") => self.read_text_test(at, RowTest::Certname),
            (PqlEntity::Facts, "name") | (PqlEntity::Resources, "title") => {
                self.read_text_test(at, RowTest::Name)
            }
            (PqlEntity::Resources, "type") => self.read_text_test(at, RowTest::Type),
            (PqlEntity::Facts, "value") => self.read_value_test(),
            (PqlEntity::Resources, _) => expected_at(
                at,
                format!(
                    "type or title ({field:?} is not supported: nodes publish no other data of resources)"
                ),
            ),
            _ => expected_at(at, format!("name or value ({field:?} is not supported)")),
        }
    }

    /// A word of letters, digits and `_`, and its offset.
    pub(super) fn read_word(&mut self) -> (usize, &'a str) {
        let at = self.scanner.offset();
        (at, self.scanner.take_while(|c| c.is_ascii_alphanumeric() || c == '_'))
    }

    /// Consumes `and` or `or` with white space on both sides.
    fn take_joining_word(&mut self, word: &str) -> bool {
        let before = self.scanner;
        if self.skip_spaces() && self.scanner.take_word(word) && self.skip_spaces() {
            return true;
        }
        self.scanner = before;
        false
    }

    /// Consumes this character if it is the next one after white space.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        self.scanner.take_char(wanted)
    }

    /// Whether there was white space.
    pub(super) fn skip_spaces(&mut self) -> bool {
        !self.scanner.take_while(|c| SPACES.contains(c)).is_empty()
    }

    pub(super) fn read_deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.depth == MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH} levels of nesting");
            return expected_at(self.scanner.offset(), expected);
        }
        self.depth += 1;
        let condition = read(self);
        self.depth -= 1;
        condition
    }
}
