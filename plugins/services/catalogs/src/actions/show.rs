//! `list`, `show`, `catalog` and `environments`.

use std::collections::BTreeMap;

use muster_api::base::{compare_natural, error_chain};
use muster_api::{ActionError, CallContext};
use muster_contract::compiler::{
    CompilerCatalogInput, CompilerCatalogOutput, CompilerEnvironmentRow,
    CompilerEnvironmentsOutput, CompilerInputRow, CompilerListInput, CompilerListOutput,
    CompilerMessageRow, CompilerNodeInput, CompilerNodeRow, CompilerReadRow, CompilerShowOutput,
    MAX_LISTED_NODES,
};
use muster_wire::catalog::{CatalogAddress, CompiledCatalog, catalog_key};
use muster_wire::compressed::compress_json;
use muster_wire::identity::Identity;

use super::context::{CompilerActions, invalid_query, parse_node, store_failure};
use crate::compiler::protocol::{CompileFailure, CompileLog};
use crate::handle::CompilerHandle;
use crate::inputs::{CodeInput, InputName};

/// Most inputs in an answer.
const MAX_SHOWN_INPUTS: usize = 5000;

pub(super) fn list(
    handle: &CompilerHandle,
    input: &CompilerListInput,
) -> Result<CompilerListOutput, ActionError> {
    let nodes = handle.directory().select_names(input.filter.as_deref())?;
    let mut rows: Vec<CompilerNodeRow> = nodes.iter().map(|node| node_row(handle, node)).collect();
    if input.failed == Some(true) {
        rows.retain(|row| row.failure.is_some());
    }
    let total = rows.len();
    if let Some(after) = &input.after {
        // In the order of the list, in which `db2` precedes `db10`.
        rows.retain(|row| compare_natural(&row.node, after).is_gt());
    }
    let has_more = rows.len() > MAX_LISTED_NODES;
    rows.truncate(MAX_LISTED_NODES);
    let next = rows.last().filter(|_| has_more).map(|row| row.node.clone());
    Ok(CompilerListOutput { nodes: rows, total, next })
}

pub(super) fn node_row(handle: &CompilerHandle, node: &Identity) -> CompilerNodeRow {
    let queued = handle.queue().get(node).map(|want| match want.claim {
        Some(_) => "compiling".into(),
        None => "waiting".into(),
    });
    let row = CompilerNodeRow { node: node.to_string(), queued, ..CompilerNodeRow::default() };
    let Some(last) = handle.last_compile(node) else {
        return CompilerNodeRow { state: "never".into(), ..row };
    };
    let record = &last.record;
    let state = if record.failure.is_some() { "failed" } else { "compiled" };
    CompilerNodeRow {
        state: state.into(),
        environment: Some(record.state.environment.clone().into()),
        code: Some(record.state.code.clone().into()),
        catalog: record.catalog.map(|catalog| catalog.address.to_string()),
        compiled_at: Some(record.compiled_at),
        failure: record.failure.as_ref().map(failure_row),
        ..row
    }
}

fn failure_row(failure: &CompileFailure) -> CompilerMessageRow {
    CompilerMessageRow {
        level: None,
        message: failure.message.clone().into(),
        file: failure.file.clone().map(Into::into),
        line: failure.line,
    }
}

fn warning_row(log: &CompileLog) -> CompilerMessageRow {
    CompilerMessageRow {
        level: Some(log.level.clone().into()),
        message: log.message.clone().into(),
        file: log.file.clone().map(Into::into),
        line: log.line,
    }
}

pub(super) fn show(
    handle: &CompilerHandle,
    input: &CompilerNodeInput,
) -> Result<CompilerShowOutput, ActionError> {
    let node = parse_node(&input.node)?;
    let row = node_row(handle, &node);
    let Some(last) = handle.last_compile(&node) else {
        if handle.directory().snapshot(&node).is_none() {
            let text = format!("the directory knows no node `{node}`");
            return Err(ActionError::invalid_input(text));
        }
        return Ok(CompilerShowOutput { node: row, ..CompilerShowOutput::default() });
    };
    let current = handle.compilable(&node);
    let changed = match &current {
        Some(current) => last.inputs.changes(&handle.sources(current)),
        None => Ok(Vec::new()),
    };
    let changed = changed.map_err(|error| ActionError::failed(error_chain(&error)))?;
    let inputs =
        last.inputs.iter().take(MAX_SHOWN_INPUTS).map(|(name, _)| input_row(name, &changed));
    let record = &last.record;
    Ok(CompilerShowOutput {
        node: row,
        cause: record.cause.clone().into(),
        milliseconds: record.milliseconds,
        inputs: inputs.collect(),
        externals: read_rows(&record.externals),
        wholes: read_rows(&record.wholes),
        warnings: record.warnings.iter().map(warning_row).collect(),
    })
}

