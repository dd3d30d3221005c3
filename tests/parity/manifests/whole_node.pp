# A small whole: configuration, service, jobs, in classes that notify each other.
$w = '/parity-root'
class app::install { file { ['/parity-root/app', '/parity-root/app/bin', '/parity-root/app/etc']: ensure => directory } file { '/parity-root/app/bin/run': ensure => file, mode => '0755', content => "#!/bin/sh\ncd \"\$(dirname \"\$0\")\"/.. && touch running\n" } }
class app::config($workers = 2) { file { '/parity-root/app/etc/app.conf': ensure => file, content => "workers=${workers}\n" } app::site { ['one', 'two']: } }
define app::site($port = 80) { file { "/parity-root/app/etc/${title}.site": ensure => file, content => "port=${port}\n" } }
class app::service { service { 'app': ensure => running, provider => base, hasstatus => true, start => '/parity-root/app/bin/run', stop => '/bin/rm /parity-root/app/running', status => '/usr/bin/test -e /parity-root/app/running' } }
class app { contain app::install contain app::config contain app::service Class['app::install'] -> Class['app::config'] ~> Class['app::service'] }
include app
exec { 'announce': command => "/bin/sh -c 'echo up >> ${w}/log'", refreshonly => true, subscribe => Class['app'] }
