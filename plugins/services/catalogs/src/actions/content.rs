//! `content`, `verify` and `collect`.

use muster_api::base::error_chain;
use muster_api::{ActionError, CallContext, EmptyInput};
use muster_contract::compiler::{
    CompilerCollectOutput, CompilerContentInput, CompilerContentOutput, CompilerFileRow,
    CompilerVerifyOutput, MAX_LISTED_FILES,
};
use muster_directory::not_ready;
use muster_wire::catalog::content::ContentAddress;

use super::context::{CompilerActions, invalid_query};

/// Most defects in an answer.
const MAX_DEFECTS: usize = 100;

pub(super) async fn content(
    actions: CompilerActions,
    _: CallContext,
    input: CompilerContentInput,
) -> Result<CompilerContentOutput, ActionError> {
    let after = input.after.as_deref().map(ContentAddress::parse).transpose();
    let after = after.map_err(|error| ActionError::invalid_input(error.to_string()))?;
    let all = actions.releases.content().list().await.map_err(ActionError::from_cause)?;
    let start = all.partition_point(|stored| after.is_some_and(|after| stored.file <= after));
    let rest = all.get(start..).unwrap_or_default();
    let files: Vec<CompilerFileRow> = rest
        .iter()
        .take(MAX_LISTED_FILES)
        .map(|stored| CompilerFileRow {
            file: stored.file.to_string(),
            bytes: stored.bytes,
            chunks: stored.chunks,
            stored_at: stored.stored_at,
        })
        .collect();
    let has_more = rest.len() > files.len();
    let next = files.last().filter(|_| has_more).map(|last| last.file.clone());
    Ok(CompilerContentOutput { files, next })
}

pub(super) async fn verify(
    actions: CompilerActions,
    _: CallContext,
    _: EmptyInput,
) -> Result<CompilerVerifyOutput, ActionError> {
    let report = actions.releases.content().verify().await.map_err(ActionError::from_cause)?;
    let defects = report.defects.iter().take(MAX_DEFECTS);
    Ok(CompilerVerifyOutput {
        files: report.files,
        chunks: report.chunks,
        bytes: report.bytes,
        defects: defects.map(|defect| error_chain(defect).into()).collect(),
        defects_total: report.defects.len(),
    })
}

pub(super) async fn collect(
    actions: CompilerActions,
    _: CallContext,
    _: EmptyInput,
) -> Result<CompilerCollectOutput, ActionError> {
    let handle = &actions.handle;
    let named = handle.named_catalogs().map_err(|error| invalid_query(&error))?;
    let named = named.ok_or_else(not_ready)?;
    let collected = actions.releases.collect(named, handle.keep_releases(), handle.now()).await;
    let report = collected.map_err(ActionError::from_cause)?;
    let content = report.content;
    Ok(CompilerCollectOutput {
        deleted_releases: report.deleted_releases,
        deleted_catalogs: report.deleted_catalogs,
        deleted_files: content.deleted_files,
        deleted_bytes: content.deleted_bytes,
        kept_catalogs: report.kept_catalogs,
        kept_files: content.kept_files,
        kept_bytes: content.kept_bytes,
        broken: content.broken.iter().take(MAX_DEFECTS).map(ToString::to_string).collect(),
    })
}
