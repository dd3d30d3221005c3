//! Tests of the crate through its public items.

#[cfg(test)]
mod bundle;
mod doctor;
mod policy;
