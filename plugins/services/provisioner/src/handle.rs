//! Gives the agent access to the service's records: reads them, and writes the requests of operators. Works on every host; the leader watches the
//! records.

use std::sync::Arc;

use muster_api::ActionError;
use muster_api::wire::identity::Identity;
use muster_base::unix_millis_now;
use muster_bus::Bus;
use muster_bus::leader::{self, LeaderRecord};
use muster_contract::provisioner::ProvisioningState;
use tokio::sync::watch;
use uuid::Uuid;

use crate::record::NodeRecord;
use crate::store::{NodeRecordError, NodeRecordStore};

/// Access to the record store once there is a broker connection.
#[derive(Debug, Clone)]
pub struct ProvisionerHandle {
    bus: Arc<watch::Sender<Option<Bus>>>,
}

impl Default for ProvisionerHandle {
    fn default() -> Self {
        Self { bus: Arc::new(watch::Sender::new(None)) }
    }
}

impl ProvisionerHandle {
    /// Sets the broker connection, which needs the permissions of a service.
    pub fn connect(&self, bus: Bus) {
        self.bus.send_replace(Some(bus));
    }

    fn open_store(&self) -> Result<NodeRecordStore, ActionError> {
        let bus = self.bus.borrow().clone();
        let bus = bus.ok_or_else(|| ActionError::failed("not connected to the broker yet"))?;
        Ok(NodeRecordStore::open(&bus))
    }

    /// Records of all known nodes, by name.
    pub(crate) async fn list_records(&self) -> Result<Vec<NodeRecord>, ActionError> {
        Ok(self.open_store()?.list_records().await?)
    }

    pub(crate) async fn current_leader(&self) -> Result<Option<LeaderRecord>, ActionError> {
        let store = self.open_store()?;
        Ok(leader::current_leader(store.bucket()).await.map_err(NodeRecordError::from)?)
    }

    /// Changes a node's record; `change` returns whether there was anything to change.
    pub(crate) async fn change_record(
        &self,
        node: &Identity,
        mut change: impl FnMut(&mut NodeRecord) -> bool,
    ) -> Result<(NodeRecord, bool), ActionError> {
        let mut changed = false;
        let store = self.open_store()?;
        let edited = store.edit_record(node, |record| {
            changed = change(record);
            Ok(changed)
        });
        let (record, _) = edited.await?;
        Ok((record, changed))
    }

    /// Removes a node from the fleet, even if it was not provisioned by this service.
    pub(crate) async fn retire_node(
        &self,
        node: &Identity,
        caller: &Identity,
    ) -> Result<(NodeRecord, bool), ActionError> {
        let mut record = NodeRecord::new(node.clone(), Uuid::now_v7(), unix_millis_now());
        record.request_retirement(caller, unix_millis_now());
        if self.open_store()?.create_record(&record).await? {
            return Ok((record, true));
        }
        self.change_record(node, |record| {
            let is_changed = record.state != ProvisioningState::Retired;
            record.request_retirement(caller, unix_millis_now());
            is_changed
        })
        .await
    }
}

impl From<NodeRecordError> for ActionError {
    fn from(error: NodeRecordError) -> Self {
        match error {
            NodeRecordError::Unknown(_) => Self::invalid_input(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}
