//! Where ours differs from Puppet on purpose. Everything else is a defect; so is an entry that does not differ any more.

/// One of them.
#[derive(Debug)]
pub(crate) struct Known {
    /// The scenario.
    pub(crate) scenario: &'static str,
    /// A part of the place of the difference.
    pub(crate) place: &'static str,
    /// Why ours is as it is.
    #[expect(dead_code, reason = "for whoever reads the table")]
    pub(crate) reason: &'static str,
}

/// All of them.
pub(crate) const KNOWN: &[Known] = &[];
