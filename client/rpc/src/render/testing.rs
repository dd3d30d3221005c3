//! Sample results for the tests of renderers.

pub(crate) use muster_request::testing::{reply, report};

/// Removes colour codes.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
