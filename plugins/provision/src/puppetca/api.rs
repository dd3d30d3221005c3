//! HTTP client for Puppet Server's CA API, version 1, with a client certificate.
//!
//! Connections use TLS and are verified against the configured authority. Proxies from the environment and redirects are not followed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_files::{SecretOwner, read_limited_text};

use crate::certificate::MAX_PEM_BYTES;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::tls::{
    Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
};
use ureq::{Agent, Body};

use crate::puppetca::authority::{CaError, CertAuthority, CertEntry, CertState};
use crate::puppetca::name::CertName;
use crate::puppetca::options::Options;

/// Largest certificate list in bytes: about 50,000 certificates.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;
/// Largest certificate or key file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_REFUSAL_BYTES: u64 = 4096;

/// A configured HTTP client. It connects at the first request.
pub(crate) struct CaHttpClient {
    agent: Agent,
    /// Base URL including the prefix of the API, without a trailing slash.
    url: String,
}

impl CaHttpClient {
    pub(crate) fn connect(options: &Options, timeout: Duration) -> Result<Self, CaError> {
        let url = parse_base_url(&options.url)
            .ok_or_else(|| CaError::Url { url: options.url.escape_debug().to_string() })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = read_certificates(&options.cert)?;
        let key = muster_files::read_secret(&options.key, SecretOwner::Puppet, MAX_FILE_BYTES)?;
        // The parser's message could quote the secret key, so it is dropped.
        let key = PrivateKey::from_pem(key.as_bytes())
            .map_err(|_| pem_error(&options.key, "the file contains no PEM private key"))?;
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::new_with_certs(&read_certificates(&options.ca)?))
            .client_cert(Some(ClientCert::new_with_certs(&chain, key)))
            .build();
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("muster")
            .https_only(true)
            .tls_config(tls)
            .build();
        Ok(Self { agent: config.into(), url: format!("{url}/puppet-ca/v1") })
    }

    fn endpoint_url(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    fn status_url(&self, name: &CertName) -> String {
        self.endpoint_url(&format!("certificate_status/{name}"))
    }

    fn http_error(&self, source: ureq::Error) -> CaError {
        CaError::Http { url: self.url.clone(), source: Box::new(source) }
    }

    fn get(&self, url: &str) -> Result<Response<Body>, CaError> {
        let answer = self.agent.get(url).call();
        answer.map_err(|error| self.http_error(error))
    }

    fn put_json(&self, url: &str, body: &Value) -> Result<Response<Body>, CaError> {
        self.agent
            .put(url)
            .header("content-type", "application/json")
            .send(body.to_string().as_bytes())
            .map_err(|error| self.http_error(error))
    }

    fn read_json<T: DeserializeOwned>(
        &self,
        mut answer: Response<Body>,
        limit: u64,
    ) -> Result<T, CaError> {
        let body = answer.body_mut().with_config().limit(limit).read_to_vec();
        let body = body.map_err(|error| self.http_error(error))?;
        serde_json::from_slice(&body)
            .map_err(|source| CaError::Answer { endpoint: self.url.clone(), source })
    }

    /// Fetches a public PEM text; `None` if it does not exist.
    fn fetch_pem(&self, path: &str) -> Result<Option<String>, CaError> {
        let mut answer = self.get(&self.endpoint_url(path))?;
        match answer.status().as_u16() {
            200 => {
                let body = answer.body_mut().with_config().limit(MAX_PEM_BYTES);
                let text = body.lossy_utf8(true).read_to_string();
                text.map(Some).map_err(|error| self.http_error(error))
            }
            404 => Ok(None),
            _ => Err(self.refusal_error(answer)),
        }
    }

    fn refusal_error(&self, mut answer: Response<Body>) -> CaError {
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(MAX_REFUSAL_BYTES);
        let text = body.lossy_utf8(true).read_to_string();
        let text = strip_control_chars(&text.unwrap_or_else(|_| "(unreadable body)".to_owned()));
        match status {
            409 => CaError::Conflict { text },
            403 => CaError::Forbidden { text },
            _ => CaError::Refused {
                endpoint: self.url.clone(),
                status: format!("status {status}"),
                text,
            },
        }
    }

    /// Accepts 204. 404 means that the name is unknown; other codes become the matching error.
    fn check_done(&self, name: &CertName, answer: Response<Body>) -> Result<(), CaError> {
        match answer.status().as_u16() {
            200 | 204 => Ok(()),
            404 => Err(CaError::Conflict { text: format!("there is no entry for {name}") }),
            _ => Err(self.refusal_error(answer)),
        }
    }
}

impl CertAuthority for CaHttpClient {
    fn list_entries(&self, state: Option<CertState>) -> Result<Vec<CertEntry>, CaError> {
        let query = state.map_or_else(String::new, |state| format!("?state={}", state.as_str()));
        let answer = self.get(&self.endpoint_url(&format!("certificate_statuses/all{query}")))?;
        match answer.status().as_u16() {
            200 => self.read_json(answer, MAX_LIST_BYTES),
            _ => Err(self.refusal_error(answer)),
        }
    }

