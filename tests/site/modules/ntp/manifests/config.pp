class ntp::config(Array[String] $servers = ['ntp1.example.net', 'ntp2.example.net']) {
  file { '/etc/systemd/timesyncd.conf.d': ensure => directory }
  file { '/etc/systemd/timesyncd.conf.d/site.conf':
    content => "[Time]\nNTP=${join($servers, ' ')}\n",
  }
}
