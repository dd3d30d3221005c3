//! Signs, revokes and cleans certificates, independent of the backend. Every call blocks.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::BlockingContext;
use muster_contract::puppetca::{CertDetails, PuppetcaCleanOutput};

use crate::certificate::{
    CertificateInfo, CertificateParseError, CertificateRequest, same_fingerprint,
};
use tokio::time::Instant;

use crate::puppetca::api::CaHttpClient;
use crate::puppetca::authority::{CaError, CertAuthority, CertEntry, CertState};
use crate::puppetca::command::CaCommandLine;
use crate::puppetca::name::CertName;
use crate::puppetca::name_locks::NameLocks;
use crate::puppetca::options::{CaBackend, Options};
use crate::puppetca::signing_records::{SigningRecord, SigningRecordStore};

/// Options and the records of signed requests.
#[derive(Debug)]
pub(crate) struct CaService {
    pub(crate) options: Options,
    /// Held during each change of a name.
    pub(crate) name_locks: NameLocks,
    records: SigningRecordStore,
}

#[derive(Debug, Clone)]
pub(crate) struct SigningSpec {
    pub(crate) name: CertName,
    pub(crate) fingerprint: Option<String>,
    pub(crate) public_key: Option<String>,
    pub(crate) ttl: Option<u64>,
    /// Whether the request is only checked.
    pub(crate) is_noop: bool,
}

impl CaService {
    pub(crate) fn new(options: Options, state: PathBuf) -> Self {
        Self { options, name_locks: NameLocks::new(), records: SigningRecordStore::new(state) }
    }

