//! Tests of an organisation's directory through the crate's public functions. Nothing connects to a broker.

#[cfg(test)]
mod backup;
#[cfg(test)]
mod directory;
