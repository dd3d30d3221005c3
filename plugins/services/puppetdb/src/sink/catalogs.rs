//! Sends the released catalog of a node when it is given another one, and what its compile read.

use std::sync::Arc;
use std::time::Duration;

use muster_base::error_chain;
use muster_bus::BucketError;
use muster_bus::content::ContentError;
use muster_catalogs::handle::CompilerHandle;
use muster_catalogs::inputs::{CodeInput, InputName};
use muster_catalogs::releases::{ReleaseStore, ReleaseStoreError, ReleasedCatalog};
use muster_wire::catalog::release::ReleasedEntry;
use muster_wire::identity::Identity;
use tokio::time::sleep;
use uuid::Uuid;

use super::command::{CommandKind, PuppetdbCommand};
use super::sender::CommandSender;
use super::state::StateFile;
use crate::forms::{FormSource, catalog_form, inputs_form};

const RELEASED_PREFIX: &str = "released.";
const RELEASED_PATTERN: &str = "released.>";
/// Pause after an error of the broker.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Sends catalogs.
pub(super) struct ReleasedCatalogs {
    pub(super) handle: CompilerHandle,
    pub(super) releases: ReleaseStore,
    pub(super) sender: CommandSender,
    pub(super) state: Arc<StateFile>,
    pub(super) producer: String,
}

impl ReleasedCatalogs {
    pub(super) async fn follow(self) {
        loop {
            if let Err(error) = self.follow_once().await {
                tracing::debug!(%error, "cannot follow the released catalogs; opening the bucket again");
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Ends at an error of the broker. Then everything is read again, and what was sent is left out.
    async fn follow_once(&self) -> Result<(), BucketError> {
        let bucket = self.handle.catalogs().retry_until_dropped();
        let mut watch = bucket.watch(RELEASED_PATTERN).await?;
        while let Some(entry) = watch.next().await? {
            let name = entry.key.strip_prefix(RELEASED_PREFIX).unwrap_or_default();
            if let (Ok(node), Some(value)) = (Identity::parse(name), &entry.value) {
                self.sender.counts().set_waiting(CommandKind::Catalog, 1);
                self.send_entry(&node, value).await?;
                self.sender.counts().set_waiting(CommandKind::Catalog, 0);
            }
        }
        Ok(())
    }

    /// An entry that is not valid is left out until it changes, or until the next start.
    async fn send_entry(&self, node: &Identity, value: &[u8]) -> Result<(), BucketError> {
        let sent = self.state.node(node.as_str()).promotion;
        if sent.is_some() && sent == promotion_id(value) {
            return Ok(());
        }
        let (trust, tokens) = (self.handle.trust(), self.handle.tokens());
        match self.releases.read_released(node, value, &trust, tokens).await {
            Ok(Some(released)) => self.send_catalog(node, &released).await,
            Ok(None) => {}
            Err(
                ReleaseStoreError::Bucket(error)
                | ReleaseStoreError::Content(ContentError::Bucket(error)),
            ) => return Err(error),
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(%node, error, "cannot send the released catalog to PuppetDB");
            }
        }
        Ok(())
    }

    async fn send_catalog(&self, node: &Identity, released: &ReleasedCatalog) {
        let (name, promotion) = (node.as_str(), &released.promotion);
        let source = FormSource {
            certname: name,
            environment: &released.statement.environment,
            producer: &self.producer,
            // A later promotion replaces an earlier one, also with an older catalog.
            producer_timestamp: promotion.issued_at,
        };
        match catalog_form(&released.catalog, None, source) {
            Ok(form) => {
                let time = promotion.issued_at;
                let catalog = PuppetdbCommand::new(CommandKind::Catalog, name, time, form);
                self.sender.send(catalog).await;
                self.send_inputs(node, released, source).await;
            }
            Err(error) => {
                let form = serde_json::Map::new();
                let kind = CommandKind::Catalog;
                let command = PuppetdbCommand::new(kind, name, promotion.issued_at, form);
                self.sender.discard(&Arc::new(command), None, error_chain(&error)).await;
            }
        }
        self.state.edit_node(name, |sent| sent.promotion = Some(promotion.id));
    }

    /// Only the inputs of the newest compile are stored.
    async fn send_inputs(
        &self,
        node: &Identity,
        released: &ReleasedCatalog,
        source: FormSource<'_>,
    ) {
        let Some(compile) = self.handle.last_compile(node) else { return };
        let address = released.statement.address;
        if compile.record.catalog.is_none_or(|catalog| catalog.address != address) {
            return;
        }
        let inputs = compile.inputs.iter().map(|(name, _)| name_input(name));
        let form = inputs_form(inputs, address.catalog_id(), source);
        let time = source.producer_timestamp;
        let command = PuppetdbCommand::new(CommandKind::Inputs, source.certname, time, form);
        self.sender.send(command).await;
    }
}

/// The id of a promotion, to know one that was sent.
fn promotion_id(value: &[u8]) -> Option<Uuid> {
    let entry: ReleasedEntry = serde_json::from_slice(value).ok()?;
    entry.read_unverified().ok().map(|(promotion, _)| promotion.id)
}

/// The type of an input, which is free text, and its name. A key of a file of data is `hiera`, as from Puppet's own compiler.
fn name_input(input: &InputName) -> (String, String) {
    let (kind, name) = match input {
        InputName::Value(path, _) => ("fact", path.join(".")),
        InputName::Code(CodeInput::File(path, _)) => ("file", path.clone()),
        InputName::Code(CodeInput::Data(_, key)) => ("hiera", key.clone()),
        InputName::Code(CodeInput::Names) => ("code", "names".to_owned()),
        InputName::Code(CodeInput::All) => ("code", "all".to_owned()),
        InputName::Query(query) => ("query", query.clone()),
    };
    (kind.to_owned(), name)
}
