//! Rotation of the TLS authority, in two steps. Start: `ca.pem` has the certificates of the present and of a new authority; every node
//! and client gets that file. Finish: the broker's certificate is of the new authority, and `ca.pem` has only that.
//!
//! Does not distribute `ca.pem` and does not reload the broker.

use muster_files::files;

use crate::authority::{self, CertificateWithKey};
use crate::{MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationLock, RotationStart};

/// First line of a certificate in PEM.
const CERTIFICATE_HEADER: &str = "-----BEGIN CERTIFICATE-----";

impl Organisation {
    /// Creates a new authority, and adds its certificate to `ca.pem`. If that was done before, and the rotation is not finished, nothing changes.
    pub fn start_authority_rotation(
        &self,
        _lock: &OrganisationLock,
    ) -> Result<RotationStart, OrganisationError> {
        if !self.profile().broker.tls {
            return Err(OrganisationError::PlainText);
        }
        let (next, start) = match self.read_next_authority()? {
            Some(next) => (next, RotationStart::Continued),
            None => (self.create_next_authority()?, RotationStart::Started),
        };
        let path = self.layout().authority_certificate();
        let trusted = files::read_text(&path, MAX_FILE_BYTES)?;
        if !trusted.contains(next.certificate.trim()) {
            let both = format!("{}\n{}", trusted.trim_end(), next.certificate);
            files::replace_public(&path, both.as_bytes())?;
        }
        Ok(start)
    }

    /// Issues the broker a certificate of the new authority, and removes the old authority from `ca.pem`. Returns whether a rotation was in progress.
    /// The file of the new authority is removed last, so an interrupted call can be repeated.
    pub fn finish_authority_rotation(
        &self,
        _lock: &OrganisationLock,
    ) -> Result<bool, OrganisationError> {
        let Some(next) = self.read_next_authority()? else {
            return Ok(false);
        };
        let layout = self.layout();
        files::replace_secret(&layout.authority_key(), next.key.as_bytes())?;
        self.write_certificate(&broker_hosts(&self.profile().broker.urls))?;
        files::replace_public(&layout.authority_certificate(), next.certificate.as_bytes())?;
        let path = layout.next_authority();
        std::fs::remove_file(&path).map_err(files::file_error("remove", &path))?;
        Ok(true)
    }

    fn create_next_authority(&self) -> Result<CertificateWithKey, OrganisationError> {
        let next = authority::generate_authority(&self.profile().name)?;
        let text = format!("{}{}", next.key, next.certificate);
        files::replace_secret(&self.layout().next_authority(), text.as_bytes())?;
        Ok(next)
    }

    fn read_next_authority(&self) -> Result<Option<CertificateWithKey>, OrganisationError> {
        let path = self.layout().next_authority();
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_secret(&path, MAX_FILE_BYTES)?;
        let start = text.find(CERTIFICATE_HEADER).unwrap_or(text.len());
        let (key, certificate) = text.split_at(start);
        Ok(Some(CertificateWithKey { certificate: certificate.to_owned(), key: key.to_owned() }))
    }
}

/// The host names and addresses in the URLs of the broker.
pub(crate) fn broker_hosts(urls: &[String]) -> Vec<String> {
    let host = |url: &String| {
        let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address);
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']').to_owned()
    };
    urls.iter().map(host).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{CERTIFICATE_HEADER, broker_hosts};
    use crate::RotationStart;
    use crate::testing::organisation_with_tls;

    #[test]
    fn hosts_of_urls_have_neither_scheme_nor_port_nor_brackets() {
        let urls = ["tls://b.acme.net:4222", "tls://[2001:db8::1]:4222"].map(str::to_owned);
        assert_eq!(broker_hosts(&urls), ["b.acme.net", "2001:db8::1"]);
    }

    #[test]
    fn both_authorities_are_trusted_until_the_rotation_is_finished() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation_with_tls(directory.path());
        let lock = organisation.lock().unwrap();
        let layout = organisation.layout();
        let read = |path| fs::read_to_string(path).unwrap();
        let (old, old_broker) =
            (read(layout.authority_certificate()), read(layout.broker_certificate()));
        assert!(!organisation.finish_authority_rotation(&lock).unwrap());
        let started = organisation.start_authority_rotation(&lock).unwrap();
        assert_eq!(started, RotationStart::Started);
        let both = read(layout.authority_certificate());
        assert!(both.starts_with(old.trim_end()));
        assert_eq!(both.matches(CERTIFICATE_HEADER).count(), 2);
        let again = organisation.start_authority_rotation(&lock).unwrap();
        assert_eq!(again, RotationStart::Continued);
        assert_eq!(read(layout.authority_certificate()), both);
        assert_eq!(read(layout.broker_certificate()), old_broker);
        assert!(organisation.finish_authority_rotation(&lock).unwrap());
        let new = read(layout.authority_certificate());
        assert_eq!(new.matches(CERTIFICATE_HEADER).count(), 1);
        assert!(both.contains(new.trim()) && !old.contains(new.trim()));
        assert_ne!(read(layout.broker_certificate()), old_broker);
        assert!(!layout.next_authority().exists());
    }
}
