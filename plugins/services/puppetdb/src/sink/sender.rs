//! Sends one command until `PuppetDB` has taken or refused it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::LogThrottle;
use muster_base::{error_chain, unix_millis_now};
use muster_calls::{HttpsAnswer, HttpsClient, HttpsRequestError};
use muster_sinks::{DeadLetters, is_about_server};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::command::{CommandLetter, PuppetdbCommand};
use super::counts::SinkCounts;

/// Pause after a failure; doubled up to the longest one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);
/// Largest answer. The answer to a command is an id or an error.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;
/// Answers with status 500 in a row after which a command is refused: the rest waits behind it.
const MAX_SERVER_ERRORS: u32 = 8;
/// Shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_mins(10);

/// What became of one try.
#[derive(Debug)]
enum SendOutcome {
    Accepted,
    /// The command is wrong.
    Refused {
        status: u16,
        reason: String,
    },
    /// `PuppetDB` cannot take any command now, or an error of it concerns this one.
    Failed {
        status: Option<u16>,
        problem: String,
    },
}

/// Sends commands; clones share the connections.
#[derive(Debug, Clone)]
pub(super) struct CommandSender {
    client: HttpsClient,
    letters: Arc<DeadLetters>,
    counts: Arc<SinkCounts>,
    failures: Arc<LogThrottle>,
}

impl CommandSender {
    pub(super) fn new(client: HttpsClient, letters: DeadLetters, counts: Arc<SinkCounts>) -> Self {
        let failures = Arc::new(LogThrottle::new(WARNING_INTERVAL));
        Self { client, letters: Arc::new(letters), counts, failures }
    }

    pub(super) fn counts(&self) -> &SinkCounts {
        &self.counts
    }

    /// Ends requests that run.
    pub(super) fn shut_down(&self) {
        self.client.shut_down();
    }

    /// Returns when `PuppetDB` has accepted the command, or it is among the dead letters.
    pub(super) async fn send(&self, command: PuppetdbCommand) {
        let command = Arc::new(command);
        let (mut delay, mut server_errors) = (RETRY_DELAY, 0);
        loop {
            let (status, problem) = match self.try_once(&command).await {
                SendOutcome::Accepted => {
                    return self.counts.add_sent(command.kind, unix_millis_now());
                }
                SendOutcome::Refused { status, reason } => {
                    return self.discard(&command, Some(status), reason).await;
                }
                SendOutcome::Failed { status, problem } => (status, problem),
            };
            server_errors = if status == Some(500) { server_errors + 1 } else { 0 };
            if server_errors >= MAX_SERVER_ERRORS {
                return self.discard(&command, status, problem).await;
            }
            self.counts.note_failing(unix_millis_now());
            if let Some(more) = self.failures.admit(Instant::now()) {
                let (kind, node) = (command.kind.as_str(), &command.certname);
                tracing::warn!(
                    kind,
                    node,
                    problem,
                    more,
                    "PuppetDB does not accept a command; trying again"
                );
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Stores a command among the dead letters.
    pub(super) async fn discard(
        &self,
        command: &Arc<PuppetdbCommand>,
        status: Option<u16>,
        reason: String,
    ) {
        self.counts.add_failed(command.kind);
        let (letters, own, text) = (Arc::clone(&self.letters), Arc::clone(command), reason.clone());
        let stored = spawn_blocking(move || {
            let now = unix_millis_now();
            let label = format!("{}-{}", own.kind.as_str(), own.certname);
            letters.store(&label, &CommandLetter::new(&own, status, &text, now), now)
        });
        let (kind, node) = (command.kind.as_str(), &command.certname);
        match stored.await {
            Ok(Ok(path)) => {
                let path = path.display();
                tracing::error!(kind, node, status, reason, %path, "PuppetDB refused a command; it is among the dead letters");
            }
            Ok(Err(error)) => {
                let error = error_chain(&error);
                tracing::error!(
                    kind,
                    node,
                    status,
                    reason,
                    error,
                    "PuppetDB refused a command, and it cannot be stored"
                );
            }
            Err(error) => {
                tracing::error!(kind, node, status, reason, %error, "PuppetDB refused a command, and it cannot be stored");
            }
        }
    }

    async fn try_once(&self, command: &Arc<PuppetdbCommand>) -> SendOutcome {
        let (client, command) = (self.client.clone(), Arc::clone(command));
        let posted = spawn_blocking(move || {
            client.post_json(&command.path(), &command.body, MAX_ANSWER_BYTES)
        });
        match posted.await {
            Ok(answer) => outcome_of(answer),
            Err(error) => SendOutcome::Failed { status: None, problem: error.to_string() },
        }
    }
}

fn outcome_of(answer: Result<HttpsAnswer, HttpsRequestError>) -> SendOutcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            return SendOutcome::Failed { status: None, problem: error_chain(&error) };
        }
    };
    let status = answer.status;
    let text = String::from_utf8_lossy(&answer.body);
    let text: String = text.chars().filter(|c| !c.is_control()).take(1000).collect();
    match status {
        200..=299 => SendOutcome::Accepted,
        400..=499 if !is_about_server(status) => SendOutcome::Refused { status, reason: text },
        _ => SendOutcome::Failed {
            status: Some(status),
            problem: format!("status {status}: {text}"),
        },
    }
}
