//! One file per action, and what they share.

mod disable;
mod enable;
mod last_run_report;
mod last_run_summary;
mod locks;
mod runonce;
mod runs;
mod status;

pub(crate) use disable::Disable;
pub(crate) use enable::Enable;
pub(crate) use last_run_report::LastRunReport;
pub(crate) use last_run_summary::LastRunSummary;
pub(crate) use locks::Locks;
pub(crate) use runonce::RunOnce;
pub(crate) use runs::Runs;
pub(crate) use status::Status;

use std::error::Error;

use muster_api::ActionError;
use muster_api::system::System;
use muster_api::system::error::chain;
use uuid::Uuid;

use crate::options::Options;
use crate::places::Places;

/// An error of the machine, as an answer.
fn failed(error: impl Error) -> ActionError {
    ActionError::failed(chain(&error))
}

fn places(options: &Options, system: &dyn System) -> Result<Places, ActionError> {
    Places::find(options, system).map_err(failed)
}

fn run_id(text: &str) -> Result<Uuid, ActionError> {
    Uuid::try_parse(text)
        .map_err(|error| ActionError::invalid(format!("run `{text}` is no UUID: {error}")))
}

/// `1 hours 05 minutes 07 seconds`, as the `puppet` agent of the field has it.
fn ago(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds:02} seconds"),
        (0, 0, _) => format!("{minutes} minutes {seconds:02} seconds"),
        (0, _, _) => format!("{hours} hours {minutes} minutes {seconds:02} seconds"),
        _ => format!("{days} day {hours} hours {minutes} minutes {seconds:02} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::ago;

    #[test]
    fn a_duration_is_told_as_mcollective_tells_it() {
        for (seconds, told) in [
            (7, "07 seconds"),
            (67, "1 minutes 07 seconds"),
            (3601, "1 hours 0 minutes 01 seconds"),
            (90_061, "1 day 1 hours 1 minutes 01 seconds"),
        ] {
            assert_eq!(ago(seconds), told);
        }
    }
}
