# The machine's Puppet as an oracle: compiles manifests, applies catalogs, and returns the complete report.
#
# The tests start it once. It reads and writes one JSON document per line. A forked child handles each request, so that
# requests do not affect each other, and a hanging one can be killed. Applies a catalog as an agent does, and returns the
# exit code of an agent with --detailed-exitcodes (`puppet apply --catalog` always ends with 0).
#
#   {"op":"compile","manifest":FILE}                                  -> {"catalog":{..}} or {"error":".."}
#   {"op":"apply","catalog":FILE,"state":DIR,"noop":false,"tags":"a,b","skip_tags":"c","etc":DIR}
#                                                                     -> {"exit":2,"report":{..}} or {"error":".."}
require 'etc'
require 'json'
require 'fileutils'
require 'tmpdir'

# Providers print to standard output, which must contain replies only.
ANSWERS = $stdout.dup
ANSWERS.sync = true
$stdout.reopen($stderr)

require 'puppet'
require 'puppet/configurer'
require 'puppet/face'

HOME = Dir.mktmpdir('parity-oracle')
at_exit { FileUtils.rm_rf(HOME) if Process.pid == OWNER }
OWNER = Process.pid
DEADLINE = 120
NODE = 'parity.example.net'

def directories(state)
  %w[conf code var run log public ssl].to_h { |name| [name, File.join(state, name).tap { |d| FileUtils.mkdir_p(d) }] }
end

def settings(state)
  d = directories(state)
  { confdir: d['conf'], codedir: d['code'], vardir: d['var'], rundir: d['run'], logdir: d['log'],
    publicdir: d['public'], ssldir: d['ssl'] }
end

arguments = settings(HOME).map { |name, value| "--#{name}=#{value}" } + ["--certname=#{NODE}", "--user=#{Etc.getpwuid.name}", "--group=#{Etc.getgrgid(Process.egid).name}", '--color=false', '--modulepath=/usr/share/puppet/modules']
Puppet.initialize_settings(arguments)
Puppet::Util::Log.level = :warning
Puppet.settings.use(:main, :agent, :ssl)
FileUtils.mkdir_p(File.join(Puppet[:environmentpath], 'production'))
Puppet.push_context(Puppet.base_context(Puppet.settings), 'the oracle')

# Loaded once, before children are forked.
def warm_up
  environment = Puppet.lookup(:environments).get(:production)
  Puppet.override(current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment, false, false)) do
    Puppet::Type.typeloader.loadall(environment)
    Puppet::Type.eachtype { |type| type.defaultprovider if type.respond_to?(:defaultprovider) }
  end
  Puppet.runtime[:facter].value('os.family')
end

def node_of(environment)
  node = Puppet::Node.new(NODE, environment: environment)
  node.add_server_facts({})
  node
end

def compile(request)
  base = Puppet.lookup(:environments).get(:production)
  environment = base.override_with(manifest: request['manifest'])
  node = node_of(environment)
  Puppet.override(current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment, false, false), rich_data: true) do
    catalog = Puppet::Parser::Compiler.compile(node).to_resource.filter(&:virtual?)
    { catalog: JSON.parse(catalog.to_json) }
  end
end

def apply(request)
  settings(request['state']).each { |name, value| Puppet[name] = value }
  %w[noop tags skip_tags].each { |name| Puppet[name.to_sym] = request[name] if request[name] }
  Puppet.settings.use(:main, :agent, :ssl)
  FileUtils.mkdir_p(File.join(Puppet[:environmentpath], 'production'))
  Puppet[:report] = false
  Puppet[:log_level] = 'notice'
  environment = Puppet.lookup(:environments).get(:production)
  report = Puppet::Transaction::Report.new(nil, 'production')
  Puppet.override(current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment, false, false)) do
    text = File.read(request['catalog'], encoding: 'utf-8')
    catalog = Puppet::Resource::Catalog.convert_from(Puppet::Resource::Catalog.default_format, text)
    Puppet::Pops::Evaluator::DeferredResolver.resolve_and_replace(nil, catalog, environment, Puppet[:preprocess_deferred])
    # As in an agent, with the default schedules and filebucket of Puppet.
    catalog = catalog.to_ral
    catalog.finalize
    status = Puppet::Configurer.new.run(catalog: catalog, pluginsync: false, report: report)
    { exit: status || 1, report: legible(report).to_data_hash }
  end
end

# Checksums are marked as binary, and binary values are converted to base64 in a report.
def legible(report)
  report.resource_statuses.each_value do |status|
    status.events.each do |event|
      [event.previous_value, event.desired_value].each do |value|
        value.force_encoding(Encoding::UTF_8) if value.is_a?(String) && !value.frozen? && value.encoding == Encoding::BINARY
      end
    end
  end
  report
end

# Mounts another /etc for this process and its children. The oracle must have been started in its own mount namespace.
def with_etc(directory)
  return yield unless directory
  system('mount', '--bind', directory, '/etc') or raise 'cannot mount another /etc'
  begin
    yield
  ensure
    system('umount', '--lazy', '/etc')
  end
end

def answer(request)
  case request['op']
  when 'compile' then compile(request)
  when 'apply' then with_etc(request['etc']) { apply(request) }
  else { error: "no operation #{request['op']}" }
  end
rescue StandardError, LoadError, SystemExit => e
  { error: "#{e.class}: #{e.message}" }
end

def in_a_child(request)
  reader, writer = IO.pipe
  child = fork do
    reader.close
    Process.setpgrp
    $stdin.reopen(File::NULL)
    writer.write(JSON.generate(answer(request)))
    writer.close
    exit!(0)
  end
  writer.close
  ended = IO.select([reader], nil, nil, DEADLINE)
  Process.kill(:KILL, -child) unless ended
  text = ended ? reader.read : ''
  Process.wait(child)
  text.empty? ? JSON.generate(error: "no answer within #{DEADLINE} s") : text
end

warm_up
ANSWERS.puts(JSON.generate(ready: Puppet.version))
$stdin.each_line { |line| ANSWERS.puts(in_a_child(JSON.parse(line))) }
