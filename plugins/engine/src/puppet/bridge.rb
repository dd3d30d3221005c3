# The Puppet of this machine, resident: a request as a line of JSON in, a response as a line of JSON out.
#
# Started by protocol.rs' other side, which gives it settings and the requests: what a type accepts, what a resource is, what
# would change, changing one property, refreshing. Holds no state between requests; the caller decides on order, noop, schedules
# and reports. What types and providers print goes to standard error, never among the responses.
require 'json'

RESPONSES = $stdout.dup
RESPONSES.sync = true
$stdout.reopen($stderr)
REQUESTS = $stdin.dup
$stdin.reopen(File::NULL)

def send_message(message)
  RESPONSES.puts(JSON.generate(message))
end

begin
  require 'puppet'
rescue LoadError
  send_message('error' => { 'kind' => 'unavailable', 'message' => 'this Ruby has no Puppet' })
  exit!(0)
end

# An error with a kind that the caller can act on, as opposed to an unexpected failure.
class RequestError < StandardError
  attr_reader :kind

  def initialize(kind, message)
    @kind = kind
    super(message)
  end
end

# Keeps what Puppet logs during a request.
class Listener
  attr_reader :lines

  def initialize
    @lines = []
  end

  def <<(message)
    @lines << message.message.to_s if %i[notice warning err alert emerg crit].include?(message.level)
    self
  end
end
Puppet::Util::Log.newdesttype(:muster_listener) do
  match 'Listener'

  def initialize(listener)
    @listener = listener
  end

  def handle(message)
    @listener << message
  end
end

# Puppet's values as JSON.
module Plain
  def self.of(value)
    case value
    when nil, true, false, Integer then value
    when Float then value.finite? ? value : value.to_s
    when Array then value.map { |one| of(one) }
    when Hash then value.to_h { |key, one| [text(key), of(one)] }
    when Puppet::Pops::Types::PSensitiveType::Sensitive then '[redacted]'
    else text(value)
    end
  end

  def self.text(value)
    value.to_s.dup.force_encoding(Encoding::UTF_8).scrub
  end
end

