//! What is signed, revoked and cleaned, whatever the way to the authority is. Everything here blocks.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::Context;
use muster_api::system::System;
use muster_api::system::command::Cancel;
use muster_certificate::{Certificate, DocumentError, Request, same};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::api::Api;
use crate::authority::{Authority, CaError, Entry, State};
use crate::book::{Book, Record};
use crate::command::CommandLine;
use crate::name::CertName;
use crate::options::{Backend, Options};

/// Options, and what is remembered.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) options: Options,
    book: Book,
}

/// What is known of a name, put together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// `absent` when the authority does not know it.
    pub(crate) state: &'static str,
    pub(crate) fingerprint: String,
    pub(crate) public_key: String,
    pub(crate) serial: String,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) dns_alt_names: Vec<String>,
    pub(crate) authorization_extensions: Map<String, Value>,
}

/// What a caller wants signed.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) name: CertName,
    pub(crate) fingerprint: Option<String>,
    pub(crate) public_key: Option<String>,
    pub(crate) ttl: Option<u64>,
}

/// What became of a name that was to be cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cleaned {
    pub(crate) found: bool,
    pub(crate) revoked: bool,
    pub(crate) serial: String,
}

impl Desk {
    pub(crate) fn new(options: Options, state: PathBuf) -> Self {
        Self {
            options,
            book: Book::new(state),
        }
    }

    /// The way to the authority that is configured, for one call.
    pub(crate) fn authority<'a>(
        &'a self,
        cx: &'a Context,
        cancel: Cancel,
    ) -> Result<Box<dyn Authority + 'a>, CaError> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        let timeout = Duration::from_secs(self.options.timeout).min(left);
        Ok(match self.options.backend {
            Backend::Api => Box::new(Api::connect(&self.options, timeout)?),
            Backend::Command => {
                let system: &dyn System = &*cx.system;
                Box::new(CommandLine::new(&self.options, system, timeout, cancel))
            }
        })
    }

    /// What is known of a name.
    pub(crate) fn look(ca: &dyn Authority, name: &CertName) -> Result<Known, CaError> {
        let Some(entry) = ca.status(name)? else {
            return Ok(Known {
                state: "absent",
                ..Known::default()
            });
        };
        known(ca, name, entry)
    }

    /// Signs the request of a name, if it is the one that is meant; tells whether it was signed now.
    pub(crate) fn sign(&self, ca: &dyn Authority, ask: &Ask) -> Result<(bool, Known), CaError> {
        let name = &ask.name;
        if ask.fingerprint.is_none() && ask.public_key.is_none() && !self.options.allow_unproven {
            return Err(CaError::Unproven { name: name.clone() });
        }
        let no_request = || CaError::NoRequest { name: name.clone() };
        let entry = ca.status(name)?.ok_or_else(no_request)?;
        match entry.state {
            State::Signed => return Ok((false, self.is_same(ca, ask, entry)?)),
            State::Revoked => return Err(CaError::Revoked { name: name.clone() }),
            State::Requested => {}
        }
        let request = match ca.request(name)? {
            Some(pem) => Some(parsed(name, Request::parse(&pem))?),
            None => None,
        };
        self.judge(ask, &entry, request.as_ref())?;
        if let Some(request) = &request {
            let record = Record {
                fingerprint: request.fingerprint.clone(),
                public_key: request.public_key.clone(),
            };
            self.book.write(name, &record)?;
        }
        match ca.sign(name, ask.ttl) {
            Ok(()) => {}
            // Somebody was quicker; or the authority has rules of its own.
            Err(CaError::Conflict { text }) => {
                return match ca.status(name)? {
                    Some(entry) if entry.state == State::Signed => {
                        Ok((false, self.is_same(ca, ask, entry)?))
                    }
                    _ => Err(CaError::Conflict { text }),
                };
            }
            Err(error) => return Err(error),
        }
        let no_certificate = || CaError::NoCertificate { name: name.clone() };
        let entry = ca.status(name)?.ok_or_else(no_certificate)?;
        let known = known(ca, name, entry)?;
        let swapped = request.is_some_and(|request| {
            !known.public_key.is_empty() && !same(&request.public_key, &known.public_key)
        });
        if swapped {
            ca.revoke(name)?;
            return Err(CaError::Swapped { name: name.clone() });
        }
        Ok((true, known))
    }

    /// Whether a request that waits may be signed for this caller.
    fn judge(&self, ask: &Ask, entry: &Entry, request: Option<&Request>) -> Result<(), CaError> {
        let name = &ask.name;
        if let Some(request) = request
            && request.name != name.as_str()
        {
            return Err(CaError::Document {
                name: name.clone(),
                problem: format!("it is a request of {}", request.name.escape_debug()),
            });
        }
        let found = request.map_or_else(|| entry.sha256(), |request| &request.fingerprint);
        compare(name, "fingerprint", ask.fingerprint.as_deref(), found)?;
        let found = request.map_or("not known this way", |request| &request.public_key);
        compare(name, "public key", ask.public_key.as_deref(), found)?;
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
                what: format!("another name, {}", other.escape_debug()),
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
                what: format!("rights by the extension {}", right.escape_debug()),
                rule: "plugins.puppetca.allow_authorization_extensions",
            });
        }
        Ok(())
    }

    /// What is known of a name that is signed, if it was signed for the request that is meant.
    fn is_same(&self, ca: &dyn Authority, ask: &Ask, entry: Entry) -> Result<Known, CaError> {
        let name = &ask.name;
        let known = known(ca, name, entry)?;
        let other = |problem: &str| {
            Err(CaError::OtherSigned {
                name: name.clone(),
                problem: problem.to_owned(),
            })
        };
        if let Some(asked) = &ask.public_key
            && !same(asked, &known.public_key)
        {
            return other("its public key is another one");
        }
        if let Some(asked) = &ask.fingerprint
            && !same(asked, &known.fingerprint)
        {
            // The request is gone; what was written down before it was signed tells, if the certificate is for its key.
            return match self.book.read(name)? {
                Some(record) if !same(&record.fingerprint, asked) => {
                    other("it was signed for another request")
                }
                Some(record) if !same(&record.public_key, &known.public_key) => {
                    other("it is for another key than the request that was signed here")
                }
                Some(_) => Ok(known),
                None if ask.public_key.is_some() => Ok(known),
                None => {
                    other("it was not signed here, and the request is gone; compare by public_key")
                }
            };
        }
        Ok(known)
    }

    /// Revokes the certificate of a name; tells whether it was valid before.
    pub(crate) fn revoke(ca: &dyn Authority, name: &CertName) -> Result<(bool, String), CaError> {
        let no_certificate = || CaError::NoCertificate { name: name.clone() };
        let entry = ca.status(name)?.ok_or_else(no_certificate)?;
        match entry.state {
            State::Requested => Err(no_certificate()),
            State::Revoked => Ok((false, known(ca, name, entry)?.serial)),
            State::Signed => {
                let serial = known(ca, name, entry)?.serial;
                ca.revoke(name)?;
                Ok((true, serial))
            }
        }
    }

    /// Revokes what is signed for a name, and removes all that is known of it.
    pub(crate) fn clean(&self, ca: &dyn Authority, name: &CertName) -> Result<Cleaned, CaError> {
        let Some(entry) = ca.status(name)? else {
            self.book.strike(name)?;
            return Ok(Cleaned {
                found: false,
                revoked: false,
                serial: String::new(),
            });
        };
        let is_signed = entry.state == State::Signed;
        let serial = known(ca, name, entry)?.serial;
        if is_signed {
            match ca.revoke(name) {
                // Somebody was quicker: it is revoked, or gone.
                Err(CaError::Conflict { .. }) => {}
                done => done?,
            }
        }
        ca.forget(name)?;
        self.book.strike(name)?;
        Ok(Cleaned {
            found: true,
            revoked: is_signed,
            serial,
        })
    }
}

