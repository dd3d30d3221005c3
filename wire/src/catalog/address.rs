//! The address of a catalog: the SHA-256 of its bytes without version and id.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::content::{ContentAddress, ContentAddressError};

/// Digits of the address that are a catalog's version.
const VERSION_DIGITS: usize = 12;

/// The SHA-256 of a catalog's stored form, without `version` and `catalog_uuid`, which are derived from it. As text: 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CatalogAddress(ContentAddress);

impl CatalogAddress {
    /// Reads 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, ContentAddressError> {
        ContentAddress::parse(text).map(Self)
    }

    /// The address of a catalog in its stored form. Whatever `version` and `catalog_uuid` it has do not count.
    pub fn of_catalog(catalog: &mut Map<String, Value>) -> Self {
        let named = ["version", "catalog_uuid"].map(|key| (key, catalog.remove(key)));
        let value = Value::Object(std::mem::take(catalog));
        let address = Self(ContentAddress::of(value.to_string().as_bytes()));
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
        let half = self.0.as_bytes().first_chunk::<16>().copied().unwrap_or_default();
        uuid::Builder::from_custom_bytes(half).into_uuid()
    }
}

crate::impl_text_form!(CatalogAddress, ContentAddressError);

impl fmt::Display for CatalogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CatalogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