# One request each; none remembers anything.
class Bridge
  HIDDEN = %w[component whit stage schedule].freeze

  def initialize(settings)
    arguments = settings.map { |name, value| "--#{name}=#{value}" }
    Puppet.initialize_settings(arguments + ['--color=false'])
    Puppet::Util::Log.level = :notice
    Puppet.push_context(Puppet.base_context(Puppet.settings), 'a resident Puppet')
    @environment = Puppet.lookup(:environments).get(Puppet[:environment].to_sym) ||
                   Puppet::Node::Environment.create(Puppet[:environment].to_sym, [])
    loaders = Puppet::Pops::Loaders.new(@environment, false, false)
    Puppet.push_context({ current_environment: @environment, loaders: loaders }, 'its environment')
  end

  def dispatch(request)
    case request['op']
    when 'ping' then { 'version' => Puppet.version }
    when 'types' then types
    when 'describe' then describe(type_of(request))
    when 'check' then check(request)
    when 'find' then find(request)
    when 'list' then list(type_of(request))
    when 'plan' then plan(request)
    when 'apply' then apply(request)
    when 'refresh' then refresh(request)
    else raise RequestError.new('invalid', "unknown operation #{request['op'].inspect}")
    end
  end

  private

  def types
    Puppet::Type.typeloader.loadall(@environment)
    names = []
    Puppet::Type.eachtype { |type| names << type.name.to_s }
    { 'types' => (names - HIDDEN).sort }
  end

  def type_of(request)
    name = request['type'].to_s
    type = name.match?(/\A[a-z][a-z0-9_]*\z/) && !HIDDEN.include?(name) && Puppet::Type.type(name.to_sym)
    type || raise(RequestError.new('unknown_type', "Puppet has no type #{name}"))
  end

  def describe(type)
    attributes = type.allattrs.reject { |name| type.attrtype(name) == :meta }.map { |name| attribute(type, name) }
    provider = type.defaultprovider if type.respond_to?(:defaultprovider) && type.paramclass(:provider)
    {
      'doc' => Plain.text(type.doc), 'namevars' => type.key_attributes.map(&:to_s),
      'attributes' => attributes, 'refreshes' => type.method_defined?(:refresh),
      'provider' => provider && provider.name.to_s,
      'autorequires' => relations_of(type).map(&:to_s).uniq
    }
  end

  def attribute(type, name)
    one = type.attrclass(name)
    { 'name' => name.to_s, 'property' => type.attrtype(name) == :property, 'doc' => Plain.text(one.doc),
      'values' => (one.value_collection.values.map(&:to_s) if one.respond_to?(:value_collection)) || [] }
  rescue StandardError
    { 'name' => name.to_s, 'property' => type.attrtype(name) == :property, 'doc' => '', 'values' => [] }
  end

  def relations_of(type)
    types = []
    type.eachautorequire { |other, _| types << other }
    types
  end

  # The resource, in a catalog of its own, with what its provider must read beforehand.
  def instance(request)
    type = type_of(request)
    resource = Puppet::Resource.new(type.name.to_s, request['title'], parameters: (request['parameters'] || {}).transform_keys(&:to_sym))
    ral = begin
      resource.to_ral
    rescue Puppet::Error, ArgumentError => e
      raise RequestError.new('invalid', e.message)
    end
    catalog = Puppet::Resource::Catalog.new('muster', @environment)
    catalog.host_config = false
    catalog.add_resource(ral)
    ral
  end

  def prepared(request)
    ral = instance(request)
    unless ral.suitable?
      raise RequestError.new('failed', "no provider of #{ral.type} is suitable on this machine") unless ral.provider

      raise RequestError.new('failed', "provider #{ral.provider.class.name} is not functional on this machine")
    end
    fetch(ral)
    ral
  end

  # Providers that keep files in memory must look again at each request.
  def fetch(ral)
    provider = ral.provider && ral.provider.class
    return unless provider.respond_to?(:prefetch)

    provider.clear if provider.respond_to?(:clear)
    provider.prefetch({ ral.name => ral })
  end

  def check(request)
    ral = instance(request)
    requirements = []
    ral.class.eachautorequire do |other, block|
      Array(ral.instance_eval(&block)).compact.each do |name|
        requirements << [other.to_s, Plain.text(name.is_a?(Puppet::Type) ? name.title : name)]
      end
    end
    { 'name' => Plain.text(ral.name), 'autorequires' => requirements }
  end

  def values(current)
    current.to_h { |name, value| [name.to_s, Plain.of(value)] }.reject { |name, value| name != 'ensure' && (value.nil? || value == 'absent') }
  end

  def current_of(ral)
    properties = ral.class.properties.map(&:name)
    ral.retrieve_resource.to_hash.select { |name, _| properties.include?(name) }
  end

  def find(request)
    { 'values' => values(all_properties(prepared(request))) }
  rescue RequestError => e
    raise if e.kind != 'invalid'

    # Types that need more than a title: look among all of them.
    found = type_of(request).instances.find { |one| one.title == request['title'] || one.name == request['title'] }
    { 'values' => found ? values(all_properties(found)) : { 'ensure' => 'absent' } }
  end

  # All properties, not only those that are desired.
  def all_properties(ral)
    ral.class.properties.each { |property| ral.newattr(property.name) unless ral.parameter(property.name) || property == ral.class }
    current_of(ral)
  end

  def list(type)
    { 'resources' => type.instances.map { |one| { 'title' => Plain.text(one.title), 'values' => values(all_properties(one)) } } }
  end

  # What Puppet's own transaction would do, property by property: ensure first, and alone if it changes.
  def plan(request)
    ral = prepared(request)
    current = current_of(ral)
    changes = []
    ensure_property = ral.parameter(:ensure)
    if ensure_property && ensure_property.should && !ensure_property.safe_insync?(current[:ensure])
      changes << change(ensure_property, current[:ensure])
    elsif ral.present?(current)
      ral.properties.each do |property|
        next if property.name == :ensure || !property.should || property.safe_insync?(current[property.name])

        changes << change(property, current[property.name])
      end
    end
    { 'values' => values(current), 'changes' => changes }
  end

  def change(property, current)
    { 'property' => property.name.to_s, 'previous' => Plain.of(current), 'desired' => Plain.of(property.should),
      'is' => Plain.text(property.is_to_s(current)), 'should' => Plain.text(property.should_to_s(property.should)),
      'message' => Plain.text(property.change_to_s(current, property.should)) }
  end

  # One property, if it is still not as desired.
  def apply(request)
    ral = prepared(request)
    current = current_of(ral)
    property = ral.parameter(request['property'].to_sym) or raise RequestError.new('invalid', "no desired value for #{request['property']}")
    return {} if property.safe_insync?(current[property.name])

    property.sync
    ral.flush if ral.respond_to?(:flush)
    {}
  end

  def refresh(request)
    prepared(request).refresh
    {}
  end
end

def handle(bridge, line)
  listener = Listener.new
  Puppet::Util::Log.newdestination(listener)
  result = bridge.dispatch(JSON.parse(line))
  { 'ok' => result, 'log' => listener.lines }
rescue RequestError => e
  { 'error' => { 'kind' => e.kind, 'message' => Plain.text(e.message) } }
rescue StandardError, LoadError, SystemExit, NotImplementedError => e
  { 'error' => { 'kind' => 'failed', 'message' => Plain.text(e.message) }, 'log' => listener&.lines || [] }
ensure
  Puppet::Util::Log.close(listener)
end

bridge = Bridge.new(SETTINGS)
send_message('ready' => Puppet.version)
REQUESTS.each_line { |line| send_message(handle(bridge, line)) }
