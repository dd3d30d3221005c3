//! Signs, revokes and cleans certificates, independent of the backend. Every call blocks.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::CallContext;
use muster_api::system::System;
use muster_api::system::command::CancelFlag;
use muster_certificate::{
    CertificateInfo, CertificateParseError, CertificateRequest, same_fingerprint,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::api::CaHttpClient;
use crate::authority::{CaError, CertAuthority, CertEntry, CertState};
use crate::command::CaCommandLine;
use crate::name::CertName;
use crate::options::{CaBackend, Options};
use crate::signing_records::{SigningRecord, SigningRecordStore};

/// Options and the records of signed requests.
#[derive(Debug)]
pub(crate) struct CaService {
    pub(crate) options: Options,
    book: SigningRecordStore,
}

/// Combined details of a name.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertDetails {
    /// `absent` if the authority has no entry.
    pub(crate) state: &'static str,
    pub(crate) fingerprint: String,
    pub(crate) public_key: String,
    pub(crate) serial: String,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) dns_alt_names: Vec<String>,
    pub(crate) authorization_extensions: Map<String, Value>,
}

/// A signing request of a caller.
#[derive(Debug, Clone)]
pub(crate) struct SigningSpec {
    pub(crate) name: CertName,
    pub(crate) fingerprint: Option<String>,
    pub(crate) public_key: Option<String>,
    pub(crate) ttl: Option<u64>,
}

/// Result of cleaning a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CleanOutcome {
    pub(crate) found: bool,
    pub(crate) revoked: bool,
    pub(crate) serial: String,
}

impl CaService {
    pub(crate) fn new(options: Options, state: PathBuf) -> Self {
        Self {
            options,
            book: SigningRecordStore::new(state),
        }
    }

