//! `begin`, `write`, `finish` and `abort`: a file from the caller, in parts.

use std::sync::{Arc, PoisonError};

use muster_api::{ActionError, BlockingContext};
use muster_contract::filecopy::{
    FilecopyAbortOutput, FilecopyBeginInput, FilecopyBeginOutput, FilecopyFinishOutput,
    FilecopyTransferInput, FilecopyWriteInput, FilecopyWriteOutput, MAX_CHUNK_BYTES, begin_state,
    decode_chunk,
};

use crate::path_policy::AdmittedPath;

use super::open_file;
use crate::filecopy::attributes::DesiredAttributes;
use crate::filecopy::digest::digest_content;
use crate::filecopy::transfer::{TransferRecord, missing_chunks};
use crate::filecopy::transfer_store::{TransferStore, TransferStoreError};

/// Smallest size of a part, in bytes: it bounds the number of parts.
const MIN_CHUNK_BYTES: u64 = 4096;

/// Prepares a copy, or finds that the target needs none.
#[expect(clippy::needless_pass_by_value, reason = "the signature of actions")]
pub(crate) fn begin_transfer(
    store: &Arc<TransferStore>,
    cx: &BlockingContext,
    input: FilecopyBeginInput,
) -> Result<FilecopyBeginOutput, ActionError> {
    check_input(&input, store.max_bytes)?;
    let attributes = DesiredAttributes::from_input(&input, &*cx.system)?;
    store.remove_expired(&*cx.system);
    let target = store.policy.admit_path(&*cx.system, &input.path, true)?;
    let path = target.path.to_str().ok_or_else(|| {
        ActionError::failed(format!("the path {} is not UTF-8", target.path.display()))
    })?;
    let record = TransferRecord::new(cx.caller.as_str(), path.to_owned(), &input, attributes);
    let output = |state: &str| FilecopyBeginOutput {
        state: state.to_owned(),
        path: record.path.clone(),
        ..FilecopyBeginOutput::default()
    };
    if let Some(file) = open_file(&target)? {
        let metadata = file.status().metadata;
        let is_same = metadata.size == input.size && {
            let read = |offset, length| file.read_part(offset, length);
            digest_content(read, &cx.cancel_flag)?.0 == input.sha256
        };
        if is_same {
            return Ok(match attributes.missing_on(&metadata) {
                None => output(begin_state::UNCHANGED),
                Some(missing) => {
                    file.set_attributes(&missing)?;
                    output(begin_state::ATTRIBUTES)
                }
            });
        }
    }
    let map = store.begin_or_resume(&record, &target)?;
    store.schedule_expiry(&cx.system);
    let (missing_count, missing) = missing_chunks(&map);
    Ok(FilecopyBeginOutput {
        transfer: record.transfer.clone(),
        missing_chunks: missing_count,
        missing,
        ..output(begin_state::READY)
    })
}

fn check_input(input: &FilecopyBeginInput, max_bytes: u64) -> Result<(), ActionError> {
    if input.size > max_bytes {
        let message = format!(
            "the file has {} bytes; this node accepts at most {max_bytes} (plugins.filecopy.max_bytes)",
            input.size
        );
        return Err(ActionError::denied_by_rule(message, "plugins.filecopy.max_bytes"));
    }
    if !(MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&input.chunk_bytes) {
        let message = format!(
            "chunk_bytes is {}; it must be from {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES}",
            input.chunk_bytes
        );
        return Err(ActionError::invalid_input(message));
    }
    Ok(())
}

/// Writes one part. Parts may arrive in any order, and more than once.
pub(crate) fn write_chunk(
    store: &Arc<TransferStore>,
    cx: &BlockingContext,
    FilecopyWriteInput { transfer, index, content }: FilecopyWriteInput,
) -> Result<FilecopyWriteOutput, ActionError> {
    let lock = store.lock_of(&transfer);
    let guard = lock.read().unwrap_or_else(PoisonError::into_inner);
    let record = store.load_record(&transfer, cx.caller.as_str())?;
    let range = record.chunk_range(index).ok_or_else(|| {
        let count = record.chunk_count();
        ActionError::invalid_input(format!("there is no part {index}: the file has {count}"))
    })?;
    let bytes = decode_chunk(&content).filter(|bytes| bytes.len() as u64 == range.1);
    let bytes = bytes.ok_or_else(|| {
        ActionError::invalid_input(format!("part {index} is not {} bytes in base64", range.1))
    })?;
    let target = store.policy.admit_path(&*cx.system, &record.path, true)?;
    let written = write_part(&record, &target, range.0, &bytes)
        .and_then(|()| store.mark_written(&record, index));
    drop(guard);
    if let Err(error) = written {
        remove_failed(store, &record, cx);
        return Err(error.into());
    }
    Ok(FilecopyWriteOutput { index })
}

