//! Parses X.509 requests and certificates from untrusted PEM text.

use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension, SubjectAlternativeName};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

/// Largest PEM text of one request or certificate, in bytes.
pub const MAX_PEM_BYTES: u64 = 64 * 1024;
/// Prefix of Puppet's certificate extensions that grant permissions at the authority (`ppAuthCertExt`).
const AUTHORISATION_OID_PREFIX: &str = "1.3.6.1.4.1.34380.1.3.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The common name.
    pub name: String,
    /// SHA-256 of the whole request.
    pub fingerprint: String,
    /// SHA-256 of the public key, with its algorithm (`SubjectPublicKeyInfo`).
    pub public_key: String,
    /// Alternative names, as Puppet's authority formats them.
    pub alt_names: Vec<String>,
    /// Object identifiers of requested extensions that grant permissions.
    pub authorisations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// The common name; empty if there is none.
    pub name: String,
    /// SHA-256 of the whole certificate.
    pub fingerprint: String,
    /// SHA-256 of the public key, with its algorithm.
    pub public_key: String,
    /// Serial number in upper-case hexadecimal, without leading zeros.
    pub serial: String,
    /// Start of validity, in seconds since 1970.
    pub not_before: i64,
    /// End of validity, in seconds since 1970.
    pub not_after: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateParseError {
    /// The text is not PEM, or is a PEM block of another type.
    #[error("{0}")]
    Pem(String),
    #[error("malformed DER data: {0}")]
    Malformed(String),
    /// The subject has no common name, or more than one.
    #[error("the subject must have exactly one common name")]
    Name,
}

impl CertificateRequest {
    /// Does not verify the signature; the authority does.
    pub fn parse(pem: &str) -> Result<Self, CertificateParseError> {
        let der = decode_pem_block(pem, &["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"])?;
        let (rest, request) = X509CertificationRequest::from_der(&der)
            .map_err(|error| CertificateParseError::Malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(CertificateParseError::Malformed(
                "unexpected data after the request".to_owned(),
            ));
        }
        let info = &request.certification_request_info;
        let mut alt_names = Vec::new();
        let mut authorisations = Vec::new();
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute()
            else {
                continue;
            };
            for extension in &requested.extensions {
                let oid = extension.oid.to_id_string();
                match extension.parsed_extension() {
                    ParsedExtension::SubjectAlternativeName(names) => {
                        alt_names.extend(format_alt_names(names));
                    }
                    _ if oid.starts_with(AUTHORISATION_OID_PREFIX) => authorisations.push(oid),
                    _ => {}
                }
            }
        }
        Ok(Self {
            name: common_name(&info.subject).ok_or(CertificateParseError::Name)?,
            fingerprint: sha256_fingerprint(&der),
            public_key: sha256_fingerprint(info.subject_pki.raw),
            alt_names,
            authorisations,
        })
    }
}

impl CertificateInfo {
    /// Parses the first certificate of a PEM text. Does not verify it.
    pub fn parse(pem: &str) -> Result<Self, CertificateParseError> {
        let der = decode_pem_block(pem, &["CERTIFICATE"])?;
        let (_, certificate) = X509Certificate::from_der(&der)
            .map_err(|error| CertificateParseError::Malformed(error.to_string()))?;
        Ok(Self {
            name: common_name(certificate.subject()).unwrap_or_default(),
            fingerprint: sha256_fingerprint(&der),
            public_key: sha256_fingerprint(certificate.public_key().raw),
            serial: format!("{:X}", certificate.tbs_certificate.serial),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
        })
    }
}

/// Decodes the first PEM block with one of these labels.
fn decode_pem_block(pem: &str, labels: &[&str]) -> Result<Vec<u8>, CertificateParseError> {
    let problem = match Pem::iter_from_buffer(pem.as_bytes()).next() {
        Some(Ok(block)) if labels.contains(&block.label.as_str()) => return Ok(block.contents),
        Some(Ok(block)) => format!("unexpected PEM block `{}`", block.label.escape_debug()),
        Some(Err(error)) => format!("not PEM text: {error}"),
        None => "no PEM block found".to_owned(),
    };
    Err(CertificateParseError::Pem(problem))
}

fn common_name(subject: &X509Name<'_>) -> Option<String> {
    let mut names = subject.iter_common_name();
    let (Some(name), None) = (names.next(), names.next()) else { return None };
    name.as_str().ok().map(str::to_owned)
}

