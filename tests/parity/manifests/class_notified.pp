# A class is notified: all that can be refreshed in it is, also in the classes and defines that it holds.
$w = '/parity-root'
define parity::runner { exec { $title: command => "/bin/sh -c 'echo ${title} >> /parity-root/log'", refreshonly => true } }
class svc { contain svc::inner exec { 'plain': command => "/bin/sh -c 'echo plain >> /parity-root/log'", refreshonly => true } parity::runner { 'defined': } }
class svc::inner { exec { 'inner': command => "/bin/sh -c 'echo inner >> /parity-root/log'", refreshonly => true } }
include svc
file { "${w}/conf": ensure => file, content => 'c', notify => Class['svc'] }
