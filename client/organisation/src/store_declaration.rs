//! Creates the fleet's stores in the broker, and updates existing ones: rules, limits that are too low, and replicas.
//!
//! A store is created only if it never existed, and no server can have it. A server that stored streams before it belonged to a cluster still has their
//! files, and removes them when the stream is created on another server: its files are adopted. A server that does not answer may have such files too. A
//! store that an earlier push declared, and that no server has, was lost: its backup cannot be restored any more once it is created again.

use std::path::PathBuf;

use muster_bus::{BucketDeclaration, BucketReplicas, BucketSettingChange};
use muster_files::files;
use muster_wire::Millis;
use muster_wire::stores::{self, BucketDefinition};

use crate::push::PushError;
use crate::server_reports::{ServerVariables, StorageServers, SystemClient};
use crate::{MAX_FILE_BYTES, Organisation, OrganisationError, renewal};

/// File with the names of the stores that were declared, one per line. Organisations of earlier versions have none until their next push.
const DECLARED_FILE: &str = "declared-stores.txt";

/// How the stores are declared.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreOptions {
    /// Number of replicas. Without a number, a cluster of three or more servers gets three, and never fewer than now.
    pub replicas: Option<usize>,
    /// What to do about stores that do not exist.
    pub missing: MissingStores,
}

/// Which of the stores that do not exist are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum MissingStores {
    /// Those that no server can have, and that no earlier push declared.
    #[default]
    CreateNew,
    /// Lost ones too: no server has them.
    CreateLost,
    /// All, although servers do not answer, which may have them.
    CreateAll,
}

/// What a push changed of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreChange {
    /// The bucket.
    pub store: &'static str,
    /// The change.
    pub kind: StoreChangeKind,
}

/// A change of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChangeKind {
    /// Created with this many replicas.
    Created(usize),
    /// Adopted from the files of this server.
    Adopted(String),
    /// These settings were changed.
    Updated(Vec<BucketSettingChange>),
}

impl Organisation {
    /// Creates the fleet's stores in the broker, and updates existing ones. A broker without `JetStream` has no stores.
    pub async fn declare_stores(
        &self,
        options: StoreOptions,
        now: Millis,
    ) -> Result<Vec<StoreChange>, PushError> {
        let servers = self.query_storage_servers().await?;
        let default = BucketReplicas::AtLeast(servers.default_replicas());
        let replicas = options.replicas.map_or(default, BucketReplicas::Exactly);
        let bus = self.connect_administrator(now).await?;
        let declared = self.declared_stores()?;
        let mut changes = Vec::new();
        for store in stores::fleet_buckets(&self.store_uses()?) {
            let mut add = |kind| changes.push(StoreChange { store: store.name, kind });
            let is_declared = declared.lines().any(|name| name == store.name);
            if (servers.cluster_size > 1 || is_declared)
                && !bus.has_bucket(store.name).await?
                && let Some(server) = find_holder(store, &servers, is_declared, options)?
            {
                bus.adopt_bucket(store, server).await?;
                add(StoreChangeKind::Adopted(server.to_owned()));
            }
            match bus.declare_bucket(store, replicas).await? {
                BucketDeclaration::Created(count) => add(StoreChangeKind::Created(count)),
                BucketDeclaration::Updated(settings) if settings.is_empty() => {}
                BucketDeclaration::Updated(settings) => add(StoreChangeKind::Updated(settings)),
            }
            if !is_declared {
                let line = format!("{}\n", store.name);
                files::append_public(&self.declared_file(), line.as_bytes())
                    .map_err(OrganisationError::from)?;
            }
        }
        renewal::move_former_tokens(&self.fleet_trust()?, &bus, now).await?;
        bus.close().await?;
        Ok(changes)
    }

    /// Whether a push has declared the store.
    pub(crate) fn has_declared(&self, store: &BucketDefinition) -> Result<bool, OrganisationError> {
        Ok(self.declared_stores()?.lines().any(|name| name == store.name))
    }

