//! The program that generates the documents in `ddl/agents` from the types of this crate, and compares them.

#[cfg(test)]
mod definitions;
#[cfg(test)]
mod generator;