fn compare(
    name: &CertName,
    what: &'static str,
    asked: Option<&str>,
    found: &str,
) -> Result<(), CaError> {
    match asked {
        Some(asked) if !same(asked, found) => Err(CaError::Mismatch {
            name: name.clone(),
            what,
            found: found.to_owned(),
            asked: asked.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn parsed<T>(name: &CertName, read: Result<T, DocumentError>) -> Result<T, CaError> {
    read.map_err(|error| CaError::Document {
        name: name.clone(),
        problem: error.to_string(),
    })
}

/// Puts together what the authority tells and what stands in request or certificate.
fn known(ca: &dyn Authority, name: &CertName, entry: Entry) -> Result<Known, CaError> {
    let moment = |text: &Option<String>| text.as_deref().and_then(seconds).unwrap_or(0);
    let mut known = Known {
        state: entry.state.word(),
        fingerprint: entry.sha256().to_owned(),
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
    if entry.state == State::Requested {
        if let Some(pem) = ca.request(name)? {
            let request = parsed(name, Request::parse(&pem))?;
            (known.fingerprint, known.public_key) = (request.fingerprint, request.public_key);
        }
    } else if let Some(pem) = ca.certificate(name)? {
        let certificate = parsed(name, Certificate::parse(&pem))?;
        known.fingerprint = certificate.fingerprint;
        known.public_key = certificate.public_key;
        known.serial = certificate.serial;
        known.not_before = certificate.not_before;
        known.not_after = certificate.not_after;
    }
    Ok(known)
}

/// `2030-11-20T02:00:00UTC` in seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    let text = text
        .strip_suffix("UTC")
        .unwrap_or(text)
        .trim_end_matches('Z');
    let moment: jiff::Timestamp = format!("{text}Z").parse().ok()?;
    Some(moment.as_second())
}
