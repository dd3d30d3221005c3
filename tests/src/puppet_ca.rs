//! An authority that speaks Puppet Server's CA API, version 1, with real certificates: for tests that want many signatures in a short time.
//!
//! It says what Puppet Server 7.9 says, in its words, and is held against the real one where that is installed. Keeps everything in memory.

#![expect(
    clippy::indexing_slicing,
    reason = "JSON that may lack a key is asked for it"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use muster_certificate::Request;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, PublicKeyData, RevokedCertParams, SerialNumber, SignatureAlgorithm,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The extension that lets a certificate administer the authority.
const ADMINISTRATOR: [u64; 10] = [1, 3, 6, 1, 4, 1, 34380, 1, 3, 39];
/// How long a certificate is valid when nothing is said, in seconds: five years, as Puppet's.
const LIFETIME: u64 = 5 * 365 * 24 * 3600;
/// Largest head and largest body that are read, in bytes.
const LARGEST: usize = 256 * 1024;

/// A running authority, ended with its owner.
#[derive(Debug)]
pub struct PuppetCa {
    books: Arc<Mutex<Books>>,
    directory: TempDir,
    port: u16,
    running: JoinHandle<()>,
}

/// What it was asked, and what it answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The verb.
    pub method: String,
    /// The path, without the prefix of the API.
    pub path: String,
    /// The answer's status.
    pub status: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Requested,
    Signed,
    Revoked,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Signed => "signed",
            Self::Revoked => "revoked",
        }
    }
}

/// All that is known of a name.
#[derive(Debug)]
struct Name {
    state: State,
    /// PEM, while it waits.
    request: Option<String>,
    /// PEM, once it is signed.
    certificate: Option<String>,
    serial: u64,
    not_before: u64,
    not_after: u64,
}

/// Everything that the authority knows.
#[derive(Debug)]
struct Books {
    issuer: Issuer<'static, KeyPair>,
    ca: String,
    names: BTreeMap<String, Name>,
    /// The last serial number that was given away.
    serial: u64,
    revoked: Vec<u64>,
    /// How often each name was signed.
    signed: BTreeMap<String, usize>,
    asked: Vec<Asked>,
    /// Signs by itself what is asked for.
    autosign: bool,
}

/// A public key that came in a request.
struct Key {
    bits: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

struct Answer {
    status: u16,
    kind: &'static str,
    body: String,
}

fn text(status: u16, body: impl Into<String>) -> Answer {
    Answer {
        status,
        kind: "text/plain",
        body: body.into(),
    }
}

fn document(body: &Value) -> Answer {
    Answer {
        status: 200,
        kind: "application/json",
        body: body.to_string(),
    }
}

impl PuppetCa {
    /// Starts an authority on a free loopback port. Its own certificate, in the files of [`Self::path`], may administer it.
    pub async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let mut books = Books::new();
        for (name, others, rights) in [
            ("server", &["localhost", "127.0.0.1"][..], true),
            ("stranger", &["stranger"][..], false),
        ] {
            let (certificate, key) = books.own(name, others, rights);
            std::fs::write(directory.path().join(format!("{name}.pem")), certificate).unwrap();
            let path = directory.path().join(format!("{name}.key"));
            std::fs::write(&path, key).unwrap();
            // As Puppet makes them.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        std::fs::write(directory.path().join("ca.pem"), &books.ca).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = acceptor(&directory);
        let books = Arc::new(Mutex::new(books));
        let served = Arc::clone(&books);
        let running = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (acceptor, books) = (acceptor.clone(), Arc::clone(&served));
                tokio::spawn(async move { serve(stream, acceptor, books).await });
            }
        });
        Self {
            books,
            directory,
            port,
            running,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// The address as clients write it.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// `ca.pem`; `server.pem` and `server.key`, who may administer; `stranger.pem` and `stranger.key`, who may not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The section `[plugins.puppetca]` of a node that administers it.
    pub fn options(&self) -> Value {
        json!({
            "enabled": true, "backend": "api", "url": self.url(), "ca": self.path("ca.pem"),
            "cert": self.path("server.pem"), "key": self.path("server.key"),
        })
    }

    /// Signs by itself what is asked for from now on.
    pub fn autosign(&self) {
        self.books().autosign = true;
    }

    /// A request comes in, as by PUT: status and words of the answer.
    pub fn submit(&self, name: &str, request: &str) -> (u16, String) {
        let answer = self.books().submit(name, request);
        (answer.status, answer.body)
    }

    /// `requested`, `signed` or `revoked`; `None` for a name that it does not know.
    pub fn state(&self, name: &str) -> Option<&'static str> {
        self.books().names.get(name).map(|name| name.state.word())
    }

    /// The certificate of a name, PEM.
    pub fn certificate(&self, name: &str) -> Option<String> {
        self.books().names.get(name)?.certificate.clone()
    }

    /// How often a name was signed, also under earlier certificates.
    pub fn times_signed(&self, name: &str) -> usize {
        self.books().signed.get(name).copied().unwrap_or_default()
    }

    /// The serial numbers in the revocation list.
    pub fn revoked(&self) -> Vec<u64> {
        self.books().revoked.clone()
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.books().asked.clone()
    }
}