    /// Checks that each server has the space of the account of the stores, because one with less would offer it no `JetStream`.
    pub async fn check_storage_space(&self) -> Result<(), PushError> {
        let uses = self.store_uses()?;
        if uses.is_empty() {
            return Ok(());
        }
        let needed = stores::account_storage_bytes(&uses);
        let client = SystemClient::connect(self).await?;
        let servers = client.ask::<ServerVariables>("VARZ", "{}").await?;
        client.close().await?;
        let is_small = |server: &ServerVariables| {
            server.jetstream.config.as_ref().is_some_and(|offered| offered.max_storage < needed)
        };
        let small = servers.iter().filter(|(_, server)| is_small(server));
        let small: Vec<&str> = small.map(|(name, _)| name.as_str()).collect();
        if small.is_empty() {
            return Ok(());
        }
        Err(PushError::SmallServers { servers: small.join(", "), mebibytes: needed >> 20 })
    }

    /// The names of the stores that were declared, one per line.
    fn declared_stores(&self) -> Result<String, OrganisationError> {
        match files::read_text(&self.declared_file(), MAX_FILE_BYTES) {
            Err(error) if error.is_missing() => Ok(String::new()),
            read => Ok(read?),
        }
    }

    fn declared_file(&self) -> PathBuf {
        self.layout().directory().join(DECLARED_FILE)
    }
}

/// The server that has files of a store which the cluster does not have; `None` if no server can have it and none had it.
fn find_holder<'a>(
    store: &BucketDefinition,
    servers: &'a StorageServers,
    is_declared: bool,
    options: StoreOptions,
) -> Result<Option<&'a str>, PushError> {
    let missing = servers.cluster_size.saturating_sub(servers.answered);
    match servers.holders.get(&stores::stream_name(store.name)).map_or(&[][..], Vec::as_slice) {
        _ if missing > 0 && options.missing < MissingStores::CreateAll => {
            Err(PushError::SilentServers {
                store: store.name,
                missing,
                servers: servers.cluster_size,
            })
        }
        [] if is_declared && options.missing < MissingStores::CreateLost => {
            Err(PushError::LostStore(store.name))
        }
        [] => Ok(None),
        [server] => Ok(Some(server)),
        several => Err(PushError::SeveralHolders(store.name, several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::stores::{self, TRUST_BUCKET};

    use super::{MissingStores, StoreOptions, find_holder};
    use crate::server_reports::StorageServers;

    #[test]
    fn store_is_created_only_if_no_server_can_have_it() {
        let [lost, create] = [MissingStores::CreateLost, MissingStores::CreateAll]
            .map(|missing| StoreOptions { missing, ..StoreOptions::default() });
        let push = StoreOptions::default();
        for (answered, holders, is_declared, options, expected) in [
            (3, &[][..], false, push, Ok(None)),
            (3, &["a"], false, push, Ok(Some("a"))),
            (3, &["a"], true, push, Ok(Some("a"))),
            (3, &["a", "b"], false, push, Err("a, b")),
            (2, &[], false, push, Err("1 of 3 servers")),
            (2, &["a"], false, push, Err("1 of 3 servers")),
            (3, &[], true, push, Err("has lost the store TRUST")),
            (3, &[], true, lost, Ok(None)),
            (2, &[], true, lost, Err("1 of 3 servers")),
            (3, &[], true, create, Ok(None)),
            (2, &[], true, create, Ok(None)),
            (1, &["a"], false, create, Ok(Some("a"))),
            (2, &["a", "b"], false, create, Err("a, b")),
        ] {
            let mut servers =
                StorageServers { cluster_size: 3, answered, ..StorageServers::default() };
            let stream = stores::stream_name(TRUST_BUCKET.name);
            servers.holders.insert(stream, holders.iter().map(|name| (*name).to_owned()).collect());
            let found = find_holder(&TRUST_BUCKET, &servers, is_declared, options);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }
}
