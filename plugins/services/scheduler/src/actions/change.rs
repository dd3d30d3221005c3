//! Actions that change what is stored: `add`, `pause`, `resume`, `remove`.

use muster_api::{ActionError, CallContext};
use muster_bus::{Bucket, BucketError, json_bytes};
use muster_contract::schedule::{
    ScheduleAddInput, ScheduleAddOutput, ScheduleChangeOutput, ScheduleNameInput,
    SchedulePauseInput, SchedulePauseRow, ScheduleResumeInput,
};
use muster_wire::identity::SubjectName;
use muster_wire::schedule_grant::OpenGrant;

use crate::error::SchedulerError;
use crate::handle::SchedulerHandle;
use crate::store::{MAX_SCHEDULES, PAUSED_KEY, PauseState, StoreKey, StoredSchedule};
use crate::view::{first_starts, parse_name};

/// Tries of an update that conflicts with others.
const MAX_UPDATE_TRIES: usize = 10;

/// Stores a schedule that its author signed and sent.
pub(super) async fn add(
    handle: SchedulerHandle,
    cx: CallContext,
    input: ScheduleAddInput,
) -> Result<ScheduleAddOutput, ActionError> {
    let (opened, schedule) = handle.open_schedule(&input.grant)?;
    check_author(&cx, &opened)?;
    let (name, collective) = (&opened.grant.name, &opened.grant.collective);
    if !handle.collectives().contains(collective) {
        return Err(SchedulerError::Collective(collective.clone()).into());
    }
    let grant = input.grant.clone();
    let stored = StoredSchedule { grant, pause: PauseState::default(), rebalance: None };
    let replaced = write_schedule(&handle, name, &stored, input.replace == Some(true)).await?;
    let nodes = handle.directory().select_nodes(&schedule.spec().filter, &[]);
    let nodes = nodes.map_err(SchedulerError::from)?;
    let next = nodes.as_ref().map(|nodes| first_starts(&schedule, nodes.len(), handle.now()));
    Ok(ScheduleAddOutput {
        name: name.to_string().into(),
        id: opened.grant.id.to_string(),
        ends: opened.ends_at(),
        nodes: nodes.map(|nodes| nodes.len()),
        next: next.unwrap_or_default(),
        replaced,
    })
}

/// Only the author can add a schedule. Another caller cannot use a copy of it.
fn check_author(cx: &CallContext, opened: &OpenGrant) -> Result<(), SchedulerError> {
    let is_author = cx.sender.as_ref().is_some_and(|sender| sender.key == opened.author.key);
    if is_author {
        return Ok(());
    }
    let (author, caller) = (opened.grant.author.clone(), cx.caller.clone());
    Err(SchedulerError::ForeignAuthor { author, caller })
}

