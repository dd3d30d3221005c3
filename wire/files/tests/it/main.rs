//! Which files are read as secrets, and which control a daemon.

#[cfg(test)]
mod files;
#[cfg(test)]
mod partial;
#[cfg(test)]
mod protected;
#[cfg(test)]
mod regular;
