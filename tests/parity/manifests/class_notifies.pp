# A class notifies: a change of anything in it.
$w = '/parity-root'
class conf { file { '/parity-root/a': ensure => file, content => 'a' } file { '/parity-root/b': ensure => file, content => 'b' } }
class svc { exec { 'reload': command => "/bin/sh -c 'echo reload >> /parity-root/log'", refreshonly => true } }
include conf
include svc
Class['conf'] ~> Class['svc']
exec { 'direct': command => "/bin/sh -c 'echo direct >> ${w}/log'", refreshonly => true, subscribe => Class['conf'] }
