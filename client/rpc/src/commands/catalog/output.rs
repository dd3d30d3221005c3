//! Renders what was compiled: lists, one catalog, what it depends on, and environments. Texts of the service are escaped.

use muster_base::NodeText;
use muster_contract::compiler::{
    CompilerAnnounceOutput, CompilerCatalogOutput, CompilerCheckOutput, CompilerCompileOutput,
    CompilerEnvironmentsOutput, CompilerInputRow, CompilerMessageRow, CompilerNodeRow,
    CompilerReadRow, CompilerShowOutput,
};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::{TextPage, node_count_text};
use muster_wire::compressed::{CompressedJsonError, decompress_json};
use muster_wire::limits::MAX_CATALOG_CONTENT_BYTES;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Digits of commits and addresses in tables.
const SHORT_DIGITS: usize = 12;
/// Width of the labels.
const LABEL_WIDTH: usize = 13;

/// The catalog in an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CatalogReadError {
    #[error("cannot decompress the catalog in the answer of the compiler")]
    Compressed(#[from] CompressedJsonError),
    #[error("cannot write the filter as JSON")]
    Json(#[source] serde_json::Error),
}

/// All pages of a list.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CatalogList {
    /// The nodes, by name.
    pub nodes: Vec<CompilerNodeRow>,
}

/// The document of `rpc catalog show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogDocument<'a> {
    schema: &'static str,
    /// The address of the catalog.
    address: &'a str,
    /// The environment.
    environment: &'a NodeText,
    /// The code: a commit, or the digest of a directory.
    code: &'a NodeText,
    /// When it was compiled, in milliseconds since the epoch.
    compiled_at: u64,
    /// Puppet's catalog, with digests in place of secrets.
    catalog: &'a Map<String, Value>,
}

impl<'a> CatalogDocument<'a> {
    pub fn new(output: &'a CompilerCatalogOutput, catalog: &'a Map<String, Value>) -> Self {
        Self {
            schema: "muster.catalog.v1",
            address: &output.address,
            environment: &output.environment,
            code: &output.code,
            compiled_at: output.compiled_at,
            catalog,
        }
    }
}

pub fn read_catalog(
    output: &CompilerCatalogOutput,
) -> Result<Map<String, Value>, CatalogReadError> {
    Ok(decompress_json(&output.catalog, MAX_CATALOG_CONTENT_BYTES)?)
}

pub fn render_compiled(output: &CompilerCompileOutput) -> String {
    let mut page = TextPage::default();
    let waiting = output.nodes.saturating_sub(output.added + output.impossible.len());
    page.push_line(format_args!("{} to compile", node_count_text(output.added)));
    if waiting > 0 {
        page.push_line(format_args!("{} already waited", node_count_text(waiting)));
    }
    if !output.impossible.is_empty() {
        let names = output.impossible.join(", ");
        page.push_line(format_args!(
            "not possible, because they belong to no environment, or its code is not there yet: {names}"
        ));
    }
    page.into_text()
}

pub fn render_check(found: &CompilerCheckOutput, width: usize) -> String {
    let mut table = Table::new(["NODE", "ALTERED FACTS", "RESULT"]);
    for row in &found.nodes {
        let list = |names: &[NodeText]| {
            let names: Vec<_> = names.iter().map(NodeText::line).collect();
            names.join(", ")
        };
        let result = if let Some(failure) = &row.failure {
            format!("failed: {}", failure.line())
        } else if !row.missed.is_empty() {
            format!("depends on facts that were not recorded: {}", list(&row.missed))
        } else if !row.unsteady.is_empty() {
            format!("the same; differs without any change: {}", list(&row.unsteady))
        } else {
            "the same".to_owned()
        };
        let has_failed = row.failure.is_some() || !row.missed.is_empty();
        table.row([row.node.clone(), row.altered.to_string(), result]).failed_if(has_failed);
    }
    let mut page = TextPage::default();
    page.push_text(table.max_lines(Some(5)).render(width));
    if !found.impossible.is_empty() {
        let names = found.impossible.join(", ");
        page.push_line(format_args!(
            "not possible, because they belong to no environment, or its code is not there yet: {names}"
        ));
    }
    page.into_text()
}

pub fn render_announced(output: &CompilerAnnounceOutput) -> String {
    let mut page = TextPage::default();
    let code = output.code.line();
    if output.changed {
        page.push_line(format_args!("compiling {code}; nodes that it changes are compiled now"));
    } else {
        page.push_line(format_args!("{code} is compiled already"));
    }
    page.into_text()
}

pub fn render_list(list: &CatalogList, width: usize) -> String {
    if list.nodes.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(["NODE", "STATE", "ENVIRONMENT", "CODE", "CATALOG", "COMPILED", "PROBLEM"]);
    for row in &list.nodes {
        let problem = row.failure.as_ref().map(message_text).unwrap_or_default();
        let cells = [
            row.node.clone(),
            state_text(row),
            optional_text(row.environment.as_ref()),
            row.code.as_ref().map_or_else(dash, |code| shorten(&code.line())),
            row.catalog.as_deref().map_or_else(dash, shorten),
            row.compiled_at.map_or_else(dash, format_time_millis),
            problem,
        ];
        table.row(cells).failed_if(row.failure.is_some());
    }
    table.max_lines(Some(3)).render(width)
}

/// The state, and whether the node is about to be compiled.
fn state_text(row: &CompilerNodeRow) -> String {
    let state = row.state.line();
    match &row.queued {
        Some(queued) => format!("{state}, {}", queued.line()),
        None => state.into_owned(),
    }
}

