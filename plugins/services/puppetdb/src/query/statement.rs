//! A query: an entity, a condition, the columns of the answer, groups, order and page.

use serde_json::Value;

use super::condition::Condition;
use super::entity::Entity;
use super::error::{Result, invalid};
use super::field::QueryField;
use super::reader::QueryReader;

/// A query.
#[derive(Debug, Clone)]
pub(super) struct QueryStatement {
    pub(super) entity: Entity,
    pub(super) condition: Option<Condition>,
    /// All fields if absent.
    pub(super) columns: Option<Vec<AnswerColumn>>,
    pub(super) groups: Vec<QueryField>,
    pub(super) paging: Paging,
}

/// A column of an answer, with its name there.
#[derive(Debug, Clone)]
pub(super) struct AnswerColumn {
    pub(super) name: String,
    pub(super) source: ColumnSource,
}

#[derive(Debug, Clone)]
pub(super) enum ColumnSource {
    Field(QueryField),
    /// `count` can be without a field.
    Function(AggregateFunction, Option<QueryField>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AggregateFunction {
    Count,
    Average,
    Sum,
    Least,
    Greatest,
}

/// Which rows of an answer are returned.
#[derive(Debug, Clone, Default)]
pub(super) struct Paging {
    /// Names of fields, and whether the order is descending.
    pub(super) order: Vec<(String, bool)>,
    pub(super) limit: Option<usize>,
    pub(super) offset: usize,
    /// Whether all rows are counted.
    pub(super) counts_all: bool,
}

impl QueryStatement {
    /// Reads a condition or `["extract", ...]`; without a query, all rows are wanted.
    pub(super) fn read(
        reader: &mut QueryReader,
        entity: Entity,
        query: Option<&Value>,
    ) -> Result<Self> {
        let mut statement = Self::all(entity);
        match query {
            None | Some(Value::Null) => {}
            Some(query) if is_word(query, "extract") => statement.read_extract(reader, query)?,
            Some(query) => statement.condition = Some(Condition::read(reader, entity, query)?),
        }
        Ok(statement)
    }

    fn all(entity: Entity) -> Self {
        Self {
            entity,
            condition: None,
            columns: None,
            groups: Vec::new(),
            paging: Paging::default(),
        }
    }

    /// Reads `["from", ENTITY, QUERY, PAGING...]`.
    pub(super) fn read_from(reader: &mut QueryReader, query: &Value) -> Result<Self> {
        let parts = query.as_array().map(Vec::as_slice).unwrap_or_default();
        let ([_, name, rest @ ..], true) = (parts, is_word(query, "from")) else {
            return invalid("a query without an entity; write [\"from\", ENTITY, QUERY] or PQL");
        };
        let name = name.as_str().unwrap_or_default();
        let Some(entity) = Entity::find(name) else {
            return invalid(format!("Invalid entity '{name}'; known are {}", known_entities()));
        };
        let is_paging = |part: &Value| {
            ["limit", "offset", "order_by", "include_total"].iter().any(|word| is_word(part, word))
        };
        let (query, paging) = match rest {
            [query, paging @ ..] if !is_paging(query) => (Some(query), paging),
            paging => (None, paging),
        };
        let mut statement = Self::read(reader, entity, query)?;
        for part in paging {
            statement.read_paging(part)?;
        }
        Ok(statement)
    }

    /// Reads what `in` searches: `["extract", COLUMNS, ["select_ENTITY", QUERY]]`, or `["from", ...]`.
    pub(super) fn read_values(reader: &mut QueryReader, query: &Value) -> Result<Self> {
        reader.enter()?;
        let statement = if is_word(query, "from") {
            Self::read_from(reader, query)?
        } else {
            Self::read_select(reader, query)?
        };
        reader.leave();
        Ok(statement)
    }

    fn read_select(reader: &mut QueryReader, query: &Value) -> Result<Self> {
        let parts = query.as_array().map(Vec::as_slice).unwrap_or_default();
        let ([_, columns, select], true) = (parts, is_word(query, "extract")) else {
            return invalid(
                "'in' needs [\"array\", VALUES], [\"from\", ...] or [\"extract\", COLUMNS, [\"select_ENTITY\", QUERY]]",
            );
        };
        let name = select.get(0).and_then(Value::as_str).unwrap_or_default();
        let entity = name.strip_prefix("select_").and_then(Entity::find);
        let Some(entity) = entity else {
            return invalid(format!("'{name}' is not a subquery such as select_facts"));
        };
        let mut statement = Self::read(reader, entity, select.get(1))?;
        statement.columns = Some(read_columns(entity, columns)?);
        Ok(statement)
    }

    /// A query of these columns.
    pub(super) fn select(
        reader: &mut QueryReader,
        entity: Entity,
        columns: &[&str],
        condition: Option<&Value>,
    ) -> Result<Self> {
        let mut statement = Self::read(reader, entity, condition)?;
        statement.columns = Some(read_columns(entity, &columns.into())?);
        Ok(statement)
    }

    fn read_extract(&mut self, reader: &mut QueryReader, query: &Value) -> Result<()> {
        let parts = query.as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(([_, columns], mut rest)) = parts.split_first_chunk() else {
            return invalid("'extract' needs columns");
        };
        self.columns = Some(read_columns(self.entity, columns)?);
        if let [first, more @ ..] = rest
            && !is_word(first, "group_by")
        {
            self.condition = Some(Condition::read(reader, self.entity, first)?);
            rest = more;
        }
        match rest {
            [] => {}
            [group] if is_word(group, "group_by") => {
                let names = group.as_array().into_iter().flatten().skip(1);
                let fields = names.map(|name| QueryField::read(self.entity, name));
                self.groups = fields.collect::<Result<_>>()?;
            }
            _ => return invalid("'extract' has columns, one condition and one group_by"),
        }
        self.check_groups()
    }

    /// Fields beside functions have to be groups, as in SQL.
    fn check_groups(&self) -> Result<()> {
        if !self.has_functions() && self.groups.is_empty() {
            return Ok(());
        }
        for column in self.columns.iter().flatten() {
            if let ColumnSource::Field(field) = &column.source
                && !self.groups.contains(field)
            {
                return invalid(format!("{} must be in group_by beside a function", column.name));
            }
        }
        Ok(())
    }

    /// Counts the rows of each group of these fields.
    pub(super) fn group_by(&mut self, names: &[&str]) -> Result<()> {
        let mut columns = read_columns(self.entity, &names.into())?;
        let count = ColumnSource::Function(AggregateFunction::Count, None);
        columns.push(AnswerColumn { name: "count".to_owned(), source: count });
        self.columns = Some(columns);
        let groups = names.iter().map(|name| QueryField::parse(self.entity, name));
        self.groups = groups.collect::<Result<_>>()?;
        Ok(())
    }

    /// Reads `["limit", 5]`, `["offset", 5]` or `["order_by", ["certname", ["name", "desc"]]]`.
    fn read_paging(&mut self, part: &Value) -> Result<()> {
        let (word, value) = (part.get(0).and_then(Value::as_str), part.get(1));
        let number = value.and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        match (word, number, value.and_then(Value::as_array)) {
            (Some("limit"), Some(limit), _) => self.paging.limit = Some(limit),
            (Some("offset"), Some(offset), _) => self.paging.offset = offset,
            (Some("order_by"), _, Some(fields)) => {
                for field in fields {
                    let name = field.as_str().or_else(|| field.get(0)?.as_str());
                    let Some(name) = name else {
                        return invalid(format!("order_by: {field} is not a field"));
                    };
                    let direction = field.get(1).and_then(Value::as_str);
                    self.paging.order.push((name.to_owned(), direction == Some("desc")));
                }
            }
            _ => return invalid(format!("{part} is not limit, offset or order_by")),
        }
        Ok(())
    }

    pub(super) fn column_count(&self) -> usize {
        self.columns.as_ref().map_or(self.entity.fields().len(), Vec::len)
    }

    /// Whether the answer has a row for each group, or one row.
    pub(super) fn is_aggregate(&self) -> bool {
        !self.groups.is_empty() || self.has_functions()
    }

    fn has_functions(&self) -> bool {
        let mut columns = self.columns.iter().flatten();
        columns.any(|column| matches!(column.source, ColumnSource::Function(..)))
    }

    /// Whether only the number of rows counts, and no fields but these are read.
    pub(super) fn only_counts(&self, fields: &[&str]) -> bool {
        let is_read = |field: &QueryField| fields.contains(&field.column);
        let is_counted = |column: &AnswerColumn| match &column.source {
            ColumnSource::Field(field) => is_read(field),
            ColumnSource::Function(function, field) => {
                *function == AggregateFunction::Count && field.is_none()
            }
        };
        let condition = self.condition.as_ref();
        self.has_functions()
            && self.columns.iter().flatten().all(is_counted)
            && self.groups.iter().all(is_read)
            && condition.is_none_or(|condition| condition.fields().into_iter().all(is_read))
    }

    /// Adds a condition that rows satisfy, too.
    pub(super) fn restrict(&mut self, condition: Condition) {
        let conditions = [condition].into_iter().chain(self.condition.take());
        self.condition = Some(Condition::All(conditions.collect()));
    }
}

/// Whether a part of a query begins with this word.
pub(super) fn is_word(part: &Value, word: &str) -> bool {
    part.get(0).and_then(Value::as_str) == Some(word)
}

fn known_entities() -> String {
    Entity::ALL.map(Entity::name).join(", ")
}

fn read_columns(entity: Entity, columns: &Value) -> Result<Vec<AnswerColumn>> {
    let is_one = columns.is_string() || is_word(columns, "function");
    let list = if is_one {
        std::slice::from_ref(columns)
    } else {
        columns.as_array().map(Vec::as_slice).unwrap_or_default()
    };
    if list.is_empty() {
        return invalid("'extract' needs a list of columns");
    }
    list.iter().map(|column| read_column(entity, column)).collect()
}

fn read_column(entity: Entity, column: &Value) -> Result<AnswerColumn> {
    let parts = column.as_array().map(Vec::as_slice).unwrap_or_default();
    let (function, arguments) = match parts {
        [word, function, arguments @ ..] if word == "function" => {
            (function.as_str().unwrap_or_default(), arguments)
        }
        _ => {
            let name = column.as_str().map_or_else(|| column.to_string(), str::to_owned);
            let source = ColumnSource::Field(QueryField::read(entity, column)?);
            return Ok(AnswerColumn { name, source });
        }
    };
    let kind = match function {
        "count" => AggregateFunction::Count,
        "avg" => AggregateFunction::Average,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Least,
        "max" => AggregateFunction::Greatest,
        _ => {
            return invalid(format!(
                "the function '{function}' is not supported; known are count, avg, sum, min, max"
            ));
        }
    };
    let field = match arguments {
        [] if kind == AggregateFunction::Count => None,
        [field] => Some(QueryField::read(entity, field)?),
        _ => return invalid(format!("the function '{function}' needs one field")),
    };
    Ok(AnswerColumn { name: function.to_owned(), source: ColumnSource::Function(kind, field) })
}
