# A file is created with its content and mode, another has its content replaced, a third is as it should be.
#: file changed 0600 old
#: file same 0644 same\n
$w = '/parity-root'
file { "${w}/new": ensure => file, content => "new\n", mode => '0640' }
file { "${w}/changed": content => "one\ntwo\n", mode => '0644' }
file { "${w}/same": ensure => file, content => "same\n", mode => '0644' }
file { "${w}/empty": ensure => file, content => '' }
file { "${w}/present": ensure => present, content => 'p' }
file { "${w}/nothing": content => "made without ensure\n" }
file { "${w}/bare": ensure => file }