pub(crate) fn dash() -> String {
    "-".to_owned()
}

fn optional_text(text: Option<&NodeText>) -> String {
    text.map_or_else(dash, |text| text.line().into_owned())
}

pub(crate) fn shorten(digits: &str) -> String {
    digits.chars().take(SHORT_DIGITS).collect()
}

pub(crate) fn message_text(message: &CompilerMessageRow) -> String {
    let level = message.level.as_ref().map(|level| format!("{}: ", level.line()));
    let place = message.file.as_ref().map(|file| match message.line {
        Some(line) => format!(" ({}:{line})", file.line()),
        None => format!(" ({})", file.line()),
    });
    let (level, place) = (level.unwrap_or_default(), place.unwrap_or_default());
    format!("{level}{}{place}", message.message.line())
}

pub fn render_catalog(document: &CatalogDocument<'_>, width: usize) -> String {
    let mut page = TextPage::default();
    let compiled = format_time_millis(document.compiled_at);
    let (environment, code) = (document.environment.line(), document.code.line());
    let labels = [
        ("Catalog:", document.address),
        ("Environment:", &environment),
        ("Code:", &code),
        ("Compiled:", &compiled),
    ];
    page.push_labels(0, LABEL_WIDTH, labels);
    page.push_gap();
    let mut table = Table::new(["RESOURCE", "FILE"]);
    let resources = document.catalog.get("resources").and_then(Value::as_array);
    for resource in resources.into_iter().flatten() {
        let text = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = NodeText::from(format!("{}[{}]", text("type"), text("title")));
        let line = resource.get("line").map(|line| format!(":{line}")).unwrap_or_default();
        let place = NodeText::from(format!("{}{line}", text("file")));
        table.row([name.line(), place.line()]);
    }
    page.push_text(table.render(width));
    page.into_text()
}

pub fn render_why(shown: &CompilerShowOutput, width: usize) -> String {
    let (row, mut page) = (&shown.node, TextPage::default());
    let compiled = row.compiled_at.map_or_else(
        || "never".to_owned(),
        |at| format!("{} in {} ms", format_time_millis(at), shown.milliseconds),
    );
    let failure = row.failure.as_ref().map(message_text).unwrap_or_default();
    let labels = [
        ("Node:", row.node.clone()),
        ("State:", state_text(row)),
        ("Problem:", failure),
        ("Environment:", optional_text(row.environment.as_ref())),
        ("Code:", optional_text(row.code.as_ref())),
        ("Catalog:", row.catalog.clone().unwrap_or_else(dash)),
        ("Compiled:", compiled),
        ("Cause:", shown.cause.line().into_owned()),
    ];
    let shown_labels = labels.iter().filter(|(_, text)| !text.is_empty());
    page.push_labels(0, LABEL_WIDTH, shown_labels.map(|(label, text)| (*label, text.as_str())));
    push_reads(&mut page, "Not reproducible: it read", &shown.externals);
    push_reads(&mut page, "All facts count but those that always change: it read", &shown.wholes);
    push_inputs(&mut page, &shown.inputs, width);
    if !shown.warnings.is_empty() {
        page.push_gap();
        page.push_heading("Warnings");
        for warning in &shown.warnings {
            page.push_line(format_args!("  {}", message_text(warning)));
        }
    }
    page.into_text()
}

fn push_reads(page: &mut TextPage, heading: &str, reads: &[CompilerReadRow]) {
    if reads.is_empty() {
        return;
    }
    page.push_gap();
    page.push_heading(heading);
    for read in reads {
        page.push_line(format_args!("  {} at {}", read.what.line(), read.place.line()));
    }
}

/// What was read by kind, and what is different now.
fn push_inputs(page: &mut TextPage, inputs: &[CompilerInputRow], width: usize) {
    if inputs.is_empty() {
        return;
    }
    page.push_gap();
    let mut table = Table::new(["READ", "NAME", "CHANGED"]);
    for input in inputs {
        let changed = if input.changed { "yes" } else { "" };
        table.row([&*input.kind.line(), &*input.name.line(), changed]).failed_if(input.changed);
    }
    page.push_text(table.render(width));
}

pub fn render_environments(found: &CompilerEnvironmentsOutput, width: usize) -> String {
    let mut page = TextPage::default();
    let mut table =
        Table::new(["NAME", "CODE", "NODES", "COMPILED", "FAILED", "NEVER", "WAITING", "PROBLEM"]);
    for row in &found.environments {
        let code = row.code.as_ref().map_or_else(dash, |code| shorten(&code.line()));
        let counts = [row.nodes, row.compiled, row.failed, row.never, row.waiting];
        let [nodes, compiled, failed, never, waiting] = counts.map(|count| count.to_string());
        let problem = row.problem.as_ref().map(|text| text.line().into_owned());
        let code = if row.pinned { format!("{code} (chosen)") } else { code };
        let name = row.name.line().into_owned();
        let problem = problem.unwrap_or_default();
        let cells = [name, code, nodes, compiled, failed, never, waiting, problem];
        table.row(cells).failed_if(row.failed > 0 || row.problem.is_some());
    }
    page.push_text(table.max_lines(Some(3)).render(width));
    if found.without > 0 {
        let nodes = node_count_text(found.without);
        page.push_line(format_args!("{nodes} in no environment"));
    }
    page.into_text()
}
