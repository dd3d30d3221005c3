# Lines of an aliases file of our own.
#: file aliases 0644 postmaster: root\ngone: nobody\nlist: a, b\n
$w = '/parity-root'
Mailalias { target => "${w}/aliases" }
mailalias { 'new': recipient => 'rip@example.net' }
mailalias { 'gone': ensure => absent }
mailalias { 'list': recipient => ['a', 'c'] }
mailalias { 'postmaster': recipient => 'root' }
