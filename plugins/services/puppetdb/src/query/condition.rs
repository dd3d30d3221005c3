//! The conditions of queries: read from `PuppetDB`'s JSON, checked and compiled, and evaluated with the three truth values of SQL.

use std::collections::HashSet;

use muster_filter::{FilterRegex, compile_postgres_regex};
use serde_json::Value;

use super::entity::{Entity, FieldKind};
use super::error::{Result, invalid};
use super::field::QueryField;
use super::reader::QueryReader;
use super::statement::QueryStatement;
use super::value::{self, CompareOperator};

/// A condition of rows.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    Constant(bool),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Compare { field: QueryField, operator: CompareOperator, wanted: Value },
    Match { field: QueryField, regex: FilterRegex },
    MatchPath { field: QueryField, patterns: Vec<PathPattern> },
    IsNull { field: QueryField, wanted: bool },
    In { fields: Vec<QueryField>, values: ValueSet },
}

/// A part of a path is this index, or matches.
#[derive(Debug, Clone)]
pub(super) enum PathPattern {
    Index(u64),
    Match(FilterRegex),
}

/// What `in` searches.
#[derive(Debug, Clone)]
pub(super) enum ValueSet {
    /// Keys of lists with a value for each field.
    Known(HashSet<String>),
    /// A query that was not evaluated yet.
    Query(Box<QueryStatement>),
}

impl Condition {
    pub(super) fn read(reader: &mut QueryReader, entity: Entity, query: &Value) -> Result<Self> {
        reader.enter()?;
        let condition = Self::read_operation(reader, entity, query);
        reader.leave();
        condition
    }

