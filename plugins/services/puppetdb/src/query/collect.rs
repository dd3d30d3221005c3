//! Collects selected rows: groups, order, page and columns of an answer.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Map, Number, Value};

use super::entity::FieldKind;
use super::error::{Result, invalid};
use super::field::QueryField;
use super::row::Row;
use super::statement::{AggregateFunction, AnswerColumn, ColumnSource, Paging, QueryStatement};
use super::value::{key_of, order_of};

/// Most rows that are held for an answer.
const MAX_ROWS: usize = 100_000;
/// Rows beyond a page that are held before they are sorted and cut off.
const PAGE_SLACK: usize = 1000;

/// The rows of an answer, and how many there are on all pages.
#[derive(Debug, Default)]
pub(super) struct AnswerRows {
    pub(super) rows: Vec<Map<String, Value>>,
    pub(super) total: usize,
}

/// Rows that were selected so far.
#[derive(Debug)]
pub(super) struct RowCollector<'q, 'a> {
    statement: &'q QueryStatement,
    order: Vec<(QueryField, bool)>,
    kept: Vec<Row<'a>>,
    total: usize,
    groups: BTreeMap<String, RowGroup>,
}

/// A group: its fields, and a state for each column.
#[derive(Debug, Default)]
struct RowGroup {
    fields: Map<String, Value>,
    states: Vec<FunctionState>,
}

#[derive(Debug, Clone, Default)]
struct FunctionState {
    count: u64,
    sum: f64,
    extreme: Option<Value>,
}

impl<'q, 'a> RowCollector<'q, 'a> {
    pub(super) fn new(statement: &'q QueryStatement) -> Result<Self> {
        let order = statement.paging.order.iter().filter(|_| !statement.is_aggregate());
        let order = order.map(|(name, descending)| {
            Ok((QueryField::parse(statement.entity, name)?, *descending))
        });
        let order = order.collect::<Result<_>>()?;
        Ok(Self { statement, order, kept: Vec::new(), total: 0, groups: BTreeMap::new() })
    }

