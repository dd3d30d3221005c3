//! Answers a query: its subqueries first, then the rows of its entity.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::collect::{AnswerRows, RowCollector};
use super::condition::{Condition, ValueSet};
use super::error::{Result, invalid};
use super::scope::QueryScope;
use super::sources::QuerySources;
use super::statement::{ColumnSource, QueryStatement};
use super::value::key_of;

/// How long a query may take. The server gives up a response after 30 seconds.
const MAX_QUERY_TIME: Duration = Duration::from_secs(20);

/// Answers queries until a deadline.
#[derive(Debug)]
pub(super) struct QueryRun<'a> {
    sources: &'a QuerySources,
    deadline: Instant,
}

impl<'a> QueryRun<'a> {
    pub(super) fn new(sources: &'a QuerySources) -> Self {
        Self { sources, deadline: Instant::now() + MAX_QUERY_TIME }
    }

    /// The rows of an answer.
    pub(super) fn answer(&self, mut statement: QueryStatement) -> Result<AnswerRows> {
        if let Some(condition) = &mut statement.condition {
            self.answer_subqueries(condition)?;
        }
        let scope = QueryScope::of(statement.condition.as_ref());
        let mut collector = RowCollector::new(&statement)?;
        self.sources.visit_rows(&statement, &scope, &mut |row| {
            if Instant::now() > self.deadline {
                let seconds = MAX_QUERY_TIME.as_secs();
                return invalid(format!("the query takes more than {seconds} s; add conditions"));
            }
            if let Some(condition) = &statement.condition
                && !condition.selects(&row)?
            {
                return Ok(ControlFlow::Continue(()));
            }
            collector.take(row)
        })?;
        collector.finish()
    }

    /// Puts values in place of subqueries.
    fn answer_subqueries(&self, condition: &mut Condition) -> Result<()> {
        match condition {
            Condition::All(list) | Condition::Any(list) => {
                list.iter_mut().try_for_each(|inner| self.answer_subqueries(inner))
            }
            Condition::Not(inner) => self.answer_subqueries(inner),
            Condition::In { values, .. } => {
                if let ValueSet::Query(statement) = values {
                    *values = ValueSet::Known(self.read_values(statement)?);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read_values(&self, statement: &QueryStatement) -> Result<HashSet<String>> {
        let answer = self.answer(statement.clone())?;
        let columns = statement.columns.as_deref().unwrap_or_default();
        let keys = answer.rows.iter().map(|row| {
            let parts = columns.iter().map(|column| {
                let kind = match &column.source {
                    ColumnSource::Field(field) => field.kind,
                    ColumnSource::Function(..) => super::entity::FieldKind::Any,
                };
                (kind, row.get(&column.name).unwrap_or(&Value::Null))
            });
            key_of(&parts.collect::<Vec<_>>())
        });
        Ok(keys.collect())
    }
}