fn input_row(name: &InputName, changed: &[&InputName]) -> CompilerInputRow {
    let kind = match name {
        InputName::Value(path, _) => match path.first().map(String::as_str) {
            Some("facts") => "fact",
            Some("trusted") => "trusted",
            _ => "server_fact",
        },
        InputName::Code(CodeInput::Data(_, _)) => "data",
        InputName::Code(_) => "file",
        InputName::Query(_) => "query",
    };
    let shown = match name {
        InputName::Value(path, _) if path.len() > 1 => {
            path.iter().skip(1).cloned().collect::<Vec<_>>().join(".")
        }
        InputName::Value(_, _) => "all".to_owned(),
        InputName::Query(query) => query.clone(),
        InputName::Code(_) => name.to_string(),
    };
    CompilerInputRow { kind: kind.into(), name: shown.into(), changed: changed.contains(&name) }
}

fn read_rows(reads: &[(String, String)]) -> Vec<CompilerReadRow> {
    let row = |(what, place): &(String, String)| CompilerReadRow {
        what: what.clone().into(),
        place: place.clone().into(),
    };
    reads.iter().map(row).collect()
}

/// A stored catalog. Its signature is not verified here: the node does that.
pub(super) async fn catalog(
    actions: CompilerActions,
    _: CallContext,
    input: CompilerCatalogInput,
) -> Result<CompilerCatalogOutput, ActionError> {
    let handle = &actions.handle;
    let node = parse_node(&input.node)?;
    let address = match &input.address {
        Some(text) => Some(
            CatalogAddress::parse(text)
                .map_err(|error| ActionError::invalid_input(format!("address: {error}")))?,
        ),
        None => {
            handle.last_compile(&node).and_then(|last| last.record.catalog).map(|name| name.address)
        }
    };
    let address =
        address.ok_or_else(|| ActionError::invalid_input(format!("{node} has no catalog yet")))?;
    let entry = handle.catalogs().get(&catalog_key(&node, address)).await.map_err(store_failure)?;
    let bytes = entry
        .and_then(|entry| entry.value)
        .ok_or_else(|| ActionError::invalid_input(format!("{node} has no catalog {address}")))?;
    let compiled = CompiledCatalog::read_unverified(&bytes).map_err(ActionError::from_cause)?;
    let stored = compiled.stored_form().map_err(ActionError::from_cause)?;
    Ok(CompilerCatalogOutput {
        address: address.to_string(),
        environment: compiled.statement.environment.into(),
        code: compiled.statement.code.into(),
        compiled_at: compiled.statement.compiled_at,
        catalog: compress_json(&stored).map_err(ActionError::from_cause)?,
    })
}

pub(super) fn environments(
    handle: &CompilerHandle,
) -> Result<CompilerEnvironmentsOutput, ActionError> {
    let new_row = |name: &str| {
        let code = handle.code(name);
        let announced = code.announced;
        CompilerEnvironmentRow {
            name: name.into(),
            pinned: announced.as_ref().is_some_and(|announced| announced.pinned),
            code: announced.map(|announced| announced.code.into()),
            problem: code.problem.map(Into::into),
            ..CompilerEnvironmentRow::default()
        }
    };
    let known = handle.environments().iter().map(|environment| environment.name.as_str());
    let mut rows: BTreeMap<&str, CompilerEnvironmentRow> =
        known.map(|name| (name, new_row(name))).collect();
    let mut without = 0;
    for node in handle.directory().select_names(None)? {
        let environment = handle.environment_of(&node).map_err(|error| invalid_query(&error))?;
        let Some(row) = environment.and_then(|one| rows.get_mut(one.name.as_str())) else {
            without += 1;
            continue;
        };
        row.nodes += 1;
        row.waiting += usize::from(handle.queue().get(&node).is_some());
        match handle.last_compile(&node) {
            None => row.never += 1,
            Some(last) if last.record.failure.is_some() => row.failed += 1,
            Some(_) => row.compiled += 1,
        }
    }
    Ok(CompilerEnvironmentsOutput { environments: rows.into_values().collect(), without })
}
