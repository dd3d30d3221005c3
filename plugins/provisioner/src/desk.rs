//! The service as its agent sees it: reads what is kept, and writes what somebody asks for. Every host can; the leader notices.

use std::sync::Arc;

use muster_api::ActionError;
use muster_api::wire::identity::Identity;
use muster_bus::Bus;
use tokio::sync::watch;
use uuid::Uuid;

use crate::leader::{self, Leader};
use crate::record::{Record, State};
use crate::service::now;
use crate::store::{RecordError, Store};

/// The way to the store, as soon as there is a connection.
#[derive(Debug, Clone)]
pub struct Desk {
    bus: Arc<watch::Sender<Option<Bus>>>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            bus: Arc::new(watch::Sender::new(None)),
        }
    }
}

impl Desk {
    /// Gives the desk its broker, a connection with the rights of a service.
    pub fn connect(&self, bus: Bus) {
        self.bus.send_replace(Some(bus));
    }

    fn store(&self) -> Result<Store, ActionError> {
        let bus = self.bus.borrow().clone();
        let bus = bus.ok_or_else(|| ActionError::failed("the service has no broker yet"))?;
        Ok(Store::open(&bus))
    }

    /// Every node that is known, by name.
    pub(crate) async fn all(&self) -> Result<Vec<Record>, ActionError> {
        self.store()?.all().await.map_err(told)
    }

    /// Who leads.
    pub(crate) async fn leader(&self) -> Result<Option<Leader>, ActionError> {
        let store = self.store()?;
        let leader = leader::current(store.bucket()).await;
        leader.map_err(|error| ActionError::failed(error.to_string()))
    }

    /// Changes a node; `change` says whether there was anything to change.
    pub(crate) async fn change(
        &self,
        node: &Identity,
        mut change: impl FnMut(&mut Record) -> bool,
    ) -> Result<(Record, bool), ActionError> {
        let mut changed = false;
        let store = self.store()?;
        let edited = store.edit(node, |record| {
            changed = change(record);
            Ok(changed)
        });
        let (record, _) = edited.await.map_err(told)?;
        Ok((record, changed))
    }

    /// Takes a node out of the fleet, also one that was never provisioned here.
    pub(crate) async fn retire(
        &self,
        node: &Identity,
        by: &Identity,
    ) -> Result<(Record, bool), ActionError> {
        let mut record = Record::new(node.clone(), Uuid::now_v7(), now());
        record.retire(by, now());
        if self.store()?.create(&record).await.map_err(told)? {
            return Ok((record, true));
        }
        self.change(node, |record| {
            let wanted = record.state != State::Retired;
            record.retire(by, now());
            wanted
        })
        .await
    }
}

fn told(error: RecordError) -> ActionError {
    match error {
        RecordError::Unknown(node) => {
            ActionError::invalid(format!("no provisioning of {node} is known"))
        }
        other => ActionError::failed(other.to_string()),
    }
}
