# A mode gives a directory the x bit for each r bit.
#: dir old 0700
$w = '/parity-root'
file { "${w}/made": ensure => directory, mode => '0644' }
file { "${w}/old": ensure => directory, mode => '0640' }
