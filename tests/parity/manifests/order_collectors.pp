# Chains of collections.
notify { ['n1', 'n2']: tag => 'late' }
notify { ['n3', 'n4']: tag => 'early' }
Notify <| tag == 'early' |> -> Notify <| tag == 'late' |>
