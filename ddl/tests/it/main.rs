//! Tests of the crate through its public functions; one module per subject.

#![expect(clippy::needless_pass_by_value, reason = "inline JSON keeps the tests short")]

#[cfg(test)]
mod aggregates;
#[cfg(test)]
mod builtins;
#[cfg(test)]
mod classes;
#[cfg(test)]
mod coercion;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod support;
#[cfg(test)]
mod validation;
