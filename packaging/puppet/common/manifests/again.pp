# For manifests that use common::again of purpleidea's module `common`: Exec['again'] calls Muster.
class common::again {
  include muster::again
}
