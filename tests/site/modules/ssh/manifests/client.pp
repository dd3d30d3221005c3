class ssh::client {
  file { '/etc/ssh/ssh_config.d/site.conf': source => 'puppet:///modules/ssh/ssh_config' }
}
