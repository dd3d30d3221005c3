//! Where an organisation's brokers are, and which authorities sign their certificates. It is in the account token, so the operator signs it and all nodes and callers get it.

use serde::{Deserialize, Serialize};

/// The brokers of an organisation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerRecord {
    /// The broker, whose name is empty, and the leaf nodes. A node or caller follows the site that it uses.
    pub sites: Vec<BrokerSite>,
    /// PEM certificates of the authorities; empty without TLS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub authorities: String,
}

/// A broker, or a leaf node of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerSite {
    /// Name of the leaf node; empty for the broker itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Addresses of its servers, as in `broker.urls`.
    pub urls: Vec<String>,
}

impl BrokerRecord {
    /// The site of this name.
    pub fn site(&self, name: &str) -> Option<&BrokerSite> {
        self.sites.iter().find(|site| site.name == name)
    }

    /// The site that has one of these addresses. Other addresses, for example of a forwarded port, belong to none.
    pub fn site_of(&self, urls: &[String]) -> Option<&BrokerSite> {
        self.sites.iter().find(|site| site.urls.iter().any(|url| urls.contains(url)))
    }
}
