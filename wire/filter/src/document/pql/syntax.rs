//! Reads a query in PQL of any entity as the JSON that `PuppetDB` makes of it. Names of entities and fields are not checked.
//!
//! ```text
//! query  = entity [ "[" columns "]" ] "{" [ or ] { clause } "}"
//! clause = "limit" number | "offset" number | "order by" fields | "group by" columns
//! column = field | function "(" [ arguments ] ")"
//! ```

use serde_json::{Value, json};

use super::super::usage::QueryUsage;
use super::reader::{PqlEntity, PqlReader};
use crate::boolean_tree::{BooleanTree, Connective};
use crate::error::{Result, expected_at};

const CLAUSES: [&str; 4] = ["limit", "offset", "order", "group"];
const OPERATORS: [&str; 7] = ["=", "~", "~>", "<", "<=", ">", ">="];

/// What is in the braces of a query.
#[derive(Default)]
struct QueryBody {
    condition: Option<Value>,
    group: Option<Value>,
    paging: Vec<Value>,
}

/// Reads a query that is the whole text: `["from", ENTITY, CONDITION OR EXTRACT, PAGING...]`.
pub(in super::super) fn read_syntax(text: &str) -> Result<Value> {
    let mut reader = PqlReader::new(text);
    reader.skip_spaces();
    let query = reader.read_statement()?;
    reader.skip_spaces();
    if reader.scanner.peek().is_some() {
        return expected_at(reader.scanner.offset(), "the end of the query");
    }
    QueryUsage::default().add(0, reader.usage)?;
    Ok(query)
}

fn to_json(tree: BooleanTree<Value>) -> Value {
    match tree {
        BooleanTree::Term(test) => test,
        BooleanTree::Not(inner) => json!(["not", to_json(*inner)]),
        BooleanTree::List(connective, list) => {
            let word = if connective == Connective::And { "and" } else { "or" };
            [Value::from(word)].into_iter().chain(list.into_iter().map(to_json)).collect()
        }
    }
}

