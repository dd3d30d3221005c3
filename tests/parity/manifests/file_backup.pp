# A copy beside the file before it changes; `replace` keeps what is there.
#: file a 0600 old a
#: file b 0600 old b
#: file c 0644 old c
$w = '/parity-root'
file { "${w}/a": ensure => file, content => 'new a', backup => '.bak' }
file { "${w}/b": ensure => absent, backup => '.old' }
file { "${w}/c": ensure => file, content => 'new c', replace => false }
file { "${w}/d": ensure => file, content => 'new d', replace => false }
