//! What a run leaves in the state directory, in Puppet's names and layouts.

use muster_system::{StateDir, SystemError};

use crate::catalog::Catalog;
use crate::report::{RunReport, summary};

/// The report of the last run, as JSON.
pub const REPORT_FILE: &str = "last_run_report.json";
/// The catalog that was applied last, in whatever form it came.
pub const CATALOG_FILE: &str = "catalog";
/// Its counts, as YAML.
pub const SUMMARY_FILE: &str = "last_run_summary.yaml";
/// The classes of the catalog, one a line.
pub const CLASSES_FILE: &str = "classes.txt";
/// Its resources, one a line, lower case.
pub const RESOURCES_FILE: &str = "resources.txt";

/// Writes them.
pub(super) fn write_run_files(
    state: &StateDir,
    catalog: &Catalog,
    report: &RunReport,
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
    state.replace_file(CLASSES_FILE, lines(catalog.classes.clone()).as_bytes())?;
    state.replace_file(RESOURCES_FILE, lines(resources).as_bytes())?;
    let now = jiff::Timestamp::now().as_second();
    state.replace_file(SUMMARY_FILE, summary::render_yaml(report, now).as_bytes())?;
    // A report is texts, numbers and lists; serialising it cannot fail.
    state.replace_file(REPORT_FILE, &serde_json::to_vec(report).unwrap_or_default())
}
