//! The actions, one file each, and their shared helpers.

pub(crate) mod disable;
pub(crate) mod last_run_report;
pub(crate) mod last_run_summary;
pub(crate) mod locks;
pub(crate) mod runonce;
pub(crate) mod runs;
pub(crate) mod status;

use muster_api::ActionError;
use muster_api::system::System;
use uuid::Uuid;

use crate::options::Options;
use crate::paths::PuppetPaths;

fn find_paths(options: &Options, system: &dyn System) -> Result<PuppetPaths, ActionError> {
    PuppetPaths::find(options, system).map_err(ActionError::from_cause)
}

fn parse_run_id(text: &str) -> Result<Uuid, ActionError> {
    Uuid::try_parse(text)
        .map_err(|error| ActionError::invalid_input(format!("run `{text}` is not a UUID: {error}")))
}

/// Formats a duration as `1 hours 05 minutes 07 seconds`, the format of `MCollective`'s `puppet` agent.
fn format_elapsed(seconds: u64) -> String {
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
    use super::format_elapsed;

    #[test]
    fn durations_are_formatted_like_mcollective() {
        for (seconds, told) in [
            (7, "07 seconds"),
            (67, "1 minutes 07 seconds"),
            (3601, "1 hours 0 minutes 01 seconds"),
            (90_061, "1 day 1 hours 1 minutes 01 seconds"),
        ] {
            assert_eq!(format_elapsed(seconds), told);
        }
    }
}