    /// Opens the configured backend for one call.
    pub(crate) fn connect_authority<'a>(
        &'a self,
        cx: &'a BlockingContext,
    ) -> Result<Box<dyn CertAuthority + 'a>, CaError> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        let timeout = Duration::from_secs(self.options.timeout).min(left);
        Ok(match self.options.backend {
            CaBackend::Api => Box::new(CaHttpClient::connect(&self.options, timeout)?),
            CaBackend::Command => {
                let cancel = cx.cancel_flag.clone();
                Box::new(CaCommandLine::new(&self.options, &*cx.system, timeout, cancel))
            }
        })
    }

    pub(crate) fn query_certificate(
        ca: &dyn CertAuthority,
        name: &CertName,
    ) -> Result<CertDetails, CaError> {
        let Some(entry) = ca.find_entry(name)? else {
            return Ok(CertDetails { state: "absent".to_owned(), ..CertDetails::default() });
        };
        certificate_details(ca, name, entry)
    }

    /// Signs the request of a name if it matches the fingerprint or public key of `spec`. Returns whether this call signed it, or would
    /// sign it, and the details of the certificate; in a noop, those of the request.
    pub(crate) fn sign_verified_request(
        &self,
        ca: &dyn CertAuthority,
        spec: &SigningSpec,
    ) -> Result<(bool, CertDetails), CaError> {
        let name = &spec.name;
        if spec.fingerprint.is_none() && spec.public_key.is_none() && !self.options.allow_unproven {
            return Err(CaError::Unproven { name: name.clone() });
        }
        let no_request = || CaError::NoRequest { name: name.clone() };
        let entry = ca.find_entry(name)?.ok_or_else(no_request)?;
        match entry.state {
            CertState::Signed => return Ok((false, self.check_signed(ca, spec, entry)?)),
            CertState::Revoked => return Err(CaError::Revoked { name: name.clone() }),
            CertState::Requested => {}
        }
        let request = match ca.read_request(name)? {
            Some(pem) => Some(map_document_error(name, CertificateRequest::parse(&pem))?),
            None => None,
        };
        self.check_request(spec, &entry, request.as_ref())?;
        if spec.is_noop {
            return Ok((true, certificate_details(ca, name, entry)?));
        }
        if let Some(request) = &request {
            let record = SigningRecord {
                fingerprint: request.fingerprint.clone(),
                public_key: request.public_key.clone(),
            };
            // Written before signing, because the authority deletes the request when it signs.
            self.records.write_record(name, &record)?;
        }
        match ca.sign_request(name, spec.ttl) {
            Ok(()) => {}
            // Another call may have signed it in between, or a rule of the authority forbids it.
            Err(CaError::Conflict { text }) => {
                return match ca.find_entry(name)? {
                    Some(entry) if entry.state == CertState::Signed => {
                        Ok((false, self.check_signed(ca, spec, entry)?))
                    }
                    _ => Err(CaError::Conflict { text }),
                };
            }
            Err(error) => return Err(error),
        }
        let no_certificate = || CaError::NoCertificate { name: name.clone() };
        let entry = ca.find_entry(name)?.ok_or_else(no_certificate)?;
        let details = certificate_details(ca, name, entry)?;
        let is_replaced = request.is_some_and(|request| {
            !details.public_key.is_empty()
                && !same_fingerprint(&request.public_key, &details.public_key)
        });
        // The request was replaced between the check and the signing, so the certificate has an unchecked key.
        if is_replaced {
            ca.revoke_certificate(name)?;
            return Err(CaError::RequestReplaced { name: name.clone() });
        }
        Ok((true, details))
    }

    /// Whether a pending request may be signed for this caller.
    fn check_request(
        &self,
        spec: &SigningSpec,
        entry: &CertEntry,
        request: Option<&CertificateRequest>,
    ) -> Result<(), CaError> {
        let name = &spec.name;
        if let Some(request) = request
            && request.name != name.as_str()
        {
            return Err(CaError::Document {
                name: name.clone(),
                problem: format!("it is a request for `{}`", request.name.escape_debug()),
            });
        }
        let found =
            request.map_or_else(|| entry.sha256_fingerprint(), |request| &request.fingerprint);
        check_fingerprint(name, "fingerprint", spec.fingerprint.as_deref(), found)?;
        let found = request.map_or("not available", |request| &request.public_key);
        check_fingerprint(name, "public key", spec.public_key.as_deref(), found)?;
        let own_name = format!("DNS:{name}");
        let request_names = request.map(|request| request.alt_names.as_slice());
        let mut names = [&entry.dns_alt_names, &entry.subject_alt_names]
            .into_iter()
            .flatten()
            .chain(request_names.unwrap_or_default());
        if !self.options.allow_alt_names
            && let Some(other) =
                names.find(|other| **other != own_name && **other != *name.as_str())
        {
            return Err(CaError::Disallowed {
                name: name.clone(),
                item: format!("the alternative name `{}`", other.escape_debug()),
                rule: "plugins.puppetca.allow_alt_names",
            });
        }
        let entry_extensions = entry.authorization_extensions.keys();
        let request_extensions = request.map(|request| request.authorisations.as_slice());
        let mut extensions = entry_extensions.chain(request_extensions.unwrap_or_default());
        if !self.options.allow_authorization_extensions
            && let Some(extension) = extensions.next()
        {
            return Err(CaError::Disallowed {
                name: name.clone(),
                item: format!("the authorization extension `{}`", extension.escape_debug()),
                rule: "plugins.puppetca.allow_authorization_extensions",
            });
        }
        Ok(())
    }

    /// The details of a signed name, if the certificate was issued for the given request.
    fn check_signed(
        &self,
        ca: &dyn CertAuthority,
        spec: &SigningSpec,
        entry: CertEntry,
    ) -> Result<CertDetails, CaError> {
        let name = &spec.name;
        let details = certificate_details(ca, name, entry)?;
        let mismatch = |problem: &str| {
            Err(CaError::OtherSigned { name: name.clone(), problem: problem.to_owned() })
        };
        if let Some(expected) = &spec.public_key
            && !same_fingerprint(expected, &details.public_key)
        {
            return mismatch("its public key differs");
        }
        if let Some(expected) = &spec.fingerprint
            && !same_fingerprint(expected, &details.fingerprint)
        {
            // The authority has deleted the request. The record written before signing identifies it, if the certificate has its key.
            return match self.records.read_record(name)? {
                Some(record) if !same_fingerprint(&record.fingerprint, expected) => {
                    mismatch("the signed request had another fingerprint")
                }
                Some(record) if !same_fingerprint(&record.public_key, &details.public_key) => {
                    mismatch("its public key is not that of the request that was signed here")
                }
                Some(_) => Ok(details),
                None if spec.public_key.is_some() => Ok(details),
                None => mismatch(
                    "this agent has no record of its request; compare by `public_key` instead",
                ),
            };
        }
        Ok(details)
    }

    /// Revokes the certificate of a name, unless `is_noop`. Returns whether it was valid before, and its serial number.
    pub(crate) fn revoke_certificate(
        ca: &dyn CertAuthority,
        name: &CertName,
        is_noop: bool,
    ) -> Result<(bool, String), CaError> {
        let no_certificate = || CaError::NoCertificate { name: name.clone() };
        let entry = ca.find_entry(name)?.ok_or_else(no_certificate)?;
        match entry.state {
            CertState::Requested => Err(no_certificate()),
            CertState::Revoked => Ok((false, certificate_details(ca, name, entry)?.serial)),
            CertState::Signed => {
                let serial = certificate_details(ca, name, entry)?.serial;
                if !is_noop {
                    ca.revoke_certificate(name)?;
                }
                Ok((true, serial))
            }
        }
    }

    /// Revokes the certificate of a name, then deletes its certificate, request and record; with `is_noop`, only reports that.
    pub(crate) fn clean_certificate(
        &self,
        ca: &dyn CertAuthority,
        name: &CertName,
        is_noop: bool,
    ) -> Result<PuppetcaCleanOutput, CaError> {
        let Some(entry) = ca.find_entry(name)? else {
            if !is_noop {
                self.records.remove_record(name)?;
            }
            let message = "the CA has no entry for this name".to_owned();
            return Ok(PuppetcaCleanOutput { message, ..PuppetcaCleanOutput::default() });
        };
        let is_signed = entry.state == CertState::Signed;
        let serial = certificate_details(ca, name, entry)?.serial;
        let output = |message: &str| PuppetcaCleanOutput {
            certname: name.to_string(),
            found: true,
            changed: true,
            revoked: is_signed && !is_noop,
            serial,
            message: message.to_owned(),
        };
        if is_noop {
            return Ok(output(if is_signed {
                "would revoke the certificate and remove it"
            } else {
                "would remove the entry; there is no valid certificate to revoke"
            }));
        }
        if is_signed {
            match ca.revoke_certificate(name) {
                // Another call may have revoked or deleted it in between.
                Err(CaError::Conflict { .. }) => {}
                result => result?,
            }
        }
        ca.delete_entry(name)?;
        self.records.remove_record(name)?;
        Ok(output(if is_signed {
            "revoked the certificate and removed it"
        } else {
            "removed the entry; there was no valid certificate to revoke"
        }))
    }
}

