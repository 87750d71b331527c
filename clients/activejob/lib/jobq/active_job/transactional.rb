# frozen_string_literal: true

module Jobq
  module ActiveJob
    # For job classes: runs perform and completes the job in one ActiveRecord transaction, so that writes in it happen exactly
    # once. An error rolls the transaction back before retry_on, discard_on, and rescue_from see the error.
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
