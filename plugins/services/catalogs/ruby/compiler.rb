# frozen_string_literal: true

# Compiles Puppet catalogs of one environment: a resident process that forks for each compile.
#
# Arguments: the directory of environments, the name of the environment, and the limit of CPU time of a compile in seconds. It may write to the working
# directory only. Standard input is a Unix socket, over which the caller sends a connected socket for each compile.
# On that socket: a line of JSON with the node; a line from here when its compile begins; lines with queries, each answered by a line; at last a line with
# the result.

require 'json'
require 'socket'
require 'securerandom'
require 'date'
require 'puppet'
require 'puppet/indirector/catalog/compiler'
require_relative 'hooks'

module Muster
  class Compiler
    MODULES = File.join(__dir__, 'modules')
    # Types that left Puppet's core, such as cron: part of Puppet's packages, like Puppet itself.
    PACKAGED_MODULES = ['/usr/share/puppet/modules', '/opt/puppetlabs/puppet/modules'].freeze

    def initialize(environment_path, environment)
      @root = File.join(File.realpath(environment_path), environment)
      Muster.root = "#{@root}/"
      Puppet.initialize_settings(settings(environment_path, Dir.pwd))
      Puppet.settings.preferred_run_mode = :server
      Puppet[:node_terminus] = 'plain'
      Puppet::Node.indirection.terminus_class = :plain
      Puppet::FileServing::Metadata.indirection.terminus_class = :file_server
      Puppet::FileServing::Content.indirection.terminus_class = :file_server
      Hooks.install
      ask_caller
      @environment = Puppet.lookup(:environments).get!(environment)
    end

    # The result for one request: a catalog with its inputs, or an error.
    def compile(request)
      logs = []
      collector = Puppet::Test::LogCollector.new(logs)
      Puppet::Util::Log.newdestination(collector)
      catalog = Puppet.override(context(request)) { compile_catalog(request) }
      { 'catalog' => catalog, 'inputs' => INPUTS.to_h, 'logs' => describe(logs) }
    rescue StandardError, SystemStackError, NoMemoryError, LoadError, NotImplementedError => error
      { 'error' => describe_error(error), 'inputs' => INPUTS.to_h, 'logs' => describe(logs) }
    ensure
      Puppet::Util::Log.close(collector)
    end

    private

    # The functions that ask the directory ask the caller instead.
    def ask_caller
      require File.join(MODULES, 'muster/lib/puppet_x/muster/directory')
      PuppetX::Muster::Directory.prepend(DirectoryHooks)
    end

    def settings(environment_path, state)
      options = {
        confdir: state, vardir: state, codedir: state, logdir: state, rundir: state, publicdir: state,
        environmentpath: environment_path, basemodulepath: [MODULES, *PACKAGED_MODULES].join(':'), hiera_config: File.join(state, 'hiera.yaml'),
        environment_timeout: 'unlimited', static_catalogs: 'true', storeconfigs: 'false', default_file_terminus: 'file_server',
        disable_i18n: 'true', rich_data: 'true'
      }
      options.flat_map { |name, value| ["--#{name}", value] }
    end

    def context(request)
      trusted = request.fetch('trusted')
      { current_environment: @environment, rich_data: true, trusted_information: TrustedNode.new(trusted) }
    end

    def compile_catalog(request)
      node = make_node(request)
      INPUTS.start
      Hooks.record_missing
      Muster.note_environment(@environment)
      catalog = Puppet::Parser::Compiler.compile(node, request['code_id'])
      Muster.note_types(catalog, @environment)
      Puppet::Resource::Catalog::Compiler.allocate.send(:inline_metadata, catalog, 'sha256')
      INPUTS.pause { catalog.filter(&:virtual?).to_data_hash }
    end

    def make_node(request)
      facts = Puppet::Node::Facts.new(request.fetch('node'), request.fetch('facts'))
      node = Puppet::Node.new(request.fetch('node'), facts: facts, classes: request['classes'] || [], environment: @environment)
      node.fact_merge(facts)
      node.add_server_facts(request['server_facts'] || {})
      node.trusted_data = RecordedHash.attach(request.fetch('trusted'), ['trusted'])
      RecordedHash.attach(facts.values, ['facts'])
      RecordedHash.attach(node.server_facts, ['server_facts'])
      RecordedHash.attach_root(node.parameters, ['facts'])
      node
    end

    def describe(logs)
      logs.select { |log| log.level != :debug && log.level != :info }.map do |log|
        { 'level' => log.level.to_s, 'message' => log.message, 'file' => log.file && Muster.relative(log.file), 'line' => log.line }
      end
    end

    # The innermost place of an error is in its text, if not in its attributes.
    def describe_error(error)
      message = error.message.gsub(Muster.root, '')
      file, line = error.file, error.line if error.respond_to?(:file)
      file, line = message.scan(/\(file: ([^,()]+), line: (\d+)/).last || [nil, nil] if file.nil?
      { 'message' => message, 'file' => file && Muster.relative(file), 'line' => line && Integer(line) }
    end
  end

  # Forks for each socket that the caller sends.
  class Server
    def initialize(compiler, cpu_seconds)
      @compiler, @cpu_seconds = compiler, cpu_seconds
      @warm = false
    end

    def run
      end_with_parent
      socket = UNIXSocket.for_fd(0)
      while (connection = receive(socket))
        serve(connection)
      end
    end

    private

    # A compile can wait long for a program, and would not notice that the daemon was killed.
    def end_with_parent
      parent = Process.ppid
      Thread.new do
        sleep(1) while Process.ppid == parent
        exit!(1)
      end
    end

    def receive(socket)
      socket.recv_io(UNIXSocket)
    rescue SocketError, EOFError
      nil
    end

    # The first compile loads types, providers and functions; it happens here, so that every later one has them. The limits of later ones cannot be set
    # here, so this process ends if it takes too long: the next node then comes first.
    def serve(connection)
      line = connection.gets
      return if line.nil?
      connection.write(JSON.generate('begun' => true), "\n")
      warm_up(line, connection) unless @warm
      # The kernel reaps compiles that ended. A compile awaits the programs that it starts.
      trap('CHLD', 'IGNORE')
      fork { answer(line, connection) }
    ensure
      connection.close
    end

    def warm_up(line, connection)
      trap('CHLD', 'DEFAULT')
      Muster.connection = connection
      watchdog = Thread.new { end_after_limit }
      @warm = !@compiler.compile(JSON.parse(line)).key?('error')
      watchdog.kill.join
      GC.start
    end

    def end_after_limit
      limit = cpu_time + @cpu_seconds
      sleep(0.1) until cpu_time > limit
      exit!(1)
    end

    def cpu_time
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    end

    def answer(line, connection)
      trap('CHLD', 'DEFAULT')
      end_with_parent
      Process.setrlimit(:CPU, @cpu_seconds)
      Muster.connection = connection
      connection.write(JSON.generate(@compiler.compile(JSON.parse(line))), "\n")
    ensure
      exit!(0)
    end
  end

  class << self
    attr_writer :connection

    # The directory's answer to a query: its status and its document.
    def query(path, parameters)
      text = JSON.generate([path, parameters])
      INPUTS.query(text)
      @connection.write(JSON.generate('query' => text), "\n")
      answer = JSON.parse(@connection.gets || raise(Puppet::Error, 'the compile was cancelled'))
      [answer.fetch('status'), answer.fetch('document')]
    end
  end

  # A read of the directory's HTTP API.
  module DirectoryHooks
    private

    def get(path, parameters)
      ::Muster.query(path, parameters)
    end
  end

  # The trusted facts that the caller sends, in place of those of a certificate.
  TrustedNode = Struct.new(:to_h)
end


if $PROGRAM_NAME == __FILE__
  environments, environment, cpu_seconds = ARGV
  Muster::Server.new(Muster::Compiler.new(environments, environment), Integer(cpu_seconds)).run
end