fn check_fingerprint(
    name: &CertName,
    item: &'static str,
    expected: Option<&str>,
    found: &str,
) -> Result<(), CaError> {
    match expected {
        Some(expected) if !same_fingerprint(expected, found) => Err(CaError::Mismatch {
            name: name.clone(),
            item,
            found: found.to_owned(),
            expected: expected.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn map_document_error<T>(
    name: &CertName,
    result: Result<T, CertificateParseError>,
) -> Result<T, CaError> {
    result.map_err(|error| CaError::Document { name: name.clone(), problem: error.to_string() })
}

/// Combines the authority's entry with the contents of the request or certificate.
fn certificate_details(
    ca: &dyn CertAuthority,
    name: &CertName,
    entry: CertEntry,
) -> Result<CertDetails, CaError> {
    let to_seconds =
        |text: &Option<String>| text.as_deref().and_then(parse_utc_seconds).unwrap_or(0);
    let mut details = CertDetails {
        state: entry.state.as_str().to_owned(),
        fingerprint: entry.sha256_fingerprint().to_owned(),
        public_key: String::new(),
        serial: entry
            .serial_number
            .and_then(|serial| serial.as_u64())
            .map_or_else(String::new, |serial| format!("{serial:X}")),
        not_before: to_seconds(&entry.not_before),
        not_after: to_seconds(&entry.not_after),
        dns_alt_names: entry.dns_alt_names,
        authorization_extensions: entry.authorization_extensions,
    };
    if entry.state == CertState::Requested {
        if let Some(pem) = ca.read_request(name)? {
            let request = map_document_error(name, CertificateRequest::parse(&pem))?;
            (details.fingerprint, details.public_key) = (request.fingerprint, request.public_key);
        }
    } else if let Some(pem) = ca.read_certificate(name)? {
        let certificate = map_document_error(name, CertificateInfo::parse(&pem))?;
        details.fingerprint = certificate.fingerprint;
        details.public_key = certificate.public_key;
        details.serial = certificate.serial;
        details.not_before = certificate.not_before;
        details.not_after = certificate.not_after;
    }
    Ok(details)
}

/// Parses `2030-11-20T02:00:00UTC` into seconds since 1970.
fn parse_utc_seconds(text: &str) -> Option<i64> {
    let text = text.strip_suffix("UTC").unwrap_or(text).trim_end_matches('Z');
    let timestamp: jiff::Timestamp = format!("{text}Z").parse().ok()?;
    Some(timestamp.as_second())
}
