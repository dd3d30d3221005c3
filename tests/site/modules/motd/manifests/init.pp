class motd(String $text) {
  file { '/etc/motd':
    content => epp('motd/motd.epp', { 'text' => $text, 'host' => $trusted['hostname'] }),
    mode    => '0644',
  }
}
