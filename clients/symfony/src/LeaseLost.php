<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use RuntimeException;
use Symfony\Component\Messenger\Exception\RecoverableExceptionInterface;

/**
 * The transaction was rolled back because another worker may handle the message, or has already handled it. The exception is
 * recoverable, so that Messenger retries the message instead of sending it to the failure transport. The transport notices that the
 * lease is lost and sends no retry.
 */
final class LeaseLost extends RuntimeException implements RecoverableExceptionInterface
{
    public function __construct(int $id)
    {
        parent::__construct("the lease on job $id has been lost");
    }

    public function getRetryDelay(): ?int
    {
        return null;
    }
}
