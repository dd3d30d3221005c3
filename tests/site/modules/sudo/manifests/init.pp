class sudo {
  file { '/etc/sudoers.d': ensure => directory, mode => '0755' }
  file { '/etc/sudoers.d/operators':
    content => "%operators ALL=(ALL) NOPASSWD: /usr/bin/systemctl\n",
    mode    => '0440',
    require => Group['operators'],
  }
}
