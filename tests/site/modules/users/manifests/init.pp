class users(Hash[String, Hash] $accounts) {
  group { 'operators': ensure => present, gid => 4000 }
  $accounts.each |$name, $account| {
    users::account { $name:
      uid    => $account['uid'],
      groups => $account['groups'],
      keys   => $account['keys'],
    }
  }
}
