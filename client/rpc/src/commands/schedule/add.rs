//! `rpc schedule add`: signs a schedule with the author's key, and gives it to the service.

use muster_base::unix_millis_now;
use muster_client::documents::ServiceDocument;
use muster_client::{FleetRequestError, RpcSettings, load_offline_signer};
use muster_contract::schedule::{ScheduleAdd, ScheduleAddInput};
use muster_schedule::{ScheduleError, ScheduleSpec};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::limits::MAX_SCHEDULE_LIFETIME_MILLIS;
use muster_wire::schedule_grant::ScheduleGrant;
use muster_wire::sign::EnvelopeSignError;
use muster_wire::token::ServiceRight;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::commands::schedule::args::ScheduleAddArgs;
use crate::commands::schedule::output::{render_added_schedule, render_schedule_question};
use crate::commands::schedule::spec::{NewSchedule, build_schedule};
use crate::report::progress::ProgressReporter;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};

#[derive(Debug, thiserror::Error)]
pub enum ScheduleSignError {
    #[error("`--until` is in the past: {}", muster_display::time::format_time_millis(*.0))]
    Past(Millis),
    #[error(
        "`--until` is {} away; a schedule lasts at most {}",
        muster_base::format_millis(*.0),
        muster_base::format_millis(MAX_SCHEDULE_LIFETIME_MILLIS)
    )]
    TooLong(Millis),
    #[error("cannot sign the schedule")]
    Sign(#[from] EnvelopeSignError),
    #[error("cannot encode the schedule")]
    Encode(#[source] serde_json::Error),
}

impl CommandError for ScheduleSignError {
    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Past(_) | Self::TooLong(_) => CommandExitCode::Usage,
            Self::Sign(_) | Self::Encode(_) => CommandExitCode::Local,
        }
    }
}

pub async fn run(args: ScheduleAddArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let settings = cx.settings()?;
    let schemas = cx.load_schemas()?;
    let schedule = build_schedule(&args.words, &args.spec, &schemas, cx).await?;
    let now = unix_millis_now();
    let expires_at = check_end(args.spec.until.unwrap_or_default().millis(now), now)?;
    check_filter(&schedule, settings)?;
    let fleet = cx.connect(&schedule.target).await?;
    let progress = ProgressReporter::new(cx.printer, json.is_none());
    let nodes = fleet.locate(&schedule.target, &progress).await?.nodes;
    let preview =
        || render_schedule_question(&args.name, &schedule.compiled, nodes.len(), expires_at);
    let conditions = (schedule.read_only, nodes.len(), args.yes);
    cx.confirm_request(conditions, preview).await?;
    let signed = (&args.name, &schedule.spec);
    let grant = sign_schedule(signed, fleet.collective(), expires_at, settings)?;
    let input = ScheduleAddInput { grant, replace: args.replace.then_some(true) };
    let added = fleet.client.call_service::<ScheduleAdd>(ServiceRight::Schedule, &input).await?;
    let document = ServiceDocument { schema: "muster.schedule.added.v1", output: &added };
    cx.print_result(json.as_ref(), &document, || render_added_schedule(&added, expires_at))?;
    if added.nodes == Some(0) {
        cx.printer.print_warning(format_args!(
            "no node matches now; looked for {}",
            schedule.target.filter.explain()
        ));
    }
    Ok(CommandExitCode::Passed)
}

pub(super) fn check_end(expires_at: Millis, now: Millis) -> Result<Millis, ScheduleSignError> {
    if expires_at <= now {
        return Err(ScheduleSignError::Past(expires_at));
    }
    match expires_at - now {
        time if time > MAX_SCHEDULE_LIFETIME_MILLIS => Err(ScheduleSignError::TooLong(time)),
        _ => Ok(expires_at),
    }
}

/// A schedule without a filter is as far-reaching as a request without one.
fn check_filter(schedule: &NewSchedule, settings: &RpcSettings) -> Result<(), FleetRequestError> {
    if schedule.read_only || !settings.require_filter || schedule.target.is_filtered() {
        return Ok(());
    }
    let action = schedule.spec.action.to_string();
    Err(FleetRequestError::Unfiltered { action, file: settings.file.clone() })
}

/// Signs the schedule with the caller's key.
fn sign_schedule(
    (name, spec): (&SubjectName, &ScheduleSpec),
    collective: &SubjectName,
    expires_at: Millis,
    settings: &RpcSettings,
) -> Result<String> {
    let signer = load_offline_signer(settings)?.signer;
    let grant = ScheduleGrant {
        id: Uuid::now_v7(),
        author: signer.identity().clone(),
        collective: collective.clone(),
        name: name.clone(),
        issued_at: unix_millis_now(),
        expires_at,
        schedule: spec_fields(spec)?,
    };
    Ok(grant.sign(&signer).map_err(ScheduleSignError::from)?)
}

fn spec_fields(spec: &ScheduleSpec) -> Result<Map<String, Value>> {
    let text = spec.to_json()?;
    let fields = serde_json::from_str(&text).map_err(ScheduleSignError::Encode);
    Ok(fields?)
}

/// The schedule that the service returned.
pub(super) fn read_spec(fields: &Map<String, Value>) -> Result<ScheduleSpec, ScheduleError> {
    let text = serde_json::to_vec(fields).map_err(ScheduleError::Json)?;
    ScheduleSpec::from_json(&text)
}

#[cfg(test)]
mod tests {
    use super::{ScheduleSignError, check_end};

    const DAY: u64 = 86_400_000;

    #[test]
    fn end_is_in_the_future_and_within_the_limit() {
        assert_eq!(check_end(1001, 1000).unwrap(), 1001);
        assert!(matches!(check_end(1000, 1000), Err(ScheduleSignError::Past(1000))));
        let error = check_end(401 * DAY, 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`--until` is 401 d 0 h away; a schedule lasts at most 400 d 0 h"
        );
    }
}
