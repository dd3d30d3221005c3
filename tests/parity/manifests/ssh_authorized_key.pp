# Keys of a file of our own.
#: needs root
#: file keys 0600 ssh-rsa AAAAB3Nz gone@here\nssh-rsa AAAAB3Oz kept@here\n
$w = '/parity-root'
Ssh_authorized_key { user => 'root', target => "${w}/keys" }
ssh_authorized_key { 'new@here': type => 'ssh-ed25519', key => 'AAAAC3Nz' }
ssh_authorized_key { 'gone@here': ensure => absent, type => 'ssh-rsa', key => 'AAAAB3Nz' }
ssh_authorized_key { 'kept@here': type => 'ssh-rsa', key => 'AAAAB3Oz', options => ['no-pty'] }
