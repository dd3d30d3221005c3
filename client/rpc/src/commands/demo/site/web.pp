# A web server, whose secret is in no catalog that is stored.
class web {
  file { '/etc/web.conf': source => 'puppet:///modules/web/web.conf' }
  file { '/etc/web.key': content => Sensitive('correct horse battery staple'), mode => '0600' }
}
