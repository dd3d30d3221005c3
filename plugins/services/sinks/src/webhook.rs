//! Posts JSON to a URL, signed with a shared secret: HMAC-SHA256 of the body.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use muster_files::{SecretFileError, SecretOwner, Zeroizing};
use muster_http::{CertificateFileError, build_client};
use ring::hmac;
use serde::Deserialize;
use uuid::Uuid;

use crate::delivery_error::SinkDeliveryError;

const DEFAULT_TIMEOUT_SECONDS: u64 = 15;
const MAX_TIMEOUT_SECONDS: u64 = 600;
const MAX_SECRET_BYTES: u64 = 16 * 1024;
/// `sha256=` and the HMAC in hexadecimal digits.
const SIGNATURE_HEADER: &str = "x-muster-signature";

/// Where to post, and with which secrets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    pub url: WebhookUrl,
    /// File with the secret that signs each body.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// File with a secret that is sent as a bearer token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// PEM file of the CA of its certificate; the machine's CAs when absent.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Time limit of a request.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

impl WebhookOptions {
    pub fn open_client(&self) -> Result<ureq::Agent, CertificateFileError> {
        let seconds = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let timeout = Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_SECONDS));
        build_client(timeout, self.ca.as_deref())
    }

    /// Reads all files that a request needs.
    pub fn check(&self) -> Result<(), SinkDeliveryError> {
        self.open_client()?;
        for path in [&self.secret_file, &self.token_file].into_iter().flatten() {
            read_secret(path)?;
        }
        Ok(())
    }

    /// Posts a body of JSON. Secrets are read each time, so that new ones need no restart. Blocks.
    pub fn post(
        &self,
        client: &ureq::Agent,
        body: &str,
        id: Option<Uuid>,
    ) -> Result<(), SinkDeliveryError> {
        let mut request = client.post(self.url.as_str()).header("content-type", "application/json");
        if let Some(id) = id {
            request = request.header("idempotency-key", id.to_string());
        }
        if let Some(path) = &self.token_file {
            let token = read_secret(path)?;
            request = request.header("authorization", format!("Bearer {}", token.trim()));
        }
        if let Some(path) = &self.secret_file {
            let signature = sign_body(read_secret(path)?.trim(), body);
            request = request.header(SIGNATURE_HEADER, signature);
        }
        let origin = self.url.origin();
        let failed = |source| SinkDeliveryError::Webhook {
            origin: origin.clone(),
            source: Box::new(source),
        };
        let status = request.send(body).map_err(failed)?.status();
        if status.is_success() {
            return Ok(());
        }
        Err(SinkDeliveryError::Status { origin, status: status.as_u16() })
    }
}

fn read_secret(path: &Path) -> Result<Zeroizing<String>, SecretFileError> {
    muster_files::read_secret(path, SecretOwner::Daemon, MAX_SECRET_BYTES)
}

fn sign_body(secret: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("sha256={}", HEXLOWER.encode(hmac::sign(&key, body.as_bytes()).as_ref()))
}

/// URL of a webhook: `https`, or `http` on this machine's loopback. Messages name nodes and may carry a token, so neither is sent in clear over the
/// network.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WebhookUrl(String);

/// The text is not a valid webhook URL. The error does not repeat it, because it may contain a password.
#[derive(Debug, thiserror::Error)]
#[error(
    "the `url` of a webhook must start with `https://`, or with `http://` and a loopback address, and contain no user or password"
)]
pub struct WebhookUrlError;

impl WebhookUrl {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL without path and query, for messages.
    pub fn origin(&self) -> String {
        let (scheme, rest) = self.0.split_once("://").unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        format!("{scheme}://{authority}")
    }
}

/// The path often is the secret.
impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({}/..)", self.origin())
    }
}

impl TryFrom<String> for WebhookUrl {
    type Error = WebhookUrlError;

    fn try_from(text: String) -> Result<Self, WebhookUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(WebhookUrlError)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_forbidden = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
        let is_allowed_scheme = match scheme {
            "https" => true,
            "http" => is_loopback(authority),
            _ => false,
        };
        if !is_allowed_scheme
            || authority.is_empty()
            || authority.contains('@')
            || text.contains(is_forbidden)
        {
            return Err(WebhookUrlError);
        }
        Ok(Self(text))
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;

    use muster_base::error_chain;

    use super::{WebhookOptions, WebhookUrl, sign_body};

    fn options(url: String) -> WebhookOptions {
        let url = WebhookUrl::try_from(url).unwrap();
        let (secret_file, token_file, ca, timeout_seconds) = (None, None, None, None);
        WebhookOptions { url, secret_file, token_file, ca, timeout_seconds }
    }

    /// The second test case of RFC 4231.
    #[test]
    fn body_is_signed_with_hmac() {
        assert_eq!(
            sign_body("Jefe", "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
    }

    #[test]
    fn secrets_that_others_can_read_are_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let secret = scratch.path().join("secret");
        write(&secret, "hush").unwrap();
        let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let plain = options(format!("http://{}/", receiver.local_addr().unwrap()));
        let token = WebhookOptions { token_file: Some(secret.clone()), ..plain.clone() };
        let signed = WebhookOptions { secret_file: Some(secret.clone()), ..plain };
        for (options, mode) in [(&token, 0o640), (&token, 0o604), (&signed, 0o666)] {
            set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
            let client = options.open_client().unwrap();
            let refused = error_chain(&options.post(&client, "{}", None).unwrap_err());
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
        let options = options(format!("http://{address}/services/hush?key=hush"));
        assert!(!format!("{options:?}").contains("hush"));
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = receiver.accept().unwrap();
            let mut request = [0; 4096];
            assert!(connection.read(&mut request).unwrap() > 0);
            connection.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        let client = options.open_client().unwrap();
        let refused = options.post(&client, "{}", None).unwrap_err();
        answering.join().unwrap();
        let closed = options.post(&client, "{}", None).unwrap_err();
        for error in [refused, closed] {
            let error = error_chain(&error);
            assert!(error.contains(&address.to_string()), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
