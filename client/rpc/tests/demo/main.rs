//! A demonstration with a real broker. The daemon is played by this very test program.

#[cfg(test)]
mod actor;
#[cfg(test)]
mod life;
