//! The way to one broker, judged step by step.

use std::time::Duration;

use muster_bus::{Probe, ProbeFailure};

use super::{Finding, Section};

/// Certificates that end sooner are told of, in days.
const SOON_DAYS: i64 = 14;
/// A name that takes longer than this delays every command.
const SLOW_NAME: Duration = Duration::from_millis(500);

/// What a look at the broker at this address shows.
pub fn section(url: &str, seen: &Probe) -> Section {
    let mut findings = Vec::new();
    if !seen.addresses.is_empty() {
        findings.push(name(seen));
    }
    if let Some((address, after)) = seen.reached {
        let took = after.as_secs_f64() * 1e3;
        findings.push(Finding::ok(
            "connection",
            format!("{address} in {took:.1} ms"),
        ));
    }
    if let Some(version) = &seen.version {
        findings.push(Finding::ok("server", format!("nats-server {version}")));
    }
    findings.extend(seen.certificate_days().map(certificate));
    findings.extend(seen.failure.as_ref().map(failure));
    Section {
        about: format!("Broker {url}"),
        here: true,
        findings,
    }
}

fn name(seen: &Probe) -> Finding {
    let count = seen.addresses.len();
    let addresses = if count == 1 { "address" } else { "addresses" };
    let took = seen.resolving.as_secs_f64() * 1e3;
    let message = format!("{count} {addresses} in {took:.1} ms");
    if seen.resolving > SLOW_NAME {
        return Finding::warning("name", message).advising("look at this machine's resolver");
    }
    Finding::ok("name", message)
}

fn certificate(days: i64) -> Finding {
    let message = format!("certificate good, {days} more days");
    if days < SOON_DAYS {
        return Finding::warning("tls", message).advising(
            "`rpc org` renews it where the organisation is kept; restart the broker then",
        );
    }
    Finding::ok("tls", message)
}

fn failure(failure: &ProbeFailure) -> Finding {
    let (check, advice) = match failure {
        ProbeFailure::Name { .. } => (
            "name",
            "look at `broker.urls` in the configuration, and at the resolver",
        ),
        ProbeFailure::Unreachable { .. } => (
            "connection",
            "is the broker running, and does a firewall stand between?",
        ),
        ProbeFailure::Greeting { .. } => ("server", "something else listens on that port"),
        ProbeFailure::Authority { .. } => ("tls", "take the organisation's ca.pem"),
        ProbeFailure::Tls { .. } => (
            "tls",
            "the certificate must be made for this host name, by the authority in the configuration",
        ),
    };
    Finding::error(check, failure.to_string()).advising(advice)
}