    /// Opens the configured backend for one call.
    pub(crate) fn connect_authority<'a>(
        &'a self,
        cx: &'a CallContext,
        cancel: CancelFlag,
    ) -> Result<Box<dyn CertAuthority + 'a>, CaError> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        let timeout = Duration::from_secs(self.options.timeout).min(left);
        Ok(match self.options.backend {
            CaBackend::Api => Box::new(CaHttpClient::connect(&self.options, timeout)?),
            CaBackend::Command => {
                let system: &dyn System = &*cx.system;
                Box::new(CaCommandLine::new(&self.options, system, timeout, cancel))
            }
        })
    }

    /// Reads the details of a name.
    pub(crate) fn query_certificate(
        ca: &dyn CertAuthority,
        name: &CertName,
    ) -> Result<CertDetails, CaError> {
        let Some(entry) = ca.find_entry(name)? else {
            return Ok(CertDetails {
                state: "absent",
                ..CertDetails::default()
            });
        };
        certificate_details(ca, name, entry)
    }

    /// Signs the request of a name if it matches the fingerprint or public key of `ask`. Returns whether this call
    /// signed it.
    pub(crate) fn sign_verified_request(
        &self,
        ca: &dyn CertAuthority,
        ask: &SigningSpec,
    ) -> Result<(bool, CertDetails), CaError> {
        let name = &ask.name;
        if ask.fingerprint.is_none() && ask.public_key.is_none() && !self.options.allow_unproven {
            return Err(CaError::Unproven { name: name.clone() });
        }
        let no_request = || CaError::NoRequest { name: name.clone() };
        let entry = ca.find_entry(name)?.ok_or_else(no_request)?;
        match entry.state {
            CertState::Signed => return Ok((false, self.check_signed(ca, ask, entry)?)),
            CertState::Revoked => return Err(CaError::Revoked { name: name.clone() }),
            CertState::Requested => {}
        }
        let request = match ca.read_request(name)? {
            Some(pem) => Some(map_document_error(name, CertificateRequest::parse(&pem))?),
            None => None,
        };
        self.check_request(ask, &entry, request.as_ref())?;
        if let Some(request) = &request {
            let record = SigningRecord {
                fingerprint: request.fingerprint.clone(),
                public_key: request.public_key.clone(),
            };
            // Written before signing, because the authority deletes the request when it signs.
            self.book.write_record(name, &record)?;
        }
        match ca.sign_request(name, ask.ttl) {
            Ok(()) => {}
            // Another call may have signed it in between, or a rule of the authority forbids it.
            Err(CaError::Conflict { text }) => {
                return match ca.find_entry(name)? {
                    Some(entry) if entry.state == CertState::Signed => {
                        Ok((false, self.check_signed(ca, ask, entry)?))
                    }
                    _ => Err(CaError::Conflict { text }),
                };
            }
            Err(error) => return Err(error),
        }
        let no_certificate = || CaError::NoCertificate { name: name.clone() };
        let entry = ca.find_entry(name)?.ok_or_else(no_certificate)?;
        let known = certificate_details(ca, name, entry)?;
        let swapped = request.is_some_and(|request| {
            !known.public_key.is_empty()
                && !same_fingerprint(&request.public_key, &known.public_key)
        });
        // The request was replaced between the check and the signing, so the certificate has an unchecked key.
        if swapped {
            ca.revoke_certificate(name)?;
            return Err(CaError::Swapped { name: name.clone() });
        }
        Ok((true, known))
    }

    /// Whether a pending request may be signed for this caller.
    fn check_request(
        &self,
        ask: &SigningSpec,
        entry: &CertEntry,
        request: Option<&CertificateRequest>,
    ) -> Result<(), CaError> {
        let name = &ask.name;
        if let Some(request) = request
            && request.name != name.as_str()
        {
            return Err(CaError::Document {
                name: name.clone(),
                problem: format!("it is a request for `{}`", request.name.escape_debug()),
            });
        }
        let found = request.map_or_else(
            || entry.sha256_fingerprint(),
            |request| &request.fingerprint,
        );
        check_fingerprint(name, "fingerprint", ask.fingerprint.as_deref(), found)?;
        let found = request.map_or("not available", |request| &request.public_key);
        check_fingerprint(name, "public key", ask.public_key.as_deref(), found)?;
        let own = format!("DNS:{name}");
        let of_request = request.map(|request| request.alt_names.as_slice());
        let mut names = [&entry.dns_alt_names, &entry.subject_alt_names]
            .into_iter()
            .flatten()
            .chain(of_request.unwrap_or_default());
        if !self.options.allow_alt_names
            && let Some(other) = names.find(|other| **other != own && **other != *name.as_str())
        {
            return Err(CaError::Greedy {
                name: name.clone(),
                what: format!("the alternative name `{}`", other.escape_debug()),
                rule: "plugins.puppetca.allow_alt_names",
            });
        }
        let of_entry = entry.authorization_extensions.keys();
        let of_request = request.map(|request| request.authorisations.as_slice());
        let mut rights = of_entry.chain(of_request.unwrap_or_default());
        if !self.options.allow_authorization_extensions
            && let Some(right) = rights.next()
        {
            return Err(CaError::Greedy {
                name: name.clone(),
                what: format!("the authorization extension `{}`", right.escape_debug()),
                rule: "plugins.puppetca.allow_authorization_extensions",
            });
        }
        Ok(())
    }

    /// The details of a signed name, if the certificate was issued for the given request.
    fn check_signed(
        &self,
        ca: &dyn CertAuthority,
        ask: &SigningSpec,
        entry: CertEntry,
    ) -> Result<CertDetails, CaError> {
        let name = &ask.name;
        let known = certificate_details(ca, name, entry)?;
        let other = |problem: &str| {
            Err(CaError::OtherSigned {
                name: name.clone(),
                problem: problem.to_owned(),
            })
        };
        if let Some(asked) = &ask.public_key
            && !same_fingerprint(asked, &known.public_key)
        {
            return other("its public key differs");
        }
        if let Some(asked) = &ask.fingerprint
            && !same_fingerprint(asked, &known.fingerprint)
        {
            // The authority has deleted the request. The record written before signing identifies it, if the certificate has its key.
            return match self.book.read_record(name)? {
                Some(record) if !same_fingerprint(&record.fingerprint, asked) => {
                    other("the signed request had another fingerprint")
                }
                Some(record) if !same_fingerprint(&record.public_key, &known.public_key) => {
                    other("its public key is not that of the request that was signed here")
                }
                Some(_) => Ok(known),
                None if ask.public_key.is_some() => Ok(known),
                None => other(
                    "this agent has no record of its request; compare by `public_key` instead",
                ),
            };
        }
        Ok(known)
    }

    /// Revokes the certificate of a name. Returns whether it was valid before.
    pub(crate) fn revoke_certificate(
        ca: &dyn CertAuthority,
        name: &CertName,
    ) -> Result<(bool, String), CaError> {
        let no_certificate = || CaError::NoCertificate { name: name.clone() };
        let entry = ca.find_entry(name)?.ok_or_else(no_certificate)?;
        match entry.state {
            CertState::Requested => Err(no_certificate()),
            CertState::Revoked => Ok((false, certificate_details(ca, name, entry)?.serial)),
            CertState::Signed => {
                let serial = certificate_details(ca, name, entry)?.serial;
                ca.revoke_certificate(name)?;
                Ok((true, serial))
            }
        }
    }

    /// Revokes the certificate of a name, then deletes its certificate, request and record.
    pub(crate) fn clean_certificate(
        &self,
        ca: &dyn CertAuthority,
        name: &CertName,
    ) -> Result<CleanOutcome, CaError> {
        let Some(entry) = ca.find_entry(name)? else {
            self.book.remove_record(name)?;
            return Ok(CleanOutcome {
                found: false,
                revoked: false,
                serial: String::new(),
            });
        };
        let is_signed = entry.state == CertState::Signed;
        let serial = certificate_details(ca, name, entry)?.serial;
        if is_signed {
            match ca.revoke_certificate(name) {
                // Another call may have revoked or deleted it in between.
                Err(CaError::Conflict { .. }) => {}
                done => done?,
            }
        }
        ca.delete_entry(name)?;
        self.book.remove_record(name)?;
        Ok(CleanOutcome {
            found: true,
            revoked: is_signed,
            serial,
        })
    }
}

