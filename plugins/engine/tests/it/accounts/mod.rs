//! Users and groups through the public API of the engine: in scratch roots, in memory, and with the programs of shadow-utils.

#[cfg(test)]
mod edges;
#[cfg(test)]
mod files;
#[cfg(test)]
mod node;
#[cfg(test)]
mod settling;
#[cfg(test)]
mod tools;
