//! The TLS authority of an organisation, and the broker's certificate that it signs.

use std::net::IpAddr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::OrganisationError;

/// How long the certificates are valid, in years. Who may connect is decided by tokens, which can be revoked.
const YEARS: i16 = 10;

/// Names by which the broker is always reached from its own host.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// An authority and a certificate that it signed, all in PEM.
#[derive(Clone)]
pub struct Certificates {
    /// The authority's certificate, for everybody.
    pub authority: String,
    /// The authority's secret key.
    pub authority_key: String,
    /// The broker's certificate.
    pub broker: String,
    /// The broker's secret key.
    pub broker_key: String,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// Makes a new authority, and a certificate for a broker that is reached under these names and addresses.
pub fn make(organisation: &str, hosts: &[String]) -> Result<Certificates, OrganisationError> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name.push(
        DnType::CommonName,
        format!("{organisation} Muster authority"),
    );
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    limit(&mut authority);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let names = hosts
        .iter()
        .map(String::as_str)
        .chain(LOCAL)
        .map(str::to_owned);
    let mut broker = CertificateParams::new(names.collect::<Vec<_>>())?;
    let first = hosts.first().map_or("localhost", String::as_str);
    // A common name has at most 64 characters; browsers and rustls look at the alternative names only.
    broker.distinguished_name.push(
        DnType::CommonName,
        first.chars().take(64).collect::<String>(),
    );
    broker.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    broker.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    broker.use_authority_key_identifier_extension = true;
    limit(&mut broker);
    let broker_key = KeyPair::generate()?;
    let certificate = broker.signed_by(&broker_key, &authority)?;

    Ok(Certificates {
        authority: authority.pem(),
        authority_key: authority.key().serialize_pem(),
        broker: certificate.pem(),
        broker_key: broker_key.serialize_pem(),
    })
}

/// Whether a text is an address or a host name, and so can be in a certificate.
pub fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let whole = !label.is_empty() && label.len() <= 63 && label.chars().all(belongs);
        whole && !label.starts_with('-') && !label.ends_with('-')
    };
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(label))
}

/// From yesterday on, because clocks differ.
fn limit(params: &mut CertificateParams) {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let from = today.yesterday().unwrap_or(today);
    let until = Date::new(today.year().saturating_add(YEARS), today.month(), 1).unwrap_or(today);
    let midnight = |date: Date| {
        date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    params.not_before = midnight(from);
    params.not_after = midnight(until);
}

#[cfg(test)]
mod tests {
    use super::{is_host, make};

    #[test]
    fn hosts_are_names_or_addresses() {
        for good in [
            "broker.acme.net",
            "localhost",
            "10.0.0.1",
            "::1",
            "2001:db8::1",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            "a b",
            "-a",
            "a..b",
            "tls://a",
            "a:4222",
            "grüße.net",
            &"x".repeat(64),
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }

    #[test]
    fn secrets_stay_out_of_debug() {
        let made = make("acme", &["broker.acme.net".to_owned()]).unwrap();
        assert!(made.authority_key.contains("PRIVATE KEY"));
        assert!(!format!("{made:?}").contains("PRIVATE"));
        assert!(made.broker.starts_with("-----BEGIN CERTIFICATE-----"));
    }
}
