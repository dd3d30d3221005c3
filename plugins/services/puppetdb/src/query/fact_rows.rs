//! Rows of facts: whole facts, their values by path, names, and inventories.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::error::Result;
use super::row::{Row, VisitRow};
use super::scope::QueryScope;
use super::sources::{QuerySources, row_of};
use crate::forms::format_time;

impl QuerySources {
    pub(super) fn visit_facts<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        for (node, _) in self.nodes(scope)? {
            let environment = self.environment(&node);
            for (name, value) in self.facts(&node) {
                let row = json!({
                    "certname": node.as_str(), "environment": environment, "name": name, "value": value,
                });
                if visit(row_of(row))?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn visit_fact_contents<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        for (node, _) in self.nodes(scope)? {
            let environment = self.environment(&node);
            for (name, fact) in self.facts(&node) {
                let flow =
                    visit_leaves(&fact, &mut vec![name.clone().into()], &mut |path, value| {
                        visit(row_of(json!({
                            "certname": node.as_str(), "environment": environment, "name": name,
                            "path": path, "value": value,
                        })))
                    })?;
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn visit_fact_names<'a>(&'a self, visit: VisitRow<'_, 'a>) -> Result<()> {
        let mut names = BTreeSet::new();
        for (node, _) in self.nodes(&QueryScope::default())? {
            names.extend(self.facts(&node).into_iter().map(|(name, _)| name));
        }
        for name in names {
            if visit(row_of(json!({"name": name})))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn visit_fact_paths<'a>(&'a self, visit: VisitRow<'_, 'a>) -> Result<()> {
        let mut found: BTreeSet<(String, &'static str)> = BTreeSet::new();
        for (node, _) in self.nodes(&QueryScope::default())? {
            for (name, fact) in self.facts(&node) {
                let start = &mut vec![name.clone().into()];
                let flow = visit_leaves(&fact, start, &mut |path, value| {
                    let path = Value::from(path).to_string();
                    let kind = type_name(value);
                    if found.insert((path.clone(), kind)) {
                        let path: Value = serde_json::from_str(&path)?;
                        let depth = path.as_array().map_or(0, |path| path.len() - 1);
                        return visit(row_of(
                            json!({"name": name, "path": path, "type": kind, "depth": depth}),
                        ));
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn visit_inventory<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        for (node, time) in self.nodes(scope)? {
            let known = json!({
                "certname": node.as_str(),
                "timestamp": format_time(time),
                "environment": self.environment(&node),
            });
            let facts = move || {
                let facts = self.facts(&node);
                let trusted = facts.get("trusted").cloned().unwrap_or_default();
                let rest = [("facts", Value::Object(facts)), ("trusted", trusted)];
                Ok(rest.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            };
            let known = known.as_object().cloned().unwrap_or_default();
            if visit(Row::with_rest(known, facts))?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

type VisitLeaf<'v> = &'v mut dyn FnMut(&[Value], &Value) -> Result<ControlFlow<()>>;

/// Visits the values in a fact that are neither maps nor lists, each with its path.
fn visit_leaves(
    value: &Value,
    path: &mut Vec<Value>,
    visit: VisitLeaf<'_>,
) -> Result<ControlFlow<()>> {
    let children: Vec<(Value, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone().into(), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.into(), value)).collect()
        }
        _ => return visit(path, value),
    };
    for (step, child) in children {
        path.push(step);
        let flow = visit_leaves(child, path, visit)?;
        path.pop();
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "json",
    }
}