impl PqlReader<'_> {
    fn read_statement(&mut self) -> Result<Value> {
        let (at, entity) = self.read_word();
        if entity.is_empty() {
            return expected_at(at, "the name of an entity, such as nodes");
        }
        let columns = if self.take('[') { self.read_columns(']')? } else { Vec::new() };
        if !self.take('{') {
            return expected_at(self.scanner.offset(), "{ and a condition");
        }
        let body = self.read_deeper(Self::read_body)?;
        let mut query = vec![Value::from("from"), Value::from(entity)];
        if columns.is_empty() {
            if body.group.is_some() {
                return expected_at(at, "columns in [ ] in a query with group by");
            }
            query.extend(body.condition);
        } else {
            let extract = [Value::from("extract"), Value::Array(columns)].into_iter();
            query.push(extract.chain(body.condition).chain(body.group).collect());
        }
        query.extend(body.paging);
        Ok(Value::Array(query))
    }

    /// The condition, clauses in any order, and the closing brace.
    fn read_body(&mut self) -> Result<QueryBody> {
        let mut body = QueryBody::default();
        self.skip_spaces();
        if !self.is_clause() && self.scanner.peek() != Some('}') {
            let condition = self.read_or(PqlEntity::Any, Self::read_syntax_test)?;
            body.condition = Some(to_json(condition));
        }
        loop {
            if self.take('}') {
                return Ok(body);
            }
            let (at, word) = self.read_word();
            self.skip_spaces();
            let is_by = matches!(word, "order" | "group");
            if is_by && !self.scanner.take_word("by") {
                return expected_at(self.scanner.offset(), "by");
            }
            self.skip_spaces();
            match word {
                "limit" | "offset" => body.paging.push(json!([word, self.read_value(0)?])),
                "order" => body.paging.push(json!(["order_by", self.read_order()?])),
                "group" => {
                    let group = [Value::from("group_by")].into_iter();
                    body.group = Some(group.chain(self.read_list_of_columns()?).collect());
                }
                _ => {
                    return expected_at(
                        at,
                        "and, or, limit, offset, order by, group by, or the closing } (white space is required around words)",
                    );
                }
            }
        }
    }

    /// Whether a clause follows, and not a condition.
    fn is_clause(&mut self) -> bool {
        let before = self.scanner;
        let (_, word) = self.read_word();
        let is_alone = self.scanner.peek().is_some_and(|c| c.is_ascii_whitespace());
        self.scanner = before;
        is_alone && CLAUSES.contains(&word)
    }

    fn read_order(&mut self) -> Result<Vec<Value>> {
        let mut fields = Vec::new();
        loop {
            self.skip_spaces();
            let field = self.read_field()?;
            self.skip_spaces();
            let direction = ["asc", "desc"].into_iter().find(|word| self.scanner.take_word(word));
            fields.push(json!([field, direction.unwrap_or("asc")]));
            if !self.take(',') {
                return Ok(fields);
            }
        }
    }

    /// Columns up to this character.
    fn read_columns(&mut self, end: char) -> Result<Vec<Value>> {
        if self.take(end) {
            return Ok(Vec::new());
        }
        let columns = self.read_list_of_columns()?;
        if self.take(end) {
            return Ok(columns);
        }
        expected_at(self.scanner.offset(), format!("a comma or the closing {end}"))
    }

    fn read_list_of_columns(&mut self) -> Result<Vec<Value>> {
        let mut columns = Vec::new();
        loop {
            self.skip_spaces();
            columns.push(self.read_column()?);
            if !self.take(',') {
                return Ok(columns);
            }
        }
    }

    /// A field, a function, or an argument of one in quotes.
    fn read_column(&mut self) -> Result<Value> {
        if matches!(self.scanner.peek(), Some('"' | '\'')) {
            return self.read_value(0);
        }
        let name = self.read_field()?;
        if !self.scanner.take_char('(') {
            return Ok(name.into());
        }
        let arguments = self.read_deeper(|reader| reader.read_columns(')'))?;
        Ok([Value::from("function"), name.into()].into_iter().chain(arguments).collect())
    }

    /// `certname`, `latest_report?`, `facts.os.family`, `facts."a.b".disks[0]`, as it is written.
    fn read_field(&mut self) -> Result<String> {
        let before = self.scanner;
        let (at, word) = self.read_word();
        if word.is_empty() {
            return expected_at(at, "the name of a field");
        }
        self.scanner.take_char('?');
        while self.scanner.take_char('.') {
            if self.scanner.take_char('"') {
                self.scanner.take_while(|c| c != '"' && !c.is_control());
                if !self.scanner.take_char('"') {
                    return expected_at(self.scanner.offset(), "a closing quote");
                }
            } else {
                self.scanner.take_while(|c| c.is_alphanumeric() || "_-:/$@%+".contains(c));
                let digits = |c: char| c.is_ascii_digit();
                if self.scanner.take_char('[')
                    && (self.scanner.take_while(digits).is_empty() || !self.scanner.take_char(']'))
                {
                    return expected_at(self.scanner.offset(), "the number of an element and ]");
                }
            }
        }
        Ok(self.scanner.text_since(&before).to_owned())
    }

    /// A test, as JSON. A field may be a list of fields before `in`, or an entity before `{ }`.
    fn read_syntax_test(&mut self, _: PqlEntity) -> Result<BooleanTree<Value>> {
        let field = if self.scanner.take_char('[') {
            Value::Array(self.read_columns(']')?)
        } else {
            self.read_field()?.into()
        };
        if field.is_string() && self.take('{') {
            let at = self.scanner.offset();
            let body = self.read_deeper(Self::read_body)?;
            if body.group.is_some() || !body.paging.is_empty() {
                return expected_at(at, "a condition without clauses");
            }
            let subquery = [Value::from("subquery"), field].into_iter().chain(body.condition);
            return Ok(BooleanTree::Term(subquery.collect()));
        }
        self.skip_spaces();
        let at = self.scanner.offset();
        for (text, wanted) in [("is null", true), ("is not null", false)] {
            if self.scanner.take_word(text) {
                return Ok(BooleanTree::Term(json!(["null?", field, wanted])));
            }
        }
        if self.scanner.take_word("in") {
            self.skip_spaces();
            let is_list = self.scanner.peek() == Some('[');
            let values = if is_list {
                json!(["array", self.read_list(0)?])
            } else {
                self.read_deeper(Self::read_statement)?
            };
            return Ok(BooleanTree::Term(json!(["in", field, values])));
        }
        let symbol = self.scanner.take_while(|c| "=~<>!".contains(c));
        self.skip_spaces();
        let operator = symbol.strip_prefix('!').unwrap_or(symbol);
        if !OPERATORS.contains(&operator) {
            return expected_at(at, "=, !=, ~, !~, ~>, <, <=, >, >=, in, is null or is not null");
        }
        let test = BooleanTree::Term(json!([operator, field, self.read_value(0)?]));
        Ok(if operator == symbol { test } else { BooleanTree::negate_tree(test) })
    }
}
