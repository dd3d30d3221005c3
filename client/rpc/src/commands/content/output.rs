//! Renders lists of stored files, and what a verification or a collection found.

use muster_contract::compiler::{CompilerCollectOutput, CompilerFileRow, CompilerVerifyOutput};
use muster_display::TextPage;
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use schemars::JsonSchema;
use serde::Serialize;

/// All pages of a list.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ContentList {
    /// The files, by address.
    pub files: Vec<CompilerFileRow>,
}

pub fn render_content(list: &ContentList, width: usize) -> String {
    let mut table = Table::new(["FILE", "BYTES", "CHUNKS", "STORED"]);
    for row in &list.files {
        table.row([
            row.file.clone(),
            row.bytes.to_string(),
            row.chunks.to_string(),
            format_time_millis(row.stored_at),
        ]);
    }
    let mut page = TextPage::default();
    page.push_text(table.render(width));
    let bytes: u64 = list.files.iter().map(|row| row.bytes).sum();
    page.push_line(format_args!("{}, {bytes} bytes", count_text(list.files.len())));
    page.into_text()
}

pub fn render_verified(found: &CompilerVerifyOutput) -> String {
    let mut page = TextPage::default();
    let read = stored_text(found.files, found.bytes);
    if found.defects_total == 0 {
        page.push_line(format_args!("{read}: all as their addresses say"));
        return page.into_text();
    }
    page.push_line(format_args!("{read}: {} missing or altered", found.defects_total));
    for defect in &found.defects {
        page.push_line(format_args!("  {}", defect.line()));
    }
    page.into_text()
}

pub fn render_collected(report: &CompilerCollectOutput) -> String {
    let mut page = TextPage::default();
    page.push_line(format_args!(
        "deleted {} releases, {} catalogs and {}",
        report.deleted_releases,
        report.deleted_catalogs,
        stored_text(report.deleted_files, report.deleted_bytes)
    ));
    page.push_line(format_args!(
        "kept {} catalogs and {}",
        report.kept_catalogs,
        stored_text(report.kept_files, report.kept_bytes)
    ));
    if !report.broken.is_empty() {
        page.push_line(format_args!(
            "no chunk was deleted, because these files are missing or invalid: {}",
            report.broken.join(", ")
        ));
    }
    page.into_text()
}

fn count_text(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// With the bytes that the broker has for them, a few more than those of the files.
fn stored_text(files: usize, bytes: u64) -> String {
    format!("{} ({bytes} bytes in the broker)", count_text(files))
}
