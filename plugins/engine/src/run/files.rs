//! What a run leaves in the state directory, in Puppet's names and layouts.

use muster_system::{StateDir, SystemError};

use crate::catalog::Catalog;
use crate::report::{Report, summary};

/// The report of the last run, as JSON.
pub const REPORT: &str = "last_run_report.json";
/// The catalog that was applied last, in whatever form it came.
pub const CATALOG: &str = "catalog";
/// Its counts, as YAML.
pub const SUMMARY: &str = "last_run_summary.yaml";
/// The classes of the catalog, one a line.
pub const CLASSES: &str = "classes.txt";
/// Its resources, one a line, lower case.
pub const RESOURCES: &str = "resources.txt";

/// Writes them.
pub(super) fn leave(
    state: &StateDir,
    catalog: &Catalog,
    report: &Report,
) -> Result<(), SystemError> {
    let lines = |lines: Vec<String>| lines.join("\n") + "\n";
    let resources = catalog.entries.iter().filter(|entry| !entry.is_container);
    let resources = resources
        .map(|entry| {
            let reference = &entry.reference;
            format!(
                "{}[{}]",
                reference.type_name,
                reference.title.to_lowercase()
            )
        })
        .collect();
    state.replace(CLASSES, lines(catalog.classes.clone()).as_bytes())?;
    state.replace(RESOURCES, lines(resources).as_bytes())?;
    let now = jiff::Timestamp::now().as_second();
    state.replace(SUMMARY, summary::yaml(report, now).as_bytes())?;
    // A report is texts, numbers and lists; serialising it cannot fail.
    state.replace(REPORT, &serde_json::to_vec(report).unwrap_or_default())
}
