<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use Doctrine\DBAL\Connection;
use LogicException;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;
use Symfony\Component\Messenger\Stamp\NoAutoAckStamp;

/** Handles a received message and completes its job in one transaction. Does nothing for messages of other transports. */
final class TransactionalMiddleware implements MiddlewareInterface
{
    public function __construct(private Connection $connection)
    {
    }

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $received = $envelope->last(JobqReceivedStamp::class);
        if ($received === null) {
            return $stack->next()->handle($envelope, $stack);
        }
        try {
            return $this->connection->transactional(function () use ($envelope, $stack, $received): Envelope {
                $handled = $stack->next()->handle($envelope, $stack);
                if ($handled->last(NoAutoAckStamp::class) !== null) {
                    throw new LogicException(get_class($envelope->getMessage()) . ' has a batch handler, which handles messages'
                        . ' after the transaction; do not use TransactionalMiddleware for it');
                }
                $received->completing = true;
                if (!$this->connection->fetchOne('SELECT jobq_complete(?, ?)', [$received->id, $received->lease])) {
                    throw new LeaseLost($received->id);
                }
                return $handled;
            });
        } finally {
            $received->completing = false;
        }
    }
}
