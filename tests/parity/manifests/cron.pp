# A job in the table of a user, as it would be made.
#: needs root crontab live
#: run --noop
cron { 'job': command => '/bin/true', user => 'root', minute => '5', hour => ['1', '2'] }
notify { 'after': require => Cron['job'] }
cron { 'gone': ensure => absent, user => 'root' }
