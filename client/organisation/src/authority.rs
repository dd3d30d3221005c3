//! The TLS certificate authority of an organisation, and the broker certificate that it signs.

use std::net::IpAddr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use crate::OrganisationError;

/// Validity of the certificates in years. Long, because access is controlled by tokens, which can be revoked.
const VALIDITY_YEARS: i16 = 10;

/// Names that every broker certificate has, for clients on the broker's own host.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate and its secret key, both in PEM.
#[derive(Clone)]
pub(crate) struct CertificateWithKey {
    /// The certificate, public.
    pub certificate: String,
    /// The secret key.
    pub key: String,
}

impl std::fmt::Debug for CertificateWithKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Generates a certificate authority.
pub(crate) fn generate_authority(
    organisation: &str,
) -> Result<CertificateWithKey, OrganisationError> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(organisation)?.self_signed(&key)?;
    Ok(CertificateWithKey { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Generates a broker certificate for these host names and addresses, signed with the authority's key.
pub(crate) fn issue_broker_certificate(
    organisation: &str,
    authority_key: &str,
    hosts: &[String],
) -> Result<CertificateWithKey, OrganisationError> {
    // Servers of a cluster connect to each other with the same certificate, as servers and as clients.
    let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    issue_server_certificate(organisation, authority_key, hosts, usages)
}

/// Generates a certificate of a server for these host names and addresses and these uses, signed with the authority's key.
pub(crate) fn issue_server_certificate(
    organisation: &str,
    authority_key: &str,
    hosts: &[String],
    usages: Vec<ExtendedKeyUsagePurpose>,
) -> Result<CertificateWithKey, OrganisationError> {
    let params = authority_params(organisation)?;
    let issuer = Issuer::from_params(&params, KeyPair::from_pem(authority_key)?);
    let names = hosts.iter().map(String::as_str).chain(LOCAL_HOSTS).map(str::to_owned);
    let mut broker = CertificateParams::new(names.collect::<Vec<_>>())?;
    let first = hosts.first().map_or("localhost", String::as_str);
    // X.509 limits a common name to 64 characters; clients check the alternative names only.
    let common: String = first.chars().take(64).collect();
    broker.distinguished_name = DistinguishedName::new();
    broker.distinguished_name.push(DnType::CommonName, common);
    broker.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    broker.extended_key_usages = usages;
    broker.use_authority_key_identifier_extension = true;
    set_validity(&mut broker);
    let key = KeyPair::generate()?;
    let certificate = broker.signed_by(&key, &issuer)?;
    Ok(CertificateWithKey { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Certificate parameters of the authority. The subject must be the same at each use, because certificates name their issuer by it.
fn authority_params(organisation: &str) -> Result<CertificateParams, OrganisationError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, "Muster authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params);
    Ok(params)
}

/// Whether a text is an IP address or a host name, so that a certificate can contain it.
pub(crate) fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_well_formed =
            !label.is_empty() && label.len() <= 63 && label.chars().all(is_allowed);
        is_well_formed && !label.starts_with('-') && !label.ends_with('-')
    };
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(label))
}

/// Sets the validity period. It starts yesterday to tolerate clock differences.
fn set_validity(params: &mut CertificateParams) {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let from = today.yesterday().unwrap_or(today);
    let until =
        Date::new(today.year().saturating_add(VALIDITY_YEARS), today.month(), 1).unwrap_or(today);
    let midnight = |date: Date| {
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = midnight(from);
    params.not_after = midnight(until);
}

#[cfg(test)]
mod tests {
    use super::{generate_authority, is_host, issue_broker_certificate};

    #[test]
    fn hosts_are_names_or_addresses() {
        for good in ["broker.acme.net", "localhost", "10.0.0.1", "::1", "2001:db8::1"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "a b", "-a", "a..b", "tls://a", "a:4222", "grüße.net", &"x".repeat(64)] {
            assert!(!is_host(bad), "{bad}");
        }
    }

    #[test]
    fn secrets_stay_out_of_debug() {
        let authority = generate_authority("acme").unwrap();
        let made =
            issue_broker_certificate("acme", &authority.key, &["broker.acme.net".to_owned()])
                .unwrap();
        for secret in [authority, made] {
            assert!(secret.key.contains("PRIVATE KEY"));
            assert!(!format!("{secret:?}").contains("PRIVATE"));
            assert!(secret.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        }
    }
}
