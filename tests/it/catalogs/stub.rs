//! A compiler without Puppet: a program that speaks the same lines of JSON, and forks for each compile, as Puppet's does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::fixture::Environment;

/// It reads the fact `role`. A node whose role is `held` is compiled when the file `release` is there.
const PROGRAM: &str = r#"#!/usr/bin/env ruby
require 'json'
require 'socket'
_, environments, environment, = ARGV
control = UNIXSocket.for_fd(0)
trap('CHLD', 'IGNORE')
loop do
  connection = begin
    control.recv_io(UNIXSocket)
  rescue SocketError, EOFError
    break
  end
  fork do
    request = JSON.parse(connection.gets)
    connection.puts(JSON.generate(begun: true))
    role = request['facts']['role']
    sleep 0.01 until role != 'held' || File.exist?(File.join(environments, environment, 'release'))
    notify = { type: 'Notify', title: role.to_s, tags: [], exported: false }
    catalog = { name: request['node'], environment: environment, resources: [notify], edges: [], classes: [] }
    inputs = { values: [[%w[facts role], 'value']], files: [], data: [], queries: [], externals: [], wholes: [] }
    connection.write(JSON.generate(catalog: catalog, inputs: inputs), "\n")
    exit!(0)
  end
  connection.close
end
"#;

impl Environment {
    /// Writes the program; returns its path.
    pub(super) fn write_stub(&self) -> PathBuf {
        let path = self.path().join("state/stub");
        fs::write(&path, PROGRAM).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}
