//! The files that catalogs name: their addresses, and their entries in [`CONTENT_BUCKET`](crate::stores::CONTENT_BUCKET).
//!
//! ```text
//! key   = "file." or "chunk.", then the SHA-256 of the bytes in lower-case hexadecimal digits
//! chunk = 524,288 bytes of a file; the last one of a file may have fewer
//! file  = 0, the bytes                              up to 524,288 bytes
//!       | 1, 1, size, SHA-256 of each chunk         larger files; the size has 8 bytes, big-endian
//! ```
//!
//! The second byte of a list is its version. Every writer makes the same entry of a file, so a repeated write stores the same bytes. The list of a file is not
//! covered by the file's address: a reader checks each chunk by the list, and the whole file by its address.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes of a chunk, and most bytes of a file that is stored without chunks.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Most chunks of a file: 8 GiB. The list then fits a value of the bucket.
pub const MAX_CHUNKS: usize = 16_384;

/// Largest entry of a file, in bytes.
pub const MAX_ENTRY_BYTES: usize = LIST_HEAD_BYTES + MAX_CHUNKS * ADDRESS_BYTES;

const ADDRESS_BYTES: usize = 32;
/// Form, version and size.
const LIST_HEAD_BYTES: usize = 10;
const WHOLE_FORM: u8 = 0;
const LIST_FORM: u8 = 1;
const LIST_VERSION: u8 = 1;
/// Longest text that an error repeats, in characters.
const MAX_SHOWN_CHARACTERS: usize = 80;

/// The SHA-256 of a file or chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentAddress([u8; ADDRESS_BYTES]);

/// The text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 in 64 lower-case hexadecimal digits")]
pub struct ContentAddressError(String);

impl_text_form!(ContentAddress, ContentAddressError);

impl ContentAddress {
    /// The address of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The address with these bytes.
    pub fn from_bytes(bytes: [u8; ADDRESS_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the address.
    pub fn as_bytes(&self) -> &[u8; ADDRESS_BYTES] {
        &self.0
    }

    /// Parses 64 lower-case hexadecimal digits. Other spellings are refused, so that an address has one text and one key.
    pub fn parse(text: &str) -> Result<Self, ContentAddressError> {
        let failed = || ContentAddressError(text.chars().take(MAX_SHOWN_CHARACTERS).collect());
        if text.len() != 2 * ADDRESS_BYTES {
            return Err(failed());
        }
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| failed())?;
        bytes.try_into().map(Self).map_err(|_| failed())
    }
}

impl fmt::Display for ContentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for ContentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContentKey {
    /// A file: its bytes, or the list of its chunks.
    File(ContentAddress),
    /// The bytes of a chunk.
    Chunk(ContentAddress),
}

impl ContentKey {
    /// Parses a key; `None` for any other.
    pub fn parse(key: &str) -> Option<Self> {
        let (kind, address) = key.split_once('.')?;
        let address = ContentAddress::parse(address).ok()?;
        match kind {
            "file" => Some(Self::File(address)),
            "chunk" => Some(Self::Chunk(address)),
            _ => None,
        }
    }
}

impl fmt::Display for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(address) => write!(f, "file.{address}"),
            Self::Chunk(address) => write!(f, "chunk.{address}"),
        }
    }
}

/// The bytes are not the entry of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentEntryError {
    /// No byte.
    #[error("the entry is empty")]
    Empty,
    /// More bytes than an entry of this form has.
    #[error("the entry has {bytes} bytes; at most {limit} are accepted")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An unknown first byte.
    #[error("the entry has the form {0}; this version knows 0, the bytes, and 1, a list of chunks")]
    UnknownForm(u8),
    /// A list of another version.
    #[error("the list of chunks has version {0}; this version knows 1")]
    UnknownVersion(u8),
    /// The list ends within a field.
    #[error("the list of chunks ends within a field, after {0} bytes")]
    Incomplete(usize),
    /// More chunks than a file may have.
    #[error("the file has more than {MAX_CHUNKS} chunks of {CHUNK_BYTES} bytes")]
    TooManyChunks,
    /// A size that this number of chunks does not have, or that needs no list.
    #[error("a file of {size} bytes does not have {chunks} chunks")]
    WrongSize {
        /// Size of the file in the list.
        size: u64,
        /// Number of chunks in the list.
        chunks: usize,
    },
}

