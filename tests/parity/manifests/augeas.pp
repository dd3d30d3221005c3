# A line of a file by its meaning.
#: file hosts 0644 127.0.0.1\tlocalhost\n
$w = '/parity-root'
augeas { 'one host':
  incl => "${w}/hosts", lens => 'Hosts.lns',
  changes => ['set 01/ipaddr 10.0.0.1', 'set 01/canonical new.example.net'],
  onlyif => "match *[ipaddr = '10.0.0.1'] size == 0",
}
~> exec { 'told': command => "/bin/sh -c 'echo told >> ${w}/log'", refreshonly => true }
