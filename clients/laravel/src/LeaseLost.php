<?php

declare(strict_types=1);

namespace Jobq\Laravel;

use RuntimeException;
use Throwable;

/** The worker no longer holds the job, so another worker may run it, or has already run it. */
class LeaseLost extends RuntimeException
{
    public function __construct(public readonly int $jobId, ?Throwable $previous = null)
    {
        parent::__construct("the lease on job $jobId has been lost, so this attempt changed nothing in the queue", 0, $previous);
    }
}
