//! Tests of bundles through the crate's public functions: the format and the verification of signers, and the files on a node.

// `world` is shared with the tests of the wire format and has identifiers of requests.
#[cfg(test)]
use uuid as _;

#[cfg(test)]
mod bundles;
#[cfg(test)]
mod install;
#[cfg(test)]
mod ruby_ddls;
#[cfg(test)]
#[path = "../../../../wire/tests/it/world.rs"]
#[expect(dead_code, reason = "the tests of the wire format use the rest")]
mod world;