    /// Takes a selected row. Breaks if no further row can change the answer.
    pub(super) fn take(&mut self, row: Row<'a>) -> Result<ControlFlow<()>> {
        if self.statement.is_aggregate() {
            self.add_to_group(&row)?;
            return Ok(ControlFlow::Continue(()));
        }
        self.total += 1;
        let paging = &self.statement.paging;
        let wanted = paging.limit.map(|limit| limit.saturating_add(paging.offset));
        match wanted {
            Some(wanted) if self.order.is_empty() => {
                if self.kept.len() < wanted {
                    self.kept.push(row);
                }
                let is_full = self.kept.len() >= wanted && !paging.counts_all;
                return Ok(if is_full {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                });
            }
            Some(wanted) => {
                self.kept.push(row);
                if self.kept.len() > wanted.saturating_add(PAGE_SLACK) {
                    self.sort()?;
                    self.kept.truncate(wanted);
                }
            }
            None => self.kept.push(row),
        }
        if self.kept.len() > MAX_ROWS {
            return invalid(format!(
                "the answer has more than {MAX_ROWS} rows; add conditions, or limit and order_by"
            ));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn add_to_group(&mut self, row: &Row<'_>) -> Result<()> {
        let columns = self.statement.columns.as_deref().unwrap_or_default();
        let mut parts = Vec::new();
        for field in &self.statement.groups {
            parts.push((field.kind, row.value(field)?.unwrap_or(&Value::Null)));
        }
        let key = key_of(&parts);
        if self.groups.len() >= MAX_ROWS && !self.groups.contains_key(&key) {
            return invalid(format!("the answer has more than {MAX_ROWS} groups"));
        }
        let group = self.groups.entry(key).or_insert_with(|| RowGroup {
            fields: Map::new(),
            states: vec![FunctionState::default(); columns.len()],
        });
        for (column, state) in columns.iter().zip(&mut group.states) {
            match &column.source {
                ColumnSource::Field(field) => {
                    let value = row.value(field)?.cloned().unwrap_or_default();
                    group.fields.entry(column.name.clone()).or_insert(value);
                }
                ColumnSource::Function(_, None) => state.count += row.weight,
                ColumnSource::Function(function, Some(field)) => {
                    state.add(*function, row.value(field)?.unwrap_or(&Value::Null));
                }
            }
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<()> {
        let mut keyed = Vec::with_capacity(self.kept.len());
        for row in self.kept.drain(..) {
            let keys = self
                .order
                .iter()
                .map(|(field, _)| Ok(row.value(field)?.cloned().unwrap_or_default()));
            keyed.push((keys.collect::<Result<Vec<Value>>>()?, row));
        }
        let directions: Vec<bool> = self.order.iter().map(|(_, descending)| *descending).collect();
        keyed.sort_by(|(a, _), (b, _)| compare_keys(a, b, &directions));
        self.kept.extend(keyed.into_iter().map(|(_, row)| row));
        Ok(())
    }

    /// The page of the answer.
    pub(super) fn finish(mut self) -> Result<AnswerRows> {
        if self.statement.is_aggregate() {
            return self.finish_groups();
        }
        if !self.order.is_empty() {
            self.sort()?;
        }
        let paging = &self.statement.paging;
        let kept = self.kept.iter().skip(paging.offset).take(paging.limit.unwrap_or(usize::MAX));
        let rows = kept.map(|row| match &self.statement.columns {
            None => row.to_answer(self.statement.entity),
            Some(columns) => extract_columns(row, columns),
        });
        Ok(AnswerRows { rows: rows.collect::<Result<_>>()?, total: self.total })
    }

    fn finish_groups(mut self) -> Result<AnswerRows> {
        let columns = self.statement.columns.as_deref().unwrap_or_default();
        if self.groups.is_empty() && self.statement.groups.is_empty() {
            let states = vec![FunctionState::default(); columns.len()];
            self.groups.insert(String::new(), RowGroup { fields: Map::new(), states });
        }
        let groups = self.groups.into_values();
        let rows = groups.map(|group| group.to_answer(columns)).collect();
        page_rows(rows, &self.statement.paging)
    }
}

/// A page of rows in their order.
pub(super) fn page_rows(mut rows: Vec<Map<String, Value>>, paging: &Paging) -> Result<AnswerRows> {
    for (name, _) in &paging.order {
        if rows.iter().any(|row| !row.contains_key(name)) {
            return invalid(format!("order_by: {name} is not a column of the answer"));
        }
    }
    let directions: Vec<bool> = paging.order.iter().map(|(_, descending)| *descending).collect();
    let keys = |row: &Map<String, Value>| -> Vec<Value> {
        paging.order.iter().map(|(name, _)| row.get(name).cloned().unwrap_or_default()).collect()
    };
    rows.sort_by(|a, b| compare_keys(&keys(a), &keys(b), &directions));
    let total = rows.len();
    let page = rows.into_iter().skip(paging.offset).take(paging.limit.unwrap_or(usize::MAX));
    Ok(AnswerRows { rows: page.collect(), total })
}

fn compare_keys(a: &[Value], b: &[Value], descending: &[bool]) -> Ordering {
    let orders = a
        .iter()
        .zip(b)
        .zip(descending)
        .map(|((a, b), descending)| if *descending { order_of(b, a) } else { order_of(a, b) });
    orders.fold(Ordering::Equal, Ordering::then)
}

fn extract_columns(row: &Row<'_>, columns: &[AnswerColumn]) -> Result<Map<String, Value>> {
    let mut answer = Map::new();
    for column in columns {
        if let ColumnSource::Field(field) = &column.source {
            answer.insert(column.name.clone(), row.value(field)?.cloned().unwrap_or_default());
        }
    }
    Ok(answer)
}

impl RowGroup {
    fn to_answer(&self, columns: &[AnswerColumn]) -> Map<String, Value> {
        let mut answer = self.fields.clone();
        for (column, state) in columns.iter().zip(&self.states) {
            if let ColumnSource::Function(function, field) = &column.source {
                answer.insert(column.name.clone(), state.result(*function, field.as_ref()));
            }
        }
        answer
    }
}

impl FunctionState {
    fn add(&mut self, function: AggregateFunction, value: &Value) {
        let is_less = |known: &Value| order_of(value, known).is_lt();
        match function {
            _ if value.is_null() => return,
            AggregateFunction::Least if self.extreme.as_ref().is_none_or(is_less) => {
                self.extreme = Some(value.clone());
            }
            AggregateFunction::Greatest if !self.extreme.as_ref().is_some_and(is_less) => {
                self.extreme = Some(value.clone());
            }
            AggregateFunction::Average | AggregateFunction::Sum => match value.as_f64() {
                Some(number) => self.sum += number,
                None => return,
            },
            _ => {}
        }
        self.count += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "an average of numbers is not exact")]
    fn result(&self, function: AggregateFunction, field: Option<&QueryField>) -> Value {
        let number = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
        match function {
            AggregateFunction::Count => self.count.into(),
            _ if self.count == 0 => Value::Null,
            AggregateFunction::Average => number(self.sum / self.count as f64),
            AggregateFunction::Sum => match field.map(|field| field.kind) {
                Some(FieldKind::Number) if self.sum.fract() == 0.0 => {
                    format!("{}", self.sum).parse().map_or(Value::Null, Value::Number)
                }
                _ => number(self.sum),
            },
            AggregateFunction::Least | AggregateFunction::Greatest => {
                self.extreme.clone().unwrap_or_default()
            }
        }
    }
}
