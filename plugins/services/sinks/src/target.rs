//! Where a sink delivers to: one try of one batch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_files::files::append_group_readable;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::delivery_error::SinkDeliveryError;
use crate::event::SinkEvent;
use crate::options::SinkTargetOptions;
use crate::program::run_program;
use crate::span::export_request;
use crate::syslog::{SyslogAddress, format_message};
use crate::webhook::WebhookOptions;

const DEFAULT_PROGRAM_SECONDS: u64 = 60;
const MAX_PROGRAM_SECONDS: u64 = 3600;

/// A target that is ready.
#[derive(Debug)]
pub(crate) enum SinkTarget {
    Url { options: WebhookOptions, client: ureq::Agent },
    Otlp { options: WebhookOptions, client: ureq::Agent },
    Program { system: Arc<dyn System>, command: Vec<String>, timeout: Duration },
    Syslog(SyslogAddress),
    File(PathBuf),
}

impl SinkTarget {
    /// Reads files. Connects when events are sent.
    pub(crate) fn open(
        options: &SinkTargetOptions,
        system: &Arc<dyn System>,
    ) -> Result<Self, SinkDeliveryError> {
        Ok(match options.clone() {
            SinkTargetOptions::Url(options) => {
                Self::Url { client: options.open_client()?, options }
            }
            SinkTargetOptions::Otlp(options) => {
                Self::Otlp { client: options.open_client()?, options }
            }
            SinkTargetOptions::Program { command, timeout_seconds } => {
                let seconds = timeout_seconds.unwrap_or(DEFAULT_PROGRAM_SECONDS);
                let timeout = Duration::from_secs(seconds.clamp(1, MAX_PROGRAM_SECONDS));
                Self::Program { system: Arc::clone(system), command, timeout }
            }
            SinkTargetOptions::Syslog { address } => Self::Syslog(address),
            SinkTargetOptions::File { path } => Self::File(path),
        })
    }

    /// Sends events together. All are taken, or the error is about all.
    pub(crate) async fn send(&self, events: &[SinkEvent]) -> Result<(), SinkDeliveryError> {
        let lines = || events.iter().map(|event| event.document.to_string());
        match self {
            Self::Url { options, client } => {
                let (options, client) = (options.clone(), client.clone());
                let body = format!("[{}]", lines().collect::<Vec<_>>().join(","));
                spawn_blocking(move || options.post(&client, &body, None)).await?
            }
            Self::Otlp { options, client } => {
                let (options, client) = (options.clone(), client.clone());
                let spans: Vec<&Value> = events.iter().map(|event| &event.document).collect();
                let body = export_request(&spans).to_string();
                spawn_blocking(move || options.post(&client, &body, None)).await?
            }
            Self::Program { system, command, timeout } => {
                let input = lines().map(|line| line + "\n").collect::<String>().into_bytes();
                let ended = run_program(Arc::clone(system), command.clone(), input, *timeout).await;
                let exit = ended.map_err(SinkDeliveryError::Program)?;
                if exit.code == 0 {
                    return Ok(());
                }
                Err(SinkDeliveryError::Exit { code: exit.code, stderr: exit.stderr })
            }
            Self::Syslog(address) => {
                let address = address.clone();
                let messages: Vec<String> = events.iter().map(format_message).collect();
                spawn_blocking(move || address.send(&messages)).await?
            }
            Self::File(path) => {
                let path = path.clone();
                let text = lines().map(|line| line + "\n").collect::<String>();
                Ok(spawn_blocking(move || append_group_readable(&path, text.as_bytes())).await??)
            }
        }
    }
}
