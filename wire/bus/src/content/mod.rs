//! The content store: the files that catalogs name, in the bucket `CONTENT`, under their SHA-256. See [`muster_wire::catalog::content`] for keys and bytes.
//!
//! The name of a value is its hash. So a reader can check a value, an interrupted transfer continues with the chunks that are missing, and a file or
//! chunk that is stored already is not stored again. The broker stores the chunks of a file before its entry: a file that has an entry is complete.
//!
//! [`ContentStore::collect`] deletes what no catalog reaches. Between the moment in which a file is stored and that in which a catalog with it is, nothing
//! reaches it. Three times keep it meanwhile:
//!
//! ```text
//! 24 h  younger entries, and the chunks of younger files, are not deleted
//!  6 h  an older entry is written again when its file is put, and is young again
//!  1 h  how long a process remembers what it has stored, and does not ask
//! ```
//!
//! A deletion names the revision that was found. So an entry that was written again meanwhile stays. A catalog must be stored within half a day after its
//! files, by the clocks of its compiler and of the broker.

mod collect;
mod collection_plan;
mod error;
mod get;
mod inspect;
mod known;
mod open;
mod put;
mod read_ahead;
mod store;
mod window;

pub use collect::CollectionReport;
pub use error::ContentError;
pub use get::FetchedFile;
pub use inspect::{StoredFile, VerificationReport};
pub use open::OpenContent;
pub use store::ContentStore;
