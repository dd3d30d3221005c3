//! The files that each new node gets besides its credentials: the directory `site` of the organisation, in the form of `rpc config deploy`.

use muster_operations::deploy::{DeployDirectory, DeployDirectoryError};
use muster_organisation::Organisation;
use muster_organisation::machines::MachineFile;

/// Reads the files. None, if the organisation has no such directory.
pub fn read_site(organisation: &Organisation) -> Result<Vec<MachineFile>, DeployDirectoryError> {
    let directory = organisation.layout().site_directory();
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let DeployDirectory { files, executables } = DeployDirectory::read(&directory)?;
    let to_file = |(name, text): (String, String)| {
        if executables.contains(&name) {
            MachineFile::program(name, text)
        } else {
            MachineFile::public(name, text)
        }
    };
    Ok(files.into_iter().map(to_file).collect())
}
