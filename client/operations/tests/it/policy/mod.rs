//! Tests of policies as files through the crate's public functions.

#[cfg(test)]
mod files;
