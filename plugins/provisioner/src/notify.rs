//! Sends notifications: one document per event and target, with an id that is the same for all retries.
//!
//! The record is written before a message is sent and again afterwards. A leader that takes over in between cannot know whether the message arrived,
//! and sends it again *under the same id*: a webhook gets the id as `Idempotency-Key`, a mail as `Message-ID`, a program in the document. A receiver
//! that deduplicates by id processes each message exactly once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{SmtpTransport, Transport as _};
use muster_api::base::error_chain;
use muster_api::system::System;
use muster_secret::SecretOwner;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::helper;
use crate::options::{
    NotificationChannel, NotificationEvent, NotificationTarget, Options, WebhookUrl,
};
use crate::record::{NodeRecord, StepError};

/// Timeout of one delivery.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// Largest token file, in bytes.
const MAX_TOKEN_BYTES: u64 = 16 * 1024;

/// A notification to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct NotificationMessage {
    /// Identifies the message.
    pub id: Uuid,
    /// The event.
    pub event: NotificationEvent,
    /// The document.
    pub document: Value,
}

/// Targets that are configured for this event.
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

/// Sends a message over a channel.
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
    sent.await.map_err(|error| error.to_string()).flatten().map_err(StepError::transient)
}

fn post_webhook(
    url: &WebhookUrl,
    token_file: Option<&Path>,
    ca: Option<&Path>,
    message: &NotificationMessage,
) -> Result<(), String> {
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(load_root_certificates(ca)?)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(SEND_TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent("muster")
        .tls_config(tls);
    let mut request = config
        .build()
        .new_agent()
        .post(url.as_str())
        .header("content-type", "application/json")
        .header("idempotency-key", message.id.to_string());
    if let Some(path) = token_file {
        let token = muster_secret::read_secret(path, SecretOwner::Daemon, MAX_TOKEN_BYTES)
            .map_err(|error| error_chain(&error))?;
        request = request.header("authorization", format!("Bearer {}", token.trim()));
    }
    let body = message.document.to_string();
    // Errors are stored and logged, and the path or query of a webhook often is its secret.
    let origin = url.origin();
    let response = request.send(body).map_err(|error| format!("{origin}: {error}"))?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    Err(format!("{origin} replied with status {status}"))
}

/// Root certificates with which a webhook's certificate is verified.
fn load_root_certificates(ca: Option<&Path>) -> Result<ureq::tls::RootCerts, String> {
    let certificates = match ca {
        Some(path) => {
            let pem =
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let to_certificate = |item: Result<ureq::tls::PemItem<'static>, _>| match item {
                Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            };
            ureq::tls::parse_pem(&pem).filter_map(to_certificate).collect()
        }
        None => rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|certificate| ureq::tls::Certificate::from_der(certificate).to_owned())
            .collect::<Vec<_>>(),
    };
    Ok(ureq::tls::RootCerts::Specific(Arc::new(certificates)))
}

fn send_mail(
    server: &str,
    from: &str,
    to: &[String],
    message: &NotificationMessage,
) -> Result<(), String> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "25"));
    let port: u16 = port.parse().map_err(|_| format!("`{server}` is not of the form host:port"))?;
    let tls = TlsParameters::new(host.to_owned()).map_err(|error| error.to_string())?;
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
        .from(from.parse().map_err(|error| format!("{from}: {error}"))?)
        .message_id(Some(format!("<{}@muster>", message.id)))
        .subject(subject);
    for address in to {
        mail = mail.to(address.parse().map_err(|error| format!("{address}: {error}"))?);
    }
    let mail =
        mail.header(ContentType::TEXT_PLAIN).body(text).map_err(|error| error.to_string())?;
    transport.send(&mail).map(drop).map_err(|error| format!("{server}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use uuid::Uuid;

    use super::{NotificationMessage, post_webhook};
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
            assert!(error.contains(&address.to_string()), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
