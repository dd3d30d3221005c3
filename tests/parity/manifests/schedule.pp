# Never; once a day at most, which is done in the first run and not in the second; and no schedule at all.
#: file a 0600 x
$w = '/parity-root'
schedule { 'shut': period => never }
schedule { 'daily-once': period => daily, repeat => 1 }
schedule { 'any': range => '0 - 23:59:59' }
notify { 'never': schedule => 'shut' }
notify { 'once': schedule => 'daily-once' }
notify { 'any': schedule => 'any' }
notify { 'free': }
notify { 'weekly': schedule => 'weekly' }
notify { 'after never': require => Notify['never'] }
