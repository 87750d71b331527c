# frozen_string_literal: true

module Jobq
  module ActiveJob
    # For a job class: perform and the completion of the job are one transaction of ActiveRecord's. What it writes there is
    # written exactly once. An error rolls it back before retry_on, discard_on and rescue_from see it.
    module Transactional
      extend ActiveSupport::Concern

      included do
        around_perform do |active_job, block|
          performance = Performance.of(active_job)
          if performance
            performance.completing { block.call }
          else
            ::ActiveRecord::Base.transaction { block.call }
          end
        end
      end
    end
  end
end
