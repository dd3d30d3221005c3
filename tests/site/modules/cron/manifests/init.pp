class cron(Hash[String, Hash] $jobs) {
  $jobs.each |$name, $job| {
    cron { $name: user => 'root', * => $job }
  }
  file { '/usr/local/sbin/vacuum': source => 'puppet:///modules/cron/vacuum', mode => '0755' }
}