/// Returns whether a schedule was replaced. A pause stays.
async fn write_schedule(
    handle: &SchedulerHandle,
    name: &SubjectName,
    stored: &StoredSchedule,
    may_replace: bool,
) -> Result<bool, SchedulerError> {
    let (bucket, key) = (handle.bucket()?, StoreKey::Schedule(name.clone()).to_string());
    for _ in 0..MAX_UPDATE_TRIES {
        let known = read_schedule(bucket, &key).await?;
        let written = match &known {
            None if handle.read().schedules.len() >= MAX_SCHEDULES => {
                return Err(SchedulerError::TooMany);
            }
            None => bucket.create(&key, json_bytes(stored)).await,
            Some((known, _)) if !may_replace => {
                let author = handle.open_schedule(&known.grant);
                let author = author.map_or_else(
                    |_| "an author who is not accepted any more".to_owned(),
                    |(opened, _)| opened.grant.author.to_string(),
                );
                return Err(SchedulerError::Exists { name: name.clone(), author });
            }
            Some((known, revision)) => {
                let stored = StoredSchedule { pause: known.pause.clone(), ..stored.clone() };
                bucket.update(&key, json_bytes(&stored), *revision).await
            }
        };
        match written {
            Ok(revision) => {
                handle.wait_applied(revision).await;
                return Ok(known.is_some());
            }
            Err(BucketError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(SchedulerError::Busy(name.clone()))
}

async fn read_schedule(
    bucket: &Bucket,
    key: &str,
) -> Result<Option<(StoredSchedule, u64)>, SchedulerError> {
    let Some(entry) = bucket.get(key).await? else { return Ok(None) };
    let Some(value) = entry.value else { return Ok(None) };
    Ok(Some((serde_json::from_slice(&value)?, entry.revision)))
}

/// Pauses one schedule, or all.
pub(super) async fn pause(
    handle: SchedulerHandle,
    cx: CallContext,
    input: SchedulePauseInput,
) -> Result<ScheduleChangeOutput, ActionError> {
    let pause = SchedulePauseRow {
        by: cx.caller.to_string().into(),
        at: handle.now(),
        reason: input.reason.map(Into::into),
    };
    let name = select(input.name.as_deref(), input.all)?;
    set_pause(&handle, name, Some(pause)).await
}

/// Resumes one schedule, or all.
pub(super) async fn resume(
    handle: SchedulerHandle,
    _: CallContext,
    input: ScheduleResumeInput,
) -> Result<ScheduleChangeOutput, ActionError> {
    let name = select(input.name.as_deref(), input.all)?;
    set_pause(&handle, name, None).await
}

/// The named schedule; `None` for all.
fn select(name: Option<&str>, all: Option<bool>) -> Result<Option<SubjectName>, ActionError> {
    match (name, all == Some(true)) {
        (Some(name), false) => Ok(Some(parse_name(name)?)),
        (None, true) => Ok(None),
        _ => Err(SchedulerError::Selection.into()),
    }
}

async fn set_pause(
    handle: &SchedulerHandle,
    name: Option<SubjectName>,
    pause: Option<SchedulePauseRow>,
) -> Result<ScheduleChangeOutput, ActionError> {
    let (is_pause, is_named) = (pause.is_some(), name.is_some());
    let resumed = (!is_pause).then(|| handle.now());
    let pause = PauseState { paused: pause, resumed };
    let changed = match &name {
        Some(name) => pause_schedule(handle, name, pause).await?,
        None => pause_all(handle, pause).await?,
    };
    let what = name
        .map_or_else(|| "all schedules are".to_owned(), |name| format!("the schedule {name} is"));
    let state = match (is_pause, changed) {
        (true, true) => "paused",
        (true, false) => "paused already",
        (false, true) => "no longer paused",
        (false, false) => "not paused",
    };
    let is_held = is_named && !is_pause && handle.read().pause.paused.is_some();
    let note = if is_held { "; all schedules are paused, and `--all` resumes them" } else { "" };
    Ok(ScheduleChangeOutput { changed, text: format!("{what} {state}{note}") })
}

/// The last pause counts, also if two callers pause at the same time.
async fn pause_all(handle: &SchedulerHandle, pause: PauseState) -> Result<bool, SchedulerError> {
    let bucket = handle.bucket()?;
    let entry = bucket.get(PAUSED_KEY).await?;
    let value = entry.and_then(|entry| entry.value);
    let known: Option<PauseState> =
        value.map(|value| serde_json::from_slice(&value)).transpose()?;
    if known.unwrap_or_default().paused.is_some() == pause.paused.is_some() {
        return Ok(false);
    }
    handle.wait_applied(bucket.put(PAUSED_KEY, json_bytes(&pause)).await?).await;
    Ok(true)
}

async fn pause_schedule(
    handle: &SchedulerHandle,
    name: &SubjectName,
    pause: PauseState,
) -> Result<bool, SchedulerError> {
    update_schedule(handle, name, |stored| {
        let is_change = stored.pause.paused.is_some() != pause.paused.is_some();
        is_change.then(|| StoredSchedule { pause: pause.clone(), ..stored })
    })
    .await
}

/// Changes a stored schedule, unless `change` returns nothing. Returns whether it was changed.
async fn update_schedule(
    handle: &SchedulerHandle,
    name: &SubjectName,
    change: impl Fn(StoredSchedule) -> Option<StoredSchedule>,
) -> Result<bool, SchedulerError> {
    let (bucket, key) = (handle.bucket()?, StoreKey::Schedule(name.clone()).to_string());
    for _ in 0..MAX_UPDATE_TRIES {
        let known = read_schedule(bucket, &key).await?;
        let (known, revision) = known.ok_or_else(|| SchedulerError::Unknown(name.clone()))?;
        let Some(changed) = change(known) else { return Ok(false) };
        match bucket.update(&key, json_bytes(&changed), revision).await {
            Ok(revision) => {
                handle.wait_applied(revision).await;
                return Ok(true);
            }
            Err(BucketError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(SchedulerError::Busy(name.clone()))
}

/// Lets the leader assign the seats of a schedule by measured durations.
pub(super) async fn rebalance(
    handle: SchedulerHandle,
    _: CallContext,
    input: ScheduleNameInput,
) -> Result<ScheduleChangeOutput, ActionError> {
    let name = parse_name(&input.name)?;
    let now = handle.now();
    let stored = |stored| Some(StoredSchedule { rebalance: Some(now), ..stored });
    update_schedule(&handle, &name, stored).await?;
    let text =
        format!("the leader assigns the starts of the schedule {name} by measured durations");
    Ok(ScheduleChangeOutput { changed: true, text })
}

/// Removes a schedule and everything that is stored of it.
pub(super) async fn remove(
    handle: SchedulerHandle,
    _: CallContext,
    input: ScheduleNameInput,
) -> Result<ScheduleChangeOutput, ActionError> {
    let name = parse_name(&input.name)?;
    delete_schedule(&handle, &name).await?;
    Ok(ScheduleChangeOutput { changed: true, text: format!("removed the schedule {name}") })
}

async fn delete_schedule(
    handle: &SchedulerHandle,
    name: &SubjectName,
) -> Result<(), SchedulerError> {
    let (bucket, key) = (handle.bucket()?, StoreKey::Schedule(name.clone()).to_string());
    if read_schedule(bucket, &key).await?.is_none() {
        return Err(SchedulerError::Unknown(name.clone()));
    }
    // The schedule goes first: then the leader stops, and writes no turns again.
    bucket.delete(&key).await?;
    handle.delete_turns(name).await
}
