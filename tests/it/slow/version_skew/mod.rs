//! Programs of this commit and of an earlier one work together: `rpc`, nodes, services and organisations of either version. `tools/earlier` builds the
//! programs; `docs/guides/installation.md` lists what needs a step of the administrator.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

mod fixture;
mod in_place;
mod matrix;
mod organisation;
mod state_files;
mod unknown_fields;
