//! Opens the monitoring system that gets passive results.

use std::path::Path;
use std::time::Duration;

use muster_operations::check::{IcingaApi, NagiosPipe, PassiveSink, PassiveSinkError};

use crate::outcome::error::CommandError;
use crate::session::context::{CommandContext, Result};

impl CommandError for PassiveSinkError {}

/// Which monitoring system gets results.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::option_option, reason = "the option may have no value")]
pub struct PassiveSinkChoice<'a> {
    /// The command pipe of Nagios.
    pub command_file: Option<&'a Path>,
    /// The API of Icinga 2, with an address unless that of the configuration is meant.
    pub icinga_api: Option<Option<&'a str>>,
    /// How long Icinga takes a result for valid.
    pub icinga_ttl: Option<Duration>,
}

impl PassiveSinkChoice<'_> {
    pub fn open(self, cx: CommandContext<'_>) -> Result<Option<PassiveSink>> {
        let opened = match (self.command_file, self.icinga_api) {
            (Some(path), _) => {
                PassiveSink::Nagios(NagiosPipe::open(path).map_err(PassiveSinkError::from)?)
            }
            (None, Some(url)) => {
                let settings = &cx.settings()?.icinga;
                let api = IcingaApi::open(settings, url, self.icinga_ttl);
                PassiveSink::Icinga(api.map_err(PassiveSinkError::from)?)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(opened))
    }
}