fn check_fingerprint(
    name: &CertName,
    what: &'static str,
    asked: Option<&str>,
    found: &str,
) -> Result<(), CaError> {
    match asked {
        Some(asked) if !same_fingerprint(asked, found) => Err(CaError::Mismatch {
            name: name.clone(),
            what,
            found: found.to_owned(),
            asked: asked.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn map_document_error<T>(
    name: &CertName,
    read: Result<T, CertificateParseError>,
) -> Result<T, CaError> {
    read.map_err(|error| CaError::Document {
        name: name.clone(),
        problem: error.to_string(),
    })
}

/// Combines the authority's entry with the contents of the request or certificate.
fn certificate_details(
    ca: &dyn CertAuthority,
    name: &CertName,
    entry: CertEntry,
) -> Result<CertDetails, CaError> {
    let moment = |text: &Option<String>| text.as_deref().and_then(parse_utc_seconds).unwrap_or(0);
    let mut known = CertDetails {
        state: entry.state.as_str(),
        fingerprint: entry.sha256_fingerprint().to_owned(),
        public_key: String::new(),
        serial: entry
            .serial_number
            .and_then(|serial| serial.as_u64())
            .map_or_else(String::new, |serial| format!("{serial:X}")),
        not_before: moment(&entry.not_before),
        not_after: moment(&entry.not_after),
        dns_alt_names: entry.dns_alt_names,
        authorization_extensions: entry.authorization_extensions,
    };
    if entry.state == CertState::Requested {
        if let Some(pem) = ca.read_request(name)? {
            let request = map_document_error(name, CertificateRequest::parse(&pem))?;
            (known.fingerprint, known.public_key) = (request.fingerprint, request.public_key);
        }
    } else if let Some(pem) = ca.read_certificate(name)? {
        let certificate = map_document_error(name, CertificateInfo::parse(&pem))?;
        known.fingerprint = certificate.fingerprint;
        known.public_key = certificate.public_key;
        known.serial = certificate.serial;
        known.not_before = certificate.not_before;
        known.not_after = certificate.not_after;
    }
    Ok(known)
}

/// Parses `2030-11-20T02:00:00UTC` into seconds since 1970.
fn parse_utc_seconds(text: &str) -> Option<i64> {
    let text = text
        .strip_suffix("UTC")
        .unwrap_or(text)
        .trim_end_matches('Z');
    let moment: jiff::Timestamp = format!("{text}Z").parse().ok()?;
    Some(moment.as_second())
}
