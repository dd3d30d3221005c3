//! Tests of tokens, envelopes, enrolment, bundles and freshness through public interfaces.
//!
//! One binary with one module per subject; `world` has the organisation that the tests use.

#[cfg(test)]
mod approvals;
mod audit;
#[cfg(test)]
mod catalogs;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod creds;
#[cfg(test)]
mod enroller;
#[cfg(test)]
mod enrolment;
#[cfg(test)]
mod every_kind;
#[cfg(test)]
mod freshness;
#[cfg(test)]
mod goldens;
#[cfg(test)]
mod journal;
#[cfg(test)]
#[path = "../../../tests/src/memory_enrolment_store.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the end-to-end tests")]
mod memory_enrolment_store;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod names;
#[cfg(test)]
mod newcomer_names;
#[cfg(test)]
mod nkeys;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod sealed;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod succession;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod weak_keys;
#[cfg(test)]
mod world;
