//! Files that a run writes to the state directory, with Puppet's names and layouts.

use muster_system::{StateDir, SystemResult};

use crate::catalog::Catalog;
use crate::report::{RunReport, summary};

pub const REPORT_FILE: &str = "last_run_report.json";
/// The catalog of the last run that began, in its input format. Replays of owed refreshes use it.
pub const CATALOG_FILE: &str = "catalog";
pub const SUMMARY_FILE: &str = "last_run_summary.yaml";
/// Classes of the catalog, one per line.
pub const CLASSES_FILE: &str = "classes.txt";
/// Resources of the catalog, one per line, in lower case.
pub const RESOURCES_FILE: &str = "resources.txt";

pub(super) fn write_run_files(
    state: &StateDir,
    catalog: &Catalog,
    report: &RunReport,
) -> SystemResult<()> {
    let join_lines = |lines: Vec<String>| lines.join("\n") + "\n";
    let resources = catalog.entries.iter().filter(|entry| !entry.is_container);
    let resources = resources
        .map(|entry| {
            let reference = &entry.reference;
            format!("{}[{}]", reference.type_name, reference.title.to_lowercase())
        })
        .collect();
    state.replace_file(CLASSES_FILE, join_lines(catalog.classes.clone()).as_bytes())?;
    state.replace_file(RESOURCES_FILE, join_lines(resources).as_bytes())?;
    let now = jiff::Timestamp::now().as_second();
    state.replace_file(SUMMARY_FILE, summary::render_yaml(report, now).as_bytes())?;
    state.replace_record(REPORT_FILE, report)
}