impl Drop for PuppetCa {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A request for a name with other names, PEM, and its key.
pub fn request(name: &str, others: &[&str]) -> (String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let request = params(name, others).serialize_request(&key).unwrap();
    (request.pem().unwrap(), key)
}

fn params(name: &str, others: &[&str]) -> CertificateParams {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(others).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Books {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut own = params("Puppet CA: tests", &[]);
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        own.serial_number = Some(SerialNumber::from(1_u64));
        let ca = own.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(own, key),
            ca,
            names: BTreeMap::new(),
            serial: 1,
            revoked: Vec::new(),
            signed: BTreeMap::new(),
            asked: Vec::new(),
            autosign: false,
        }
    }

    /// A certificate and key of the authority's own household.
    fn own(&mut self, name: &str, others: &[&str], rights: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = params(name, others);
        if rights {
            // An UTF8String.
            let yes = [&[12, 4][..], b"true"].concat();
            let extension = CustomExtension::from_oid_content(&ADMINISTRATOR, yes);
            params.custom_extensions = vec![extension];
        }
        let (pem, ..) = self.issue(params, &key, LIFETIME);
        (pem, key.serialize_pem())
    }

    /// Certificate, serial number, beginning and end.
    fn issue(
        &mut self,
        mut params: CertificateParams,
        key: &impl PublicKeyData,
        lifetime: u64,
    ) -> (String, u64, u64, u64) {
        self.serial += 1;
        // A day earlier, as Puppet does: clocks differ.
        let now = crate::now() / 1000;
        let (not_before, not_after) = (now - 24 * 3600, now + lifetime);
        let moment = |seconds| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
        params.not_before = moment(not_before);
        params.not_after = moment(not_after);
        params.serial_number = Some(SerialNumber::from(self.serial));
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        (certificate.pem(), self.serial, not_before, not_after)
    }

