class web(Integer $workers = 1) {
  group { 'web': ensure => present, system => true }
  user { 'web': ensure => present, system => true, gid => 'web', home => '/srv/web', shell => '/usr/sbin/nologin' }
  file { ['/srv', '/srv/web', '/etc/web', '/etc/web/sites']: ensure => directory }
  file { '/etc/web/web.conf':
    content => "workers ${workers}\nuser web\n",
    notify  => Service['web'],
  }
  web::site { 'shop': aliases => ['www.example.net', 'example.net'] }
  web::site { 'status': aliases => [$facts['networking']['fqdn'].regsubst('^[^.]+', 'status')] }
  contain web::service
}
