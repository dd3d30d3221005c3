class ssh {
  contain ssh::server
  contain ssh::client
}
