class role::database {
  include role::base
  include database
}
