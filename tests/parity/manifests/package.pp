# Packages that are as desired, and what would be done about the others.
#: needs root dpkg live
#: run --noop
package { 'dpkg': ensure => present }
package { 'parity-no-such-package': ensure => absent }
package { 'parity-no-such-package-2': ensure => present }
package { 'hostname': ensure => absent, provider => dpkg }
