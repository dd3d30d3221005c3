# The provider that gives the line to a shell.
$w = '/parity-root'
exec { 'shell': command => "for i in 1 2; do echo \$i >> ${w}/log; done", provider => shell }
exec { 'guarded': command => "echo guarded >> ${w}/log", provider => shell, onlyif => "test -e ${w}/log && true" }
exec { 'builtin': command => 'exit 0', provider => shell }
