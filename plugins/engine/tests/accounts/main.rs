//! Users and groups through the engine's door: in scratch roots, in memory, and by the programs of shadow-utils.

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
