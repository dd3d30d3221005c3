//! Who or what is behind a change or a run.

use muster_contract::history::HistoryKind;
use rusqlite::{OptionalExtension as _, Transaction, params};
use uuid::Uuid;

use super::error::IndexError;
use super::row::kind_number;

/// Who or what is behind a change.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    pub(super) who: Option<String>,
    pub(super) request: Option<String>,
    pub(super) approver: Option<String>,
    pub(super) schedule: Option<String>,
    pub(super) release: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) action: Option<String>,
    pub(super) is_run: bool,
}

/// Of a run, or of the request whose record precedes what it changed.
pub(super) fn find_origin(
    transaction: &Transaction<'_>,
    node: i64,
    run: Uuid,
) -> Result<Origin, IndexError> {
    let id = run.to_string();
    let mut of_run = transaction
        .prepare_cached("SELECT who, request, release FROM run WHERE id = ?1 AND node = ?2")?;
    let found = of_run.query_row(params![id, node], |row| {
        let (who, request, release) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Origin { who, request, release, is_run: true, ..Origin::default() })
    });
    let mut of_request = transaction.prepare_cached(
        "SELECT who, approver, schedule, agent, action FROM happened WHERE request = ?1 AND node = ?2 AND kind = ?3 LIMIT 1",
    )?;
    let mut find_request = |request: &str| {
        of_request
            .query_row(params![request, node, kind_number(HistoryKind::Request)], |row| {
                Ok(Origin {
                    who: row.get(0)?,
                    request: Some(request.to_owned()),
                    approver: row.get(1)?,
                    schedule: row.get(2)?,
                    agent: row.get(3)?,
                    action: row.get(4)?,
                    ..Origin::default()
                })
            })
            .optional()
    };
    let Some(mut origin) = found.optional()? else {
        // Its request may be older than the index.
        let unknown = || Origin { request: Some(id.clone()), ..Origin::default() };
        return Ok(find_request(&id)?.unwrap_or_else(unknown));
    };
    if let Some(request) = origin.request.as_deref().map_or(Ok(None), &mut find_request)? {
        let Origin { who, release, is_run, .. } = origin;
        origin = Origin { who, release, is_run, ..request };
    }
    Ok(origin)
}
