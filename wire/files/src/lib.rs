//! The files of a machine, read within limits and replaced whole. Contents are not interpreted.
//!
//! Which function reads a file depends on who may change it: [`read_secret`] a key or token, [`read_protected`] what controls the daemon,
//! [`read_regular_file`] a file in a directory of others, [`files`] an operator's own files, [`read_limited`] what is open already.

#![warn(missing_docs)]

mod bounded;
mod file_stamp;
pub mod files;
mod partial;
mod protected;
mod regular;
mod reloaded;
mod replace;
mod secret;
mod socket;

pub use bounded::{read_limited, read_limited_text, read_prefix};
pub use file_stamp::FileStamp;
pub use partial::PartialFile;
pub use protected::{
    ProtectedFileError, check_metadata as check_protected_metadata, check_protected,
    check_protected_below, read_protected,
};
pub use regular::{open_regular_file, read_regular_file};
pub use reloaded::ReloadedFiles;
pub use replace::{StagedFile, replace_file, sync_parent_directory};
pub use secret::{SecretFileError, SecretOwner, check_secret, read_secret};
pub use socket::bind_socket;
pub use zeroize::Zeroizing;
