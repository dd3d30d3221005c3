# Lines of a hosts file of our own.
#: file hosts 0644 127.0.0.1\tlocalhost\n10.0.0.9\tgone\n10.0.0.8\told alias1 alias2\n
$w = '/parity-root'
Host { target => "${w}/hosts" }
host { 'new.example.net': ip => '10.0.0.1', host_aliases => ['new', 'n'] }
host { 'gone': ensure => absent }
host { 'old': ip => '10.0.0.7', host_aliases => ['alias1'] }
host { 'commented': ip => '10.0.0.2', comment => 'why' }
