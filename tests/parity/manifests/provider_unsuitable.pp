# A provider that does not work on this machine.
service { 'none': ensure => running, provider => windows }
notify { 'after': require => Service['none'] }
