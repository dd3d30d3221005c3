class database(Sensitive[String] $password = Sensitive('hunter2')) {
  file { '/etc/database': ensure => directory, mode => '0750' }
  file { '/etc/database/server.cnf':
    content => epp('database/server.epp', { 'connections' => 64 }),
  }
  file { '/etc/database/password.cnf':
    content => Sensitive("[client]\npassword=${password.unwrap}\n"),
    mode    => '0600',
  }
  exec { 'create the schema':
    command => '/bin/sh -c "echo schema >/var/lib/schema"',
    creates => '/var/lib/schema',
    require => File['/etc/database/server.cnf'],
  }
}
