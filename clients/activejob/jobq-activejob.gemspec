# frozen_string_literal: true

require_relative "lib/jobq/version"

Gem::Specification.new do |spec|
  spec.name = "jobq-activejob"
  spec.version = Jobq::VERSION
  spec.summary = "ActiveJob on jobq, the job queue in PostgreSQL"
  spec.description = "An adapter whose enqueues are part of ActiveRecord's transaction, and a worker with threads."
  spec.authors = ["The jobq developers"]
  spec.license = "PostgreSQL"
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb", "exe/*", "README.md", "LICENSE"] }
  spec.bindir = "exe"
  spec.executables = ["jobq-activejob"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
  spec.add_dependency "activejob", ">= 6.1"
  spec.add_dependency "activerecord", ">= 6.1"
  spec.add_dependency "pg", ">= 1.4"
end
