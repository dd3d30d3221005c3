//! Tests of bundles through the crate's public functions: the format and the verification of signers, and the files on a node.

// `world` is shared with the tests of the wire format and has identifiers of requests.
use uuid as _;

mod bundles;
mod install;
mod ruby_ddls;
#[path = "../../../../../wire/tests/it/world.rs"]
#[expect(dead_code, reason = "the tests of the wire format use the rest")]
mod world;
