<?php

declare(strict_types=1);

namespace Jobq\Laravel;

use Closure;
use LogicException;

/**
 * A job middleware that runs the job and completes it in one transaction of the database connection of the queue. If the lease is
 * lost or the job throws an exception, the transaction is rolled back.
 */
class Transactional
{
    public function handle(object $command, Closure $next): void
    {
        $name = get_class($command);
        if (!property_exists($command, 'job')) {
            throw new LogicException("$name must use the trait InteractsWithQueue to be transactional");
        }
        if (!empty($command->chained) || isset($command->batchId)) {
            throw new LogicException("$name must not be transactional, because Laravel continues a chain or batch after the transaction,"
                . ' so that a crash in between would stop the chain or batch');
        }
        if ($command->job instanceof JobqJob) {
            $command->job->transaction(fn () => $next($command));
        } else {
            $next($command);
        }
    }
}
