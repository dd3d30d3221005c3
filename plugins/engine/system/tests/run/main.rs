//! Programs that are run, and programs that are talked to: on this machine, and inside a scratch root. Needs `sh`, and util-linux
//! for the scratch root.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod host;
