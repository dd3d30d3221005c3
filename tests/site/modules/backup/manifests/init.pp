class backup(Sensitive[String] $key = Sensitive('correct horse battery staple')) {
  file { '/etc/backup.conf':
    source => [
      "puppet:///modules/backup/${trusted['hostname']}.conf",
      "puppet:///modules/backup/${facts['os']['family']}.conf",
      'puppet:///modules/backup/default.conf',
    ],
  }
  file { '/etc/backup.key': content => $key, mode => '0600' }
}
