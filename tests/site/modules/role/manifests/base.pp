class role::base {
  include motd
  include users
  include ssh
  include ntp
  include sysctl
  include limits
  include cron
  include sudo
  include hosts
  include logrotate
  include profile
  include apt::sources
  include certificates
  include backup
  include monitoring
}
