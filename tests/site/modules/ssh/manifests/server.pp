class ssh::server(String $permit_root, String $unit) {
  file { '/etc/ssh/sshd_config.d/site.conf':
    content => template('ssh/site.conf.erb'),
    mode    => '0600',
    notify  => Exec['check the configuration of sshd'],
  }
  exec { 'check the configuration of sshd':
    command     => '/usr/bin/touch /var/lib/sshd-checked',
    refreshonly => true,
  }
}
