//! What the daemon decides about releases.

use std::fmt;

use muster_wire::Millis;
use muster_wire::catalog::release::{ApplyTimes, OpenPromotion, ReleaseRefusal, ReleasedEntry};
use muster_wire::catalog::{CatalogAddress, CatalogRefusal, CompiledCatalog, OpenCatalog};

/// The daemon's keys and policies.
pub trait ReleaseTrust: fmt::Debug + Send + Sync {
    /// The time by the node's clock.
    fn now(&self) -> Millis;

    /// Verifies who signed a promotion.
    fn open_promotion(&self, entry: &ReleasedEntry) -> Result<OpenPromotion, ReleaseRefusal>;

    /// Whether the promoter may promote releases to this node, by its token and by the node's policies; the rule that denies it otherwise.
    fn permits(&self, promotion: &OpenPromotion) -> Result<(), String>;

    /// Whether a node may apply its catalog by itself now.
    fn is_open(&self, times: &ApplyTimes) -> bool;

    /// Verifies that a compiler signed this catalog for this node.
    fn verify_catalog(
        &self,
        bytes: &[u8],
        address: CatalogAddress,
    ) -> Result<CompiledCatalog, CatalogRefusal>;

    /// Puts the secrets of a catalog back, with the key of the node.
    fn decrypt_catalog(&self, catalog: &CompiledCatalog) -> Result<OpenCatalog, CatalogRefusal>;
}