    /// The fields that it reads.
    pub(super) fn fields(&self) -> Vec<&QueryField> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::All(list) | Self::Any(list) => list.iter().flat_map(Self::fields).collect(),
            Self::Not(inner) => inner.fields(),
            Self::Compare { field, .. }
            | Self::Match { field, .. }
            | Self::MatchPath { field, .. }
            | Self::IsNull { field, .. } => vec![field],
            Self::In { fields, .. } => fields.iter().collect(),
        }
    }

    fn read_operation(reader: &mut QueryReader, entity: Entity, query: &Value) -> Result<Self> {
        let parts = query.as_array().map(Vec::as_slice).unwrap_or_default();
        let Some((operator, arguments)) = parts.split_first() else {
            return invalid(format!("{query} is not a condition; write [\"=\", FIELD, VALUE]"));
        };
        let operator = operator.as_str().unwrap_or_default();
        match (operator, arguments) {
            ("and", [_, ..]) => Ok(Self::All(Self::read_list(reader, entity, arguments)?)),
            ("or", [_, ..]) => Ok(Self::Any(Self::read_list(reader, entity, arguments)?)),
            ("not", [inner]) => Ok(Self::Not(Box::new(Self::read(reader, entity, inner)?))),
            ("=", [field, state]) if field == "node_state" => match state.as_str() {
                Some("active" | "any") => Ok(Self::Constant(true)),
                Some("inactive") => Ok(Self::Constant(false)),
                _ => invalid("node_state is active, inactive or any"),
            },
            ("=" | "<" | "<=" | ">" | ">=", [field, wanted]) => {
                let field = QueryField::read(entity, field)?;
                let operator = CompareOperator::parse(operator)?;
                let wanted = value::check_wanted(&field, operator, wanted)?;
                Ok(Self::Compare { field, operator, wanted })
            }
            ("~", [field, pattern]) => {
                let field = QueryField::read(entity, field)?;
                if matches!(field.kind, FieldKind::Boolean | FieldKind::Number | FieldKind::Path) {
                    return invalid(format!("the operator ~ is not for {}", field.column));
                }
                Ok(Self::Match { field, regex: read_regex(reader, pattern)? })
            }
            ("~>", [field, patterns]) => Self::read_path_match(reader, entity, field, patterns),
            ("null?", [field, Value::Bool(wanted)]) => {
                Ok(Self::IsNull { field: QueryField::read(entity, field)?, wanted: *wanted })
            }
            ("in", [fields, values]) => Self::read_in(reader, entity, fields, values),
            ("subquery", [inner, rest @ ..]) => Self::read_subquery(reader, entity, inner, rest),
            _ => invalid(format!(
                "'{operator}' with {} arguments is not a query operator",
                arguments.len()
            )),
        }
    }

    fn read_list(reader: &mut QueryReader, entity: Entity, list: &[Value]) -> Result<Vec<Self>> {
        list.iter().map(|inner| Self::read(reader, entity, inner)).collect()
    }

    fn read_path_match(
        reader: &mut QueryReader,
        entity: Entity,
        field: &Value,
        patterns: &Value,
    ) -> Result<Self> {
        let field = QueryField::read(entity, field)?;
        let (FieldKind::Path, Some(patterns)) = (field.kind, patterns.as_array()) else {
            return invalid("the operator ~> compares a path with a list");
        };
        let patterns = patterns.iter().map(|pattern| match (pattern.as_u64(), pattern.as_str()) {
            (Some(index), _) => Ok(PathPattern::Index(index)),
            (None, Some(text)) => {
                read_regex(reader, &format!("^(?:{text})$").into()).map(PathPattern::Match)
            }
            (None, None) => invalid("a part of a path is a regular expression or an index"),
        });
        Ok(Self::MatchPath { field, patterns: patterns.collect::<Result<_>>()? })
    }

    fn read_in(
        reader: &mut QueryReader,
        entity: Entity,
        fields: &Value,
        values: &Value,
    ) -> Result<Self> {
        let list = match fields.as_array() {
            // `["fact", "kernel"]` is one field.
            Some(list) if QueryField::read(entity, fields).is_err() => list.clone(),
            _ => vec![fields.clone()],
        };
        let fields = list.iter().map(|field| QueryField::read(entity, field));
        let fields: Vec<QueryField> = fields.collect::<Result<_>>()?;
        let parts = values.as_array().map(Vec::as_slice).unwrap_or_default();
        let values = match (parts, fields.as_slice()) {
            ([name, Value::Array(values)], [field]) if name == "array" => {
                let key = |wanted: &Value| {
                    let wanted = value::check_wanted(field, CompareOperator::Equal, wanted)?;
                    Ok(value::key_of(&[(field.kind, &wanted)]))
                };
                ValueSet::Known(values.iter().map(key).collect::<Result<_>>()?)
            }
            _ => {
                let query = QueryStatement::read_values(reader, values)?;
                if query.column_count() != fields.len() {
                    return invalid("'in' needs a subquery that extracts a column for each field");
                }
                ValueSet::Query(Box::new(query))
            }
        };
        Ok(Self::In { fields, values })
    }

    /// A query of another entity about the same node, fact, report or environment.
    fn read_subquery(
        reader: &mut QueryReader,
        entity: Entity,
        inner: &Value,
        rest: &[Value],
    ) -> Result<Self> {
        let name = inner.as_str().unwrap_or_default();
        let Some(other) = Entity::find(name) else {
            return invalid(format!("'{name}' is not an entity"));
        };
        let (own, others): (&[&str], &[&str]) = match (entity, other) {
            (Entity::Facts, Entity::FactContents) | (Entity::FactContents, Entity::Facts) => {
                (&["certname", "name"], &["certname", "name"])
            }
            (Entity::Reports, Entity::Events) => (&["hash"], &["report"]),
            (Entity::Events, Entity::Reports) => (&["report"], &["hash"]),
            (Entity::FactPaths, Entity::FactContents)
            | (Entity::FactContents, Entity::FactPaths) => (&["path"], &["path"]),
            (Entity::Environments, other) if other.find_field("environment").is_some() => {
                (&["name"], &["environment"])
            }
            (own, Entity::Environments) if own.find_field("environment").is_some() => {
                (&["environment"], &["name"])
            }
            (own, other) if own.has_certname() && other.has_certname() => {
                (&["certname"], &["certname"])
            }
            _ => {
                return invalid(format!("{} have no relation to {name}", entity.name()));
            }
        };
        let fields = own.iter().map(|name| QueryField::parse(entity, name));
        let fields = fields.collect::<Result<_>>()?;
        let query = QueryStatement::select(reader, other, others, rest.first())?;
        Ok(Self::In { fields, values: ValueSet::Query(Box::new(query)) })
    }
}

fn read_regex(reader: &mut QueryReader, pattern: &Value) -> Result<FilterRegex> {
    reader.count_regex()?;
    let Some(pattern) = pattern.as_str() else {
        return invalid("a regular expression is a text");
    };
    compile_postgres_regex(pattern).or_else(|error| invalid(error.to_string()))
}
