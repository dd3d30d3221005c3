//! Commands and interactive processes on the real root and in a scratch root. Needs `sh`, and util-linux for the scratch root.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod host;
