//! The state of the simulated authority and its responses: names, requests, certificates and revocations. Functions of
//! values and of the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_provision::certificate::CertificateRequest;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData,
    RevokedCertParams, SerialNumber,
};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use super::HandledRequest;
use super::certificates::{
    certificate_params, colon_hex, format_date, is_self_signed, parse_public_key,
};
use super::serve::CaRequest;

/// The extension that permits a certificate to administer the authority.
pub(super) const ADMINISTRATOR: [u64; 10] = [1, 3, 6, 1, 4, 1, 34380, 1, 3, 39];

/// Default lifetime of a certificate in seconds: five years, as in Puppet.
const DEFAULT_LIFETIME_SECONDS: u64 = 5 * 365 * 24 * 3600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateState {
    Requested,
    Signed,
    Revoked,
}

impl CertificateState {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Signed => "signed",
            Self::Revoked => "revoked",
        }
    }
}

/// What is stored for a name.
#[derive(Debug)]
pub(super) struct NameRecord {
    pub(super) state: CertificateState,
    /// PEM, until it is signed.
    pub(super) request: Option<String>,
    /// PEM, after it is signed.
    pub(super) certificate: Option<String>,
    pub(super) serial: u64,
    pub(super) not_before: u64,
    pub(super) not_after: u64,
}

/// The state of the authority.
#[derive(Debug)]
pub(super) struct CaDatabase {
    pub(super) issuer: Issuer<'static, KeyPair>,
    pub(super) ca: String,
    pub(super) names: BTreeMap<String, NameRecord>,
    /// The last serial number that was assigned.
    pub(super) serial: u64,
    pub(super) revoked: Vec<u64>,
    /// How often each name was signed.
    pub(super) signed: BTreeMap<String, usize>,
    pub(super) handled: Vec<HandledRequest>,
    /// Whether requests are signed without an operator.
    pub(super) autosign: bool,
}