    fn find_entry(&self, name: &CertName) -> Result<Option<CertEntry>, CaError> {
        let answer = self.get(&self.status_url(name))?;
        match answer.status().as_u16() {
            200 => self.read_json(answer, MAX_PEM_BYTES).map(Some),
            404 => Ok(None),
            _ => Err(self.refusal_error(answer)),
        }
    }

    fn read_request(&self, name: &CertName) -> Result<Option<String>, CaError> {
        self.fetch_pem(&format!("certificate_request/{name}"))
    }

    fn read_certificate(&self, name: &CertName) -> Result<Option<String>, CaError> {
        self.fetch_pem(&format!("certificate/{name}"))
    }

    fn sign_request(&self, name: &CertName, ttl: Option<u64>) -> Result<(), CaError> {
        let mut body = json!({ "desired_state": "signed" });
        if let (Some(ttl), Some(body)) = (ttl, body.as_object_mut()) {
            body.insert("cert_ttl".to_owned(), ttl.into());
        }
        self.check_done(name, self.put_json(&self.status_url(name), &body)?)
    }

    fn revoke_certificate(&self, name: &CertName) -> Result<(), CaError> {
        let body = json!({ "desired_state": "revoked" });
        self.check_done(name, self.put_json(&self.status_url(name), &body)?)
    }

    fn delete_entry(&self, name: &CertName) -> Result<(), CaError> {
        let answer = self.agent.delete(self.status_url(name)).call();
        let answer = answer.map_err(|error| self.http_error(error))?;
        match answer.status().as_u16() {
            200 | 204 | 404 => Ok(()),
            _ => Err(self.refusal_error(answer)),
        }
    }
}

/// Accepts `https://host[:port]` without a path.
fn parse_base_url(url: &str) -> Option<&str> {
    let url = url.trim_end_matches('/');
    let authority = url.strip_prefix("https://")?;
    let is_forbidden =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '/' | '?' | '#');
    (!authority.is_empty() && !authority.contains(is_forbidden)).then_some(url)
}

/// Replaces control characters, which could control a terminal, and returns a single line.
fn strip_control_chars(text: &str) -> String {
    let replace_control = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(replace_control).collect()
}

fn read_pem_file(path: &Path) -> Result<String, CaError> {
    let read = File::open(path).and_then(|file| read_limited_text(file, MAX_FILE_BYTES));
    read.map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => pem_error(path, "the file is larger than 1 MiB"),
        _ => CaError::Read { path: path.to_owned(), source },
    })
}

fn pem_error(path: &Path, problem: &str) -> CaError {
    CaError::Pem { path: path.to_owned(), problem: problem.to_owned() }
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate<'static>>, CaError> {
    let text = read_pem_file(path)?;
    let mut certificates = Vec::new();
    for item in parse_pem(text.as_bytes()) {
        let item = item.map_err(|error| pem_error(path, &error.to_string()))?;
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(pem_error(path, "the file contains no PEM certificate"));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::{CaHttpClient, parse_base_url, strip_control_chars};
    use crate::puppetca::authority::CaError;
    use crate::puppetca::options::Options;

    #[test]
    fn refuses_a_key_that_others_can_read() {
        let scratch = tempfile::tempdir().unwrap();
        let own = rcgen::generate_simple_self_signed(vec!["puppet".to_owned()]).unwrap();
        let [cert, key] = ["own.pem", "own.key"].map(|name| scratch.path().join(name));
        write(&cert, own.cert.pem()).unwrap();
        write(&key, own.signing_key.serialize_pem()).unwrap();
        let options = Options { ca: cert.clone(), cert, key: key.clone(), ..Options::default() };
        for (mode, good) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false)] {
            set_permissions(&key, Permissions::from_mode(mode)).unwrap();
            match CaHttpClient::connect(&options, Duration::from_secs(1)) {
                Ok(_) => assert!(good, "{mode:o}"),
                Err(CaError::Secret(refused)) => {
                    assert!(!good, "{mode:o}");
                    let told = refused.to_string();
                    assert!(told.contains("run `chmod 640 "), "{told}");
                }
                Err(other) => panic!("{mode:o}: {other}"),
            }
        }
    }

    #[test]
    fn base_url_must_be_https_with_host_and_port_only() {
        assert_eq!(parse_base_url("https://puppet:8140/"), Some("https://puppet:8140"));
        for bad in [
            "http://puppet:8140",
            "puppet:8140",
            "https://",
            "https://u@puppet",
            "https://puppet/x",
            "https://puppet?x",
        ] {
            assert_eq!(parse_base_url(bad), None, "{bad}");
        }
    }

    #[test]
    fn strips_control_characters_from_server_messages() {
        assert_eq!(strip_control_chars("a\u{1b}[2Jb\n"), "a [2Jb");
    }
}
