//! Backups of an organisation's directory: what is saved, and files that are no backups.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_files::Zeroizing;
use muster_organisation::{
    BackupFileError, Organisation, OrganisationError, create_organisation, restore_backup,
};
use tar::{Builder, EntryType, Header};

use crate::directory::{NOW, spec};

fn passphrase(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

/// Content and mode of each file below a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                let name = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(name, (fs::read(&path).unwrap(), mode));
            }
        }
    }
    found
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn restored_directory_equals_the_saved_one() {
    let scratch = tempfile::tempdir().unwrap();
    let organisation = create_organisation(spec(scratch.path()), NOW).unwrap();
    let directory = organisation.layout().directory().to_owned();
    let before = contents(&directory);
    // The broker's data, a link to a file elsewhere, and an earlier backup in the directory.
    for data in ["broker/jetstream/_meta_/state", "broker/accounts/A.jwt"] {
        fs::create_dir_all(directory.join(data).parent().unwrap()).unwrap();
        fs::write(directory.join(data), "x").unwrap();
    }
    let key = directory.join("keys/operator.nk");
    let elsewhere = scratch.path().join("operator.nk");
    fs::rename(&key, &elsewhere).unwrap();
    symlink(&elsewhere, &key).unwrap();
    let backup = directory.join("acme.age");
    fs::write(&backup, "earlier").unwrap();

    let lock = organisation.lock().unwrap();
    let words = passphrase("correct horse battery");
    let saved = organisation.write_backup(&lock, &backup, &words, NOW / 1000).unwrap();
    assert_eq!((saved.files, saved.time), (before.len(), NOW / 1000));
    let target = scratch.path().join("new/acme");
    let (restored, summary) = restore_backup(&backup, &target, &words).unwrap();
    assert_eq!(summary, saved);
    assert_eq!(restored.profile().operator, organisation.profile().operator);
    // The broker's configuration names the directory.
    let mut expected = before;
    let (config, _) = expected.get_mut(Path::new("broker/nats.conf")).unwrap();
    let text = String::from_utf8(config.clone()).unwrap();
    *config = text.replace(&path_text(&directory), &path_text(&target)).into_bytes();
    assert!(contents(&target) == expected, "{:?}", contents(&target).keys());
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn changed_or_truncated_backup_restores_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let organisation = create_organisation(spec(scratch.path()), NOW).unwrap();
    let backup = scratch.path().join("acme.age");
    let words = passphrase("correct horse battery");
    let lock = organisation.lock().unwrap();
    organisation.write_backup(&lock, &backup, &words, NOW / 1000).unwrap();
    let bytes = fs::read(&backup).unwrap();
    let target = scratch.path().join("new");
    let header_end = bytes.windows(4).position(|part| part == b"--- ").unwrap();
    let positions = [0, 30, header_end + 8, header_end + 60, bytes.len() / 2, bytes.len() - 1];
    let flipped = positions.map(|position| {
        let mut changed = bytes.clone();
        changed[position] ^= 1;
        changed
    });
    let truncated = [0, 10, header_end + 60, bytes.len() / 2, bytes.len() - 1];
    let truncated = truncated.map(|length| bytes[..length].to_vec());
    for changed in flipped.into_iter().chain(truncated) {
        fs::write(&backup, &changed).unwrap();
        let error = restore_backup(&backup, &target, &words).unwrap_err();
        assert!(matches!(error, OrganisationError::BackupFile(_)), "{error:?}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2, "{error}");
    }
}

/// A file with this archive, whose passphrase costs little.
fn encrypt(path: &Path, words: &Zeroizing<String>, archive: &[u8], work_factor: u8) {
    let mut recipient = age::scrypt::Recipient::new(SecretString::from(words.as_str()));
    recipient.set_work_factor(work_factor);
    let recipients = std::iter::once(&recipient as &dyn age::Recipient);
    let mut encrypted = Vec::new();
    let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
    let mut writer = encryptor.wrap_output(&mut encrypted).unwrap();
    let mut compressed = GzEncoder::new(&mut writer, Compression::fast());
    compressed.write_all(archive).unwrap();
    compressed.finish().unwrap();
    writer.finish().unwrap();
    fs::write(path, encrypted).unwrap();
}

/// An archive with one entry, whose name is not checked.
fn archive(name: &str, kind: EntryType, size: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o600);
    header.set_mtime(1);
    header.set_size(size);
    if kind == EntryType::Symlink {
        header.set_link_name("/etc").unwrap();
    }
    header.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&header, &b"x"[..]).unwrap();
    builder.into_inner().unwrap()
}

#[test]
fn entries_that_leave_the_directory_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (backup, words) = (scratch.path().join("acme.age"), passphrase("correct horse battery"));
    let target = scratch.path().join("new");
    let restore = |bytes: &[u8], work_factor| {
        encrypt(&backup, &words, bytes, work_factor);
        let error = restore_backup(&backup, &target, &words).unwrap_err();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "{error}");
        error.to_string()
    };
    for (name, kind) in [
        ("../evil", EntryType::Regular),
        ("/tmp/evil", EntryType::Regular),
        ("keys/../../evil", EntryType::Regular),
        ("keys", EntryType::Symlink),
        ("keys/fifo", EntryType::Fifo),
    ] {
        let message = restore(&archive(name, kind, 1), 4);
        assert!(message.contains("is no file of an organisation"), "{name}: {message}");
    }
    let huge = restore(&archive("keys/big", EntryType::Regular, 1 << 40), 4);
    assert!(huge.contains("the content has more than"), "{huge}");
    let other = restore(&archive("readme", EntryType::Regular, 1), 4);
    assert!(other.contains("no backup of an organisation"), "{other}");
    let costly = restore(&archive("readme", EntryType::Regular, 1), 21);
    assert!(costly.contains("no backup of an organisation"), "{costly}");
}

#[test]
fn circle_of_links_and_short_passphrases_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let organisation = create_organisation(spec(scratch.path()), NOW).unwrap();
    let lock = organisation.lock().unwrap();
    let backup = scratch.path().join("acme.age");
    let write = |words: &str| {
        organisation.write_backup(&lock, &backup, &passphrase(words), NOW / 1000).unwrap_err()
    };
    let short = write("elevenchars");
    assert!(
        matches!(short, OrganisationError::BackupFile(BackupFileError::ShortPassphrase)),
        "{short}"
    );
    symlink(".", organisation.layout().directory().join("circle")).unwrap();
    let circle = write("correct horse battery");
    assert!(matches!(circle, OrganisationError::BackupFile(BackupFileError::Depth(_))), "{circle}");
    assert!(!backup.exists());
    assert!(Organisation::open(organisation.layout().directory()).is_ok());
}