/// The size of a file, and its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkList {
    size: u64,
    chunks: Vec<ContentAddress>,
}

impl ChunkList {
    /// A list whose number of chunks is that of a file of this size.
    pub fn new(size: u64, chunks: Vec<ContentAddress>) -> Result<Self, ContentEntryError> {
        if chunks.len() > MAX_CHUNKS {
            return Err(ContentEntryError::TooManyChunks);
        }
        let needs_list = size > CHUNK_BYTES as u64;
        if !needs_list || size.div_ceil(CHUNK_BYTES as u64) != chunks.len() as u64 {
            return Err(ContentEntryError::WrongSize { size, chunks: chunks.len() });
        }
        Ok(Self { size, chunks })
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The chunks in the order of the file.
    pub fn chunks(&self) -> &[ContentAddress] {
        &self.chunks
    }

    /// Size of one chunk in bytes; 0 behind the last one.
    pub fn chunk_bytes(&self, index: usize) -> usize {
        let rest = self.size.saturating_sub(chunk_offset(index));
        usize::try_from(rest).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES)
    }

    fn decode(bytes: &[u8]) -> Result<Self, ContentEntryError> {
        if bytes.len() > MAX_ENTRY_BYTES {
            return Err(ContentEntryError::TooManyChunks);
        }
        let incomplete = ContentEntryError::Incomplete(bytes.len());
        let Some((head, rest)) = bytes.split_first_chunk::<LIST_HEAD_BYTES>() else {
            return Err(incomplete);
        };
        let [_, version, size @ ..] = *head;
        if version != LIST_VERSION {
            return Err(ContentEntryError::UnknownVersion(version));
        }
        let (addresses, []) = rest.as_chunks::<ADDRESS_BYTES>() else { return Err(incomplete) };
        let chunks = addresses.iter().copied().map(ContentAddress).collect();
        Self::new(u64::from_be_bytes(size), chunks)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LIST_HEAD_BYTES + self.chunks.len() * ADDRESS_BYTES);
        bytes.extend([LIST_FORM, LIST_VERSION]);
        bytes.extend(self.size.to_be_bytes());
        bytes.extend(self.chunks.iter().flat_map(|chunk| chunk.0));
        bytes
    }
}

/// Where a chunk begins in its file.
pub fn chunk_offset(index: usize) -> u64 {
    (index as u64).saturating_mul(CHUNK_BYTES as u64)
}

/// The entry of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEntry<'a> {
    /// The bytes of a small file.
    Whole(&'a [u8]),
    /// The chunks of a larger one.
    Chunked(ChunkList),
}

impl<'a> FileEntry<'a> {
    /// Parses an entry. The size is checked first.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ContentEntryError> {
        match bytes.split_first() {
            None => Err(ContentEntryError::Empty),
            Some((&WHOLE_FORM, content)) => {
                check_whole(content)?;
                Ok(Self::Whole(content))
            }
            Some((&LIST_FORM, _)) => ChunkList::decode(bytes).map(Self::Chunked),
            Some((&form, _)) => Err(ContentEntryError::UnknownForm(form)),
        }
    }

    /// The bytes of the entry.
    pub fn encode(&self) -> Result<Vec<u8>, ContentEntryError> {
        match self {
            Self::Whole(content) => {
                check_whole(content)?;
                Ok([&[WHOLE_FORM][..], content].concat())
            }
            Self::Chunked(list) => Ok(list.encode()),
        }
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Whole(content) => content.len() as u64,
            Self::Chunked(list) => list.size,
        }
    }
}

fn check_whole(content: &[u8]) -> Result<(), ContentEntryError> {
    if content.len() > CHUNK_BYTES {
        let (bytes, limit) = (content.len() + 1, CHUNK_BYTES + 1);
        return Err(ContentEntryError::TooLarge { bytes, limit });
    }
    Ok(())
}

