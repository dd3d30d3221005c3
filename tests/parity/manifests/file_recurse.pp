# Mode of all that is below a directory; what the catalog says itself counts.
#: file d/a 0600 a
#: file d/sub/b 0600 b
#: file d/sub/own 0600 own
$w = '/parity-root'
file { "${w}/d": ensure => directory, recurse => true, mode => '0644' }
file { "${w}/d/sub/own": ensure => file, mode => '0640' }
