//! Sends notifications: one document per event and target, with an id that is the same for all retries.
//!
//! The record is written before a message is sent and again afterwards. A leader that takes over in between cannot know whether the message arrived,
//! and sends it again *under the same id*: a webhook gets the id as `Idempotency-Key`, a mail as `Message-ID`, a program in the document. A receiver
//! that deduplicates by id processes each message exactly once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{SmtpTransport, Transport as _};
use muster_api::base::error_chain;
use muster_api::system::System;
use muster_files::SecretOwner;
use muster_http::{CertificateFileError, build_client};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::helper;
use crate::options::{
    NotificationChannel, NotificationEvent, NotificationTarget, Options, WebhookUrl,
};
use crate::record::{NodeRecord, StepError};

const SEND_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_TOKEN_BYTES: u64 = 16 * 1024;

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
        let exit = helper::run_program(system, command, input, timeout).await;
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
        NotificationChannel::Webhook { url, token_file, ca } => {
            post_webhook(url, token_file.as_deref(), ca.as_deref(), &message)
        }
        NotificationChannel::Smtp { server, from, to } => send_mail(server, from, to, &message),
        NotificationChannel::Command { .. } => Ok(()),
    });
    let failed = |error: &dyn std::error::Error| StepError::transient(error_chain(error));
    sent.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

/// Why a webhook or a mail was not delivered. Errors are stored and logged, so none contains the path or query of a webhook, which often is its
/// secret.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error("cannot read the token")]
    Token(#[from] muster_files::SecretFileError),
    #[error(transparent)]
    Certificates(#[from] CertificateFileError),
    #[error("cannot send to {origin}")]
    Webhook { origin: String, source: Box<ureq::Error> },
    #[error("{origin} replied with status {status}")]
    Status { origin: String, status: u16 },
    #[error("`{0}` is not of the form host:port")]
    ServerAddress(String),
    #[error("`{0}` is not a mail address")]
    MailAddress(String, #[source] lettre::address::AddressError),
    #[error("cannot write the mail")]
    Mail(#[from] lettre::error::Error),
    #[error("cannot send to {server}")]
    Smtp { server: String, source: lettre::transport::smtp::Error },
}

fn post_webhook(
    url: &WebhookUrl,
    token_file: Option<&Path>,
    ca: Option<&Path>,
    message: &NotificationMessage,
) -> Result<(), DeliveryError> {
    let mut request = build_client(SEND_TIMEOUT, ca)?
        .post(url.as_str())
        .header("content-type", "application/json")
        .header("idempotency-key", message.id.to_string());
    if let Some(path) = token_file {
        let token = muster_files::read_secret(path, SecretOwner::Daemon, MAX_TOKEN_BYTES)?;
        request = request.header("authorization", format!("Bearer {}", token.trim()));
    }
    let body = message.document.to_string();
    let failed = |source| DeliveryError::Webhook { origin: url.origin(), source: Box::new(source) };
    let status = request.send(body).map_err(failed)?.status();
    if status.is_success() {
        return Ok(());
    }
    Err(DeliveryError::Status { origin: url.origin(), status: status.as_u16() })
}

fn send_mail(
    server: &str,
    from: &str,
    to: &[String],
    message: &NotificationMessage,
) -> Result<(), DeliveryError> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "25"));
    let port: u16 = port.parse().map_err(|_| DeliveryError::ServerAddress(server.to_owned()))?;
    let failed = |source| DeliveryError::Smtp { server: server.to_owned(), source };
    let mailbox = |address: &str| -> Result<Mailbox, DeliveryError> {
        address.parse().map_err(|source| DeliveryError::MailAddress(address.to_owned(), source))
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

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use uuid::Uuid;

    use super::{NotificationMessage, error_chain, post_webhook};
    use crate::options::{NotificationEvent, WebhookUrl};

    #[test]
    fn token_that_others_can_read_is_not_sent() {
        let scratch = tempfile::tempdir().unwrap();
        let token = scratch.path().join("token");
        write(&token, "hush").unwrap();
        let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let url = format!("http://{}/", receiver.local_addr().unwrap());
        let url = WebhookUrl::try_from(url).unwrap();
        let message = NotificationMessage {
            id: Uuid::now_v7(),
            event: NotificationEvent::Failed,
            document: json!({}),
        };
        for mode in [0o640, 0o604, 0o666] {
            set_permissions(&token, Permissions::from_mode(mode)).unwrap();
            let refused = post_webhook(&url, Some(&token), None, &message).unwrap_err();
            let refused = error_chain(&refused);
            assert!(refused.contains(&format!("(mode {mode:04o})")), "{refused}");
            assert!(refused.contains("run `chmod 600 "), "{refused}");
            assert!(!refused.contains("hush"), "{refused}");
        }
        assert!(receiver.accept().is_err(), "the receiver got a connection");
    }

    #[test]
    fn errors_do_not_contain_the_path_of_the_url() {
        let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = receiver.local_addr().unwrap();
        let url = WebhookUrl::try_from(format!("http://{address}/services/hush?key=hush")).unwrap();
        let message = NotificationMessage {
            id: Uuid::now_v7(),
            event: NotificationEvent::Failed,
            document: json!({}),
        };
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = receiver.accept().unwrap();
            let mut request = [0; 4096];
            assert!(connection.read(&mut request).unwrap() > 0);
            connection.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        let refused = post_webhook(&url, None, None, &message).unwrap_err();
        answering.join().unwrap();
        let closed = post_webhook(&url, None, None, &message).unwrap_err();
        for error in [refused, closed] {
            let error = error_chain(&error);
            assert!(error.contains(&address.to_string()), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
