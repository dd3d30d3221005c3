class logrotate {
  file { '/etc/logrotate.d': ensure => directory }
  ['web', 'database'].each |$name| {
    file { "/etc/logrotate.d/${name}":
      content => epp('logrotate/entry.epp', { 'name' => $name }),
    }
  }
}
