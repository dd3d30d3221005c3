# Owners and groups by number and by name.
#: needs root
#: file a 0644 x
#: file b 0644 x
$w = '/parity-root'
file { "${w}/a": owner => 1234, group => '4321' }
file { "${w}/b": owner => 'root', group => 'root' }
file { "${w}/c": ensure => file, content => 'x', owner => 'daemon', group => 0, mode => '0600' }
file { "${w}/d": ensure => directory, owner => 'daemon' }
file { "${w}/e": ensure => file, owner => 'nobody-of-that-name' }
