class hosts(Array[String] $peers = ['mirror.example.net', 'log.example.net']) {
  $peers.each |$peer| {
    host { $peer: ip => '192.0.2.1', host_aliases => [split($peer, '[.]')[0]] }
  }
}