pub(super) struct CaResponse {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

pub(super) fn text_response(status: u16, body: impl Into<String>) -> CaResponse {
    CaResponse { status, kind: "text/plain", body: body.into() }
}

pub(super) fn json_response(body: &Value) -> CaResponse {
    CaResponse { status: 200, kind: "application/json", body: body.to_string() }
}

impl CaDatabase {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut own = certificate_params("Puppet CA: tests", &[]);
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
            handled: Vec::new(),
            autosign: false,
        }
    }

    /// A certificate and key of the authority itself or of a client.
    pub(super) fn issue_own_certificate(
        &mut self,
        name: &str,
        others: &[&str],
        is_admin: bool,
    ) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = certificate_params(name, others);
        if is_admin {
            // The DER encoding of a UTF8String.
            let der_true = [&[12, 4][..], b"true"].concat();
            let extension = CustomExtension::from_oid_content(&ADMINISTRATOR, der_true);
            params.custom_extensions = vec![extension];
        }
        let (pem, ..) = self.issue(params, &key, DEFAULT_LIFETIME_SECONDS);
        (pem, key.serialize_pem())
    }

    /// Returns the certificate, its serial number, and the start and end of its validity.
    fn issue(
        &mut self,
        mut params: CertificateParams,
        key: &impl PublicKeyData,
        lifetime: u64,
    ) -> (String, u64, u64, u64) {
        self.serial += 1;
        // Valid from one day earlier, as Puppet does, because clocks differ.
        let now = crate::now() / 1000;
        let (not_before, not_after) = (now - 24 * 3600, now + lifetime);
        let to_time = |seconds| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
        params.not_before = to_time(not_before);
        params.not_after = to_time(not_after);
        params.serial_number = Some(SerialNumber::from(self.serial));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        (certificate.pem(), self.serial, not_before, not_after)
    }

    pub(super) fn submit(&mut self, name: &str, pem: &str) -> CaResponse {
        let Ok(request) = CertificateRequest::parse(pem) else {
            return text_response(500, "Internal Server Error: unable to read the request");
        };
        if request.name != name {
            let found = &request.name;
            return text_response(
                400,
                format!("Instance name \"{found}\" does not match requested key \"{name}\""),
            );
        }
        if name.chars().any(char::is_uppercase) {
            return text_response(400, "Certificate names must be lower case.");
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        if !name.chars().all(plain) {
            let message =
                format!("CSR subject contains unprintable or non-ASCII characters: {name}");
            return text_response(400, message);
        }
        if let Some(known) = self.names.get(name) {
            let state = known.state.as_str();
            let message =
                format!("{name} already has a {state} certificate; ignoring certificate request");
            return text_response(400, message);
        }
        if !is_self_signed(pem) {
            return text_response(
                400,
                "CSR contains a public key that does not correspond to the signing key",
            );
        }
        let waiting = NameRecord {
            state: CertificateState::Requested,
            request: Some(pem.to_owned()),
            certificate: None,
            serial: 0,
            not_before: 0,
            not_after: 0,
        };
        self.names.insert(name.to_owned(), waiting);
        if self.autosign {
            let _ = self.sign(name, DEFAULT_LIFETIME_SECONDS);
        }
        text_response(200, "")
    }

    fn sign(&mut self, name: &str, lifetime: u64) -> Result<(), String> {
        let pem = self.names.get(name).and_then(|name| name.request.clone());
        let Some(pem) = pem else {
            return Err(format!(
                "Cannot sign certificate for host {name} without a certificate request"
            ));
        };
        let request = CertificateRequest::parse(&pem).unwrap();
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
        let key = parse_public_key(&pem);
        let (certificate, serial, not_before, not_after) =
            self.issue(certificate_params(name, &[name]), &key, lifetime);
        let signed = NameRecord {
            state: CertificateState::Signed,
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

    pub(super) fn revoke(&mut self, name: &str) -> Result<(), String> {
        match self.names.get_mut(name) {
            Some(known) if known.state != CertificateState::Requested => {
                known.state = CertificateState::Revoked;
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

    pub(super) fn revocation_list(&self) -> String {
        let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_millis(crate::now());
        let revoked = self.revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: now,
            next_update: now + Duration::from_secs(DEFAULT_LIFETIME_SECONDS),
            crl_number: SerialNumber::from(self.revoked.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    fn name_status(&self, name: &str) -> Option<Value> {
        let known = self.names.get(name)?;
        let pem = known.request.as_ref().or(known.certificate.as_ref())?;
        let der = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?.contents;
        let sha256 = colon_hex(&Sha256::digest(&der));
        let mut others = vec![format!("DNS:{name}")];
        if known.request.is_some() {
            others = CertificateRequest::parse(pem).ok()?.alt_names;
        }
        let mut status = json!({
            "name": name, "state": known.state.as_str(), "fingerprint": sha256,
            "fingerprints": {
                "default": sha256, "SHA256": sha256,
                "SHA1": colon_hex(&Sha1::digest(&der)), "SHA512": colon_hex(&Sha512::digest(&der)),
            },
            "dns_alt_names": others, "subject_alt_names": others, "authorization_extensions": {},
        });
        if known.certificate.is_some() {
            status["serial_number"] = known.serial.into();
            status["not_before"] = format_date(known.not_before).into();
            status["not_after"] = format_date(known.not_after).into();
        }
        Some(status)
    }

    /// Handles a request. `is_admin`: whether the client may administer the authority.
    pub(super) fn respond(&mut self, request: &CaRequest, is_admin: bool) -> CaResponse {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        if path == "/status/v1/simple" {
            return text_response(200, "running");
        }
        let Some(path) = path.strip_prefix("/puppet-ca/v1/") else {
            return text_response(404, "Not Found");
        };
        let (what, name) = path.split_once('/').unwrap_or((path, ""));
        match (request.method.as_str(), what) {
            ("GET", "certificate") if name == "ca" => return text_response(200, self.ca.clone()),
            ("GET", "certificate") => {
                let found = self.names.get(name).and_then(|name| name.certificate.clone());
                let missing = || text_response(404, format!("Could not find certificate {name}"));
                return found.map_or_else(missing, |pem| text_response(200, pem));
            }
            ("GET", "certificate_revocation_list") => {
                return text_response(200, self.revocation_list());
            }
            ("GET", "certificate_request") => {
                let found = self.names.get(name).and_then(|name| name.request.clone());
                let missing =
                    || text_response(404, format!("Could not find certificate_request {name}"));
                return found.map_or_else(missing, |pem| text_response(200, pem));
            }
            ("PUT", "certificate_request") => return self.submit(name, &request.body),
            _ => {}
        }
        // No rule of Puppet Server permits the deletion of a request.
        if !is_admin || what == "certificate_request" {
            let (method, path) = (request.method.to_lowercase(), &request.path);
            return text_response(
                403,
                format!(
                    "Forbidden request: {path} (method :{method}). Please see the server logs for details."
                ),
            );
        }
        match (request.method.as_str(), what) {
            ("GET", "certificate_statuses") => {
                let state = query.strip_prefix("state=");
                let names = self.names.iter();
                let wanted =
                    names.filter(|(_, known)| state.is_none_or(|it| it == known.state.as_str()));
                let all: Vec<Value> =
                    wanted.filter_map(|(name, _)| self.name_status(name)).collect();
                json_response(&Value::from(all))
            }
            ("GET", "certificate_status") => self.name_status(name).map_or_else(
                || text_response(404, "Resource not found."),
                |status| json_response(&status),
            ),
            ("PUT", "certificate_status") => self.set_state(name, request),
            ("DELETE", "certificate_status") => match self.names.remove(name) {
                Some(_) => text_response(204, ""),
                None => text_response(404, "Resource not found."),
            },
            ("PUT", "clean") => self.clean(&request.body),
            ("POST", "sign") => self.sign_many(name, &request.body),
            _ => text_response(404, "Not Found"),
        }
    }

    fn set_state(&mut self, name: &str, request: &CaRequest) -> CaResponse {
        if !request.kind.contains("json") {
            return text_response(415, "Unsupported media type.");
        }
        let Ok(body) = serde_json::from_str::<Value>(&request.body) else {
            return text_response(400, "Request body is not JSON.");
        };
        let wanted = body["desired_state"].as_str().unwrap_or_default();
        if !["signed", "revoked"].contains(&wanted) {
            let message = format!(
                "State {wanted} invalid; Must specify desired state of 'signed' or 'revoked' for host {name}."
            );
            return text_response(400, message);
        }
        if !self.names.contains_key(name) {
            return text_response(404, "Invalid certificate subject.");
        }
        let done = if wanted == "signed" {
            self.sign(name, body["cert_ttl"].as_u64().unwrap_or(DEFAULT_LIFETIME_SECONDS))
        } else {
            self.revoke(name)
        };
        match done {
            Ok(()) => text_response(204, ""),
            Err(message) => text_response(409, message),
        }
    }

    fn clean(&mut self, body: &str) -> CaResponse {
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
            return text_response(200, "Successfully cleaned all certs.");
        }
        let missing = missing.join(", ");
        text_response(
            200,
            format!("The following certs do not exist and cannot be revoked: [{missing}]"),
        )
    }

    fn sign_many(&mut self, which: &str, body: &str) -> CaResponse {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let waiting = |(name, known): (&String, &NameRecord)| {
            (known.state == CertificateState::Requested).then(|| name.clone())
        };
        let names: Vec<String> = if which == "all" {
            self.names.iter().filter_map(waiting).collect()
        } else {
            let names = body["certnames"].as_array().cloned().unwrap_or_default();
            names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
        };
        let (mut signed, mut none, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let is_waiting = self.names.get(&name).is_some_and(|name| name.request.is_some());
            let list = match self.sign(&name, DEFAULT_LIFETIME_SECONDS) {
                Ok(()) => &mut signed,
                Err(_) if is_waiting => &mut failed,
                Err(_) => &mut none,
            };
            list.push(name);
        }
        json_response(&json!({"signed": signed, "no-csr": none, "signing-errors": failed}))
    }
}
