//! Programs of the daemon: their bytes at the broker, and their list in the account token.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use muster_bus::content::{CollectionReport, ContentError, ContentStore};
use muster_files::read_regular_file;
use muster_wire::Millis;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::stores::PROGRAMS_BUCKET;
use muster_wire::token::program::{MAX_PROGRAM_BYTES, MAX_PROGRAMS};
use muster_wire::token::{ApprovedProgram, ProgramName};

use crate::{AccountRealm, Organisation, OrganisationError, OrganisationLock, PushError};

/// Beginning of a program: ELF, 64 bits, little-endian.
const ELF_HEADER: &[u8] = b"\x7fELF\x02\x01";
/// Where an ELF file names its kind of machine.
const ELF_MACHINE: std::ops::Range<usize> = 18..20;

/// A program is not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is no program that a node could run.
    #[error("{} is not a program for Linux on x86_64 or aarch64", .0.display())]
    NotProgram(PathBuf),
    /// The file cannot be compressed.
    #[error("cannot compress {}", path.display())]
    Compress {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The name belongs to other bytes. Nodes and logs name a program by it.
    #[error(
        "the program {name} for {machine} has other bytes; use another name, or remove it first"
    )]
    OtherBytes {
        /// The name.
        name: ProgramName,
        /// The kind of machine.
        machine: String,
    },
    /// The list is full.
    #[error("the organisation has {MAX_PROGRAMS} programs, which is the limit; remove one first")]
    TooMany,
    /// No program has the name.
    #[error("the organisation has no program {0}")]
    Unknown(ProgramName),
    /// The broker does not keep it.
    #[error("cannot store the program at the broker")]
    Store(#[source] ContentError),
    /// The connection to the broker failed.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The organisation's files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
}

/// A program file that was read and compressed.
#[derive(Debug)]
pub struct ProgramFile {
    machine: &'static str,
    bytes: u64,
    sha256: ContentAddress,
    compressed: Vec<u8>,
}

impl ProgramFile {
    /// Reads a program, and for which kind of machine it is.
    pub fn read(path: &Path) -> Result<Self, ProgramError> {
        let failed = |source| ProgramError::Read { path: path.to_owned(), source };
        let bytes = read_regular_file(path, MAX_PROGRAM_BYTES).map_err(failed)?;
        let machine = find_machine(&bytes);
        let machine = machine.ok_or_else(|| ProgramError::NotProgram(path.to_owned()))?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
        let failed = |source| ProgramError::Compress { path: path.to_owned(), source };
        Ok(Self {
            machine,
            bytes: bytes.len() as u64,
            sha256: ContentAddress::of(&bytes),
            compressed: compressed.map_err(failed)?,
        })
    }
}

/// The kind of machine of an ELF file.
fn find_machine(bytes: &[u8]) -> Option<&'static str> {
    let machine: [u8; 2] = bytes.get(ELF_MACHINE)?.try_into().ok()?;
    match u16::from_le_bytes(machine) {
        _ if !bytes.starts_with(ELF_HEADER) => None,
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        _ => None,
    }
}

impl Organisation {
    /// The programs to which daemons may be upgraded, in the order in which they were added.
    pub fn programs(&self) -> Result<Vec<ApprovedProgram>, OrganisationError> {
        Ok(self.fleet_trust()?.programs().to_vec())
    }

    /// Lists a program in the account token, which is to be pushed before its bytes are stored: the broker has a bucket for them only then. Changes nothing if
    /// the same program is listed.
    pub fn list_program(
        &self,
        lock: &OrganisationLock,
        name: &ProgramName,
        file: &ProgramFile,
        now: Millis,
    ) -> Result<ApprovedProgram, ProgramError> {
        let program = ApprovedProgram {
            name: name.to_string(),
            machine: file.machine.to_owned(),
            bytes: file.bytes,
            sha256: file.sha256,
            content: ContentAddress::of(&file.compressed),
        };
        let mut account = self.fleet_trust()?.claims().nats.clone();
        let is_same =
            |one: &ApprovedProgram| one.name == program.name && one.machine == program.machine;
        match account.programs.iter().position(is_same) {
            Some(found) if account.programs.get(found) == Some(&program) => return Ok(program),
            Some(found)
                if account.programs.get(found).is_some_and(|one| one.sha256 != program.sha256) =>
            {
                let (name, machine) = (name.clone(), program.machine);
                return Err(ProgramError::OtherBytes { name, machine });
            }
            // Another version of the compression makes other bytes.
            Some(found) => drop(account.programs.remove(found)),
            None if account.programs.len() >= MAX_PROGRAMS => return Err(ProgramError::TooMany),
            None => {}
        }
        account.programs.push(program.clone());
        self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        Ok(program)
    }

    /// Stores the bytes of a listed program at the broker, also again after its bucket was lost.
    pub async fn store_program(&self, file: &ProgramFile, now: Millis) -> Result<(), ProgramError> {
        let bus = self.connect_administrator(now).await?;
        let store = ContentStore::new(bus.bucket(PROGRAMS_BUCKET.name));
        store.put_file(file.compressed.as_slice(), None).await.map_err(ProgramError::Store)?;
        Ok(bus.close().await.map_err(PushError::from)?)
    }

    /// Removes the programs of this name from the account token, which is to be pushed afterwards. Nodes that run one keep it.
    pub fn remove_program(
        &self,
        lock: &OrganisationLock,
        name: &ProgramName,
        now: Millis,
    ) -> Result<(), ProgramError> {
        let mut account = self.fleet_trust()?.claims().nats.clone();
        let before = account.programs.len();
        account.programs.retain(|one| one.name != name.as_str());
        if account.programs.len() == before {
            return Err(ProgramError::Unknown(name.clone()));
        }
        self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        Ok(())
    }

    /// Deletes from the broker what no listed program has, unless it was stored within a day.
    pub async fn collect_programs(&self, now: Millis) -> Result<CollectionReport, ProgramError> {
        let kept = self.programs()?.into_iter().map(|program| program.content).collect();
        let bus = self.connect_administrator(now).await?;
        let store = ContentStore::new(bus.bucket(PROGRAMS_BUCKET.name));
        let report = store.collect(&kept, now).await.map_err(ProgramError::Store)?;
        bus.close().await.map_err(PushError::from)?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::find_machine;

    #[test]
    fn machine_is_that_of_the_elf_header() {
        let header = |machine: u16, begin: &[u8]| {
            let mut bytes = [0; 64];
            bytes[..begin.len()].copy_from_slice(begin);
            bytes[18..20].copy_from_slice(&machine.to_le_bytes());
            bytes
        };
        assert_eq!(find_machine(&header(62, super::ELF_HEADER)), Some("x86_64"));
        assert_eq!(find_machine(&header(183, super::ELF_HEADER)), Some("aarch64"));
        assert_eq!(find_machine(&header(3, super::ELF_HEADER)), None);
        assert_eq!(find_machine(&header(62, b"#!/bin/sh")), None);
        assert_eq!(find_machine(b"\x7fELF\x02\x01"), None);
    }
}