fn format_alt_names(names: &SubjectAlternativeName<'_>) -> Vec<String> {
    let format_name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => format!("DNS:{name}"),
        GeneralName::RFC822Name(name) => format!("email:{name}"),
        GeneralName::URI(name) => format!("URI:{name}"),
        GeneralName::IPAddress(bytes) => format!("IP:{}", format_ip_address(bytes)),
        other => format!("{other:?}"),
    };
    names.general_names.iter().map(format_name).collect()
}

fn format_ip_address(bytes: &[u8]) -> String {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return std::net::Ipv4Addr::from(octets).to_string();
    }
    <[u8; 16]>::try_from(bytes).map_or_else(
        |_| format!("{bytes:?}"),
        |octets| std::net::Ipv6Addr::from(octets).to_string(),
    )
}

/// Formats a SHA-256 fingerprint as Puppet does: upper-case hexadecimal with colons.
pub fn sha256_fingerprint(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// Whether two fingerprints are equal, regardless of how they are written.
pub fn same_fingerprint(one: &str, other: &str) -> bool {
    let normalise = |text: &str| text.replace(':', "").to_ascii_uppercase();
    normalise(one) == normalise(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, PublicKeyData as _};

    use super::{CertificateInfo, CertificateRequest, same_fingerprint, sha256_fingerprint};

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    #[test]
    fn parses_name_key_alternative_names_and_authorisations() {
        let key = KeyPair::generate().unwrap();
        let plain = params("web1.acme.net").serialize_request(&key).unwrap();
        let read = CertificateRequest::parse(&plain.pem().unwrap()).unwrap();
        assert_eq!(read.name, "web1.acme.net");
        assert_eq!(read.fingerprint, sha256_fingerprint(plain.der()));
        assert_eq!(read.public_key, sha256_fingerprint(&key.subject_public_key_info()));
        assert!(read.alt_names.is_empty() && read.authorisations.is_empty());

        let mut greedy =
            CertificateParams::new(vec!["puppet".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        greedy.distinguished_name = params("web1.acme.net").distinguished_name;
        let oid = [1, 3, 6, 1, 4, 1, 34380, 1, 3, 39];
        // A UTF8String "true", in the encoding that Puppet uses for extensions.
        let yes = vec![12, 4, b't', b'r', b'u', b'e'];
        greedy.custom_extensions = vec![CustomExtension::from_oid_content(&oid, yes)];
        let greedy = greedy.serialize_request(&key).unwrap().pem().unwrap();
        let read = CertificateRequest::parse(&greedy).unwrap();
        assert_eq!(read.alt_names, ["DNS:puppet", "IP:10.0.0.1"]);
        assert_eq!(read.authorisations, ["1.3.6.1.4.1.34380.1.3.39"]);
    }

    #[test]
    fn parses_serial_key_and_validity() {
        let key = KeyPair::generate().unwrap();
        let mut params = params("web1.acme.net");
        params.serial_number = Some(rcgen::SerialNumber::from(47_u64));
        let made = params.self_signed(&key).unwrap();
        let read = CertificateInfo::parse(&made.pem()).unwrap();
        assert_eq!(read.serial, "2F");
        assert_eq!(read.public_key, sha256_fingerprint(&key.subject_public_key_info()));
        assert!(read.not_before < read.not_after);
        assert!(CertificateRequest::parse(&made.pem()).is_err());
    }

    #[test]
    fn fingerprints_are_equal_with_and_without_colons() {
        assert!(same_fingerprint("AB:cd", "abCD"));
        assert!(!same_fingerprint("AB:CD", "AB:CE"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,300}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = CertificateRequest::parse(&text);
            let _ = CertificateInfo::parse(&text);
            let made = rcgen_pem(&bytes);
            prop_assert!(CertificateRequest::parse(&made).is_err());
        }
    }

    /// Arbitrary bytes in the PEM armour of a request.
    fn rcgen_pem(bytes: &[u8]) -> String {
        use std::fmt::Write as _;
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks_exact(3) {
            let [a, b, c] = chunk else { continue };
            let word = u32::from(*a) << 16 | u32::from(*b) << 8 | u32::from(*c);
            for shift in [18, 12, 6, 0] {
                let index = usize::try_from((word >> shift) & 63).unwrap_or(0);
                let _ = write!(text, "{}", char::from(ALPHABET[index]));
            }
        }
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
    }
}
