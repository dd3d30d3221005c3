class ntp {
  contain ntp::config
  contain ntp::service
  Class['ntp::config'] ~> Class['ntp::service']
}
