//! What is known of a form's node and sender, besides the content.

/// What every form says besides its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormSource<'a> {
    /// The node, by its name in the fleet. What a document says of its own node is not used.
    pub certname: &'a str,
    /// The environment; a report may name another one.
    pub environment: &'a str,
    /// Who sends it.
    pub producer: &'a str,
    /// `PuppetDB` ignores facts and catalogs that are older than those it has. Milliseconds since the epoch.
    pub producer_timestamp: u64,
}