fn write_part(
    record: &TransferRecord,
    target: &AdmittedPath,
    offset: u64,
    bytes: &[u8],
) -> Result<(), TransferStoreError> {
    let Some(entry) = &target.entry else {
        return Err(TransferStoreError::NoDirectory(record.path.clone()));
    };
    Ok(entry.sibling(&record.part_name())?.open_writable()?.write_part(offset, bytes)?)
}

/// Verifies the parts, and puts the file into the place of the target. After an error there is neither a target nor a part of this copy.
pub(crate) fn finish_transfer(
    store: &Arc<TransferStore>,
    cx: &BlockingContext,
    FilecopyTransferInput { transfer }: FilecopyTransferInput,
) -> Result<FilecopyFinishOutput, ActionError> {
    let lock = store.lock_of(&transfer);
    let _guard = lock.write().unwrap_or_else(PoisonError::into_inner);
    let record = store.load_record(&transfer, cx.caller.as_str())?;
    let (missing, _) = missing_chunks(&store.read_map(&record)?);
    if missing > 0 {
        let count = record.chunk_count();
        let message = format!("missing parts: {missing} of {count}; begin the copy again");
        return Err(ActionError::failed(message));
    }
    let replaced = replace_target(store, &record, cx);
    match &replaced {
        Ok(()) => store.forget_transfer(&record),
        // The parts are good: the copy can be finished by another call.
        Err(error) if *error == ActionError::cancelled() => {}
        Err(_) => store.remove_transfer(&record, &*cx.system),
    }
    replaced?;
    let TransferRecord { path, size, sha256, .. } = record;
    Ok(FilecopyFinishOutput { path, size, sha256 })
}

fn replace_target(
    store: &TransferStore,
    record: &TransferRecord,
    cx: &BlockingContext,
) -> Result<(), ActionError> {
    let target = store.policy.admit_path(&*cx.system, &record.path, true)?;
    let Some(entry) = &target.entry else {
        return Err(TransferStoreError::NoDirectory(record.path.clone()).into());
    };
    let part_entry = entry.sibling(&record.part_name())?;
    let parts = part_entry.open_writable()?;
    let read = |offset, length| parts.read_part(offset, length);
    let (sha256, size) = digest_content(read, &cx.cancel_flag)?;
    if (size, &sha256) != (record.size, &record.sha256) {
        let message = format!(
            "the copy of {} was discarded: its SHA-256 is {sha256}, and the file's is {}",
            record.path, record.sha256
        );
        return Err(ActionError::failed(message));
    }
    let replaced = open_file(&target)?;
    let metadata = replaced.as_ref().map(|file| file.status().metadata);
    parts.complete(replaced.as_ref(), &record.attributes.of_replacement(metadata.as_ref()))?;
    Ok(part_entry.rename_over(entry)?)
}

/// Removes an unfinished copy. A copy that does not exist is not an error.
pub(crate) fn abort_transfer(
    store: &Arc<TransferStore>,
    cx: &BlockingContext,
    FilecopyTransferInput { transfer }: FilecopyTransferInput,
) -> Result<FilecopyAbortOutput, ActionError> {
    let lock = store.lock_of(&transfer);
    let _guard = lock.write().unwrap_or_else(PoisonError::into_inner);
    match store.load_record(&transfer, cx.caller.as_str()) {
        Ok(record) => {
            store.remove_transfer(&record, &*cx.system);
            Ok(FilecopyAbortOutput { removed: true })
        }
        Err(TransferStoreError::Unknown(_)) => Ok(FilecopyAbortOutput { removed: false }),
        Err(error) => Err(error.into()),
    }
}

/// Removes a copy whose parts cannot be written.
fn remove_failed(store: &TransferStore, record: &TransferRecord, cx: &BlockingContext) {
    let lock = store.lock_of(&record.transfer);
    let _guard = lock.write().unwrap_or_else(PoisonError::into_inner);
    store.remove_transfer(record, &*cx.system);
}
