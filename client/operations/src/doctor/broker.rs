//! Checks the connection to one broker, step by step.

use std::time::Duration;

use muster_base::format_duration;
use muster_bus::{BrokerAddress, BrokerProbe, BrokerProbeFailure, probe_broker};
use muster_client::RpcSettings;

use super::finding::{DiagnosisFinding, DiagnosisLevel, DiagnosisSection};

/// Days before expiry from which a certificate is reported.
const EXPIRY_WARNING_DAYS: i64 = 14;
/// A name resolution slower than this delays every command noticeably.
const SLOW_RESOLUTION_TIME: Duration = Duration::from_millis(500);
/// What to do with a configured address that the account token no longer has.
const LEFT_ADDRESS_ADVICE: &str = "the organisation no longer lists this address, and another one answers: remove it from `broker.urls` in the configuration";

/// Connects to the broker at this address, and evaluates what happens.
pub async fn check_broker(url: &str, settings: &RpcSettings) -> DiagnosisSection {
    let authority = settings.broker_place().authority;
    match BrokerAddress::parse(url, settings.plaintext_on_loopback) {
        Ok(server) => broker_section(url, &probe_broker(&server, authority.as_deref()).await),
        Err(error) => DiagnosisSection::single(
            format!("Broker {url}"),
            DiagnosisFinding::error("address", error.to_string()),
        ),
    }
}

/// The findings of an address that the account token no longer has, while another one answers: its errors stop no request.
#[must_use]
pub fn describe_left_address(mut section: DiagnosisSection) -> DiagnosisSection {
    for finding in &mut section.findings {
        if finding.level == DiagnosisLevel::Error {
            finding.level = DiagnosisLevel::Warning;
            finding.advice = Some(LEFT_ADDRESS_ADVICE.to_owned());
        }
    }
    section
}

/// Evaluates the probe.
fn broker_section(url: &str, probe: &BrokerProbe) -> DiagnosisSection {
    let mut findings = Vec::new();
    if !probe.addresses.is_empty() {
        findings.push(name_finding(probe));
    }
    if let Some((address, after)) = probe.reached {
        let took = format_duration(after);
        findings.push(DiagnosisFinding::ok("connection", format!("{address} in {took}")));
    }
    if let Some(version) = &probe.version {
        findings.push(DiagnosisFinding::ok("server", format!("nats-server {version}")));
    }
    findings.extend(probe.certificate_days().map(certificate_finding));
    findings.extend(probe.failure.as_ref().map(failure_finding));
    DiagnosisSection { about: format!("Broker {url}"), is_local: true, findings }
}

fn name_finding(probe: &BrokerProbe) -> DiagnosisFinding {
    let count = probe.addresses.len();
    let addresses = if count == 1 { "address" } else { "addresses" };
    let took = format_duration(probe.resolving);
    DiagnosisFinding::warning_if(
        probe.resolving > SLOW_RESOLUTION_TIME,
        "name",
        format!("{count} {addresses} in {took}"),
        "check this machine's DNS resolver",
    )
}

fn certificate_finding(days: i64) -> DiagnosisFinding {
    DiagnosisFinding::warning_if(
        days < EXPIRY_WARNING_DAYS,
        "tls",
        format!("certificate valid for {days} more days"),
        "issue a new one with `rpc broker rename --host NAME`, then restart the broker",
    )
}

fn failure_finding(failure: &BrokerProbeFailure) -> DiagnosisFinding {
    let (check, advice) = match failure {
        BrokerProbeFailure::Name { .. } => {
            ("name", "check `broker.urls` in the configuration, and the DNS resolver")
        }
        BrokerProbeFailure::Unreachable { .. } => (
            "connection",
            "check that the broker is running, and that no firewall blocks the connection; if it ended, `journalctl -u muster-broker | grep FTL | tail -n 1` on its host prints why",
        ),
        BrokerProbeFailure::Greeting { .. } => {
            ("server", "check that nats-server listens on that port")
        }
        BrokerProbeFailure::Authority { .. } => ("tls", "use the organisation's ca.pem"),
        BrokerProbeFailure::Tls { .. } => {
            ("tls", "the certificate must be issued for this host name by the configured authority")
        }
    };
    DiagnosisFinding::error(check, failure.to_string()).with_advice(advice)
}
