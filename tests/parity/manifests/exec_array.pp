# Commands as lists of words, without a shell.
$w = '/parity-root'
exec { 'list': command => ['/bin/touch', "${w}/a b", "${w}/\$HOME"] }
exec { 'guard': command => ['/bin/touch', "${w}/guarded"], onlyif => [['/bin/test', '-e', "${w}/a b"]] }
