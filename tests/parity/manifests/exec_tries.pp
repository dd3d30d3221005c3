# A command that comes right at the third try, and one that never does.
$w = '/parity-root'
exec { 'third': command => "/bin/sh -c 'echo x >> ${w}/tries; test \$(wc -l < ${w}/tries) -ge 3'", tries => 5, creates => "${w}/enough" }
exec { 'never': command => "/bin/sh -c 'echo x >> ${w}/never; exit 1'", tries => 2, try_sleep => 0.1 }
