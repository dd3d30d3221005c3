class monitoring {
  $peers = search_nodes({ 'facts.os.family' => $facts['os']['family'] })
  file { '/etc/monitoring.conf': content => "peers = ${join($peers, ' ')}\n" }
}
