require_relative '../../puppet_x/muster/directory'

# Everything that the directory knows of one node. Fails if it does not know the node.
Puppet::Functions.create_function(:load_node) do
  # @param name The name of the node.
  # @param options `socket` and `timeout`.
  # @return A hash with `identity`, `state`, `facts`, `classes`, `collectives`, `agentlist`, `lastseen` and `version`.
  # @example A fact of another node
  #   $address = load_node('db1.acme.net')['facts']['networking']['ip']
  dispatch :load_one do
    param 'String[1]', :name
    optional_param 'Hash[String, Data]', :options
    return_type 'Hash[String, Data]'
  end

  def load_one(name, options = {})
    node = PuppetX::Muster::Directory.new(options).load(name)
    raise PuppetX::Muster::DirectoryError, "muster: the directory knows no node #{name}" if node.nil?
    node
  end
end
