# Known hosts of a file of our own.
#: file known 0644 gone ssh-rsa AAAAB3Nz\nold,10.0.0.1 ssh-rsa AAAAB3Oz\n
$w = '/parity-root'
Sshkey { target => "${w}/known" }
sshkey { 'new': type => 'ssh-ed25519', key => 'AAAAC3Nz', host_aliases => ['10.0.0.2'] }
sshkey { 'gone': ensure => absent, type => 'ssh-rsa' }
sshkey { 'old': type => 'ssh-rsa', key => 'AAAAB3Pz', host_aliases => ['10.0.0.1'] }
