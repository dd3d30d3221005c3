//! Where rows come from: the services of this host.

use std::ops::ControlFlow;
use std::sync::Arc;

use muster_catalogs::handle::CompilerHandle;
use muster_directory::DirectoryHandle;
use muster_history::index::HistoryIndex;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::{Map, Value, json};

use super::entity::Entity;
use super::error::{QueryError, Result};
use super::known_catalogs::KnownCatalogs;
use super::row::{Row, VisitRow};
use super::scope::QueryScope;
use super::statement::QueryStatement;
use crate::forms::{FormSource, facts_form, trusted_facts};

/// Under which name everything was produced.
pub(super) const PRODUCER: &str = "muster";
pub(super) const DEFAULT_ENVIRONMENT: &str = "production";

/// What this host has. Without history or catalogs, there are none in answers.
#[derive(Debug, Clone)]
pub struct QuerySources {
    pub directory: DirectoryHandle,
    pub compiler: Option<CompilerHandle>,
    pub catalogs: Option<Arc<KnownCatalogs>>,
    pub history: Option<Arc<HistoryIndex>>,
}

impl QuerySources {
    /// Visits the rows of an entity that can be selected.
    pub(super) fn visit_rows<'a>(
        &'a self,
        statement: &QueryStatement,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        match statement.entity {
            Entity::Nodes => self.visit_nodes(scope, visit),
            Entity::Facts => self.visit_facts(scope, visit),
            Entity::FactContents => self.visit_fact_contents(scope, visit),
            Entity::FactNames => self.visit_fact_names(visit),
            Entity::FactPaths => self.visit_fact_paths(visit),
            Entity::Inventory => self.visit_inventory(scope, visit),
            Entity::Environments => self.visit_environments(visit),
            Entity::Catalogs => self.visit_catalogs(scope, visit),
            Entity::Resources => self.visit_resources(statement, scope, visit),
            Entity::Edges => self.visit_edges(scope, visit),
            Entity::Reports => self.visit_reports(scope, visit),
            Entity::Events => self.visit_events(scope, visit),
            Entity::EventCounts => Ok(()),
        }
    }

    /// The nodes of the directory, each with the time of its record.
    pub(super) fn nodes(&self, scope: &QueryScope) -> Result<Vec<(Identity, Millis)>> {
        let Some(mut nodes) = self.directory.record_times() else {
            return Err(QueryError::Invalid(
                "the directory has not read all records yet".to_owned(),
            ));
        };
        nodes.retain(|(node, _)| scope.has_node(node.as_str()));
        nodes.sort();
        Ok(nodes)
    }

    /// The environment of a node.
    pub(super) fn environment(&self, node: &Identity) -> String {
        let environment = self
            .compiler
            .as_ref()
            .and_then(|compiler| compiler.environment_of(node).ok().flatten());
        environment.map_or_else(|| DEFAULT_ENVIRONMENT.to_owned(), |found| found.name.clone())
    }

    /// The facts of a node as a `PuppetDB` would have them, with `trusted`.
    pub(super) fn facts(&self, node: &Identity) -> Map<String, Value> {
        let Some(snapshot) = self.directory.snapshot(node) else { return Map::new() };
        let source = FormSource {
            certname: node.as_str(),
            environment: DEFAULT_ENVIRONMENT,
            producer: PRODUCER,
            producer_timestamp: snapshot.record_time,
        };
        let trusted = trusted_facts(node.as_str(), &Map::new());
        match facts_form(&snapshot.facts, trusted, source).remove("values") {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        }
    }

    fn visit_environments<'a>(&'a self, visit: VisitRow<'_, 'a>) -> Result<()> {
        let mut names = std::collections::BTreeSet::new();
        self.visit_nodes(&QueryScope::default(), &mut |row| {
            for column in ["facts_environment", "report_environment", "catalog_environment"] {
                names.extend(row.column(column)?.as_str().map(str::to_owned));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for name in names {
            if visit(row_of(json!({"name": name})))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A row with these fields.
pub(super) fn row_of<'a>(fields: Value) -> Row<'a> {
    match fields {
        Value::Object(fields) => Row::new(fields),
        _ => Row::new(Map::new()),
    }
}
