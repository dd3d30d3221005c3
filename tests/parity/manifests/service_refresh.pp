# A running service is restarted by a change, by its own command or by stop and start; one that was just started is not.
#: file running1 0644 x
#: file running2 0644 x
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c', notify => [Service['restart'], Service['stop-start'], Service['just-started'], Service['stopped']] }
service { 'restart': ensure => running, provider => base, start => '/bin/true', stop => '/bin/true', restart => "/bin/sh -c 'echo restart >> ${w}/log'", status => "/usr/bin/test -e ${w}/running1" }
service { 'stop-start': ensure => running, provider => base, start => "/bin/sh -c 'echo start >> ${w}/log; touch ${w}/running2'", stop => "/bin/sh -c 'echo stop >> ${w}/log'", status => "/usr/bin/test -e ${w}/running2" }
service { 'just-started': ensure => running, provider => base, start => "/bin/sh -c 'echo just-started >> ${w}/log; touch ${w}/running3'", stop => '/bin/true', restart => "/bin/sh -c 'echo restarted-again >> ${w}/log'", status => "/usr/bin/test -e ${w}/running3" }
service { 'stopped': provider => base, start => "/bin/sh -c 'echo never >> ${w}/log'", stop => '/bin/true', restart => "/bin/sh -c 'echo never >> ${w}/log'", status => '/bin/false' }
