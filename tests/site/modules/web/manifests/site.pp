# A site of the web server.
define web::site(Array[String] $aliases, Integer $port = 80) {
  file { "/srv/web/${name}": ensure => directory, owner => 'web', group => 'web', mode => '0750' }
  file { "/etc/web/sites/${name}.conf":
    content => template('web/site.erb'),
    notify  => Service['web'],
  }
}
