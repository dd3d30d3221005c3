class role::web {
  include role::base
  include web
}
