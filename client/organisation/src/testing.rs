//! Organisations for unit tests.

use std::path::Path;

use muster_wire::Millis;

use crate::{Organisation, OrganisationSpec, create_organisation};

/// A time after the issue of the organisation's first tokens, in milliseconds.
pub(crate) const NOW: Millis = 1_800_000_000_000;

/// A new organisation in this directory.
pub(crate) fn organisation(directory: &Path) -> Organisation {
    create(directory, false)
}

/// A new organisation in this directory whose broker uses TLS.
pub(crate) fn organisation_with_tls(directory: &Path) -> Organisation {
    create(directory, true)
}

fn create(directory: &Path, tls: bool) -> Organisation {
    let plan = OrganisationSpec {
        directory: directory.join("org"),
        name: Some("acme".to_owned()),
        collectives: vec!["muster".parse().unwrap()],
        hosts: Vec::new(),
        port: 4222,
        tls,
    };
    create_organisation(plan, NOW - 1_000_000).unwrap()
}
