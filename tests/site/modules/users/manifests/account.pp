# A person with a home directory, and the keys for ssh.
define users::account(Integer $uid, Array[String] $groups, Array[String] $keys) {
  user { $name:
    ensure         => present,
    uid            => $uid,
    groups         => $groups,
    home           => "/home/${name}",
    managehome     => true,
    shell          => '/bin/bash',
    password       => Sensitive("\$6\$salt\$${name}"),
    purge_ssh_keys => false,
    require        => Group['operators'],
  }
  file { "/home/${name}/.profile.d": ensure => directory, owner => $name, mode => '0700' }
  file { "/home/${name}/.profile.d/greeting": ensure => link, target => '/etc/motd' }
  $keys.each |$index, $key| {
    ssh_authorized_key { "${name} ${index}": user => $name, type => 'ssh-ed25519', key => $key }
  }
}
