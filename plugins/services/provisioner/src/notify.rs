//! Sends notifications: one document per event and target, with an id that is the same for all retries.
//!
//! The record is written before a message is sent and again afterwards. A leader that takes over in between cannot know whether the message arrived,
//! and sends it again *under the same id*: a webhook gets the id as `Idempotency-Key`, a mail as `Message-ID`, a program in the document. A receiver
//! that deduplicates by id processes each message exactly once.

use std::sync::Arc;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{SmtpTransport, Transport as _};
use muster_api::base::error_chain;
use muster_api::system::System;
use muster_sinks::{QueueError, SinkDeliveryError, run_program};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::options::{NotificationChannel, NotificationEvent, NotificationTarget, Options};
use crate::record::{NodeRecord, StepError};

const SEND_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, PartialEq)]
pub struct NotificationMessage {
    pub id: Uuid,
    pub event: NotificationEvent,
    pub document: Value,
}

pub fn matching_targets(
    options: &Options,
    event: NotificationEvent,
) -> impl Iterator<Item = &NotificationTarget> {
    options
        .notify
        .iter()
        .filter(move |target| target.events.is_empty() || target.events.contains(&event))
}

/// Key under which the delivery state of a target is stored.
pub fn notification_key(event: NotificationEvent, target: &NotificationTarget) -> String {
    format!("{}/{}", event.as_str(), target.name)
}

/// Builds the document about a node. It contains no secrets.
pub fn build_message(
    id: Uuid,
    event: NotificationEvent,
    record: &NodeRecord,
) -> NotificationMessage {
    let value = |name: &str| record.values.get(name).cloned().unwrap_or_default();
    NotificationMessage {
        id,
        event,
        document: json!({
            "id": id,
            "event": event.as_str(),
            "node": record.identity,
            "provisioning": record.id,
            "master": value("master"),
            "serial": value("serial"),
            "revoked": value("revoked"),
            "run": value("final_run"),
            "error": record.error,
            "since": record.since,
            "changed": record.changed,
        }),
    }
}

pub async fn send_message(
    system: Arc<dyn System>,
    channel: &NotificationChannel,
    message: &NotificationMessage,
) -> Result<(), StepError> {
    let (channel, message) = (channel.clone(), message.clone());
    if let NotificationChannel::Command { command, timeout } = channel {
        let input = serde_json::to_vec(&message.document).unwrap_or_default();
        let timeout = Duration::from_secs(timeout);
        let exit = run_program(system, command, input, timeout).await;
        let exit = exit.map_err(StepError::transient)?;
        return if exit.code == 0 {
            Ok(())
        } else {
            Err(StepError::transient(format!(
                "the program exited with code {}: {}",
                exit.code, exit.stderr
            )))
        };
    }
    let sent = tokio::task::spawn_blocking(move || match &channel {
        NotificationChannel::Webhook(webhook) => {
            let client = webhook.open_client().map_err(SinkDeliveryError::from)?;
            Ok(webhook.post(&client, &message.document.to_string(), Some(message.id))?)
        }
        NotificationChannel::Smtp { server, from, to } => send_mail(server, from, to, &message),
        NotificationChannel::Sink(queue) => Ok(queue.push(message.id, &message.document)?),
        NotificationChannel::Command { .. } => Ok(()),
    });
    let failed = |error: &dyn std::error::Error| StepError::transient(error_chain(error));
    sent.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

/// Why a notification was not delivered. Errors are stored and logged.
#[derive(Debug, thiserror::Error)]
enum NotificationError {
    #[error(transparent)]
    Webhook(#[from] SinkDeliveryError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("`{0}` is not of the form host:port")]
    ServerAddress(String),
    #[error("`{0}` is not a mail address")]
    MailAddress(String, #[source] lettre::address::AddressError),
    #[error("cannot write the mail")]
    Mail(#[from] lettre::error::Error),
    #[error("cannot send to {server}")]
    Smtp { server: String, source: lettre::transport::smtp::Error },
}

fn send_mail(
    server: &str,
    from: &str,
    to: &[String],
    message: &NotificationMessage,
) -> Result<(), NotificationError> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "25"));
    let port: u16 =
        port.parse().map_err(|_| NotificationError::ServerAddress(server.to_owned()))?;
    let failed = |source| NotificationError::Smtp { server: server.to_owned(), source };
    let mailbox = |address: &str| -> Result<Mailbox, NotificationError> {
        address.parse().map_err(|source| NotificationError::MailAddress(address.to_owned(), source))
    };
    let tls = TlsParameters::new(host.to_owned()).map_err(failed)?;
    let transport = SmtpTransport::builder_dangerous(host)
        .port(port)
        // Opportunistic: a relay that offers TLS must use it; one on this machine may not offer it.
        .tls(Tls::Opportunistic(tls))
        .timeout(Some(SEND_TIMEOUT))
        .build();
    let node = message.document.get("node").and_then(Value::as_str);
    let subject = format!("{}: {}", node.unwrap_or_default(), message.event.as_str());
    let text = serde_json::to_string_pretty(&message.document).unwrap_or_default();
    let mut mail = lettre::Message::builder()
        .from(mailbox(from)?)
        .message_id(Some(format!("<{}@muster>", message.id)))
        .subject(subject);
    for address in to {
        mail = mail.to(mailbox(address)?);
    }
    let mail = mail.header(ContentType::TEXT_PLAIN).body(text)?;
    transport.send(&mail).map(drop).map_err(failed)
}
