//! Where the brokers are, for the account token of the fleet: nodes and callers follow it.

use muster_files::files;
use muster_wire::token::{BrokerRecord, BrokerSite};

use crate::{MAX_FILE_BYTES, Organisation, OrganisationError};

impl Organisation {
    /// The addresses and authorities of the description; `None` if the broker selects a free port at each start.
    pub(crate) fn broker_record(&self) -> Result<Option<BrokerRecord>, OrganisationError> {
        let broker = &self.profile().broker;
        if broker.port < 0 {
            return Ok(None);
        }
        let authorities = if broker.tls {
            files::read_text(&self.layout().authority_certificate(), MAX_FILE_BYTES)?
        } else {
            String::new()
        };
        let mut sites = vec![BrokerSite { name: String::new(), urls: broker.urls.clone() }];
        sites.extend(
            broker
                .leafs
                .iter()
                .map(|leaf| BrokerSite { name: leaf.name.to_string(), urls: leaf.urls.clone() }),
        );
        Ok(Some(BrokerRecord { sites, authorities }))
    }
}
