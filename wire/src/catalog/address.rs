//! The address of a catalog: the SHA-256 of its bytes without version and id.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Digits of the address that are a catalog's version.
const VERSION_DIGITS: usize = 12;

/// The SHA-256 of a catalog's stored form, without `version` and `catalog_uuid`, which are derived from it. As text: 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CatalogAddress([u8; 32]);

/// The text is not the address of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address of a catalog has 64 digits, 0-9 and a-f")]
pub struct InvalidAddress;

impl CatalogAddress {
    /// Reads 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| InvalidAddress)?;
        bytes.try_into().map(Self).map_err(|_| InvalidAddress)
    }

    /// The address of a catalog in its stored form. Whatever `version` and `catalog_uuid` it has do not count.
    pub fn of_catalog(catalog: &mut Map<String, Value>) -> Self {
        let named = ["version", "catalog_uuid"].map(|key| (key, catalog.remove(key)));
        let value = Value::Object(std::mem::take(catalog));
        let address = Self(Sha256::digest(value.to_string()).into());
        if let Value::Object(map) = value {
            *catalog = map;
        }
        let present = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        catalog.extend(present);
        address
    }

    /// Sets `version` and `catalog_uuid` of a catalog from its address, so that reports of runs name it.
    pub fn name_catalog(self, catalog: &mut Map<String, Value>) {
        catalog.insert("version".to_owned(), self.version().into());
        catalog.insert("catalog_uuid".to_owned(), self.catalog_id().to_string().into());
    }

    /// The first 12 digits, which are the version of the catalog.
    pub fn version(self) -> String {
        self.to_string().chars().take(VERSION_DIGITS).collect()
    }

    /// The `catalog_uuid`, made of the first half of the address.
    pub fn catalog_id(self) -> Uuid {
        let half = self.0.first_chunk::<16>().copied().unwrap_or_default();
        uuid::Builder::from_custom_bytes(half).into_uuid()
    }
}

crate::impl_text_form!(CatalogAddress, InvalidAddress);

impl fmt::Display for CatalogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for CatalogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
