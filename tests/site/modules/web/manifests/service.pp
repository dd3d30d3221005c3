class web::service {
  file { '/etc/systemd/system/web.service':
    content => "[Unit]\nDescription=web\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
    notify  => Exec['reload systemd'],
  }
  exec { 'reload systemd': command => '/usr/bin/systemctl daemon-reload', refreshonly => true }
  service { 'web': ensure => running, enable => true, require => Exec['reload systemd'] }
}
