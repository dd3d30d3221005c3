//! The agent `catalog`: `apply` applies a catalog to the node, `plan` reports what it would change, `lint` lists the notifications that an unmodified
//! Puppet would lose.

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::{ActionError, BlockingContext};
use muster_contract::catalog::{
    CatalogLintInput, CatalogLintOutput, CatalogRunInput, CatalogRunOutcome,
};
use muster_engine::catalog::Catalog;
use muster_engine::run::RunOptions;
use muster_engine::type_source::machine_type_sources;
use muster_engine::{ResourceEngine, lint};

use crate::catalog::options::Options;
use crate::catalog::runs::{self, CatalogSource, invalid_catalog_error, read_catalog};

/// Applies the catalog; with `noop`, reads state and executes no command of the catalog.
pub(crate) fn run_catalog(
    options: &Options,
    cx: &BlockingContext,
    input: CatalogRunInput,
    noop: bool,
) -> Result<CatalogRunOutcome, ActionError> {
    let source = choose_source(input.catalog, input.file)?;
    let run_options = RunOptions {
        noop,
        tags: split_words(input.tags),
        skip_tags: split_words(input.skip_tags),
        ..RunOptions::default()
    };
    runs::apply_catalog(cx, options, source, run_options)
}

pub(crate) fn lint_catalog(
    options: &Arc<Options>,
    cx: &BlockingContext,
    input: CatalogLintInput,
) -> Result<CatalogLintOutput, ActionError> {
    let bytes = read_catalog(cx, options, choose_source(input.catalog, input.file)?)?;
    let catalog = Catalog::parse(&bytes, cx.node.identity().as_str())
        .map_err(|error| invalid_catalog_error(&error))?;
    let engine = ResourceEngine::new(Arc::clone(&cx.system))
        .with_type_source(machine_type_sources(&cx.system));
    let findings = lint::lint_catalog(&engine, &catalog)
        .map_err(|error| ActionError::invalid_input(error_chain(&error)))?;
    Ok(CatalogLintOutput {
        count: findings.len(),
        findings: findings.iter().map(ToString::to_string).collect(),
    })
}

/// Selects the source from the action's inputs.
fn choose_source(
    catalog: Option<String>,
    file: Option<String>,
) -> Result<CatalogSource, ActionError> {
    match (catalog, file) {
        (Some(text), None) => Ok(CatalogSource::Given(text)),
        (None, Some(path)) => Ok(CatalogSource::File(path)),
        _ => Err(ActionError::invalid_input(
            "specify either `catalog`, its content, or `file`, its path on the node",
        )),
    }
}

/// Splits a comma-separated list.
fn split_words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
