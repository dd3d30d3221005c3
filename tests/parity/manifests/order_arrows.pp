# Chains of single resources and lists.
$w = '/parity-root'
notify { ['one', 'two', 'three', 'four']: }
[Notify['three'], Notify['four']] -> Notify['one'] -> Notify['two']
notify { 'left': } <- notify { 'right': }