    fn submit(&mut self, name: &str, pem: &str) -> Answer {
        let Ok(request) = Request::parse(pem) else {
            return text(500, "Internal Server Error: unable to read the request");
        };
        if request.name != name {
            let found = &request.name;
            return text(
                400,
                format!("Instance name \"{found}\" does not match requested key \"{name}\""),
            );
        }
        if name.chars().any(char::is_uppercase) {
            return text(400, "Certificate names must be lower case.");
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        if !name.chars().all(plain) {
            let words = format!("CSR subject contains unprintable or non-ASCII characters: {name}");
            return text(400, words);
        }
        if let Some(known) = self.names.get(name) {
            let word = known.state.word();
            let words =
                format!("{name} already has a {word} certificate; ignoring certificate request");
            return text(400, words);
        }
        if !is_signed_by_its_key(pem) {
            return text(
                400,
                "CSR contains a public key that does not correspond to the signing key",
            );
        }
        let waiting = Name {
            state: State::Requested,
            request: Some(pem.to_owned()),
            certificate: None,
            serial: 0,
            not_before: 0,
            not_after: 0,
        };
        self.names.insert(name.to_owned(), waiting);
        if self.autosign {
            let _ = self.sign(name, LIFETIME);
        }
        text(200, "")
    }

    fn sign(&mut self, name: &str, lifetime: u64) -> Result<(), String> {
        let pem = self.names.get(name).and_then(|name| name.request.clone());
        let Some(pem) = pem else {
            return Err(format!(
                "Cannot sign certificate for host {name} without a certificate request"
            ));
        };
        let request = Request::parse(&pem).unwrap();
        let own = format!("DNS:{name}");
        if request.alt_names.iter().any(|other| *other != own) {
            return Err(format!(
                "CSR '{name}' contains subject alternative names ({}), which are disallowed. To allow subject alternative names, set \
                 allow-subject-alt-names to true in your ca.conf file. Then restart the puppetserver and try signing this certificate again.",
                request.alt_names.join(", ")
            ));
        }
        if !request.authorisations.is_empty() {
            return Err(format!(
                "CSR '{name}' contains an authorization extension, which is disallowed. To allow authorization extensions, set \
                 allow-authorization-extensions to true in your ca.conf file. Then restart the puppetserver and try signing this certificate again."
            ));
        }
        let key = key_of(&pem);
        let (certificate, serial, not_before, not_after) =
            self.issue(params(name, &[name]), &key, lifetime);
        let signed = Name {
            state: State::Signed,
            request: None,
            certificate: Some(certificate),
            serial,
            not_before,
            not_after,
        };
        self.names.insert(name.to_owned(), signed);
        *self.signed.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    fn revoke(&mut self, name: &str) -> Result<(), String> {
        match self.names.get_mut(name) {
            Some(known) if known.state != State::Requested => {
                known.state = State::Revoked;
                if !self.revoked.contains(&known.serial) {
                    self.revoked.push(known.serial);
                }
                Ok(())
            }
            _ => Err(format!(
                "Cannot revoke certificate for host {name} without a signed certificate"
            )),
        }
    }

    fn list(&self) -> String {
        let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_millis(crate::now());
        let revoked = self.revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: now,
            next_update: now + Duration::from_secs(LIFETIME),
            crl_number: SerialNumber::from(self.revoked.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    fn status(&self, name: &str) -> Option<Value> {
        let known = self.names.get(name)?;
        let pem = known.request.as_ref().or(known.certificate.as_ref())?;
        let der = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes())
            .next()?
            .ok()?
            .contents;
        let sha256 = colons(&Sha256::digest(&der));
        let mut others = vec![format!("DNS:{name}")];
        if known.request.is_some() {
            others = Request::parse(pem).ok()?.alt_names;
        }
        let mut status = json!({
            "name": name, "state": known.state.word(), "fingerprint": sha256,
            "fingerprints": {
                "default": sha256, "SHA256": sha256,
                "SHA1": colons(&Sha1::digest(&der)), "SHA512": colons(&Sha512::digest(&der)),
            },
            "dns_alt_names": others, "subject_alt_names": others, "authorization_extensions": {},
        });
        if known.certificate.is_some() {
            status["serial_number"] = known.serial.into();
            status["not_before"] = date(known.not_before).into();
            status["not_after"] = date(known.not_after).into();
        }
        Some(status)
    }

    /// What is answered. `rights`: whether the client may administer.
    fn answer(&mut self, asked: &Question, rights: bool) -> Answer {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        if path == "/status/v1/simple" {
            return text(200, "running");
        }
        let Some(path) = path.strip_prefix("/puppet-ca/v1/") else {
            return text(404, "Not Found");
        };
        let (what, name) = path.split_once('/').unwrap_or((path, ""));
        match (asked.method.as_str(), what) {
            ("GET", "certificate") if name == "ca" => return text(200, self.ca.clone()),
            ("GET", "certificate") => {
                let found = self
                    .names
                    .get(name)
                    .and_then(|name| name.certificate.clone());
                let missing = || text(404, format!("Could not find certificate {name}"));
                return found.map_or_else(missing, |pem| text(200, pem));
            }
            ("GET", "certificate_revocation_list") => return text(200, self.list()),
            ("GET", "certificate_request") => {
                let found = self.names.get(name).and_then(|name| name.request.clone());
                let missing = || text(404, format!("Could not find certificate_request {name}"));
                return found.map_or_else(missing, |pem| text(200, pem));
            }
            ("PUT", "certificate_request") => return self.submit(name, &asked.body),
            _ => {}
        }
        // No rule lets anybody delete a request.
        if !rights || what == "certificate_request" {
            let (method, path) = (asked.method.to_lowercase(), &asked.path);
            return text(
                403,
                format!(
                    "Forbidden request: {path} (method :{method}). Please see the server logs for details."
                ),
            );
        }
        match (asked.method.as_str(), what) {
            ("GET", "certificate_statuses") => {
                let state = query.strip_prefix("state=");
                let names = self.names.iter();
                let wanted =
                    names.filter(|(_, known)| state.is_none_or(|it| it == known.state.word()));
                let all: Vec<Value> = wanted.filter_map(|(name, _)| self.status(name)).collect();
                document(&Value::from(all))
            }
            ("GET", "certificate_status") => self.status(name).map_or_else(
                || text(404, "Resource not found."),
                |status| document(&status),
            ),
            ("PUT", "certificate_status") => self.decide(name, asked),
            ("DELETE", "certificate_status") => match self.names.remove(name) {
                Some(_) => text(204, ""),
                None => text(404, "Resource not found."),
            },
            ("PUT", "clean") => self.clean(&asked.body),
            ("POST", "sign") => self.sign_many(name, &asked.body),
            _ => text(404, "Not Found"),
        }
    }

    fn decide(&mut self, name: &str, asked: &Question) -> Answer {
        if !asked.kind.contains("json") {
            return text(415, "Unsupported media type.");
        }
        let Ok(body) = serde_json::from_str::<Value>(&asked.body) else {
            return text(400, "Request body is not JSON.");
        };
        let wanted = body["desired_state"].as_str().unwrap_or_default();
        if !["signed", "revoked"].contains(&wanted) {
            let words = format!(
                "State {wanted} invalid; Must specify desired state of 'signed' or 'revoked' for host {name}."
            );
            return text(400, words);
        }
        if !self.names.contains_key(name) {
            return text(404, "Invalid certificate subject.");
        }
        let done = if wanted == "signed" {
            self.sign(name, body["cert_ttl"].as_u64().unwrap_or(LIFETIME))
        } else {
            self.revoke(name)
        };
        match done {
            Ok(()) => text(204, ""),
            Err(words) => text(409, words),
        }
    }

    fn clean(&mut self, body: &str) -> Answer {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let names = body["certnames"].as_array().cloned().unwrap_or_default();
        let mut missing = Vec::new();
        for name in names.iter().filter_map(Value::as_str) {
            if self.revoke(name).is_err() {
                missing.push(name);
            }
            self.names.remove(name);
        }
        if missing.is_empty() {
            return text(200, "Successfully cleaned all certs.");
        }
        let missing = missing.join(", ");
        text(
            200,
            format!("The following certs do not exist and cannot be revoked: [{missing}]"),
        )
    }

    fn sign_many(&mut self, which: &str, body: &str) -> Answer {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let waiting = |(name, known): (&String, &Name)| {
            (known.state == State::Requested).then(|| name.clone())
        };
        let names: Vec<String> = if which == "all" {
            self.names.iter().filter_map(waiting).collect()
        } else {
            let names = body["certnames"].as_array().cloned().unwrap_or_default();
            names
                .iter()
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect()
        };
        let (mut signed, mut none, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let is_waiting = self
                .names
                .get(&name)
                .is_some_and(|name| name.request.is_some());
            let list = match self.sign(&name, LIFETIME) {
                Ok(()) => &mut signed,
                Err(_) if is_waiting => &mut failed,
                Err(_) => &mut none,
            };
            list.push(name);
        }
        document(&json!({"signed": signed, "no-csr": none, "signing-errors": failed}))
    }
}

/// Whether a request is signed with the key that it asks for.
fn is_signed_by_its_key(pem: &str) -> bool {
    let der = block(pem);
    let Ok((_, request)) = X509CertificationRequest::from_der(&der) else {
        return false;
    };
    let info = &request.certification_request_info;
    let key = &info.subject_pki.subject_public_key.data;
    let provider = rustls::crypto::ring::default_provider();
    let mut known = provider.signature_verification_algorithms.all.iter();
    known.any(|algorithm| {
        let signature = &request.signature_value.data;
        algorithm.verify_signature(key, info.raw, signature).is_ok()
    })
}

fn key_of(pem: &str) -> Key {
    let der = block(pem);
    let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
    let key = &request.certification_request_info.subject_pki;
    // By the kind of key alone: what is written into the certificate is the key's own algorithm.
    let name = key.algorithm.algorithm.to_id_string();
    let curve = key
        .algorithm
        .parameters
        .as_ref()
        .and_then(|it| it.as_oid().ok());
    let algorithm = match (name.as_str(), curve.map(|it| it.to_id_string()).as_deref()) {
        ("1.2.840.113549.1.1.1", _) => &rcgen::PKCS_RSA_SHA256,
        ("1.2.840.10045.2.1", Some("1.3.132.0.34")) => &rcgen::PKCS_ECDSA_P384_SHA384,
        ("1.2.840.10045.2.1", _) => &rcgen::PKCS_ECDSA_P256_SHA256,
        _ => &rcgen::PKCS_ED25519,
    };
    Key {
        bits: key.subject_public_key.data.to_vec(),
        algorithm,
    }
}

fn block(pem: &str) -> Vec<u8> {
    let first = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes()).next();
    first
        .and_then(Result::ok)
        .map_or_else(Vec::new, |block| block.contents)
}

fn colons(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// As Puppet Server writes instants: `2030-11-20T02:00:00UTC`.
fn date(seconds: u64) -> String {
    let moment = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    moment.strftime("%Y-%m-%dT%H:%M:%SUTC").to_string()
}

fn acceptor(directory: &TempDir) -> TlsAcceptor {
    let path = |name: &str| directory.path().join(name);
    let certificate = |name: &str| CertificateDer::from_pem_file(path(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate("server.pem")],
            PrivateKeyDer::from_pem_file(path("server.key")).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

struct Question {
    method: String,
    path: String,
    /// What the body is said to be.
    kind: String,
    body: String,
}

/// One connection, until the client closes it.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, books: Arc<Mutex<Books>>) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let (serial, rights) = client(&stream);
    let mut stream = BufReader::new(stream);
    while let Some(question) = question(&mut stream).await {
        let answer = {
            let mut books = books.lock().unwrap();
            // Whose certificate was revoked is not spoken to.
            if serial.is_some_and(|serial| books.revoked.contains(&serial)) {
                return;
            }
            let answer = books.answer(&question, rights);
            let path = question
                .path
                .strip_prefix("/puppet-ca/v1")
                .unwrap_or(&question.path);
            let asked = Asked {
                method: question.method.clone(),
                path: path.to_owned(),
                status: answer.status,
            };
            books.asked.push(asked);
            answer
        };
        let head = format!(
            "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
            answer.status,
            answer.kind,
            answer.body.len()
        );
        let whole = [head.as_bytes(), answer.body.as_bytes()].concat();
        if stream.write_all(&whole).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Serial number and rights of who asks.
fn client(stream: &TlsStream<TcpStream>) -> (Option<u64>, bool) {
    let Some([certificate, ..]) = stream.get_ref().1.peer_certificates() else {
        return (None, false);
    };
    let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
    let rights: Vec<String> = ADMINISTRATOR.iter().map(ToString::to_string).collect();
    let rights = rights.join(".");
    let may = certificate.extensions().iter().any(|extension| {
        extension.oid.to_id_string() == rights && extension.value.ends_with(b"true")
    });
    (
        certificate.tbs_certificate.serial.iter_u64_digits().next(),
        may,
    )
}

async fn question(stream: &mut BufReader<TlsStream<TcpStream>>) -> Option<Question> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        if head.len() > LARGEST {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(Ok(0), |it| it.parse::<usize>());
    let length = length.ok().filter(|length| *length <= LARGEST)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Question {
        method,
        path,
        kind: headers.get("content-type").cloned().unwrap_or_default(),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
