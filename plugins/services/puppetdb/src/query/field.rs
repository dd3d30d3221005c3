//! A field of a query, with the path into it, as `facts.os.family`, `facts."a.b".disks[0]` and `["fact", "kernel"]`.

use serde_json::Value;

use super::entity::{Entity, FieldKind};
use super::error::{Result, invalid};

/// A field of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryField {
    pub(super) column: &'static str,
    pub(super) kind: FieldKind,
    /// The path into a map.
    pub(super) path: Vec<PathStep>,
}

/// A key of a map, or an index of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Index(usize),
}

impl QueryField {
    /// Reads a field of a condition or an answer.
    pub(super) fn read(entity: Entity, value: &Value) -> Result<Self> {
        if let Some(name) = value.as_str() {
            return Self::parse(entity, name);
        }
        let parts: Vec<&str> =
            value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (column, name) = match (entity, parts.as_slice()) {
            (Entity::Nodes | Entity::Inventory, ["fact", name]) => ("facts", name),
            (Entity::Resources, ["parameter", name]) => ("parameters", name),
            _ => return unknown_field(entity, &value.to_string()),
        };
        let path = vec![PathStep::Key((*name).to_owned())];
        Ok(Self { column, kind: FieldKind::Json, path })
    }

    pub(super) fn parse(entity: Entity, text: &str) -> Result<Self> {
        if let Some((column, kind)) = entity.find_field(text) {
            return Ok(Self { column, kind, path: Vec::new() });
        }
        let column = text.split_once('.').and_then(|(first, rest)| {
            entity
                .find_field(first)
                .filter(|(_, kind)| *kind == FieldKind::Json)
                .map(|found| (found, rest))
        });
        match column {
            Some(((column, kind), rest)) => Ok(Self { column, kind, path: parse_path(rest)? }),
            None => unknown_field(entity, text),
        }
    }

    /// The value in the value of the column.
    pub(super) fn find<'a>(&self, column: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(column, |value, step| match step {
            PathStep::Key(key) => value.get(key),
            PathStep::Index(index) => value.get(index),
        })
    }
}

fn unknown_field<T>(entity: Entity, name: &str) -> Result<T> {
    let known: Vec<&str> = entity.fields().iter().map(|(field, _)| *field).collect();
    invalid(format!(
        "'{name}' is not a queryable object for {}. Known queryable objects are {}",
        entity.name(),
        known.join(", ")
    ))
}

fn parse_path(mut rest: &str) -> Result<Vec<PathStep>> {
    let mut path = Vec::new();
    loop {
        let (key, after) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some(split) => split,
                None => return invalid(format!("a quote is not closed in \"{rest}")),
            },
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        if key.is_empty() {
            return invalid("a name is missing in a field with dots");
        }
        path.push(PathStep::Key(key.to_owned()));
        rest = after;
        while let Some(index) = rest.strip_prefix('[') {
            let split = index
                .split_once(']')
                .and_then(|(digits, after)| Some((digits.parse().ok()?, after)));
            let Some((index, after)) = split else {
                return invalid(format!("an index is not a number in [{index}"));
            };
            path.push(PathStep::Index(index));
            rest = after;
        }
        match rest.strip_prefix('.') {
            Some(next) => rest = next,
            None if rest.is_empty() => return Ok(path),
            None => return invalid(format!("a dot is missing before {rest}")),
        }
    }
}
