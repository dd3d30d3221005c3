# What a machine says of itself.
class motd {
  file { '/etc/motd':
    content => epp('motd/motd.epp', { 'name' => $trusted['hostname'] }),
  }
}
