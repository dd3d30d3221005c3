//! `has_cert` and `request_certificate`: Puppet's certificate of this node, and the request for one.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext, CallContext, EmptyInput};
use muster_contract::provision::{
    CertificateRequestState, HasCertOutput, RequestCertificateInput, RequestCertificateOutput,
};

use crate::certificate::{
    CertificateInfo, CertificateRequest, public_key_fingerprint, verify_certificate,
};

use super::server_arguments;
use crate::outcome::first_error_line;
use crate::puppet::{PuppetRunner, PuppetSettings, printable_tail};
use crate::step_context::StepContext;

/// Files of an earlier CA that are removed, by the names of Puppet's settings. The request is kept, so that a repeated call finds it.
const STALE_CERTIFICATE_SETTINGS: [&str; 3] = ["hostcert", "localcacert", "hostcrl"];
/// Puppet's message when the CA already has a certificate or request of that name.
const CONFLICT_MESSAGE: &str = "due to a conflict on the server";

pub(crate) fn check_certificate_files(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<HasCertOutput, ActionError> {
    let puppet = context.puppet_runner(cx, context.options.request_timeout);
    check_certificate(&puppet, &puppet.read_settings()?, cx)
}

fn check_certificate(
    puppet: &PuppetRunner<'_>,
    settings: &PuppetSettings,
    cx: &CallContext,
) -> Result<HasCertOutput, ActionError> {
    let mut found = HasCertOutput {
        has_cert: false,
        problem: String::new(),
        certname: settings.certname.clone(),
        fingerprint: String::new(),
        public_key: String::new(),
        serial: String::new(),
        not_after: 0,
    };
    let missing = |item: &str, setting: &str| {
        format!("there is no {item} in {}", settings.setting_path(setting).display())
    };
    let Some(certificate) = puppet.read_text(&settings.setting_path("hostcert"))? else {
        found.problem = missing("certificate", "hostcert");
        return Ok(found);
    };
    match CertificateInfo::parse(&certificate) {
        Ok(info) if info.name == settings.certname => {
            found.fingerprint = info.fingerprint;
            found.public_key = info.public_key;
            found.serial = info.serial;
            found.not_after = info.not_after;
        }
        Ok(info) => {
            found.problem =
                format!("the certificate is for `{}`, not for this node", info.name.escape_debug());
            return Ok(found);
        }
        Err(error) => {
            found.problem = format!("cannot parse the certificate: {error}");
            return Ok(found);
        }
    }
    let Some(key) = puppet.read_text(&settings.setting_path("hostprivkey"))? else {
        found.problem = missing("private key", "hostprivkey");
        return Ok(found);
    };
    let Some(authority) = puppet.read_text(&settings.setting_path("localcacert"))? else {
        found.problem = missing("CA certificate", "localcacert");
        return Ok(found);
    };
    let revoked = puppet.read_text(&settings.setting_path("hostcrl"))?;
    let now = cx.system.now();
    match verify_certificate(&certificate, &key, &authority, revoked.as_deref(), now) {
        Ok(()) => found.has_cert = true,
        Err(error) => found.problem = format!("the certificate is not valid: {error}"),
    }
    Ok(found)
}

pub(crate) fn request_certificate(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    RequestCertificateInput { fresh, server, port, fence }: RequestCertificateInput,
) -> Result<RequestCertificateOutput, ActionError> {
    let server = server_arguments(server.as_deref(), port)?;
    context.admit_step(cx, fence)?;
    let puppet = context.puppet_runner(cx, context.options.request_timeout);
    let settings = puppet.read_settings()?;
    if fresh {
        for setting in STALE_CERTIFICATE_SETTINGS {
            cx.system.remove_file(&settings.setting_path(setting))?;
        }
    }
    submit_request(&puppet, &settings, &server, cx)
}

/// Submits the request, and reads the submitted request from disk.
fn submit_request(
    puppet: &PuppetRunner<'_>,
    settings: &PuppetSettings,
    server: &[String],
    cx: &CallContext,
) -> Result<RequestCertificateOutput, ActionError> {
    let mut args = vec!["ssl", "submit_request", "--color=false"];
    args.extend(server.iter().map(String::as_str));
    let output = puppet.run(&args)?;
    let text = output.combined_text();
    let is_conflict = text.contains(CONFLICT_MESSAGE);
    if !output.is_success() && !is_conflict {
        return Err(ActionError::failed(format!(
            "Puppet did not submit the certificate request (exit code {}): {}",
            output.code,
            first_error_line(&text)
        )));
    }
    let mut answer = RequestCertificateOutput {
        state: if is_conflict {
            CertificateRequestState::Pending
        } else {
            CertificateRequestState::Submitted
        },
        certname: settings.certname.clone(),
        fingerprint: String::new(),
        public_key: String::new(),
        csr: String::new(),
        output: printable_tail(&output),
    };
    let path = settings.setting_path("hostcsr");
    let key = puppet.read_text(&settings.setting_path("hostprivkey"))?;
    let key = key.as_deref().and_then(public_key_fingerprint);
    if let Some(csr) = puppet.read_text(&path)? {
        let to_error = |problem: String| {
            ActionError::failed(format!(
                "the certificate request in {} is not usable: {problem}",
                path.display()
            ))
        };
        let request =
            CertificateRequest::parse(&csr).map_err(|error| to_error(error.to_string()))?;
        if request.name != settings.certname {
            return Err(to_error(format!(
                "it is for `{}`, not for this node",
                request.name.escape_debug()
            )));
        }
        // A request that was submitted just now is on disk. After a conflict, only a request with this key is ours.
        if !is_conflict || key.as_ref() == Some(&request.public_key) {
            answer.fingerprint = request.fingerprint;
            answer.public_key = request.public_key;
            answer.csr = csr;
            return Ok(answer);
        }
    }
    // A CA with autosign has replied with the certificate, and Puppet has removed the request.
    let found = check_certificate(puppet, settings, cx)?;
    if found.has_cert {
        answer.state = CertificateRequestState::Signed;
        answer.public_key = found.public_key;
        return Ok(answer);
    }
    Err(ActionError::failed(format!(
        "the CA already has a request or certificate for `{}` that does not belong to this node; clean the name on the CA, then request the certificate again",
        settings.certname
    )))
}
