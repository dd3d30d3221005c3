//! Rows of catalogs, and of their resources and edges.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use data_encoding::HEXLOWER;
use muster_wire::identity::Identity;
use serde_json::{Map, Value, json};
use sha1::{Digest as _, Sha1};

use super::error::Result;
use super::known_catalogs::{CatalogSummary, KnownCatalogs};
use super::row::{Row, VisitRow};
use super::scope::QueryScope;
use super::sources::{PRODUCER, QuerySources};
use super::statement::QueryStatement;
use crate::forms::format_time;

/// Fields of a resource that are equal for the whole catalog.
const CATALOG_FIELDS: [&str; 2] = ["certname", "environment"];

impl QuerySources {
    fn catalog_summaries(&self, scope: &QueryScope) -> BTreeMap<Identity, CatalogSummary> {
        let mut known = self.catalogs.as_ref().map(|known| known.summaries()).unwrap_or_default();
        known.retain(|node, _| scope.has_node(node.as_str()));
        known
    }

    pub(super) fn visit_catalogs<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        let Some(catalogs) = &self.catalogs else { return Ok(()) };
        for (node, summary) in self.catalog_summaries(scope) {
            let known = json!({
                "certname": node.as_str(),
                "version": summary.version,
                "environment": summary.environment,
                "hash": summary.address,
                "transaction_uuid": null,
                "catalog_uuid": summary.catalog_uuid,
                "code_id": summary.code_id,
                "job_id": null,
                "producer": PRODUCER,
                "producer_timestamp": format_time(summary.time),
            });
            let known = known.as_object().cloned().unwrap_or_default();
            let row = Row::with_rest(known, move || read_parts(catalogs, &node));
            if visit(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn visit_resources<'a>(
        &'a self,
        statement: &QueryStatement,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        let Some(catalogs) = &self.catalogs else { return Ok(()) };
        let is_counted = statement.only_counts(&CATALOG_FIELDS);
        for (node, summary) in self.catalog_summaries(scope) {
            let mut context = Map::new();
            context.insert("certname".to_owned(), node.as_str().into());
            context.insert("environment".to_owned(), summary.environment.into());
            if is_counted {
                let mut row = Row::new(context);
                row.weight = summary.resources;
                let _ = visit(row)?;
                continue;
            }
            for mut resource in read_list(catalogs, &node, "resources", resource_answer)? {
                resource.extend(context.clone());
                let tags = resource.get("tags").cloned().unwrap_or_default();
                resource.insert("tag".to_owned(), tags);
                if visit(Row::new(resource))?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn visit_edges<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        let Some(catalogs) = &self.catalogs else { return Ok(()) };
        for (node, _) in self.catalog_summaries(scope) {
            for mut edge in read_list(catalogs, &node, "edges", edge_answer)? {
                edge.insert("certname".to_owned(), node.as_str().into());
                if visit(Row::new(edge))? == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

type ToAnswer = fn(&Map<String, Value>) -> Map<String, Value>;

fn read_list(
    catalogs: &KnownCatalogs,
    node: &Identity,
    name: &str,
    to_answer: ToAnswer,
) -> Result<Vec<Map<String, Value>>> {
    let form = catalogs.read_form(node)?.unwrap_or_default();
    Ok(list_answers(&form, name, to_answer))
}

fn list_answers(
    form: &Map<String, Value>,
    name: &str,
    to_answer: ToAnswer,
) -> Vec<Map<String, Value>> {
    let list = form.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_object).map(to_answer).collect()
}

/// Resources and edges of a catalog.
fn read_parts(catalogs: &KnownCatalogs, node: &Identity) -> Result<Map<String, Value>> {
    let form = catalogs.read_form(node)?.unwrap_or_default();
    let mut resources = list_answers(&form, "resources", resource_answer);
    for resource in &mut resources {
        resource.insert("certname".to_owned(), node.as_str().into());
    }
    let edges = list_answers(&form, "edges", edge_answer);
    let part = |name: &str, data: Vec<Map<String, Value>>| {
        let href = format!("/pdb/query/v4/catalogs/{node}/{name}");
        (name.to_owned(), json!({"href": href, "data": data}))
    };
    Ok([part("resources", resources), part("edges", edges)].into_iter().collect())
}

fn resource_answer(resource: &Map<String, Value>) -> Map<String, Value> {
    let part = |name: &str| resource.get(name).cloned().unwrap_or_default();
    let identity = json!([part("type"), part("title"), part("parameters")]).to_string();
    let mut answer = resource.clone();
    answer.insert("resource".to_owned(), HEXLOWER.encode(&Sha1::digest(identity)).into());
    for name in ["file", "line"] {
        answer.insert(name.to_owned(), part(name));
    }
    answer
}

fn edge_answer(edge: &Map<String, Value>) -> Map<String, Value> {
    let part = |end: &str, name: &str| {
        let value = edge.get(end).and_then(|end| end.get(name)).cloned().unwrap_or_default();
        (format!("{end}_{name}"), value)
    };
    let relationship = edge.get("relationship").cloned().unwrap_or_default();
    let ends = [
        part("source", "title"),
        part("source", "type"),
        part("target", "title"),
        part("target", "type"),
    ];
    ends.into_iter().chain([("relationship".to_owned(), relationship)]).collect()
}
