//! Rows of nodes: what the directory knows, the latest report, and the released catalog.

use std::collections::BTreeMap;

use muster_history::index::{ReportRow, ReportSelection};
use serde_json::{Map, Value, json};

use super::error::Result;
use super::report_rows::{environment_of, hash_of, status_of};
use super::row::{Row, VisitRow};
use super::scope::QueryScope;
use super::sources::QuerySources;
use crate::forms::format_time;

impl QuerySources {
    pub(super) fn visit_nodes<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        let latest = self.latest_reports(scope)?;
        for (node, time) in self.nodes(scope)? {
            let report = latest.get(node.as_str());
            let catalog = self.catalogs.as_ref().and_then(|catalogs| catalogs.summary(&node));
            let known = json!({
                "certname": node.as_str(),
                "deactivated": null,
                "expired": null,
                "facts_timestamp": format_time(time),
                "facts_environment": self.environment(&node),
                "report_timestamp": report.map(|report| format_time(report.ended)),
                "report_environment": report.map(environment_of),
                "latest_report_status": report.map(status_of),
                "latest_report_noop": report.map(|report| report.noop),
                "latest_report_noop_pending": report.and_then(|report| report.noop_pending),
                "latest_report_corrective_change": report.and_then(|report| report.corrective_change),
                "latest_report_hash": report.map(hash_of),
                "latest_report_job_id": null,
                "cached_catalog_status": report.and_then(|report| report.cached_catalog_status.as_deref()),
                "catalog_timestamp": catalog.as_ref().map(|catalog| format_time(catalog.time)),
                "catalog_environment": catalog.map(|catalog| catalog.environment),
            });
            let facts = move || {
                let facts = Value::Object(self.facts(&node));
                Ok([("facts".to_owned(), facts)].into_iter().collect::<Map<_, _>>())
            };
            let known = known.as_object().cloned().unwrap_or_default();
            if visit(Row::with_rest(known, facts))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn latest_reports(&self, scope: &QueryScope) -> Result<BTreeMap<String, ReportRow>> {
        let mut latest = BTreeMap::new();
        if let Some(history) = &self.history {
            let selection = ReportSelection { nodes: scope.certnames.as_ref(), runs: None };
            let found = history.latest_reports(selection)?.into_iter();
            latest.extend(found.map(|row| (row.node.clone(), row)));
        }
        Ok(latest)
    }
}
