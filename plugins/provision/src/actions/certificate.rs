//! `has_cert` and `request_certificate`: Puppet's certificate of this node, and the request for one.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use muster_certificate::{Certificate, Request, public_key, verify};
use serde::{Deserialize, Serialize};

use super::{Nothing, server};
use crate::desk::Desk;
use crate::outcome::reason;
use crate::puppet::{Places, Puppet, failed, shown};

/// What is forgotten of an earlier authority, by the names of Puppet's settings. The request stays: asking twice must find it.
const EARLIER: [&str; 3] = ["hostcert", "localcacert", "hostcrl"];
/// What Puppet says when the authority has something of that name.
const CONFLICT: &str = "due to a conflict on the server";

pub(crate) struct HasCert(pub(crate) Arc<Desk>);
pub(crate) struct RequestCertificate(pub(crate) Arc<Desk>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Found {
    has_cert: bool,
    problem: String,
    certname: String,
    fingerprint: String,
    public_key: String,
    serial: String,
    not_after: i64,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    fresh: bool,
    server: Option<String>,
    port: Option<u64>,
    fence: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum State {
    Submitted,
    Pending,
    Signed,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Sent {
    state: State,
    certname: String,
    fingerprint: String,
    public_key: String,
    csr: String,
    output: String,
}

impl Action for HasCert {
    const NAME: &'static str = "has_cert";
    type Input = Nothing;
    type Output = Found;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Found, ActionError> {
        self.0
            .look(cx, |desk, cx, cancel| {
                let puppet = desk.puppet(cx, cancel, desk.options.request_timeout);
                let places = puppet.places()?;
                look(&puppet, &places, cx)
            })
            .await
    }
}

/// The certificate, and whether it is one.
fn look(puppet: &Puppet<'_>, places: &Places, cx: &Context) -> Result<Found, ActionError> {
    let mut found = Found {
        has_cert: false,
        problem: String::new(),
        certname: places.certname.clone(),
        fingerprint: String::new(),
        public_key: String::new(),
        serial: String::new(),
        not_after: 0,
    };
    let missing = |what: &str, setting: &str| {
        format!("there is no {what} in {}", places.path(setting).display())
    };
    let Some(certificate) = puppet.text(&places.path("hostcert"))? else {
        found.problem = missing("certificate", "hostcert");
        return Ok(found);
    };
    match Certificate::parse(&certificate) {
        Ok(read) if read.name == places.certname => {
            found.fingerprint = read.fingerprint;
            found.public_key = read.public_key;
            found.serial = read.serial;
            found.not_after = read.not_after;
        }
        Ok(read) => {
            found.problem = format!("it is the certificate of {}", read.name.escape_debug());
            return Ok(found);
        }
        Err(error) => {
            found.problem = format!("the certificate cannot be read: {error}");
            return Ok(found);
        }
    }
    let Some(key) = puppet.text(&places.path("hostprivkey"))? else {
        found.problem = missing("private key", "hostprivkey");
        return Ok(found);
    };
    let Some(authority) = puppet.text(&places.path("localcacert"))? else {
        found.problem = missing("certificate of an authority", "localcacert");
        return Ok(found);
    };
    let revoked = puppet.text(&places.path("hostcrl"))?;
    let now = cx.system.now();
    match verify(&certificate, &key, &authority, revoked.as_deref(), now) {
        Ok(()) => found.has_cert = true,
        Err(unfit) => found.problem = format!("the certificate is none: {unfit}"),
    }
    Ok(found)
}

impl Action for RequestCertificate {
    const NAME: &'static str = "request_certificate";
    type Input = Input;
    type Output = Sent;

    async fn run(&self, cx: &Context, input: Input) -> Result<Sent, ActionError> {
        let server = server(input.server.as_deref(), input.port)?;
        self.0
            .step(cx, input.fence, move |desk, cx, cancel| {
                let puppet = desk.puppet(cx, cancel, desk.options.request_timeout);
                let places = puppet.places()?;
                if input.fresh {
                    for setting in EARLIER {
                        let removed = cx.system.remove_file(&places.path(setting));
                        removed.map_err(|error| failed(&error))?;
                    }
                }
                submit(&puppet, &places, &server, cx)
            })
            .await
    }
}

/// Sends the request, and reads what was sent.
fn submit(
    puppet: &Puppet<'_>,
    places: &Places,
    server: &[String],
    cx: &Context,
) -> Result<Sent, ActionError> {
    let mut words = vec!["ssl", "submit_request", "--color=false"];
    words.extend(server.iter().map(String::as_str));
    let output = puppet.run(&words).map_err(|error| failed(&error))?;
    let text = output.text();
    let is_conflict = text.contains(CONFLICT);
    if !output.success() && !is_conflict {
        return Err(ActionError::failed(format!(
            "the request was not sent (exit code {}): {}",
            output.code,
            reason(&text)
        )));
    }
    let mut answer = Sent {
        state: if is_conflict {
            State::Pending
        } else {
            State::Submitted
        },
        certname: places.certname.clone(),
        fingerprint: String::new(),
        public_key: String::new(),
        csr: String::new(),
        output: shown(&output),
    };
    let path = places.path("hostcsr");
    let key = puppet.text(&places.path("hostprivkey"))?;
    let key = key.as_deref().and_then(public_key);
    if let Some(csr) = puppet.text(&path)? {
        let unusable = |problem: String| {
            ActionError::failed(format!(
                "the request in {} cannot be used: {problem}",
                path.display()
            ))
        };
        let request = Request::parse(&csr).map_err(|error| unusable(error.to_string()))?;
        if request.name != places.certname {
            return Err(unusable(format!(
                "it is one of {}",
                request.name.escape_debug()
            )));
        }
        // What was sent just now is on the disk. Of what was sent earlier, only a request for this key is ours.
        if !is_conflict || key.as_ref() == Some(&request.public_key) {
            answer.fingerprint = request.fingerprint;
            answer.public_key = request.public_key;
            answer.csr = csr;
            return Ok(answer);
        }
    }
    // An authority that signs by itself has answered with the certificate, and Puppet has removed the request.
    let found = look(puppet, places, cx)?;
    if found.has_cert {
        answer.state = State::Signed;
        answer.public_key = found.public_key;
        return Ok(answer);
    }
    Err(ActionError::failed(format!(
        "the authority has a request or certificate of {} that this node does not have: clean the name there, and ask again",
        places.certname
    )))
}