/// Hashes a file, chunk after chunk.
#[derive(Debug, Clone, Default)]
pub struct ContentDigest {
    whole: Sha256,
    size: u64,
    chunks: Vec<ContentAddress>,
}

impl ContentDigest {
    /// Adds the next [`CHUNK_BYTES`] bytes of the file, or those to its end. Returns the address of the chunk.
    pub fn add_chunk(&mut self, bytes: &[u8]) -> Result<ContentAddress, ContentEntryError> {
        if self.chunks.len() >= MAX_CHUNKS {
            return Err(ContentEntryError::TooManyChunks);
        }
        let address = ContentAddress::of(bytes);
        self.whole.update(bytes);
        self.size = self.size.saturating_add(bytes.len() as u64);
        self.chunks.push(address);
        Ok(address)
    }

    /// The address of the file, and its chunks. Fails for a file that needs no list, and for chunks of other sizes.
    pub fn finish(self) -> Result<(ContentAddress, ChunkList), ContentEntryError> {
        let list = ChunkList::new(self.size, self.chunks)?;
        Ok((ContentAddress(self.whole.finalize().into()), list))
    }
}

/// What is wrong with a file in the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentDefect {
    /// The store has no such file.
    #[error("the store has no file {file}; it must be stored again")]
    FileMissing {
        /// The file.
        file: ContentAddress,
    },
    /// The store has the file, but not all of its chunks.
    #[error("the store lacks the chunk {chunk} of the file {file}; the file must be stored again")]
    ChunkMissing {
        /// The file.
        file: ContentAddress,
        /// The chunk.
        chunk: ContentAddress,
    },
    /// The entry of the file cannot be read.
    #[error("the store has an invalid entry of the file {file}; it must be stored again")]
    EntryInvalid {
        /// The file.
        file: ContentAddress,
        /// What is wrong with it.
        #[source]
        source: ContentEntryError,
    },
    /// The bytes are not those of the file.
    #[error("the file {file} is altered in the store; it must be stored again")]
    FileAltered {
        /// The file.
        file: ContentAddress,
    },
    /// The bytes are not those of the chunk.
    #[error(
        "the chunk {chunk} of the file {file} is altered in the store; the file must be stored again"
    )]
    ChunkAltered {
        /// The file.
        file: ContentAddress,
        /// The chunk.
        chunk: ContentAddress,
    },
    /// The bytes are not those of the chunk, which no file of the store has.
    #[error("the chunk {chunk}, which no file has, is altered in the store")]
    StrayChunkAltered {
        /// The chunk.
        chunk: ContentAddress,
    },
}

/// Checks the chunks of a file in their order, then the whole file.
#[derive(Debug, Clone)]
pub struct FileVerifier<'a> {
    file: ContentAddress,
    list: &'a ChunkList,
    /// Number of accepted chunks.
    accepted: usize,
    whole: Sha256,
}

impl<'a> FileVerifier<'a> {
    /// A verifier of the file with this address, which this list describes.
    pub fn new(file: ContentAddress, list: &'a ChunkList) -> Self {
        Self { file, list, accepted: 0, whole: Sha256::new() }
    }

    /// Checks the next chunk.
    pub fn accept_chunk(&mut self, bytes: &[u8]) -> Result<(), ContentDefect> {
        let Some(&chunk) = self.list.chunks.get(self.accepted) else {
            return Err(ContentDefect::FileAltered { file: self.file });
        };
        let is_complete = bytes.len() == self.list.chunk_bytes(self.accepted);
        if !is_complete || ContentAddress::of(bytes) != chunk {
            return Err(ContentDefect::ChunkAltered { file: self.file, chunk });
        }
        self.whole.update(bytes);
        self.accepted += 1;
        Ok(())
    }

    /// Checks the whole file. Fails if chunks are missing.
    pub fn finish(self) -> Result<(), ContentDefect> {
        let is_complete = self.accepted == self.list.chunks.len();
        if !is_complete || ContentAddress(self.whole.finalize().into()) != self.file {
            return Err(ContentDefect::FileAltered { file: self.file });
        }
        Ok(())
    }
}
