class ntp::service {
  exec { 'note the new time servers':
    command     => '/bin/sh -c "echo changed >>/var/lib/ntp-changes"',
    refreshonly => true,
  }
}
